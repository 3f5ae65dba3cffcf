"""Moments of features and what is regressed on them: sums over samples, which decide a ridge fit and its error."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np
from numpy.typing import NDArray

from common.rows import Rows, blocks
from emma.readouts.selection import solve_positive

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Moments:
    """Sums over samples: count, features ``[D]``, regressand ``[K]``, their products and the regressand's squares.

    Parts of the samples add up, and what a part held can be taken away.
    """

    count: int
    features: Floats
    wanted: Floats
    squares: Floats
    products: Floats
    energy: float

    @classmethod
    def of(cls, features: Floats, wanted: Floats) -> Self:
        """Moments of ``[N, D]`` and ``[N, K]``."""
        sums = features.sum(axis=0), wanted.sum(axis=0)
        energy = float(np.einsum("nk,nk->", wanted, wanted))
        return cls(len(features), *sums, features.T @ features, features.T @ wanted, energy)

    @classmethod
    def over(cls, features: Floats | Rows, wanted: Floats) -> Moments:
        """The same, a block at a time where features are many."""
        return reduce(operator.add, (cls.of(block, wanted[place]) for place, block in blocks(features)))

    def __add__(self, other: Moments) -> Moments:
        return self._with(other, 1)

    def __sub__(self, other: Moments) -> Moments:
        return self._with(other, -1)

    def _with(self, other: Moments, sign: int) -> Moments:
        return Moments(
            self.count + sign * other.count,
            self.features + sign * other.features,
            self.wanted + sign * other.wanted,
            self.squares + sign * other.squares,
            self.products + sign * other.products,
            self.energy + sign * other.energy,
        )

    def solve(self, regularisation: float) -> tuple[Floats, Floats]:
        """Weights ``[D, K]`` and intercept ``[K]``."""
        return next(self.solutions([regularisation]))

    def solutions(self, grid: Iterable[float]) -> Iterator[tuple[Floats, Floats]]:
        """The same for each value of a grid."""
        centre, level = self.features / self.count, self.wanted / self.count
        gram = self.squares / self.count - np.outer(centre, centre)
        right, diagonal = self.products / self.count - np.outer(centre, level), gram.diagonal().copy()
        for regularisation in grid:
            np.fill_diagonal(gram, diagonal + regularisation)
            weights: Floats = solve_positive(gram, right)
            yield weights, level - centre @ weights

    def error(self, weights: Floats, intercept: Floats) -> float:
        """The sum of squared errors that weights ``[D, K]`` and an intercept ``[K]`` make of these samples."""
        fitted = self.squares @ weights + 2 * (np.outer(self.features, intercept) - self.products)
        shift = self.count * intercept - 2 * self.wanted
        return float(self.energy + np.einsum("dk,dk->", weights, fitted) + intercept @ shift)
