"""The product against the row-by-row state machine, on thousands of random sessions."""

import numpy as np
import pytest
from floor_state_machine import table, walk

from floor_events.evaluation import evaluate
from floor_events.events import STATUS_NAMES, find_candidates, score_candidates
from floor_events.protocol import HEADS, Protocol, Run

TIMINGS = ("pre-boundary", "post-boundary")


def random_session(rng):
    """A target, cuts, scores and a mask; NaN and nonsense where the mask is false; often edge-rich and short."""
    rows = int(rng.integers(1, 61))
    stay = rng.choice([0.5, 0.8, 0.95], size=2)
    tracks = np.logical_xor.accumulate(rng.random((rows, 2)) > stay, axis=0)
    target = np.stack([~tracks.any(axis=1), tracks[:, 0], tracks[:, 1]], axis=1).astype(np.uint8)
    count = int(rng.integers(0, min(4, rows)))
    cuts = sorted(rng.choice(np.arange(1, rows), size=count, replace=False).tolist()) if count else []
    # Few distinct scores, so that ties are common.
    values = rng.integers(0, 21, (rows, 10, 3)) / 20 if rng.random() < 0.5 else rng.random((rows, 10, 3))
    values = values.astype(rng.choice([np.float32, np.float64]))
    valid = np.arange(rows)[:, None] > np.arange(10)
    valid &= rng.random((rows, 10)) < rng.choice([0.9, 0.99, 1.0])
    values[~valid] = rng.choice([np.nan, 7.0, -np.inf, 0.5])
    return target, cuts, values, valid


@pytest.mark.parametrize("block", range(4))
def test_every_event_of_thousands_of_sessions(block):
    rng = np.random.default_rng([41, block])
    seen = dict.fromkeys(STATUS_NAMES, 0)
    for _ in range(1000):
        target, cuts, values, valid = random_session(rng)
        timing, limit = TIMINGS[int(rng.integers(2))], int(rng.integers(0, 12))
        found = find_candidates(target, cuts, timing, limit)
        expected = walk(target, cuts, timing == "post-boundary", limit)
        for head in HEADS:
            theirs = [c for c in expected if c.head == head]
            scored = score_candidates(found[head], values, valid)
            assert found[head].anchor.tolist() == [c.anchor for c in theirs]
            assert found[head].short_pause.tolist() == [c.short for c in theirs]
            for index, candidate in enumerate(theirs):
                for step, (status, score) in enumerate(candidate.result(values, valid)):
                    assert STATUS_NAMES[scored.status[index, step]] == status, (target, cuts, timing, candidate.anchor)
                    seen[status] += 1
                    if score is None:
                        assert np.isnan(scored.score[index, step])
                    else:
                        assert scored.score[index, step] == score
    assert all(count > 100 for count in seen.values()), seen


@pytest.mark.parametrize("seed", range(12))
def test_whole_tables_through_files(tmp_path, seed):
    rng = np.random.default_rng([42, seed])
    timing, pause = TIMINGS[seed % 2], float(rng.choice([0.0, 0.4, 0.6, 2.0]))
    recalls = (0.5, 0.8, 1.0)
    held, all_cuts = {}, {}
    for number in range(6):
        session = f"Session_{number + 4}"
        target, cuts, values, valid = random_session(rng)
        held[session] = (target, cuts, values, valid)
        all_cuts[session] = cuts
        for folder, array in (
            ("target", target),
            ("run/pred", values if number % 2 else values.transpose(0, 2, 1)),
            ("run/valid", valid),
        ):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / folder / f"{session}.npy", array)
    (tmp_path / "cuts.json").write_text(str(all_cuts).replace("'", '"'))
    names = list(held)
    protocol = Protocol(
        target_root=tmp_path / "target",
        runs=(Run("run", tmp_path / "run"),),
        sessions=tuple(names[:4]),
        calibration_sessions=tuple(names[4:]),
        matched_recalls=recalls,
        midturn_pause_max_seconds=pause,
        decision_timing=timing,
        recording_boundaries=tmp_path / "cuts.json",
    )
    rows = evaluate(protocol).report["runs"]["run"]["events"]
    pooled = []
    for part in (names[:4], names[4:]):
        events = []
        for session in part:
            target, cuts, values, valid = held[session]
            limit = {0.0: 0, 0.4: 2, 0.6: 3, 2.0: 10}[pause]
            found = walk(target, cuts, timing == "post-boundary", limit)
            events += [(candidate, candidate.result(values, valid)) for candidate in found]
        pooled.append(events)
    for step, row in enumerate(rows):
        expected = table(*pooled, recalls, step + 1)
        assert set(expected) == set(row) - {"run", "horizon_seconds", "horizon_steps", "decision_timing"}
        for column, value in expected.items():
            if value is None or isinstance(value, int):
                assert row[column] == value, column
            else:
                assert row[column] == pytest.approx(value, rel=1e-12, abs=1e-15), column
