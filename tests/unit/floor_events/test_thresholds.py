"""Thresholds and average precision on cases small enough to work by hand."""

import numpy as np
import pytest

from floor_events.protocol import pause_frames
from floor_events.thresholds import average_precision, rate, select_threshold


@pytest.mark.parametrize(
    ("recall", "value", "reached"),
    [(0.1, 0.9, 0.2), (0.2, 0.9, 0.2), (0.21, 0.7, 0.6), (0.6, 0.7, 0.6), (0.8, 0.5, 0.8), (1.0, 0.1, 1.0)],
)
def test_the_largest_threshold_that_reaches_the_recall(recall, value, reached):
    found = select_threshold(np.array([0.1, 0.7, 0.9, 0.5, 0.7]), recall)
    assert (found.value, found.recall, found.positives, found.status) == (value, reached, 5, "calibrated")


def test_the_recall_is_a_decimal_and_not_its_float():
    # 0.7 * 10 is 7.000000000000001 in floats of some orders; seven of ten is enough.
    scores = np.arange(10) / 10
    assert select_threshold(scores, 0.7).value == 0.3
    assert select_threshold(np.arange(100) / 100, 0.07).value == 0.93
    assert select_threshold(np.arange(100) / 100, 0.29).value == 0.71


def test_no_positive_gives_no_threshold():
    found = select_threshold(np.array([]), 0.8)
    assert (found.value, found.status, found.positives, found.recall) == (None, "no_calibration_positives", 0, None)


def test_average_precision_by_hand():
    # Ranks: + - + -> 1/2 * 1 + 1/2 * 2/3.
    assert average_precision(np.array([0.9, 0.8, 0.7]), np.array([True, False, True])) == pytest.approx(5 / 6)


def test_tied_scores_are_one_step():
    # All four tie: one step at precision 1/4, whatever their order.
    assert average_precision(np.full(4, 0.5), np.array([True, False, False, False])) == 0.25
    assert average_precision(np.full(4, 0.5), np.array([False, False, False, True])) == 0.25
    # 0.9+, then a tied pair of one positive, one negative: 1/2 * 1 + 1/2 * 2/3.
    assert average_precision(np.array([0.5, 0.9, 0.5]), np.array([False, True, True])) == pytest.approx(5 / 6)


def test_average_precision_without_positives_is_undefined():
    assert average_precision(np.array([0.1, 0.2]), np.array([False, False])) is None
    assert average_precision(np.array([]), np.array([], dtype=bool)) is None


def test_a_rate_over_nothing_is_undefined():
    assert rate(0, 0) is None
    assert rate(None, 3) is None
    assert rate(1, 4) == 0.25


@pytest.mark.parametrize(
    ("seconds", "frames"), [(sum([0.1] * 8), 4), (2.0, 10), (0.6, 3), (0.59, 2), (0.0, 0), (1.4, 7), (0.2, 1)]
)
def test_pause_frames(seconds, frames):
    assert pause_frames(seconds) == frames
