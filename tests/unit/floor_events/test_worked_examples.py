"""The protocol's four worked examples, counted by hand over all horizons and both timings."""

import numpy as np
import pytest

from floor_events.converter import align
from floor_events.events import CENSORED, EMPTY_WINDOW, INVALID, NEGATIVE, POSITIVE, find_candidates, score_candidates

PRE, POST = "pre-boundary", "post-boundary"


def statuses(target, timing, cuts=(), pause=10, head="response"):
    """[n, 10] statuses with every source valid and flat scores."""
    found = find_candidates(target, cuts, timing, pause)[head]
    rows = len(target)
    scored = score_candidates(found, np.full((rows, 10, 3), 0.5), np.arange(rows)[:, None] > np.arange(10))
    return found, scored


@pytest.mark.parametrize(("timing", "last_negative"), [(PRE, 3), (POST, 2)])
def test_example_1_a_response_three_rows_after_the_boundary(tools, timing, last_negative):
    target = tools.target_of("111000000000", "000000110000")
    found, scored = statuses(target, timing)
    assert found.anchor.tolist() == [3]
    assert found.outcome.tolist() == [6]
    expected = [NEGATIVE] * last_negative + [POSITIVE] * (10 - last_negative)
    assert scored.status.tolist() == [expected]
    assert not found.short_pause.any()
    assert len(find_candidates(target, (), timing, 10)["yield"].anchor) == 0


@pytest.mark.parametrize(("timing", "window"), [(PRE, [2, 3, 4]), (POST, [3, 4])])
@pytest.mark.parametrize(("pause", "short"), [(10, True), (2, False), (3, True)])
def test_example_2_a_change_at_the_competing_boundary_is_not_assigned(tools, timing, window, pause, short):
    target = tools.target_of("110001100000", "000001111000")
    found, scored = statuses(target, timing, pause=pause)
    # b = 7 is no candidate: the wearer is active at row 6.
    assert found.anchor.tolist() == [2]
    assert (found.competing.item(), found.outcome.item()) == (5, 5)
    assert scored.status.tolist() == [[NEGATIVE] * 10]
    assert found.short_pause.tolist() == [short]
    assert list(range(found.source.item() + 1, found.window_end[0, 9] + 1)) == window
    assert len(find_candidates(target, (), timing, pause)["yield"].anchor) == 0


# Others stop at row 9 of 12. Post, the source is row 9: L = 9 + h, so that only h <= 2 has its full horizon.
@pytest.mark.parametrize(("timing", "full"), [(PRE, 3), (POST, 2)])
def test_example_3_censoring_at_the_end(tools, timing, full):
    target = tools.target_of("111111111000", "000000000000")
    found, scored = statuses(target, timing)
    assert found.anchor.tolist() == [9]
    assert scored.status.tolist() == [[NEGATIVE] * full + [CENSORED] * (10 - full)]


@pytest.mark.parametrize(("timing", "negatives"), [(PRE, 2), (POST, 1)])
def test_example_3_an_outcome_before_the_end_is_kept(tools, timing, negatives):
    target = tools.target_of("111111111000", "000000000001")
    found, scored = statuses(target, timing)
    assert scored.status.tolist() == [[NEGATIVE] * negatives + [POSITIVE] * (10 - negatives)]
    assert found.window_end[0, 9] == 11
    if timing == PRE:
        assert list(range(found.source.item() + 1, found.window_end[0, 9] + 1)) == [9, 10, 11]


def test_example_3_cuts(tools):
    target = tools.target_of("111111111000", "000000000000")
    for timing in (PRE, POST):
        assert len(statuses(target, timing, cuts=(9,))[0].anchor) == 0
    _, scored = statuses(target, PRE, cuts=(10,))
    assert scored.status.tolist() == [[NEGATIVE] + [CENSORED] * 9]
    # Post, row 9 is the recording's last row: no horizon is full.
    _, scored = statuses(target, POST, cuts=(10,))
    assert scored.status.tolist() == [[CENSORED] * 10]


def example_4_raw():
    raw = np.empty((2, 10, 3))
    for s in range(2):
        for k in range(10):
            wearer = 0.1 * s + 0.05 * (k + 1)
            raw[s, k] = (1 - wearer) / 2, wearer, (1 - wearer) / 2
    return raw


def test_example_4_alignment():
    values, valid = align(example_4_raw())
    assert valid.sum() == 20
    assert np.flatnonzero(valid[:, 0]).tolist() == [1, 2]
    assert np.flatnonzero(valid[:, 9]).tolist() == [10, 11]
    assert values[4, 2, 1] == pytest.approx(0.25, abs=1e-15)
    assert np.isnan(values[~valid]).all()


def test_example_4_events(tools):
    target = tools.target_of("100100000000", "000000000000")
    values, valid = align(example_4_raw())
    found = find_candidates(target, (), PRE, 10)["response"]
    scored = score_candidates(found, values, valid)
    assert found.anchor.tolist() == [1, 4]
    assert found.short_pause.tolist() == [True, False]
    assert scored.status[0].tolist() == [NEGATIVE] * 10
    assert scored.status[1].tolist() == [INVALID] * 8 + [CENSORED] * 2
    assert scored.score[0] == pytest.approx([0.05] + [0.10] * 9, abs=1e-15)
    assert np.isnan(scored.score[1]).all()


def test_example_4_after_the_boundary(tools):
    # Post, b = 1: source 1, rows 2 only (c = 3), said as R[1, 0] = 0.15. b = 4: source 4, not in the raw output.
    target = tools.target_of("100100000000", "000000000000")
    values, valid = align(example_4_raw())
    scored = score_candidates(find_candidates(target, (), POST, 10)["response"], values, valid)
    assert scored.status[0].tolist() == [NEGATIVE] * 10
    assert scored.score[0] == pytest.approx([0.15] * 10, abs=1e-15)
    assert scored.status[1].tolist() == [INVALID] * 7 + [CENSORED] * 3


def test_after_the_boundary_an_immediate_restart_leaves_no_window(tools):
    target = tools.target_of("110111111111111", "000000000000000")
    found, scored = statuses(target, POST)
    assert scored.status.tolist() == [[EMPTY_WINDOW] * 10]
    assert found.short_pause.tolist() == [True]
    assert (statuses(target, PRE)[1].status == NEGATIVE).all()


def test_a_yield_is_the_wearer_stopping_first(tools):
    # Others start at row 2 over the wearer, who stops at row 5, before the others do at row 8.
    target = tools.target_of("001111110000000", "111110000000000")
    found, scored = statuses(target, PRE, head="yield")
    assert (found.anchor.item(), found.competing.item(), found.outcome.item()) == (2, 8, 5)
    assert scored.status.tolist() == [[NEGATIVE] * 3 + [POSITIVE] * 7]
    values = np.zeros((15, 10, 3))
    values[2:8, :, 1] = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4])[:, None]
    path = score_candidates(found, values, np.ones((15, 10), dtype=bool)).score[0]
    # One minus the wearer's probability, up to row 7 and not at row 8 (where it would be 1).
    assert path == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5] + [0.6] * 5)


def test_a_yield_at_the_boundary_is_resolved_for_a_later_source(tools):
    target = tools.target_of("001111110000000", "110000000000000")
    assert (statuses(target, POST, head="yield")[1].status == 5).all()
    assert (statuses(target, PRE, head="yield")[1].status == POSITIVE).all()
