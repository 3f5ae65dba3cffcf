"""The sim-to-real gap is a plain difference in percentage points, unclipped, and no aggregate."""

import math

import pytest

import emma
from emma import Aggregator, RealCaptureAdapter, SimToRealGap
from emma.captures.adapters import RealCaptureAdapter as Home


def test_gap_is_hundred_times_the_difference():
    gap = SimToRealGap()
    assert gap(0.75, 0.5) == 25.0
    assert gap(0.5, 0.75) == -25.0
    # Unclipped: below no skill counts in full.
    assert gap(0.9, -0.4) == pytest.approx(130.0)


def test_gap_stands_outside_the_aggregators():
    assert not issubclass(SimToRealGap, Aggregator)
    assert RealCaptureAdapter is Home
    assert {"SimToRealGap", "RealCaptureAdapter"} <= set(emma.__all__)


@pytest.mark.parametrize("bad", [math.nan, math.inf, None, "0.5", True])
@pytest.mark.parametrize("place", [0, 1])
def test_gap_refuses_what_is_no_number(bad, place):
    scores = [0.5, 0.5]
    scores[place] = bad
    with pytest.raises(ValueError, match=r"(synth|real)_score: expected a finite number"):
        SimToRealGap()(*scores)
