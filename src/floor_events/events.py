"""Competing-risk event attribution: candidates, their labels at each horizon, and their pooled scores.

Rows are 0-based frames of 0.2 s; a recording is the half-open row range [start, end). Column j of every [n, 10]
array is the horizon of j + 1 steps. The arithmetic follows the EasyCom floor-event protocol (docs/floor_events.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floor_events.protocol import HEADS, HORIZON_STEPS, OTHERS, PRE_BOUNDARY, RESPONSE, WEARER

NEGATIVE, POSITIVE, CENSORED, INVALID, EMPTY_WINDOW, RESOLVED_AT_SOURCE = range(6)
STATUS_NAMES = ("negative", "positive", "censored", "invalid", "empty_window", "resolved_at_source")
LABEL_NAMES = {"response": ("no_response", "response"), "yield": ("continue", "yield")}
NEVER = int(np.iinfo(np.int64).max)

_STEPS = np.arange(HORIZON_STEPS)

#: Row numbers, int64.
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """Candidates of one head in one session, decided by the targets alone; n rows in anchor order.

    `anchor`, `source`, `competing` (NEVER where none), `outcome` (first wearer change after the source, NEVER where
    none), `start` and `end` of the recording: int64 [n]. `window_end` int64 [n, 10]: last row of the window that
    starts at source + 1 (equal to the source where empty). `label` int8 [n, 10]: POSITIVE, NEGATIVE, CENSORED,
    EMPTY_WINDOW or RESOLVED_AT_SOURCE. `short_pause` bool [n]: the pause of a short resume (response head only).
    """

    head: str
    anchor: Rows
    source: Rows
    competing: Rows
    outcome: Rows
    start: Rows
    end: Rows
    window_end: Rows
    label: NDArray[np.int8]
    short_pause: NDArray[np.bool_]

    def only(self, index: int) -> Candidates:
        """The one candidate at `index`, as arrays of one row."""
        arrays = {name: value[index : index + 1] for name, value in vars(self).items() if name != "head"}
        return Candidates(self.head, **arrays)


@dataclass(frozen=True)
class ScoredEvents:
    """Status and score of one run's candidates of one head.

    `status` int8 [n, 10] adds INVALID to the labels; `score` float64 [n, 10] in [0, 1], NaN unless the status is
    POSITIVE or NEGATIVE.
    """

    status: NDArray[np.int8]
    score: NDArray[np.float64]


def find_candidates(
    target: NDArray[np.uint8], cuts: Sequence[int], decision_timing: str, pause_frames: int
) -> dict[str, Candidates]:
    """Candidates of both heads of one session.

    `target` [T, 3] of 0 and 1; `cuts` increasing rows in 1..T-1, each starting a new recording; `decision_timing`
    puts the source at the row before the anchor or at the anchor; `pause_frames` is the longest short pause in frames.
    """
    rows = len(target)
    starts = np.array([0, *cuts], dtype=np.int64)
    ends = np.array([*cuts, rows], dtype=np.int64)
    wearer, others = target[:, WEARER], target[:, OTHERS]
    wearer_changes, others_changes = _changes(wearer, starts), _changes(others, starts)
    candidates = {}
    for head in HEADS:
        # Response: others fall silent while the wearer is silent. Yield: others start while the wearer speaks.
        before, after = (0, 0) if head == RESPONSE else (1, 1)
        chosen = (others[others_changes] == after) & (wearer[others_changes - 1] == before)
        anchor = others_changes[chosen]
        source = anchor - 1 if decision_timing == PRE_BOUNDARY else anchor
        recording = np.searchsorted(starts, anchor, side="right") - 1
        end = ends[recording]
        competing = _first_after(others_changes, anchor, end)
        outcome = _first_after(wearer_changes, source, end)
        resolved = wearer[source] != before
        window_end, label = _label(source, competing, outcome, end, resolved)
        # With the wearer unchanged at the source, there is no onset in b..c-1 exactly where outcome >= c.
        short = ~resolved & (competing != NEVER) & (outcome >= competing) & (competing - anchor <= pause_frames)
        candidates[head] = Candidates(
            head, anchor, source, competing, outcome, starts[recording], end, window_end, label,
            short & (head == RESPONSE),
        )  # fmt: skip
    return candidates


def fixed_source_path(
    candidates: Candidates, values: NDArray[np.floating], valid: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Scores said at each candidate's source for its next ten rows, and whether each is usable.

    Returns float64 [n, 10] (entry j is for row source + 1 + j: the wearer's probability for a response, one minus it
    for a yield) and bool [n, 10], false outside the recording or the mask.
    """
    row = candidates.source[:, None] + 1 + _STEPS
    inside = row < candidates.end[:, None]
    row = np.where(inside, row, 0)
    usable = valid[row, _STEPS] & inside
    wearer = values[row, _STEPS, WEARER].astype(np.float64)
    return (wearer if candidates.head == RESPONSE else 1.0 - wearer), usable


