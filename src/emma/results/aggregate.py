"""From held-out values to one number, and how much that number can be believed.

A task's score is the unweighted mean over held-out values; the OOD average is the unweighted mean over tasks of scores
mapped to [0, 1] by anchors that are read from the release manifest alone.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from common.errors import InputError
from emma.metrics import METRICS, UndefinedMetricError
from emma.evaluation.statistics import holm, standard_error
from emma.tasks import Anchors, OODAxis, TaskID, TaskSpec

#: Scores by task and held-out value; arrays where every entry is one resample.
FoldScores = Mapping[TaskID, Mapping[str, Any]]


def normalise(score: Any, anchors: Anchors, direction: str) -> Any:
    """Map a raw score, or an array of them, to the anchors' scale, not clipped: 0 at no skill, 1 at perfect."""
    span = anchors.maximum - anchors.minimum
    return (score - anchors.minimum) / span if direction == "higher" else (anchors.maximum - score) / span


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

    def task_score(self, task: TaskID, values: Mapping[str, Any]) -> Any:
        """Raw score of a task: the unweighted mean over its held-out values (one observation each).

        Raises:
            UndefinedMetricError: a held-out value is missing or undefined.
        """
        return _mean_over(task, values, list(values))

    def normalised(self, task: TaskID, score: Any) -> Any:
        """A raw score mapped by the frozen anchors and clipped to [0, 1]."""
        spec = self.tasks[task]
        return np.clip(normalise(score, spec.anchors, METRICS[spec.metric].direction), 0.0, 1.0)

    def __call__(self, fold_scores: FoldScores) -> float:
        """Mean of the normalised task scores; every scored task and every held-out value must be there."""
        return float(self.draws(fold_scores))

    def draws(self, fold_scores: FoldScores) -> Any:
        """The same for arrays of resamples; UndefinedMetricError where a scored task or held-out value is missing."""
        for task, spec in self.tasks.items():
            if task not in fold_scores:
                raise UndefinedMetricError(f"OOD average: {task} was not run")
            if missing := [value for value in spec.held_out if value not in fold_scores[task]]:
                raise UndefinedMetricError(f"OOD average: {task} has no score for {missing[0]}")
        return self.over(fold_scores)

    def over(self, fold_scores: FoldScores) -> Any:
        """The same mean over whichever scored tasks and values are given; scores may be arrays of resamples."""
        scored = [task for task in self.tasks if task in fold_scores]
        if not scored:
            raise UndefinedMetricError("OOD average: no scored task")
        parts = [self.normalised(task, self.task_score(task, fold_scores[task])) for task in scored]
        return np.mean(np.stack(parts), axis=0)

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


def _mean_over(task: TaskID, values: Mapping[str, Any], names: Sequence[str]) -> Any:
    if not names:
        raise UndefinedMetricError(f"{task}: no held-out value")
    for name in names:
        if values[name] is None:
            raise UndefinedMetricError(f"{task}: the fold of {name} is undefined")
    return np.mean(np.stack([np.asarray(values[name], dtype=np.float64) for name in names]), axis=0)


def summarise_task(spec: TaskSpec, metric: str, values: Mapping[str, float | None]) -> dict[str, Any]:
    """Score, standard error over held-out values (n - 1) and, for the primary metric, the normalised score."""
    record: dict[str, Any] = {"score": None, "standard_error": None, "undefined": None}
    primary = metric == spec.metric
    record |= {"normalized": None, "clipped": None} if primary else {}
    undefined = [name for name, value in values.items() if value is None]
    if undefined:
        return record | {"undefined": f"the fold of {undefined[0]} is undefined"}
    score = float(np.mean(list(values.values())))
    record |= {"score": score, "standard_error": standard_error(list(values.values()))}
    if primary:
        raw = normalise(score, spec.anchors, METRICS[metric].direction)
        record |= {"normalized": min(max(raw, 0.0), 1.0), "clipped": not 0.0 <= raw <= 1.0}
    return record


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
    undefined: str | None = None
    ci95: list[float] | None = None
    rank: int | None = None
    separable_from_next: bool | None = None
    p_value_against_next: float | None = None
    leave_one_task_out: dict[str, float] = field(default_factory=dict)
    leave_one_value_out: dict[str, float] = field(default_factory=dict)
    fragile: bool | None = None
    draws: np.ndarray | None = None


def rank(aggregator: OODAvg, entrants: Sequence[Entrant], level: float) -> tuple[dict[str, Standing], dict[str, Any]]:
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
    ranked = [e.name for e in entrants if e.ranked and standings[e.name].ood_avg is not None]
    ranked.sort(key=lambda name: (-standings[name].ood_avg, name))
    for place, name in enumerate(ranked):
        above = standings[ranked[place - 1]] if place else None
        tied = above is not None and above.ood_avg == standings[name].ood_avg
        standings[name].rank = above.rank if tied else place + 1
    averages = [standings[name].ood_avg for name in ranked]
    gaps = [better - worse for better, worse in itertools.pairwise(averages)]
    pairs = list(itertools.pairwise(ranked))
    p_values = [_paired_p_value(standings[a].draws, standings[b].draws) for a, b in pairs]
    for (name, _), p_value in zip(pairs, holm(p_values) if p_values else [], strict=True):
        standings[name].p_value_against_next = float(p_value)
        standings[name].separable_from_next = bool(p_value < 1.0 - level)
    median_gap = float(np.median(gaps)) if gaps else None
    for name in ranked:
        averages_without = list(standings[name].leave_one_task_out.values())
        if median_gap is not None and averages_without:
            standings[name].fragile = bool(max(averages_without) - min(averages_without) > median_gap)
    flips = {kind: _flips(standings, ranked, kind) for kind in ("leave_one_task_out", "leave_one_value_out")}
    return standings, {"median_gap": median_gap, "gaps": gaps, "ranking": ranked, "rank_flips": flips}


def _stand(aggregator: OODAvg, entrant: Entrant, level: float) -> Standing:
    standing = Standing()
    try:
        standing.ood_avg = aggregator(entrant.scores)
    except UndefinedMetricError as error:
        standing.undefined = str(error)
        return standing
    try:
        standing.draws = aggregator.draws(entrant.replicates)
    except UndefinedMetricError as error:
        raise InputError(f"model {entrant.name}: bootstrap replicates: {error}") from None
    defined = standing.draws[~np.isnan(standing.draws)]
    if 2 * len(defined) >= len(standing.draws):
        tail = 50.0 * (1.0 - level)
        standing.ci95 = [float(edge) for edge in np.percentile(defined, [tail, 100.0 - tail])]
    if len(aggregator.tasks) > 1:
        standing.leave_one_task_out = aggregator.leave_one_task_out(entrant.scores)
    standing.leave_one_value_out = aggregator.leave_one_value_out(entrant.scores)
    return standing


def _paired_p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p-value of no difference, with the +1 correction (Davison and Hinkley, 1997, section 4.2)."""
    difference = first - second
    difference = difference[~np.isnan(difference)]
    tail = min((difference <= 0).sum(), (difference >= 0).sum())
    return min(1.0, 2.0 * (1 + int(tail)) / (1 + len(difference)))


def _flips(standings: Mapping[str, Standing], ranked: Sequence[str], kind: str) -> list[dict[str, Any]]:
    """The drops after which the order of the ranked models is another one."""
    found = []
    drops = list(getattr(standings[ranked[0]], kind)) if ranked else []
    for dropped in drops:
        order = sorted(ranked, key=lambda name, drop=dropped: (-getattr(standings[name], kind)[drop], name))
        if order != list(ranked):
            found.append({"dropped": dropped, "ranking": order})
    return found
