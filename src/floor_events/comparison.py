"""Comparison of runs: are their events comparable, did errors fall, and how sure is that.

Intervals are paired: they resample, within sessions, the events that both runs scored, with thresholds held fixed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from floor_events.events import NEGATIVE
from floor_events.protocol import HORIZON_STEPS, RESPONSE, YIELD
from floor_events.tables import Cell, Pool, Row, Thresholds, number, recall_suffix, triggers

# (error, head, its denominator column, the positives' column)
ERRORS = (
    ("no_response_trigger", RESPONSE, "no_response_count", "response_count"),
    ("short_resume_trigger", RESPONSE, "short_resume_count", "response_count"),
    ("continue_false_stop", YIELD, "continue_count", "yield_count"),
)
MATERIAL_RECALL_DROP = 0.02
CONFIDENCE = 0.95
COMPARABLE_FIELDS = (
    "response_count", "no_response_count", "short_resume_count", "yield_count", "continue_count",
    "response_invalid_count", "yield_invalid_count",
)  # fmt: skip
COMPARISON_COLUMNS = (
    "baseline", "candidate", "recall", "horizon_seconds", "horizon_steps", "error",
    "baseline_rate", "candidate_rate", "change_percentage_points", "relative_error_reduction",
    "baseline_count", "baseline_denominator", "candidate_count", "candidate_denominator",
    "baseline_recall", "candidate_recall", "recall_materially_lower", "denominators_differ", "warning",
    "paired_events", "paired_baseline_rate", "paired_candidate_rate",
    "change_ci95_low", "change_ci95_high", "change_ci95_status",
    "relative_ci95_low", "relative_ci95_high", "relative_ci95_status",
)  # fmt: skip


@dataclass(frozen=True)
class RunEvents:
    """What the comparison reads of one run: its events rows (one per horizon), pools and thresholds."""

    rows: Sequence[Row]
    pools: Mapping[str, Pool]
    thresholds: Thresholds


class Difference(TypedDict):
    """A count that is not the same in all runs at one horizon: `field`, and its value by run."""

    horizon_steps: int
    field: str
    counts: dict[str, Cell]


class Agreement(TypedDict):
    """Whether all runs have the same events, and where not."""

    comparable: bool
    differences: list[Difference]


class Comparability(Agreement):
    """The same, with whether the runs were calibrated on different numbers of positives."""

    calibration_positives_differ: bool


def comparability(rows: Mapping[str, Sequence[Row]]) -> Agreement:
    """Whether denominators and invalid counts agree over all runs, and each difference by horizon and field."""
    differences: list[Difference] = []
    for step in range(HORIZON_STEPS):
        for field in COMPARABLE_FIELDS:
            counts = {run: run_rows[step][field] for run, run_rows in rows.items()}
            if len(set(counts.values())) > 1:
                differences.append({"horizon_steps": step + 1, "field": field, "counts": counts})
    return {"comparable": not differences, "differences": differences}


def compare_runs(runs: Mapping[str, RunEvents], recalls: Sequence[float], resamples: int, seed: int) -> list[Row]:
    """One row per pair of runs (the earlier is the baseline), recall, horizon and error; COMPARISON_COLUMNS.

    Rates are each run's own, as in the events table. `change` is candidate minus baseline in percentage points;
    `relative_error_reduction` is (baseline - candidate) / baseline, None where the baseline's rate is zero or
    undefined. `resamples` 0 leaves the intervals out.
    """
    return [
        _compare(baseline, candidate, runs, recall=recall, step=step, error=error, resamples=resamples, seed=seed)
        for baseline, candidate in combinations(runs, 2)
        for recall in recalls
        for step in range(HORIZON_STEPS)
        for error in ERRORS
    ]


def paired_bootstrap(
    baseline: NDArray[np.bool_],
    candidate: NDArray[np.bool_],
    session: NDArray[np.int64],
    resamples: int,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Error rates of both runs over `resamples` resamples of the same events, drawn within each session.

    `baseline` and `candidate` are bool [n] (n >= 1), `session` int [n]. An event only matters by its pair of flags, so
    the draw with replacement within a session is a multinomial over four kinds of event. Returns two float64 arrays.
    """
    kind = 2 * baseline.astype(np.int64) + candidate
    totals = np.zeros((resamples, 4), dtype=np.int64)
    for index in np.unique(session):
        counts = np.bincount(kind[session == index], minlength=4)
        totals += rng.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
    return (totals[:, 2] + totals[:, 3]) / len(kind), (totals[:, 1] + totals[:, 3]) / len(kind)


