"""The shape of results: what a run of one model and the leaderboard hold, as validated records.

The JSON Schema of the leaderboard is generated from these records and ships beside it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from emma.results.manifest import RunManifest
from emma.tasks import Strict, TaskID

Interval = tuple[float, float]


class ValueRecord(Strict):
    """One held-out value: its score, the scenes behind it, and the score of a readout that has met the value.

    ``value - in_distribution`` is the generalisation gap. ``undefined`` says why there is no value.
    ``met_in_pretraining``: the backbone's declared pretraining saw this value.
    """

    value: float | None
    n: Annotated[int, Field(ge=0)]
    ci95: Interval | None
    in_distribution: float | None
    undefined: str | None
    met_in_pretraining: bool | Literal["unknown"]


class FoldValue(Strict):
    """One metric of one fold, as scored: a ValueRecord before anything is said of the model."""

    value: float | None
    n: Annotated[int, Field(ge=0)]
    ci95: Interval | None
    in_distribution: float | None
    undefined: str | None


class FoldRecord(Strict):
    """``metrics.json`` of one fold: its place, what was scored, the values by metric, and what made them.

    A submission has no readout.
    """

    model: str
    task: TaskID
    protocol: str
    value: str
    data_release_hash: str
    seed: int
    harness_version: str
    eval_split: Literal["dev", "holdout"]
    metrics: dict[str, FoldValue]
    hashes: dict[Literal["predictions", "readout"], str | None]
    model_provenance: dict[str, Any]


class ScoreRecord(Strict):
    """A score under one metric and protocol: the unweighted mean over held-out values, and those values."""

    metric: str
    unit: str
    direction: Literal["higher", "lower"]
    score: float | None
    standard_error: float | None
    undefined: str | None
    protocol: str
    axis: str
    values: dict[str, ValueRecord]


class TaskRecord(ScoreRecord):
    """A task on the board; ``secondary_metrics`` and ``secondary`` protocols never enter the OOD average."""

    normalized: float | None
    clipped: bool | None
    in_ood_avg: bool
    secondary_metrics: dict[str, ScoreRecord]
    secondary: dict[str, ScoreRecord]


class RunRecord(Strict):
    """One model's run on a release: its scores by task and the RunManifest that makes them auditable."""

    model: str
    kind: Literal["backbone", "reference", "submitted"]
    release: str
    eval_split: Literal["dev", "holdout"]
    tasks: dict[TaskID, TaskRecord]
    run_manifest: RunManifest


class Range(Strict):
    """Least and greatest OOD average over a jackknife, and all of it."""

    min: float
    max: float
    averages: dict[str, float]


class Sensitivity(Strict):
    """How far the OOD average moves when a task, or a held-out value in all its tasks, is dropped.

    ``fragile``: the range over dropped tasks exceeds the median gap between adjacent ranked models.
    """

    leave_one_task_out: Range | None
    leave_one_value_out: Range | None
    fragile: bool | None


class TaskGap(Strict):
    """A task's sim-to-real gap: the mean over its ``sets``, or why there is none."""

    gap_percentage_points: float | None
    sets: tuple[str, ...]
    undefined: str | None


class SimToReal(Strict):
    """A model's sim-to-real gap, the mean over the tasks that have one; ``surrogate`` sets are never called real.

    It is ``100 (m_synth - m_real)`` on normalised scores that were not clipped, outside every aggregate.
    """

    kind: Literal["real", "surrogate"]
    gap_percentage_points: float | None
    undefined: str | None
    tasks: dict[TaskID, TaskGap]


class Row(Strict):
    """One model on the board; where a score is undefined, ``rank`` and ``ood_avg`` are null, ``undefined`` says why."""

    model: str
    kind: Literal["backbone", "reference", "submitted"]
    rank: int | None
    ood_avg: float | None
    ood_avg_ci95: Interval | None
    undefined: str | None
    separable_from_next: bool | None
    tasks: dict[TaskID, TaskRecord]
    sensitivity: Sensitivity | None
    sim_to_real: SimToReal | None
    run_manifest: RunManifest


class Board(Strict):
    """``results/leaderboard.json``."""

    release: str
    data_release_hash: str
    eval_split: Literal["dev", "holdout"]
    seed: int
    harness_version: str
    caveats: tuple[str, ...]
    models: tuple[Row, ...]
