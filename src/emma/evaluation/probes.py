"""Probes beside the pinned head: neighbours, the score against the regularisation, and against the number of scenes.

A rank that holds under one probe alone is the probe's as much as the backbone's. Every probe is fit and scored on the
folds of the task's primary protocol, without intervals, and its score is the mean over held-out values. Neighbours as a
probe of frozen features: Wu et al., CVPR 2018; label efficiency: Chen et al., arXiv:2002.05709, section 6.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.errors import InputError
from common.streams import stream
from emma.data.draws import link_groups
from emma.data.enrolment import session_turns
from emma.data.folds import split_of
from emma.data.protocols import OODProtocol, primary_protocol
from emma.data.provenance import Hash, Provenance
from emma.evaluation.records import FloatArray
from emma.evaluation.task_metrics import metric_of
from emma.metrics import UndefinedMetricError
from emma.readouts import make_readout, standardise
from emma.tasks import Strict, Target, TaskID, TaskSpec, target_of

#: Neighbours, sizes of the fit, and draws of each.
NEIGHBOURS, SIZES, DRAWS = 20, (50, 150, 500), 5


class Head(Protocol):
    """What a probe is: fit on embeddings, it scores others; a readout is one."""

    def fit(self, features: NDArray[Any], target: Any, groups: Any = None) -> Self:
        """Fit on ``[N, D]`` with encoded labels ``[N]`` and groups ``[N]``."""

    def enrol(self, features: NDArray[Any], target: FloatArray, turns: NDArray[np.integer[Any]]) -> None:
        """Enrol galleries in turn, where a target asks for them: captures ``[N, D]``, and the turn ``[N]`` of each."""

    def turn_scores(self, features: NDArray[Any], given: Any = None) -> Any:
        """Scores ``[T, N, width]`` against the gallery of every turn."""

    def scores(self, features: NDArray[Any], given: Any = None) -> Any:
        """Scores ``[N, width]`` of the target; ``given``: what is given with each scene, if anything."""


class Probed(Strict):
    """A probe's score: the mean over held-out values, and each of them; None and a reason where one is undefined."""

    score: float | None
    values: dict[str, float | None]
    undefined: str | None = None


class Strength(Strict):
    """The pinned head at one fixed value of its regularisation."""

    regularisation: float
    probed: Probed


class Draws(Strict):
    """The pinned head on drawn fit scenes: one score per draw, their mean and standard deviation over draws.

    ``scenes``: how many of a fold's fit scenes were drawn; None for all of them, which is one fit.
    """

    scenes: int | None
    scores: tuple[float | None, ...]
    mean: float | None
    deviation: float | None
    undefined: str | None = None


class TaskProbes(Strict):
    """Every probe of one model on one task."""

    metric: str
    protocol: str
    embedding_dim: int
    pinned: Probed
    neighbours: Probed
    strengths: tuple[Strength, ...]
    label_efficiency: tuple[Draws, ...]


class ModelProbes(Strict):
    """``probes/MODEL.json``: every probe of one model, and what it rests on."""

    model: str
    kind: str
    release: str
    data_release_hash: Hash
    eval_split: Literal["dev", "holdout"]
    seed: int
    model_provenance: Provenance
    tasks: dict[TaskID, TaskProbes]


