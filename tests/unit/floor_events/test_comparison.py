"""Comparison of two runs: by hand, and the paired bootstrap against resampling event by event."""

import numpy as np
import pytest

from floor_events.comparison import RunEvents, comparability, compare_runs, paired_bootstrap
from floor_events.events import INVALID, NEGATIVE, POSITIVE
from floor_events.tables import Pool, event_rows
from floor_events.thresholds import Threshold

RECALL = 0.8


def pool(positives, negatives, short=None, session=None, invalid=()):
    """A pool with the same scores at every horizon; `invalid` are indices of negatives not scored."""
    scores = np.array([*positives, *negatives], dtype=float)
    status = np.array([POSITIVE] * len(positives) + [NEGATIVE] * len(negatives), dtype=np.int8)
    for index in invalid:
        status[len(positives) + index] = INVALID
        scores[len(positives) + index] = np.nan
    flags = np.zeros(len(scores), dtype=bool)
    flags[len(positives) :] = short if short is not None else False
    sessions = np.zeros(len(scores), dtype=int)
    sessions[len(positives) :] = session if session is not None else 0
    return Pool(np.repeat(status[:, None], 10, 1), np.repeat(scores[:, None], 10, 1), flags, sessions)


def run_events(response, yielding, threshold=0.5):
    pools = {"response": response, "yield": yielding}
    value = Threshold(threshold, "calibrated", 1, 1.0)
    thresholds = {(head, step, RECALL): value for head in pools for step in range(10)}
    return RunEvents(event_rows("r", "pre-boundary", pools, thresholds, [RECALL]), pools, thresholds)


def compare(baseline, candidate, resamples=500, seed=0):
    rows = compare_runs({"base": baseline, "cand": candidate}, [RECALL], resamples, seed)
    return {(row["horizon_steps"], row["error"]): row for row in rows}


HIGH, LOW = 0.9, 0.1


def test_changes_by_hand():
    base = run_events(
        pool([HIGH] * 5, [HIGH] * 4 + [LOW] * 6, short=[True] * 5 + [False] * 5), pool([HIGH], [HIGH, LOW])
    )
    cand = run_events(pool([HIGH] * 5, [HIGH] + [LOW] * 9, short=[True] * 5 + [False] * 5), pool([HIGH], [HIGH, HIGH]))
    rows = compare(base, cand)
    row = rows[3, "no_response_trigger"]
    assert (row["baseline_rate"], row["candidate_rate"]) == (0.4, 0.1)
    assert row["change_percentage_points"] == pytest.approx(-30)
    assert row["relative_error_reduction"] == pytest.approx(0.75)
    assert (row["baseline_count"], row["baseline_denominator"], row["candidate_count"]) == (4, 10, 1)
    assert row["warning"] is None
    short = rows[3, "short_resume_trigger"]
    assert (short["baseline_rate"], short["candidate_rate"], short["paired_events"]) == (0.8, 0.2, 5)
    worse = rows[3, "continue_false_stop"]
    assert worse["relative_error_reduction"] == -1
    assert worse["change_percentage_points"] == 50


def test_no_reduction_of_a_zero_rate():
    base, cand = (
        run_events(pool([HIGH], [LOW] * 4), pool([], [])),
        run_events(pool([HIGH], [HIGH, LOW, LOW, LOW]), pool([], [])),
    )
    row = compare(base, cand)[1, "no_response_trigger"]
    assert row["relative_error_reduction"] is row["relative_ci95_low"] is row["relative_ci95_high"] is None
    assert row["relative_ci95_status"] == "zero_baseline_rate"
    assert row["change_percentage_points"] == 25
    assert row["change_ci95_status"] == "ok"
    empty = compare(base, cand)[1, "continue_false_stop"]
    assert empty["change_percentage_points"] is None
    assert empty["change_ci95_status"] == "no_paired_events"


def test_a_baseline_rate_often_zero_has_no_relative_interval():
    base, cand = (
        run_events(pool([HIGH], [HIGH] + [LOW] * 9), pool([], [])),
        run_events(pool([HIGH], [LOW] * 10), pool([], [])),
    )
    row = compare(base, cand)[1, "no_response_trigger"]
    assert row["relative_error_reduction"] == 1
    assert (row["relative_ci95_low"], row["relative_ci95_status"]) == (None, "baseline_rate_often_zero")


@pytest.mark.parametrize(("found", "lower"), [(41, False), (40, False), (39, True), (50, False)])
def test_a_recall_more_than_two_points_lower_is_material(found, lower):
    # The baseline finds 41 of 50; 40 is 2.0 points lower, 39 is 4.0.
    base = run_events(pool([HIGH] * 41 + [LOW] * 9, [HIGH, LOW]), pool([HIGH], [HIGH]))
    cand = run_events(pool([HIGH] * found + [LOW] * (50 - found), [HIGH, LOW]), pool([HIGH], [HIGH]))
    rows = compare(base, cand)
    assert rows[1, "no_response_trigger"]["recall_materially_lower"] is lower
    assert rows[1, "short_resume_trigger"]["recall_materially_lower"] is lower
    assert rows[1, "continue_false_stop"]["recall_materially_lower"] is False
    assert rows[1, "no_response_trigger"]["warning"] == (
        "candidate's response recall is 4.0 points lower" if lower else None
    )


