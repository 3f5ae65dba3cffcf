"""Properties of the protocol that hold for every session."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from floor_events.events import NEGATIVE, NEVER, POSITIVE, find_candidates, score_candidates
from floor_events.inputs import Scores
from floor_events.protocol import HEADS
from floor_events.sessions import Session
from floor_events.tables import event_rows, framewise_rows, operating_point, pool_events, select_thresholds
from floor_events.thresholds import Threshold, average_precision, select_threshold

RECALLS = (0.5, 0.8)
TIMINGS = st.sampled_from(["pre-boundary", "post-boundary"])


@st.composite
def sessions(draw, name="S"):
    """(target, scores, mask) of 1..40 rows."""
    rows = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    stay = draw(st.sampled_from([0.5, 0.7, 0.9]))
    tracks = np.logical_xor.accumulate(rng.random((rows, 2)) > stay, axis=0)
    target = np.stack([~tracks.any(axis=1), tracks[:, 0], tracks[:, 1]], axis=1).astype(np.uint8)
    valid = (np.arange(rows)[:, None] > np.arange(10)) & (rng.random((rows, 10)) < 0.98)
    return target, rng.integers(0, 11, (rows, 10, 3)) / 10, valid


def build(target, values, valid, cuts, timing, name="S"):
    candidates = find_candidates(target, cuts, timing, 10)
    events = {"run": {head: score_candidates(candidates[head], values, valid) for head in HEADS}}
    scores = {"run": Scores(values, valid, "[T, 10, 3]", {})}
    return Session(name, target, "", tuple(cuts), candidates, scores, events)


def tables(*parts, timing):
    pools = pool_events(parts, "run")
    return event_rows("run", timing, pools, select_thresholds(pools, RECALLS), RECALLS), framewise_rows("run", parts)


@given(sessions(), TIMINGS, st.data())
@settings(max_examples=300, deadline=None)
def test_a_cut_that_nothing_crosses_changes_nothing(session, timing, data):
    target, values, valid = session
    found = find_candidates(target, [], timing, 10)
    crossed = {0}
    for candidates in found.values():
        for anchor, source, competing in zip(candidates.anchor, candidates.source, candidates.competing, strict=True):
            last = len(target) - 1 if competing == NEVER else max(competing, source + 10)
            crossed |= set(range(anchor, last + 1))
    # A cut also hides the transition at its own row, which may be the boundary of a candidate or nothing at all.
    free = sorted(set(range(1, len(target))) - crossed)
    if not free:
        return
    cut = data.draw(st.sampled_from(free))
    before, after = found, find_candidates(target, [cut], timing, 10)
    for head in HEADS:
        assert before[head].anchor.tolist() == after[head].anchor.tolist()
        old = score_candidates(before[head], values, valid)
        new = score_candidates(after[head], values, valid)
        np.testing.assert_array_equal(old.status, new.status)
        np.testing.assert_array_equal(old.score, new.score)
        np.testing.assert_array_equal(before[head].short_pause, after[head].short_pause)


@given(sessions(), sessions(), TIMINGS)
@settings(max_examples=200, deadline=None)
def test_two_sessions_joined_with_a_cut_are_the_two_pooled(first, second, timing):
    joined = [np.concatenate(pair) for pair in zip(first, second, strict=True)]
    whole = tables(build(*joined, [len(first[0])], timing), timing=timing)
    parts = tables(build(*first, [], timing, "A"), build(*second, [], timing, "B"), timing=timing)
    assert whole == parts


@given(sessions(), sessions(), TIMINGS)
@settings(max_examples=100, deadline=None)
def test_the_order_of_sessions_does_not_matter(first, second, timing):
    a, b = build(*first, [], timing, "A"), build(*second, [], timing, "B")
    assert tables(a, b, timing=timing) == tables(b, a, timing=timing)


@given(sessions(), TIMINGS, st.lists(st.floats(0, 1), min_size=2, max_size=2))
@settings(max_examples=200, deadline=None)
def test_raising_the_threshold_never_raises_a_rate(session, timing, values):
    low, high = sorted(values)
    pools = pool_events([build(*session, [], timing)], "run")
    for step in range(10):
        points = []
        for value in (low, high):
            fixed = {(head, step, 0.5): Threshold(value, "calibrated", 1, 1.0) for head in HEADS}
            points.append(operating_point(pools, step, fixed, 0.5))
        for name, value in points[0].items():
            assert value is None or points[1][name] <= value


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.floats(0.01, 1))
@settings(deadline=None)
def test_the_threshold_is_the_largest_that_reaches_the_recall(raw, recall):
    scores = np.array(raw) / 20
    found = select_threshold(scores, recall)
    assert found.recall >= recall - 1e-9
    above = scores[scores > found.value]
    assert len(above) / len(scores) < recall


@given(st.lists(st.tuples(st.integers(0, 10), st.booleans()), min_size=1, max_size=30), st.randoms())
@settings(deadline=None)
def test_average_precision_does_not_depend_on_the_order(pairs, random):
    shuffled = random.sample(pairs, len(pairs))
    values = [
        average_precision(np.array([s for s, _ in p]) / 10, np.array([y for _, y in p])) for p in (pairs, shuffled)
    ]
    assert values[0] == values[1]
    if values[0] is not None:
        assert 0 < values[0] <= 1


@given(sessions(), TIMINGS)
@settings(max_examples=200, deadline=None)
def test_an_event_can_only_turn_positive_and_a_score_only_grow_with_the_horizon(session, timing):
    target, values, valid = session
    for candidates in find_candidates(target, [], timing, 10).values():
        scored = score_candidates(candidates, values, valid)
        for label, status, score in zip(candidates.label, scored.status, scored.score, strict=True):
            positive = np.flatnonzero(label == POSITIVE)
            assert len(positive) == 0 or (label[positive[0] :] == POSITIVE).all()
            kept = score[(status == POSITIVE) | (status == NEGATIVE)]
            assert (np.diff(kept) >= 0).all()