class Neighbours:
    """Cosine to the nearest fit scenes, on features standardised by the fit; ties go to the earlier scene.

    Numbers: the mean of the neighbours', for angles the direction of the sum of their unit vectors. Classes: share of
    the votes, where ``balanced`` each weighs the inverse of its class's number of fit scenes. Enrolled units: votes of
    the nearest gallery captures, each by how near it is. One class alone: how far they are, one less the mean cosine.
    No neighbour tells anything without a feature: then every scene has the same score.
    """

    def __init__(self, target: Target, *, balanced: bool = False, count: int = NEIGHBOURS) -> None:
        self._target, self._balanced, self._count = target, balanced, count

    def fit(self, features: NDArray[Any], target: FloatArray, groups: Any = None) -> Self:
        """Keep the fit scenes."""
        del groups
        _, self._mean, self._scale = standardise(features)
        self._known, self._labels = self._directions(features), np.asarray(target)
        return self

    def enrol(self, features: NDArray[Any], target: FloatArray, turns: NDArray[np.integer[Any]]) -> None:
        """Let galleries take the place of the fit scenes."""
        known, labels = self._directions(features), np.asarray(target)
        self._galleries = [(known[turns == turn], labels[turns == turn]) for turn in np.unique(turns)]

    def turn_scores(self, features: NDArray[Any], given: Any = None) -> FloatArray:
        """Scores ``[T, N, width]`` against the gallery of every turn."""
        del given
        asked = self._directions(features)
        return np.stack([self._votes(asked, known, labels) for known, labels in self._galleries])

    def scores(self, features: NDArray[Any], given: Any = None) -> FloatArray:
        """Scores ``[N, width]``."""
        del given
        return self._votes(self._directions(features), self._known, self._labels)

    def _votes(self, given: FloatArray, known: FloatArray, known_labels: FloatArray) -> FloatArray:
        cosines = given @ known.T
        count = min(self._count, len(known_labels))
        # Rounded, so that the order of near-equal neighbours does not rest on the last bit of a product.
        nearest = np.argsort(-np.round(cosines, 9), axis=1, kind="stable")[:, :count]
        if self._target.one_class:
            far: FloatArray = 1.0 - np.take_along_axis(cosines, nearest, axis=1).mean(axis=1, keepdims=True)
            return far
        labels = known_labels[nearest]
        if self._target.regressed:
            numbers = self._target.regressand(known_labels)[nearest]
            return self._target.from_regression(numbers.mean(axis=1))
        classes = labels.astype(np.int64)
        weights = np.ones(classes.shape)
        if self._target.enrols:
            weights += np.take_along_axis(cosines, nearest, axis=1)
        elif self._balanced:
            weights = (1.0 / np.maximum(np.bincount(known_labels.astype(np.int64)), 1))[classes]
        votes = np.zeros((len(classes), len(self._target.classes)))
        np.add.at(votes, (np.arange(len(classes))[:, None], classes), weights)
        votes /= np.maximum(votes.sum(axis=1, keepdims=True), 1e-300)
        # Two classes have one score, zero where they are even.
        return votes if self._target.width > 1 else votes[:, 1:] - 0.5

    def _directions(self, features: NDArray[Any]) -> FloatArray:
        centred = (np.asarray(features, np.float64) - self._mean) * self._scale
        length = np.linalg.norm(centred, axis=1, keepdims=True)
        directions: FloatArray = np.divide(centred, length, out=np.zeros_like(centred), where=length > 0)
        return directions


@dataclass(frozen=True)
class ProbeFold:
    """Rows of one fold: ``fit`` of the TRAIN index, ``scored`` of the evaluation index."""

    value: str
    fit: NDArray[np.int64]
    scored: NDArray[np.int64]


