"""The shape of results: what a run of one model and the leaderboard hold, as validated records.

The JSON Schema of the leaderboard is generated from these records and ships beside it.
"""

from __future__ import annotations

from typing import Literal

from emma.data.costs import Cost, TaskCost
from emma.evaluation.records import FoldScore, Interval, StandardErrors
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


class BeatsFloor(Strict):
    """The paired test of a task's score against that of the floor, a row of kind ``chance``.

    ``p`` is one-sided: small where the score is better than the floor's, in the metric's own direction.
    """

    p: float
    one_sided: Literal[True] = True


class BoardTask(TaskRecord):
    """A task on the board; ``beats_floor`` is null where there is no floor, or one of the two has no score."""

    beats_floor: BeatsFloor | None


#: What kind of row a model is. Those of ``RANKED`` compete; the others set the scale.
Kind = Literal["backbone", "reference", "chance", "oracle", "control", "submitted"]
RANKED: frozenset[Kind] = frozenset({"backbone", "submitted"})

#: What a row rests on: features and readouts that this workflow made, or predictions that somebody handed in.
RowStanding = Literal["reproduced here", "submitted, predictions only"]

#: Best and worst rank.
RankRange = tuple[int, int]


class RunRecord(Strict):
    """One model's run on a release: its scores by task and the RunManifest that makes them auditable.

    Attributes:
        control_of: of a control, the model whose weights it permutes.
    """

    model: str
    kind: Kind
    control_of: str | None = None
    release: str
    eval_split: Literal["dev", "holdout"]
    tasks: dict[TaskID, TaskRecord]
    run_manifest: RunManifest

    @property
    def standing(self) -> RowStanding:
        """What the scores rest on."""
        return "submitted, predictions only" if self.kind == "submitted" else "reproduced here"

    @property
    def apart(self) -> bool:
        """Whether the row is listed apart: predictions alone, of scenes whose labels are public."""
        return self.kind == "submitted" and self.eval_split == "dev"

    @property
    def ranked(self) -> bool:
        """Whether the row competes."""
        return self.kind in RANKED and not self.apart


class Range(Strict):
    """Least and greatest OOD average over a jackknife, and all of it."""

    min: float
    max: float
    averages: dict[str, float]


class RankRanges(Strict):
    """The ranks that a model takes when the same is dropped for every ranked model at once.

    ``leave_one_fifth_out``: a fifth of one task's fit scenes; averages move from where they stand by the deviation of
    that refit from the mean of the refits. None where no ranked model has refits.
    """

    leave_one_task_out: RankRange | None
    leave_one_value_out: RankRange | None
    leave_one_fifth_out: RankRange | None


class Sensitivity(Strict):
    """How far the OOD average, and the rank, move when a task, or a held-out value in all its tasks, is dropped.

    ``fragile``: the range over dropped tasks exceeds the median gap between adjacent ranked models.
    """

    leave_one_task_out: Range | None
    leave_one_value_out: Range | None
    ranks: RankRanges | None
    fragile: bool | None


class Gap(Strict):
    """A sim-to-real gap: the mean over what is named in ``over``, or why there is none.

    It is ``100 (m_synth - m_real)`` in percentage points, on normalised scores that were not clipped; positive where
    captured scenes score worse. It stands outside every aggregate.
    """

    gap_percentage_points: float | None
    over: tuple[str, ...]
    undefined: str | None


class TaskGap(Gap):
    """A task's gap, the mean over its sets in the release's format.

    Attributes:
        matched: the mean over its sets that have a matched synthetic set instead.
    """

    matched: Gap


class SimToReal(Gap):
    """A model's gap, the mean over the tasks of the OOD average that have one; surrogates are never called real.

    ``m_synth`` is the board's score of a task, and ``m_real`` the mean over the same folds' readouts on captured scenes.

    Attributes:
        kind: what the scenes are.
        matched: the same mean over sets that have a matched synthetic set, whose scenes both sides are like.
        tasks: the gap of every task, also of those outside the OOD average.
    """

    kind: Literal["real", "surrogate"]
    matched: Gap
    tasks: dict[TaskID, TaskGap]


