"""From held-out values to one number, and how much that number can be believed.

A task's score is the unweighted mean over held-out values; the OOD average is the unweighted mean over tasks of scores
mapped to [0, 1] by anchors that are read from the release manifest alone.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from common.errors import InputError
from emma.evaluation.records import FloatArray, Interval
from emma.evaluation.statistics import holm, percentile_interval, standard_error
from emma.metrics import METRICS, UndefinedMetricError
from emma.results.normalisation import normalise, normalise_clipped
from emma.results.records import RankFlip, RankFlips, RankStatistics
from emma.tasks import OODAxis, TaskID, TaskSpec

#: Scores by held-out value, None where undefined; arrays ``[R]`` where every entry is one resample.
ValueScores = Mapping[str, float | FloatArray | None]
FoldScores = Mapping[TaskID, ValueScores]


class Aggregator(ABC):
    """Reduces fold scores to one number."""

    @abstractmethod
    def __call__(self, fold_scores: FoldScores) -> float:
        """The aggregate; UndefinedMetricError says why there is none."""


class OODAvg(Aggregator):
    """The OOD average over the scored tasks of a release.

    Args:
        tasks: the release manifest's TaskSpecs. Anchors come from here and from nowhere else.
    """

    def __init__(self, tasks: Mapping[TaskID, TaskSpec]) -> None:
        self.tasks = {task: spec for task, spec in tasks.items() if spec.in_ood_avg}

    def task_score(self, task: TaskID, values: ValueScores) -> FloatArray:
        """Raw score of a task: the unweighted mean over its held-out values (one observation each).

        Raises:
            UndefinedMetricError: a held-out value is missing or undefined.
        """
        return _mean_over(task, values, list(values))

    def normalised(self, task: TaskID, score: FloatArray) -> FloatArray:
        """A raw score mapped by the frozen anchors and clipped to [0, 1]."""
        spec = self.tasks[task]
        return normalise_clipped(score, spec.anchors, METRICS[spec.metric].direction)

    def __call__(self, fold_scores: FoldScores) -> float:
        """Mean of the normalised task scores; every scored task and every held-out value must be there."""
        return float(self.draws(fold_scores))

    def draws(self, fold_scores: FoldScores) -> FloatArray:
        """The same for arrays of resamples.

        Raises:
            UndefinedMetricError: a scored task or held-out value is missing, or one that the TaskSpec lacks is there.
        """
        for task, spec in self.tasks.items():
            if task not in fold_scores:
                raise UndefinedMetricError(f"OOD average: {task} was not run")
            if missing := [value for value in spec.held_out if value not in fold_scores[task]]:
                raise UndefinedMetricError(f"OOD average: {task} has no score for {missing[0]}")
            if extra := [value for value in fold_scores[task] if value not in spec.held_out]:
                raise UndefinedMetricError(f"OOD average: {task}: {extra[0]} is no held-out value of the task")
        return self.over(fold_scores)

    def over(self, fold_scores: FoldScores) -> FloatArray:
        """The same mean over whichever scored tasks and values are given; scores may be arrays of resamples."""
        scored = [task for task in self.tasks if task in fold_scores]
        if not scored:
            raise UndefinedMetricError("OOD average: no scored task")
        parts = [self.normalised(task, self.task_score(task, fold_scores[task])) for task in scored]
        return np.asarray(np.mean(np.stack(parts), axis=0))

    def leave_one_task_out(self, fold_scores: FoldScores) -> dict[str, float]:
        """The OOD average without each task in turn, under the same anchors."""
        return {
            task.value: float(self.over({name: values for name, values in fold_scores.items() if name != task}))
            for task in self.tasks
        }

    def leave_one_value_out(self, fold_scores: FoldScores) -> dict[str, float]:
        """The OOD average without each held-out value in turn; a value is dropped from all its tasks at once."""
        dropped: dict[str, float] = {}
        for axis in OODAxis:
            on_axis = {task: spec for task, spec in self.tasks.items() if spec.ood_axis is axis}
            for value in dict.fromkeys(value for spec in on_axis.values() for value in spec.held_out):
                rest = {
                    task: {name: score for name, score in values.items() if task not in on_axis or name != value}
                    for task, values in fold_scores.items()
                }
                dropped[f"{axis.value}={value}"] = float(self.over(rest))
        return dropped


def _mean_over(task: TaskID, values: ValueScores, names: Sequence[str]) -> FloatArray:
    if not names:
        raise UndefinedMetricError(f"{task}: no held-out value")
    for name in names:
        if values[name] is None:
            raise UndefinedMetricError(f"{task}: the fold of {name} is undefined")
    return np.asarray(np.mean(np.stack([np.asarray(values[name], dtype=np.float64) for name in names]), axis=0))


@dataclass(frozen=True)
class Summary:
    """Unweighted mean over held-out values and its standard error (n - 1), or why there is none."""

    score: float | None
    standard_error: float | None
    undefined_reason: str | None


def summarise(scores: Mapping[str, float | None]) -> Summary:
    """The score of a task from its scores by held-out value."""
    undefined = [name for name, score in scores.items() if score is None]
    defined = [score for score in scores.values() if score is not None]
    if undefined:
        return Summary(None, None, f"the fold of {undefined[0]} is undefined")
    return Summary(float(np.mean(defined)), standard_error(defined), None)


def normalise_task(spec: TaskSpec, score: float | None) -> tuple[float | None, bool | None]:
    """A task's score on the anchors' scale, clipped to [0, 1], and whether it was; None where there is no score."""
    if score is None:
        return None, None
    scale = (spec.anchors, METRICS[spec.metric].direction)
    return normalise_clipped(score, *scale), not 0.0 <= normalise(score, *scale) <= 1.0


@dataclass(frozen=True)
class Entrant:
    """What ranking needs to know of a model.

    Attributes:
        name: the model's name.
        scores: fold scores of the scored tasks.
        replicates: bootstrap replicates ``[R]`` in the same places, drawn on the same resamples for every model.
        ranked: False for a reference row.
    """

    name: str
    scores: FoldScores
    replicates: FoldScores
    ranked: bool = True


@dataclass
class Standing:
    """Where a model stands, and how firmly."""

    ood_avg: float | None = None
    undefined_reason: str | None = None
    ci95: Interval | None = None
    rank: int | None = None
    separable_from_next: bool | None = None
    p_value_against_next: float | None = None
    leave_one_task_out: dict[str, float] = field(default_factory=dict)
    leave_one_value_out: dict[str, float] = field(default_factory=dict)
    fragile: bool | None = None
    draws: FloatArray | None = None


def rank(aggregator: OODAvg, entrants: Sequence[Entrant], level: float) -> tuple[dict[str, Standing], RankStatistics]:
    """Rank models by OOD average and say which ranks hold.

    Adjacent models are compared by a paired bootstrap over identical scenes, stratified by task and held-out value,
    two-sided, Holm-corrected over the comparisons (Holm, 1979). ``fragile``: the range of the leave-one-task-out
    averages exceeds the median gap between adjacent ranked models.

    Args:
        aggregator: the release's OODAvg.
        entrants: the models.
        level: coverage of the intervals; ranks are told apart at 1 - level.

    Returns:
        standings by model, and the board's statistics.

    Raises:
        InputError: a model with an OOD average lacks replicates of a scored fold.
    """
    standings = {entrant.name: _stand(aggregator, entrant, level) for entrant in entrants}
    averages = {e.name: average for e in entrants if e.ranked and (average := standings[e.name].ood_avg) is not None}
    ranked = sorted(averages, key=lambda name: (-averages[name], name))
    for place, name in enumerate(ranked):
        above = ranked[place - 1] if place else None
        tied = above is not None and averages[above] == averages[name]
        standings[name].rank = standings[above].rank if above is not None and tied else place + 1
    pairs = list(itertools.pairwise(ranked))
    gaps = [averages[better] - averages[worse] for better, worse in pairs]
    draws = {name: own for name in ranked if (own := standings[name].draws) is not None}
    p_values = [_paired_p_value(draws[a], draws[b]) for a, b in pairs]
    for (name, _), p_value in zip(pairs, holm(p_values) if p_values else [], strict=True):
        standings[name].p_value_against_next = float(p_value)
        standings[name].separable_from_next = bool(p_value < 1.0 - level)
    median_gap = float(np.median(gaps)) if gaps else None
    for name in ranked:
        averages_without = list(standings[name].leave_one_task_out.values())
        if median_gap is not None and averages_without:
            standings[name].fragile = bool(max(averages_without) - min(averages_without) > median_gap)
    flips = RankFlips(
        leave_one_task_out=_flips({name: standings[name].leave_one_task_out for name in ranked}),
        leave_one_value_out=_flips({name: standings[name].leave_one_value_out for name in ranked}),
    )
    return standings, RankStatistics(median_gap=median_gap, gaps=tuple(gaps), ranking=tuple(ranked), rank_flips=flips)


def _stand(aggregator: OODAvg, entrant: Entrant, level: float) -> Standing:
    standing = Standing()
    try:
        standing.ood_avg = aggregator(entrant.scores)
    except UndefinedMetricError as error:
        standing.undefined_reason = str(error)
        return standing
    try:
        standing.draws = aggregator.draws(entrant.replicates)
    except UndefinedMetricError as error:
        raise InputError(f"model {entrant.name}: bootstrap replicates: {error}") from None
    standing.ci95 = percentile_interval(standing.draws, level)
    if len(aggregator.tasks) > 1:
        standing.leave_one_task_out = aggregator.leave_one_task_out(entrant.scores)
    standing.leave_one_value_out = aggregator.leave_one_value_out(entrant.scores)
    return standing


def _paired_p_value(first: FloatArray, second: FloatArray) -> float:
    """Two-sided p-value of no difference, with the +1 correction (Davison and Hinkley, 1997, section 4.2)."""
    difference = first - second
    difference = difference[~np.isnan(difference)]
    tail = min((difference <= 0).sum(), (difference >= 0).sum())
    return min(1.0, 2.0 * (1 + int(tail)) / (1 + len(difference)))


def _flips(averages: Mapping[str, Mapping[str, float]]) -> tuple[RankFlip, ...]:
    """The drops after which ranked models stand in another order; averages by model, in rank order, and drop."""
    ranked = list(averages)
    flips = []
    for dropped in averages[ranked[0]] if ranked else []:
        without = {name: by_drop[dropped] for name, by_drop in averages.items()}
        order = [name for _, name in sorted((-average, name) for name, average in without.items())]
        if order != ranked:
            flips.append(RankFlip(dropped=dropped, ranking=tuple(order)))
    return tuple(flips)