def test_pairs_are_the_events_that_both_scored():
    base = run_events(pool([HIGH], [HIGH, HIGH, LOW, LOW], invalid=[0]), pool([], []))
    cand = run_events(pool([HIGH], [HIGH, LOW, LOW, LOW], invalid=[3]), pool([], []))
    row = compare(base, cand)[5, "no_response_trigger"]
    assert row["paired_events"] == 2
    assert (row["paired_baseline_rate"], row["paired_candidate_rate"]) == (0.5, 0)
    assert (row["baseline_rate"], row["candidate_rate"]) == (1 / 3, 1 / 3)
    assert row["denominators_differ"] is False
    other = run_events(pool([HIGH], [HIGH, LOW, LOW, LOW]), pool([], []))
    assert compare(base, other)[5, "no_response_trigger"]["warning"] == "denominators differ"


def test_without_a_threshold_or_with_resampling_off():
    base, none = run_events(pool([HIGH], [HIGH]), pool([], [])), run_events(pool([HIGH], [HIGH]), pool([], []), None)
    row = compare(base, none)[1, "no_response_trigger"]
    assert (row["candidate_rate"], row["change_percentage_points"]) == (None, None)
    assert row["change_ci95_status"] == row["relative_ci95_status"] == "no_threshold"
    assert row["recall_materially_lower"] is False
    off = compare(base, base, resamples=0)[1, "no_response_trigger"]
    assert (off["change_ci95_status"], off["change_percentage_points"]) == ("off", 0)


def test_equal_runs_have_an_interval_of_nothing():
    base = run_events(pool([HIGH], [HIGH, LOW] * 20, session=[0, 1] * 20), pool([], []))
    row = compare(base, base)[1, "no_response_trigger"]
    assert (row["change_ci95_low"], row["change_ci95_high"]) == (0, 0)
    assert (row["relative_ci95_low"], row["relative_ci95_high"]) == (0, 0)


def test_the_bootstrap_against_resampling_event_by_event():
    rng = np.random.default_rng(3)
    session = np.repeat([0, 1, 2], [30, 50, 7])
    first = rng.random(87) < 0.5
    second = np.where(rng.random(87) < 0.7, first, rng.random(87) < 0.2)
    drawn = paired_bootstrap(first, second, session, 20000, np.random.default_rng(4))
    places = [np.flatnonzero(session == index) for index in range(3)]
    slow = []
    for _ in range(4000):
        chosen = np.concatenate([rng.choice(place, size=len(place)) for place in places])
        slow.append((first[chosen].mean(), second[chosen].mean()))
    slow = np.array(slow).T
    for fast, plain in ((drawn[0], slow[0]), (drawn[1], slow[1]), (drawn[1] - drawn[0], slow[1] - slow[0])):
        assert fast.mean() == pytest.approx(plain.mean(), abs=0.003)
        assert fast.std() == pytest.approx(plain.std(), rel=0.05)


def test_sessions_are_resampled_within():
    # Each session is all of one kind: resampling within sessions cannot change a rate.
    flags = np.array([True] * 10 + [False] * 30)
    drawn = paired_bootstrap(flags, ~flags, np.repeat([0, 1], [10, 30]), 50, np.random.default_rng(0))
    assert set(drawn[0]) == {0.25}
    assert set(drawn[1]) == {0.75}


def test_intervals_follow_the_seed_and_not_the_company():
    rng = np.random.default_rng(5)
    runs = {name: run_events(pool([HIGH], rng.random(60)), pool([HIGH], rng.random(40))) for name in "abc"}
    every = compare_runs(runs, [RECALL], 300, 1)
    pair = compare_runs({name: runs[name] for name in "ac"}, [RECALL], 300, 1)
    assert pair == [row for row in every if (row["baseline"], row["candidate"]) == ("a", "c")]
    assert len(every) == 3 * len(pair) == 3 * 30
    assert pair != compare_runs({name: runs[name] for name in "ac"}, [RECALL], 300, 2)


def test_comparability_names_what_differs():
    base = run_events(pool([HIGH], [HIGH, LOW], invalid=[1]), pool([], []))
    cand = run_events(pool([HIGH], [HIGH, LOW]), pool([], []))
    found = comparability({"base": base.rows, "cand": cand.rows})
    assert found["comparable"] is False
    assert {d["field"] for d in found["differences"]} == {"no_response_count", "response_invalid_count"}
    assert found["differences"][0] == {
        "horizon_steps": 1,
        "field": "no_response_count",
        "counts": {"base": 1, "cand": 2},
    }
