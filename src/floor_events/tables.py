"""Event and framewise tables: pooled counts, rates at each operating point, and their CSV form.

A row is a dict in column order; a value that is not defined is None, which is `null` in JSON and blank in CSV.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floor_events.events import CENSORED, EMPTY_WINDOW, INVALID, NEGATIVE, POSITIVE, RESOLVED_AT_SOURCE, source_inside
from floor_events.protocol import CLASSES, HEADS, HORIZON_SECONDS, HORIZON_STEPS, RESPONSE, YIELD
from floor_events.sessions import Session
from floor_events.thresholds import Threshold, average_precision, rate, select_threshold

Cell = str | float | None
Row = dict[str, Cell]
Thresholds = Mapping[tuple[str, int, float], Threshold]

_OMITTED = {
    "censored": CENSORED,
    "invalid": INVALID,
    "empty_window": EMPTY_WINDOW,
    "resolved_at_source": RESOLVED_AT_SOURCE,
}
FRAMEWISE_COLUMNS = (
    "run",
    "horizon_seconds",
    "horizon_steps",
    "class",
    "valid_cells",
    "positives",
    "average_precision",
)


@dataclass(frozen=True)
class Pool:
    """One run's events of one head, pooled over sessions in order: `status` and `score` [n, 10], the rest [n]."""

    status: NDArray[np.int8]
    score: NDArray[np.float64]
    short_pause: NDArray[np.bool_]
    session: NDArray[np.int64]

    def scores_of(self, status: int, step: int) -> NDArray[np.float64]:
        """Scores at horizon `step + 1` of the events with that status."""
        scores: NDArray[np.float64] = self.score[self.status[:, step] == status, step]
        return scores


def pool_events(sessions: Sequence[Session], run: str) -> dict[str, Pool]:
    """Both heads of one run over `sessions`; `session` is the index in that sequence."""
    pools = {}
    for head in HEADS:
        events = [session.events[run][head] for session in sessions]
        pools[head] = Pool(
            np.concatenate([event.status for event in events]),
            np.concatenate([event.score for event in events]),
            np.concatenate([session.candidates[head].short_pause for session in sessions]),
            np.repeat(np.arange(len(sessions)), [len(event.status) for event in events]),
        )
    return pools


def select_thresholds(
    calibration: Mapping[str, Pool], recalls: Sequence[float]
) -> dict[tuple[str, int, float], Threshold]:
    """A threshold for each (head, horizon index 0..9, recall) from one run's pooled calibration positives."""
    return {
        (head, step, recall): select_threshold(calibration[head].scores_of(POSITIVE, step), recall)
        for head in HEADS
        for step in range(HORIZON_STEPS)
        for recall in recalls
    }


def event_rows(
    run: str, timing: str, pools: Mapping[str, Pool], thresholds: Thresholds, recalls: Sequence[float]
) -> list[Row]:
    """The events table of one run: ten rows, one per horizon, in the columns of the events CSV."""
    rows = []
    for step, seconds in enumerate(HORIZON_SECONDS):
        row: Row = {"run": run, "horizon_seconds": seconds, "horizon_steps": step + 1, "decision_timing": timing}
        row |= event_counts(pools, step)
        for head in HEADS:
            positive, negative = pools[head].scores_of(POSITIVE, step), pools[head].scores_of(NEGATIVE, step)
            is_positive = np.arange(len(positive) + len(negative)) < len(positive)
            row[f"{head}_ap"] = average_precision(np.concatenate([positive, negative]), is_positive)
        for recall in recalls:
            suffix = recall_suffix(recall)
            for head in HEADS:
                row[f"{head}_threshold{suffix}"] = thresholds[head, step, recall].value
            for head in HEADS:
                row[f"calibration_{head}{suffix.removeprefix('_at')}"] = thresholds[head, step, recall].recall
            row |= operating_point(pools, step, thresholds, recall)
        rows.append(row)
    return rows


def session_rows(pools: Mapping[str, Pool], thresholds: Thresholds, recalls: Sequence[float]) -> list[Row]:
    """Counts and rates of one run in one session at the run's frozen thresholds, one row per horizon."""
    rows = []
    for step, seconds in enumerate(HORIZON_SECONDS):
        row: Row = {"horizon_seconds": seconds, "horizon_steps": step + 1}
        row |= event_counts(pools, step)
        for recall in recalls:
            row |= operating_point(pools, step, thresholds, recall)
        rows.append(row)
    return rows


