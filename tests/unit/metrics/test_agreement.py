"""CIDEr-D of all pairs against the metric itself, text by text."""

import numpy as np
import pytest

from common.agreement import Agreement, closeness, ngrams
from common.tokenizers import tokenize
from emma.metrics import CIDER

WORDS = ["a", "a", "a", "weak", "strong", "tone", "tone", "noise", "and", "burst"]


def documents(rng: np.random.Generator, n: int) -> list[list[str]]:
    """Sets of texts in which words repeat."""
    return [[" ".join(rng.choice(WORDS, rng.integers(0, 9))) for _ in range(rng.integers(1, 4))] for _ in range(n)]


@pytest.mark.parametrize("seed", range(8))
def test_every_pair_is_what_the_metric_gives(seed: int) -> None:
    """One reference a text, against the same document frequencies: exact, clipping and all."""
    sets = documents(np.random.default_rng(seed), 7)
    texts, owner = [t for texts in sets for t in texts], np.repeat(np.arange(7), list(map(len, sets)))
    pairs = Agreement(texts, owner).between(np.arange(len(texts)), np.arange(len(texts)))
    for a, text in enumerate(texts):
        # The metric's mean over a scene's references is the mean of its pairs; other scenes get an answer of 0.
        for scene in range(7):
            preds = ["" if other != scene else text for other in range(7)]
            assert 7 * CIDER()(preds, sets) == pytest.approx(pairs[a, owner == scene].mean(), abs=1e-12)


def test_counts_are_clipped_to_the_references() -> None:
    """By hand: "tone" in one of three documents; what repeats it more often than the reference gains nothing."""
    texts = ["tone tone", "tone", "noise", "burst"]
    score = Agreement(texts, np.array([0, 0, 1, 2])).between([0], [1])[0, 0]
    # Unigrams alone: min(2, 1) 1 over 2 times 1, by equal weights; lengths differ by one.
    assert score == pytest.approx(10 / 4 * 0.5 * np.exp(-1 / 72))


def test_a_text_of_no_document_changes_no_frequency() -> None:
    texts = ["a weak tone", "a tone", "noise"]
    owner = np.array([0, 1, 2])
    both = Agreement([*texts, "a tone and noise"], np.append(owner, -1))
    assert np.array_equal(both.between([0, 1], [1, 2]), Agreement(texts, owner).between([0, 1], [1, 2]))
    assert both.between([3], [1])[0, 0] > 0


def test_nothing_to_compare() -> None:
    assert Agreement([], np.zeros(0, int)).between([], []).shape == (0, 0)
    # What stands in every document weighs nothing, and of one document all does.
    assert Agreement(["a tone", "a tone"], np.array([0, 0])).between([0], [1])[0, 0] == 0.0
    assert Agreement(["", "a"], np.array([0, 1])).between([0], [0])[0, 0] == 0.0


def test_ngrams_and_lengths() -> None:
    assert ngrams(tokenize("a tone a tone")) == {
        ("a",): 2, ("tone",): 2, ("a", "tone"): 2, ("tone", "a"): 1, ("a", "tone", "a"): 1, ("tone", "a", "tone"): 1,
        ("a", "tone", "a", "tone"): 1,
    }  # fmt: skip
    assert closeness(np.array([0, 6, -6])) == pytest.approx([1.0, np.exp(-0.5), np.exp(-0.5)])