class TaskFolds:
    """The folds of a task's primary protocol, as rows of its indexes, and what heads are fit and scored with.

    Args:
        spec: the task's pinned declaration.
        train: the frozen TRAIN index with labels.
        evaluation: the frozen evaluation index with labels.
        protocol: other folds than those of the primary protocol.
    """

    def __init__(
        self, spec: TaskSpec, train: pa.Table, evaluation: pa.Table, protocol: OODProtocol | None = None
    ) -> None:
        self.spec, self.kind = spec, target_of(spec)
        self.protocol = primary_protocol(spec) if protocol is None else protocol
        # In scene-id order, so that draws and ties are the same whatever wrote the index.
        self.train, self.evaluation = train.sort_by("scene_id"), evaluation.sort_by("scene_id")
        self.targets = tuple(
            self.kind.numbers(self.kind.encode(index[self.kind.column])) for index in (self.train, self.evaluation)
        )
        self.groups = link_groups(self.train)
        units, sessions = (np.asarray(self.evaluation[name].to_pylist()) for name in (self.kind.column, "session"))
        self.turns = session_turns(units, sessions) if self.kind.enrols else None
        self.folds = [self._fold(value) for value in self.protocol.eval_values()]

    def _fold(self, value: str) -> ProbeFold:
        fit = np.flatnonzero(self.protocol.train_mask(self.train, value, split_of(self.evaluation)))
        scored = np.flatnonzero(self.protocol.eval_mask(self.evaluation, value))
        return ProbeFold(value, fit, scored)

    def score(
        self,
        embedded: tuple[NDArray[Any], NDArray[Any]],
        make: Callable[[], Head],
        size: int | None = None,
        seed: int = 0,
        draw: int = 0,
    ) -> Probed:
        """Fit and score a head on every fold.

        Args:
            embedded: embeddings of ``train`` and of ``evaluation``, row by row.
            make: an unfitted head.
            size: fit scenes to draw, alike in every class; None for all.
            seed: of the draw.
            draw: its number.
        """
        values: dict[str, float | None] = {}
        undefined: str | None = None
        for fold in self.folds:
            try:
                fit = fold.fit if size is None else self.drawn(fold, size, seed, draw)
                head = make().fit(embedded[0][fit], self.targets[0][fit], self.groups[fit])
                values[fold.value] = self._scored(fold, head, embedded[1])
            except (InputError, UndefinedMetricError) as error:
                values[fold.value], undefined = None, undefined or f"{fold.value}: {error}"
        known = [score for score in values.values() if score is not None]
        return Probed(
            score=float(np.mean(known)) if len(known) == len(values) else None, values=values, undefined=undefined
        )

    def _scored(self, fold: ProbeFold, head: Head, features: NDArray[Any]) -> float:
        metric, target = metric_of(self.spec, self.spec.metric), self.targets[1]
        if self.turns is None:
            asked = target[fold.scored]
            answers = head.scores(features[fold.scored], self.kind.given(asked))
            preds, truth, _ = self.kind.metric_inputs(metric, answers, asked)
            return float(metric(preds, truth))
        # A unit is queried on other sessions than the one that enrols it.
        head.enrol(features, target, self.turns)
        own, scores = self.turns[fold.scored], []
        for turn, of_turn in enumerate(head.turn_scores(features[fold.scored])):
            queried = own != turn
            preds, truth, _ = self.kind.metric_inputs(metric, of_turn[queried], target[fold.scored][queried])
            scores.append(float(metric(preds, truth)))
        return float(np.mean(scores))

    def drawn(self, fold: ProbeFold, size: int, seed: int, draw: int) -> NDArray[np.int64]:
        """``size`` of a fold's fit scenes, in the share of each class (largest remainders, one at least).

        InputError where the fold has fewer.
        """
        if size > len(fold.fit):
            raise InputError(f"{len(fold.fit)} fit scenes, expected at least {size}")
        rng = stream(seed, "label efficiency", self.protocol.name, fold.value, size, draw)
        order = fold.fit[rng.permutation(len(fold.fit))]
        strata = self.kind.strata(self.targets[0][order])
        if strata is None:
            return np.sort(order[:size])
        names, of_scene = np.unique(strata, return_inverse=True)
        exact = np.bincount(of_scene) * (size / len(order))
        counts = np.maximum(np.floor(exact).astype(np.int64), 1)
        for name in np.argsort(np.floor(exact) - exact, kind="stable")[: max(0, size - int(counts.sum()))]:
            counts[name] += 1
        while counts.sum() > size:
            # Rare classes took more than their share: the most common one gives it.
            counts[counts.argmax()] -= 1
        return np.sort(np.concatenate([order[of_scene == name][: counts[name]] for name in range(len(names))]))

    def readout(self, regularisation: float | None = None) -> Head:
        """The unfitted head that the TaskSpec pins, or the same at one fixed value of its regularisation."""
        pinned = make_readout(self.spec)
        return pinned if regularisation is None else pinned.fixed(regularisation)

    def neighbours(self) -> Head:
        """The unfitted neighbours."""
        return Neighbours(self.kind, balanced=self.spec.readout.class_balanced)


def probe_task(folds: TaskFolds, embedded: tuple[NDArray[Any], NDArray[Any]], seed: int) -> TaskProbes:
    """Every probe of one task.

    Args:
        folds: the task's folds.
        embedded: embeddings of its TRAIN and evaluation scenes, in the order of ``folds``.
        seed: the run's seed, which draws the scenes of the label efficiency.
    """
    pinned = folds.score(embedded, folds.readout)
    strengths = tuple(
        Strength(regularisation=value, probed=folds.score(embedded, partial(folds.readout, value)))
        for value in folds.spec.readout.regularisation
    )
    drawn = [
        (size, [folds.score(embedded, folds.readout, size, seed, draw) for draw in range(DRAWS)]) for size in SIZES
    ]
    return TaskProbes(
        metric=folds.spec.metric,
        protocol=folds.protocol.name,
        embedding_dim=embedded[0].shape[1],
        pinned=pinned,
        neighbours=folds.score(embedded, folds.neighbours) if folds.kind.neighbours else _none(folds),
        strengths=strengths,
        label_efficiency=tuple(_draws(size, probed) for size, probed in [*drawn, (None, [pinned])]),
    )


def _none(folds: TaskFolds) -> Probed:
    reason = f"target {folds.spec.target} has no answer of neighbours"
    return Probed(score=None, values=dict.fromkeys(folds.protocol.eval_values()), undefined=reason)


def _draws(size: int | None, probed: list[Probed]) -> Draws:
    scores = tuple(each.score for each in probed)
    known = [score for score in scores if score is not None]
    whole = len(known) == len(scores)
    return Draws(
        scenes=size,
        scores=scores,
        mean=float(np.mean(known)) if whole else None,
        deviation=float(np.std(known, ddof=1)) if whole and len(known) > 1 else None,
        undefined=next((each.undefined for each in probed if each.undefined), None),
    )
