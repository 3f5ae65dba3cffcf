"""The shape of results: what a run of one model and the leaderboard hold, as validated records.

The JSON Schema of the leaderboard is generated from these records and ships beside it.
"""

from __future__ import annotations

from typing import Literal

from emma.evaluation.records import FoldScore, Interval
from emma.results.manifest import RunManifest
from emma.tasks import OODAxis, Strict, TaskID


class HeldOutScore(FoldScore):
    """One metric of one held-out value on the board.

    Attributes:
        met_in_pretraining: whether the backbone's declared pretraining saw this value.
    """

    met_in_pretraining: bool | Literal["unknown"]


class ScoreRecord(Strict):
    """A score under one metric and protocol: the unweighted mean over held-out values, and their scores."""

    metric: str
    unit: str
    direction: Literal["higher", "lower"]
    score: float | None
    standard_error: float | None
    undefined: str | None
    protocol: str
    axis: str
    values: dict[str, HeldOutScore]


class TaskRecord(ScoreRecord):
    """A task on the board; ``secondary_metrics`` and ``secondary`` protocols never enter the OOD average."""

    normalized: float | None
    clipped: bool | None
    in_ood_avg: bool
    secondary_metrics: dict[str, ScoreRecord]
    secondary: dict[str, ScoreRecord]


#: What kind of row a model is.
Kind = Literal["backbone", "reference", "submitted"]


class RunRecord(Strict):
    """One model's run on a release: its scores by task and the RunManifest that makes them auditable."""

    model: str
    kind: Kind
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
    kind: Kind
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


class RankFlip(Strict):
    """A task or held-out value, ``axis=value``, without which the ranked models stand in another order."""

    dropped: str
    ranking: tuple[str, ...]


class RankFlips(Strict):
    """The rank flips of each jackknife."""

    leave_one_task_out: tuple[RankFlip, ...]
    leave_one_value_out: tuple[RankFlip, ...]


class RankStatistics(Strict):
    """What the ranks rest on: gaps between neighbours in rank, in OOD average, and the drops that change the order."""

    median_gap: float | None
    gaps: tuple[float, ...]
    ranking: tuple[str, ...]
    rank_flips: RankFlips


class ModelStatistics(Strict):
    """How firmly one model stands; the p-value is two-sided, Holm-corrected over the pairs of neighbours."""

    rank: int | None
    ood_avg: float | None
    ood_avg_ci95: Interval | None
    undefined: str | None
    separable_from_next: bool | None
    holm_p_value_against_next: float | None
    sensitivity: Sensitivity | None


class AggregationReport(RankStatistics):
    """``results/reports/aggregation.json``: every jackknife, gap and comparison, with the caveats they carry."""

    release: str
    data_release_hash: str
    caveats: tuple[str, ...]
    models: dict[str, ModelStatistics]


class StressReport(Strict):
    """``results/reports/stress.json``: scored tasks under leave-one-SNR-regime-out, by model and task."""

    release: str
    data_release_hash: str
    caveats: tuple[str, ...]
    protocol: str
    axis: OODAxis
    models: dict[str, dict[TaskID, ScoreRecord]]
