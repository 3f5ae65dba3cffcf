"""Stratified draws: exact size, shares by largest remainder, and nothing but names and labels in them."""

import numpy as np
import pytest

from emma.data.draws import stratified_draw

LABELS = np.array(list("aaaaaabbbbcc"))
NAMES = [f"0/x/{number}" for number in range(12)]


@pytest.mark.parametrize(
    ("size", "counts"),
    [(0, (0, 0, 0)), (6, (3, 2, 1)), (7, (4, 2, 1)), (5, (2, 2, 1)), (11, (5, 4, 2)), (12, (6, 4, 2))],
)
def test_strata_are_drawn_in_their_share(size, counts):
    drawn = stratified_draw([LABELS], NAMES, NAMES, size)
    assert drawn.sum() == size
    # 5 of 12: shares 2.5, 1.67, 0.83, so that the remainders of b and c come first.
    assert tuple(int((drawn & (label == LABELS)).sum()) for label in "abc") == counts


def test_a_draw_depends_on_names_and_labels_and_not_on_their_order():
    order = np.random.default_rng(0).permutation(12)
    drawn = stratified_draw([LABELS], NAMES, NAMES, 7)
    again = stratified_draw([LABELS[order]], *2 * [[NAMES[place] for place in order]], 7)
    np.testing.assert_array_equal(again, drawn[order])
    other = stratified_draw([LABELS], *2 * [[f"1{name[1:]}" for name in NAMES]], 7)
    assert not np.array_equal(other, drawn)


def test_several_columns_make_a_stratum_of_each_combination():
    sides = np.array(list("lr" * 6))
    drawn = stratified_draw([LABELS, sides], NAMES, NAMES, 6)
    for label, half in (("a", 1.5), ("b", 1.0), ("c", 0.5)):
        for side in "lr":
            assert abs((drawn & (label == LABELS) & (sides == side)).sum() - half) < 1


def test_more_rows_than_there_are_cannot_be_drawn():
    with pytest.raises(ValueError, match="size: 13, expected at most 12"):
        stratified_draw([LABELS], NAMES, NAMES, 13)
    assert stratified_draw([LABELS[:0]], [], [], 0).shape == (0,)


def test_groups_are_drawn_whole_but_for_the_last():
    labels, groups = np.repeat(list("ab"), 20), np.arange(40) // 5
    names = [f"0/{row}" for row in range(40)]
    drawn = stratified_draw([labels], [f"0/{group}" for group in groups], names, 26)
    for label in "ab":
        counts = np.unique(groups[drawn & (label == labels)], return_counts=True)[1]
        assert sorted(counts) == [3, 5, 5]
