"""Sessions in memory: their targets, every run's scores, and the candidates and scored events that follow from them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from floor_events.events import Candidates, ScoredEvents, find_candidates, score_candidates
from floor_events.inputs import Scores, check_cuts, read_cuts, read_scores, read_target
from floor_events.protocol import HEADS, Protocol


@dataclass(frozen=True)
class Session:
    """One session: `target` uint8 [T, 3], `cuts` (rows that start a recording), and per head or run what was found.

    `candidates[head]`, `scores[run]` and `events[run][head]` share the order of the candidates.
    """

    name: str
    target: NDArray[np.uint8]
    target_sha256: str
    cuts: tuple[int, ...]
    candidates: dict[str, Candidates]
    scores: dict[str, Scores]
    events: dict[str, dict[str, ScoredEvents]]


def load_sessions(protocol: Protocol) -> tuple[list[Session], list[Session]]:
    """Read and score the evaluation and the calibration sessions, in the order given.

    Without calibration sessions the second list is the first: thresholds are then in-sample. Raises InputError, also
    on a calibration session whose targets are those of an evaluated one, whatever its name and scores.
    """
    if not protocol.target_root.is_dir():
        raise InputError(f"--target-root {protocol.target_root}: no such folder; expected one of <session>.npy")
    cuts = read_cuts(protocol.recording_boundaries, protocol.target_root)
    roots = {run.name: run.path for run in protocol.runs}
    evaluation = [_load(protocol, name, cuts, roots) for name in protocol.sessions]
    if protocol.calibration_sessions is None:
        return evaluation, evaluation
    roots = {run.name: run.calibration_path or run.path for run in protocol.runs}
    calibration = [_load(protocol, name, cuts, roots) for name in protocol.calibration_sessions]
    _check_apart(evaluation, calibration)
    return evaluation, calibration


def _check_apart(evaluation: list[Session], calibration: list[Session]) -> None:
    # Values, not files or digests: the same targets in another dtype are the same session.
    for chosen, scored in product(calibration, evaluation):
        if np.array_equal(chosen.target, scored.target):
            raise InputError(
                f"--calibration-sessions {chosen.name}: its targets are those of {scored.name} in --sessions;"
                " expected other recordings"
            )


def _load(protocol: Protocol, name: str, cuts: dict[str, tuple[int, ...]], roots: dict[str, Path]) -> Session:
    target, digest = read_target(protocol.target_root, name)
    session_cuts = check_cuts(protocol.recording_boundaries, cuts, name, len(target))
    scores = {run: read_scores(root, name, len(target)) for run, root in roots.items()}
    if protocol.intersect_valid:
        common = np.logical_and.reduce([run_scores.valid for run_scores in scores.values()])
        scores = {run: replace(run_scores, valid=common) for run, run_scores in scores.items()}
    candidates = find_candidates(target, session_cuts, protocol.decision_timing, protocol.pause_frames)
    events = {
        run: {head: score_candidates(candidates[head], run_scores.values, run_scores.valid) for head in HEADS}
        for run, run_scores in scores.items()
    }
    return Session(name, target, digest, session_cuts, candidates, scores, events)