def number(row: Row, column: str) -> float | None:
    """The number in a column of a row, None where it is not defined."""
    value = row[column]
    if isinstance(value, str):
        raise TypeError(f"{column}: expected a number, found {value!r}")
    return value


def recall_suffix(recall: float) -> str:
    """Column suffix of a requested recall, such as `_at_recall_0.8`."""
    return f"_at_recall_{recall:g}"


def event_counts(pools: Mapping[str, Pool], step: int) -> Row:
    """Scored and omitted events at horizon `step + 1`."""
    response, yielding = pools[RESPONSE], pools[YIELD]
    short = (response.status[:, step] == NEGATIVE) & response.short_pause
    counts: Row = {
        "response_count": _tally(response, POSITIVE, step),
        "no_response_count": _tally(response, NEGATIVE, step),
        "short_resume_count": int(short.sum()),
        "yield_count": _tally(yielding, POSITIVE, step),
        "continue_count": _tally(yielding, NEGATIVE, step),
    }
    for head in HEADS:
        for name, status in _OMITTED.items():
            counts[f"{head}_{name}_count"] = _tally(pools[head], status, step)
    return counts


def operating_point(pools: Mapping[str, Pool], step: int, thresholds: Thresholds, recall: float) -> Row:
    """Recalls, trigger counts and trigger rates at the frozen thresholds of one requested recall."""
    suffix = recall_suffix(recall)
    recall_name = suffix.removeprefix("_at")
    columns: Row = {}
    for head, error, subgroup in (
        (RESPONSE, "no_response_trigger", None),
        (RESPONSE, "short_resume_trigger", "short_pause"),
        (YIELD, "continue_false_stop", None),
    ):
        pool, threshold = pools[head], thresholds[head, step, recall].value
        status, triggered = pool.status[:, step], triggers(pool, step, threshold)
        if subgroup is None:
            found = None if triggered is None else int((triggered & (status == POSITIVE)).sum())
            columns[f"{head}{recall_name}"] = rate(found, int((status == POSITIVE).sum()))
        group = (status == NEGATIVE) & (pool.short_pause if subgroup else True)
        count = None if triggered is None else int((triggered & group).sum())
        columns[f"{error}_count{suffix}"] = count
        columns[f"{error}_rate{suffix}"] = rate(count, int(group.sum()))
    return columns


def triggers(pool: Pool, step: int, threshold: float | None) -> NDArray[np.bool_] | None:
    """Bool [n]: score at or above the threshold (false where not scored); None without a threshold."""
    return None if threshold is None else pool.score[:, step] >= threshold


def framewise_rows(run: str, sessions: Sequence[Session]) -> list[Row]:
    """Endpoint average precision of one run per horizon and class, over valid cells whose source is in the recording.

    The score of cell (t, k) is ranked against the target of row t; 30 rows in the columns of the framewise CSV.
    """
    usable = [s.scores[run].valid & source_inside(len(s.target), s.cuts) for s in sessions]
    rows = []
    for step, seconds in enumerate(HORIZON_SECONDS):
        for index, name in enumerate(CLASSES):
            cells = [mask[:, step] for mask in usable]
            scores = [s.scores[run].values[m, step, index] for s, m in zip(sessions, cells, strict=True)]
            truth = np.concatenate([s.target[m, index] for s, m in zip(sessions, cells, strict=True)]) == 1
            precision = average_precision(np.concatenate(scores).astype(np.float64), truth)
            row = (run, seconds, step + 1, name, len(truth), int(truth.sum()), precision)
            rows.append(dict(zip(FRAMEWISE_COLUMNS, row, strict=True)))
    return rows


def to_csv(columns: Sequence[str], rows: Sequence[Row]) -> bytes:
    """UTF-8 CSV with one header line; None is blank, floats keep every digit, booleans are `true` and `false`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[column]) for column in columns])
    return text.getvalue().encode()


def _cell(value: Cell) -> Cell:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else value


def _tally(pool: Pool, status: int, step: int) -> int:
    return int((pool.status[:, step] == status).sum())