def score_candidates(candidates: Candidates, values: NDArray[np.floating], valid: NDArray[np.bool_]) -> ScoredEvents:
    """Max-pool the fixed-source scores over each window; a window with an invalid cell is INVALID.

    `values` [T, 10, 3] in [0, 1] where `valid` [T, 10] is true. The window does not stop at the outcome, so that a
    positive has as many chances as a negative.
    """
    path, usable = fixed_source_path(candidates, values, valid)
    pooled = np.maximum.accumulate(np.where(usable, path, -np.inf), axis=1)
    unbroken = np.logical_and.accumulate(usable, axis=1)
    last = np.maximum(candidates.window_end - candidates.source[:, None] - 1, 0)
    pooled, unbroken = np.take_along_axis(pooled, last, axis=1), np.take_along_axis(unbroken, last, axis=1)
    decided = (candidates.label == POSITIVE) | (candidates.label == NEGATIVE)
    status = np.where(decided & ~unbroken, np.int8(INVALID), candidates.label)
    return ScoredEvents(status, np.where(decided & unbroken, pooled, np.nan))


def source_inside(rows: int, cuts: Sequence[int]) -> NDArray[np.bool_]:
    """Bool [T, 10]: whether the source t - (k + 1) of cell (t, k) lies in the recording of row t."""
    starts = np.array([0, *cuts], dtype=np.int64)
    row = np.arange(rows)
    start = starts[np.searchsorted(starts, row, side="right") - 1]
    return (row - start)[:, None] > _STEPS


def _changes(track: NDArray[np.uint8], starts: Rows) -> Rows:
    """Rows whose value differs from the row before them in the same recording, int64, ascending."""
    changes = np.flatnonzero(track[1:] != track[:-1]) + 1
    return changes[~np.isin(changes, starts)]


def _first_after(changes: Rows, row: Rows, end: Rows) -> Rows:
    """The first of the ascending `changes` strictly after `row` and before `end`; NEVER where there is none."""
    following = np.append(changes, NEVER)[np.searchsorted(changes, row, side="right")]
    return np.where(following < end, following, NEVER)


def _label(
    source: Rows, competing: Rows, outcome: Rows, end: Rows, resolved: NDArray[np.bool_]
) -> tuple[Rows, NDArray[np.int8]]:
    """Last window row and label at every horizon, both [n, 10]."""
    competing, outcome, last_row = competing[:, None], outcome[:, None], end[:, None] - 1
    horizon_end = source[:, None] + 1 + _STEPS
    window_end = np.minimum(np.minimum(horizon_end, competing - 1), last_row)
    settled = (competing <= horizon_end) | (horizon_end <= last_row)
    label = np.where(outcome <= window_end, POSITIVE, np.where(settled, NEGATIVE, CENSORED))
    label[(label != CENSORED) & (window_end <= source[:, None])] = EMPTY_WINDOW
    label[resolved] = RESOLVED_AT_SOURCE
    return window_end, label.astype(np.int8)
