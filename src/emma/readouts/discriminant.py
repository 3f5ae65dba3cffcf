"""Linear discriminant projection with cosine to enrolled centroids."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.rows import blocks
from emma.readouts.base import Features, Floats, Readout
from emma.readouts.selection import Numbers, solve_positive

#: Least within-class variance, in units of the total one, so that classes without any can be told apart.
_LEAST = 1e-9


class Discriminant(Readout):
    """Linear discriminant projection, then cosine to enrolled centroids.

    The projection maximises between-class over within-class scatter (Fisher), with a share ``regularisation`` of the
    within-class scatter replaced by its mean variance times the identity. Directions are at most classes - 1.
    """

    kind: ClassVar[str] = "discriminant"
    linear: ClassVar[str] = "projection"

    @property
    def _varying(self) -> int:
        """Number of features that are not constant."""
        return max(1, int(np.count_nonzero(self.tensors["scale"])))

    def parameters(self, width: int) -> int:
        """The projection's weights."""
        return width * max(0, min(len(self.target.classes) - 1, width))

    def _validation_losses(self, features: Features, target: Floats, parts: Numbers) -> Floats:
        """Share of captures whose cosine to the centroid of another class of the inner fit is higher."""
        classes = np.unique(target)
        kept = [parts == part for part in range(parts.max() + 1)]
        moments = [_Scatter.over(features[own], target[own], classes) for own in kept]
        whole = sum(moments[1:], moments[0])
        losses = np.zeros(len(self.spec.regularisation))
        for own, scored in zip(moments, kept, strict=True):
            rest = whole - own
            known = rest.counts > 0
            centroids = (rest.sums / np.maximum(rest.counts, 1)[:, None])[known] - rest.mean
            made = list(rest.projections(self.spec.regularisation, self._varying))
            asked = target[scored]
            for rows, block in blocks(features[scored]):
                for place, projection in enumerate(made):
                    cosines = _unit((block - rest.mean) @ projection) @ _unit(centroids @ projection).T
                    losses[place] += (classes[known][cosines.argmax(axis=1)] != asked[rows]).sum()
        return losses / len(features)

    def _fit(self, features: Features, target: Floats, regularisation: float) -> dict[str, Floats]:
        scatter = _Scatter.over(features, target, np.unique(target))
        return {"projection": scatter.projection(regularisation, self._varying)}

    def enrol(self, features: Features, target: Floats, turns: NDArray[np.integer[Any]]) -> None:
        """Set the centroids ``[T, C, P]`` of every turn and class.

        Args:
            features: captures ``[N, D]``, of every class in every turn.
            target: class indices ``[N]``.
            turns: the turn ``[N]`` that each capture enrols its class in, from 0 on.
        """
        parts = [self._standardised(block) @ self.tensors["projection"] for _, block in blocks(features)]
        projected = np.concatenate(parts)
        classes, number = len(self.target.classes), int(turns.max()) + 1
        place = turns.astype(np.int64) * classes + target.astype(np.int64)
        order = np.argsort(place, kind="stable")
        counts = np.bincount(place, minlength=number * classes)
        sums = np.add.reduceat(projected[order], np.cumsum(counts) - counts, axis=0)
        self.tensors["centroids"] = (sums / counts[:, None]).reshape(number, classes, projected.shape[1])

    def turn_scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Cosines ``[T, N, C]`` to the centroids of every turn; zero where a vector has no length."""
        del given
        projected = self._standardised(features) @ self.tensors["projection"]
        number, classes, directions = self.tensors["centroids"].shape
        cosines = _unit(projected) @ _unit(self.tensors["centroids"].reshape(number * classes, directions)).T
        return cosines.reshape(len(features), number, classes).transpose(1, 0, 2)

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Cosines ``[N, C]`` to the centroids of the first turn."""
        del given
        first: Floats = self.turn_scores(features)[0]
        return first


@dataclass(frozen=True)
class _Scatter:
    """Sums over captures, which decide a projection: counts ``[C]``, sums ``[C, D]`` by class, squares ``[D, D]``."""

    counts: Floats
    sums: Floats
    squares: Floats

    @classmethod
    def of(cls, features: Floats, target: Floats, classes: Floats) -> _Scatter:
        """Sums of captures ``[N, D]`` of the classes named."""
        member = (np.asarray(target)[:, None] == classes).astype(np.float64)
        return cls(member.sum(axis=0), member.T @ features, features.T @ features)

    @classmethod
    def over(cls, features: Features, target: Floats, classes: Floats) -> _Scatter:
        """The same, a block at a time where features are many."""
        return reduce(operator.add, (cls.of(block, target[place], classes) for place, block in blocks(features)))

    def __add__(self, other: _Scatter) -> _Scatter:
        return _Scatter(self.counts + other.counts, self.sums + other.sums, self.squares + other.squares)

    def __sub__(self, other: _Scatter) -> _Scatter:
        return _Scatter(self.counts - other.counts, self.sums - other.sums, self.squares - other.squares)

    @property
    def mean(self) -> Floats:
        """Mean capture ``[D]``."""
        mean: Floats = self.sums.sum(axis=0) / self.counts.sum()
        return mean

    def projection(self, share: float, dimensions: int) -> Floats:
        """Directions ``[D, K]`` of the highest between-class over within-class scatter, at most classes - 1.

        A share of the within-class scatter is replaced by its mean variance over ``dimensions`` times the identity.
        """
        return next(self.projections([share], dimensions))

    def projections(self, shares: Iterable[float], dimensions: int) -> Iterator[Floats]:
        """The same for each of several shares."""
        there, width = self.counts > 0, self.sums.shape[1]
        counts, total = self.counts[there], self.counts.sum()
        directions = min(len(counts) - 1, width)
        if directions <= 0:
            yield from (np.zeros((width, 0)) for _ in shares)
            return
        means = self.sums[there] / counts[:, None]
        within = (self.squares - (means * counts[:, None]).T @ means) / total
        offsets, level = (means - self.mean) * np.sqrt(counts / total)[:, None], max(np.trace(within), _LEAST)
        for share in shares:
            shrunk = (1.0 - share) * within
            shrunk[np.diag_indices(width)] += share * level / dimensions
            # Sw^-1 Sb has rank classes - 1: solve in the small space spanned by the class means.
            spanned = solve_positive(shrunk, offsets.T)
            small = offsets @ spanned
            values, vectors = np.linalg.eigh((small + small.T) / 2.0)
            order = np.argsort(values)[::-1][:directions]
            projection = spanned @ vectors[:, order] / np.sqrt(np.maximum(values[order], 1e-12))
            signs = np.sign(projection[np.abs(projection).argmax(axis=0), np.arange(directions)])
            yield projection * np.where(signs == 0, 1.0, signs)


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return unit