class Difference(Strict):
    """A score, that of the control, and how much better the score is.

    Attributes:
        score: the control's own score.
        difference: score less control, in the unit of the score; above zero the score is better, whatever the metric's
            direction.
        ci95: interval of the difference, paired over scenes, refits and turns; None where nothing says how it varies.
    """

    score: float | None
    difference: float | None
    ci95: Interval | None


class Bought(Strict):
    """What pretraining bought: a model against its control, the same network with permuted weights.

    Attributes:
        model: the control's name on the board.
        ood_avg: the OOD averages; all null where one of the two has none.
        tasks: the task scores.
    """

    model: str
    ood_avg: Difference
    tasks: dict[TaskID, Difference]


class RowCost(Strict):
    """What a model is and costs, counted; see ``emma.data.costs.Cost``.

    Attributes:
        macs: the most multiply-accumulates of a scene over the tasks; null where they cannot be counted.
        width: the widest embedding over the tasks.
        tasks: by task, with what the contract does to a scene.
    """

    parameters: int
    macs: int | None
    width: int
    weights_bytes: int | None
    tasks: dict[TaskID, TaskCost]
    description: str | None
    link: str | None
    licence: str | None

    @classmethod
    def of(cls, cost: Cost) -> RowCost:
        """The block of a row from a model's cost record."""
        macs = [task.macs for task in cost.tasks.values()]
        return cls(
            macs=None if None in macs else max((count for count in macs if count is not None), default=None),
            width=max((task.width for task in cost.tasks.values()), default=0),
            **cost.model_dump(include={"parameters", "weights_bytes", "tasks", "description", "link", "licence"}),
        )


class Row(Strict):
    """One model on the board; where a score is undefined, ``rank`` and ``ood_avg`` are null, ``undefined`` says why.

    ``standing``: what the scores rest on. ``unranked``: why there is no rank, where there is none. ``caveats``: what
    must be said of this row, such as that its predictions are another's.
    ``rank_range``: the best and the worst rank over all that is dropped in ``sensitivity.ranks``, and ``rank`` itself.
    ``control``: the comparison with its control, where it has one; ``control_of``: of a control, its model.
    ``cost``: null where nobody embeds here: an oracle's row, a submission.
    """

    model: str
    kind: Kind
    control_of: str | None = None
    standing: RowStanding
    rank: int | None
    unranked: str | None
    rank_range: RankRange | None
    ood_avg: float | None
    ood_avg_ci95: Interval | None
    ood_avg_standard_errors: StandardErrors | None
    undefined: str | None
    separable_from_next: bool | None
    tasks: dict[TaskID, BoardTask]
    sensitivity: Sensitivity | None
    sim_to_real: SimToReal | None
    control: Bought | None = None
    cost: RowCost | None = None
    caveats: tuple[str, ...]
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

    @property
    def apart(self) -> tuple[Row, ...]:
        """Rows that are listed apart: predictions alone, of scenes whose labels are public. They stand last."""
        return tuple(row for row in self.models if row.kind == "submitted" and self.eval_split == "dev")

    @property
    def reproduced(self) -> tuple[Row, ...]:
        """The other rows, ranked first."""
        return self.models[: len(self.models) - len(self.apart)]


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


class Components(Strict):
    """A task's score with what it is the mean of: the scores by held-out value."""

    metric: str
    score: float | None
    normalized: float | None
    in_ood_avg: bool
    values: dict[str, float | None]


class ModelStatistics(Strict):
    """How firmly one model stands; the p-value is two-sided, Holm-corrected over the pairs of neighbours."""

    rank: int | None
    rank_range: RankRange | None
    ood_avg: float | None
    ood_avg_ci95: Interval | None
    ood_avg_standard_errors: StandardErrors | None
    tasks: dict[TaskID, Components]
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