def _compare(
    baseline: str,
    candidate: str,
    runs: Mapping[str, RunEvents],
    *,
    recall: float,
    step: int,
    error: tuple[str, str, str, str],
    resamples: int,
    seed: int,
) -> Row:
    name, head, denominator, positives = error
    suffix = recall_suffix(recall)
    rows = runs[baseline].rows[step], runs[candidate].rows[step]
    rates = number(rows[0], f"{name}_rate{suffix}"), number(rows[1], f"{name}_rate{suffix}")
    recall_column = f"{head}{suffix.removeprefix('_at')}"
    recalls = number(rows[0], recall_column), number(rows[1], recall_column)
    drop = None if recalls[0] is None or recalls[1] is None else recalls[0] - recalls[1]
    lower = drop is not None and drop > MATERIAL_RECALL_DROP + 1e-9
    differ = any(rows[0][column] != rows[1][column] for column in (denominator, positives))
    change = None if rates[0] is None or rates[1] is None else 100.0 * (rates[1] - rates[0])
    warnings = []
    if drop is not None and lower:
        warnings.append(f"candidate's {head} recall is {100 * drop:.1f} points lower")
    if differ:
        warnings.append("denominators differ")
    key = [seed, baseline, candidate, recall, step + 1, name]
    paired = _paired(
        runs[baseline],
        runs[candidate],
        head=head,
        short_only=name == "short_resume_trigger",
        recall=recall,
        step=step,
        resamples=resamples,
        rng=np.random.default_rng(int.from_bytes(hashlib.sha256(json.dumps(key).encode()).digest()[:16])),
    )
    values = (
        baseline, candidate, recall, rows[0]["horizon_seconds"], step + 1, name,
        *rates, change, _reduction(*rates),
        rows[0][f"{name}_count{suffix}"], rows[0][denominator], rows[1][f"{name}_count{suffix}"], rows[1][denominator],
        *recalls, lower, differ, "; ".join(warnings) or None,
        *paired,
    )  # fmt: skip
    return dict(zip(COMPARISON_COLUMNS, values, strict=True))


def _paired(
    baseline: RunEvents,
    candidate: RunEvents,
    *,
    head: str,
    short_only: bool,
    recall: float,
    step: int,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[Cell, ...]:
    """The paired columns: events, both rates, then (low, high, status) of the change and of the reduction."""
    pools = baseline.pools[head], candidate.pools[head]
    both = (pools[0].status[:, step] == NEGATIVE) & (pools[1].status[:, step] == NEGATIVE)
    if short_only:
        both &= pools[0].short_pause
    count = int(both.sum())
    fired = [
        triggers(pool, step, run.thresholds[head, step, recall].value)
        for pool, run in zip(pools, (baseline, candidate), strict=True)
    ]
    if fired[0] is None or fired[1] is None:
        return (count, None, None, *_undefined("no_threshold"), *_undefined("no_threshold"))
    if count == 0:
        return (count, None, None, *_undefined("no_paired_events"), *_undefined("no_paired_events"))
    first, second = fired[0][both], fired[1][both]
    rates = int(first.sum()) / count, int(second.sum()) / count
    if resamples == 0:
        return (count, *rates, *_undefined("off"), *_undefined("off"))
    drawn = paired_bootstrap(first, second, pools[0].session[both], resamples, rng)
    change = (*_interval(100.0 * (drawn[1] - drawn[0])), "ok")
    return (count, *rates, *change, *_relative_interval(rates[0], *drawn))


def _relative_interval(
    rate: float, baseline: NDArray[np.float64], candidate: NDArray[np.float64]
) -> tuple[float | None, float | None, str]:
    if rate == 0:
        return _undefined("zero_baseline_rate")
    defined = baseline > 0
    # Without these resamples an end of the interval would rest on draws that have no reduction at all.
    if (~defined).mean() > (1 - CONFIDENCE) / 2:
        return _undefined("baseline_rate_often_zero")
    return (*_interval((baseline[defined] - candidate[defined]) / baseline[defined]), "ok")


def _reduction(baseline: float | None, candidate: float | None) -> float | None:
    return None if not baseline or candidate is None else (baseline - candidate) / baseline


def _interval(drawn: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _undefined(status: str) -> tuple[None, None, str]:
    return None, None, status
