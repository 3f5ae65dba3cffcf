"""From held-out values to one number.

A task's score is the unweighted mean over held-out values; the OOD average is the unweighted mean over tasks of scores
mapped to [0, 1] by anchors that are read from the release manifest alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from emma.evaluation.records import Draws, FloatArray
from emma.evaluation.statistics import standard_error
from emma.evaluation.uncertainty import MeanDraws
from emma.metrics import METRICS, UndefinedMetricError
from emma.results.normalisation import normalise, normalise_clipped
from emma.tasks import OODAxis, TaskID, TaskSpec

#: Scores by held-out value, None where undefined; arrays where there are several of each.
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
        self._check(fold_scores)
        return float(self.over(fold_scores))

    def draws(self, replicates: Mapping[TaskID, Mapping[str, Draws]]) -> dict[TaskID, MeanDraws]:
        """Draws of each normalised task score, in the order of the tasks.

        Raises:
            UndefinedMetricError: a scored task or held-out value is missing, or one that the TaskSpec lacks is there.
            ValueError: held-out values of one task that differ in their number of resamples.
        """
        self._check(replicates)
        found = {}
        for task in self.tasks:

            def normalised(score: FloatArray, task: TaskID = task) -> FloatArray:
                return self.normalised(task, score)

            found[task] = MeanDraws.of([replicates[task][value] for value in self.tasks[task].held_out], normalised)
        return found

    def _check(self, fold_scores: Mapping[TaskID, Mapping[str, Any]]) -> None:
        """UndefinedMetricError for a scored task or held-out value that is missing, or one that the TaskSpec lacks."""
        for task, spec in self.tasks.items():
            if task not in fold_scores:
                raise UndefinedMetricError(f"OOD average: {task} was not run")
            if missing := [value for value in spec.held_out if value not in fold_scores[task]]:
                raise UndefinedMetricError(f"OOD average: {task} has no score for {missing[0]}")
            if extra := [value for value in fold_scores[task] if value not in spec.held_out]:
                raise UndefinedMetricError(f"OOD average: {task}: {extra[0]} is no held-out value of the task")

    def over(self, fold_scores: FoldScores) -> FloatArray:
        """The same mean over whichever scored tasks and values are given; scores may be arrays."""
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
