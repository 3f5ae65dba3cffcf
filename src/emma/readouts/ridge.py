"""Ridge regression of whatever numbers a target is regressed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from emma.readouts.base import Floats, Readout
from emma.readouts.selection import INNER_FOLDS, Numbers, solve_positive


class Ridge(Readout):
    """Ridge regression on a target's regressand (for an angle its cosine and sine), read back as scores.

    Minimises ``mean |y - xW - b|^2 + regularisation |W|^2`` in closed form.
    """

    kind: ClassVar[str] = "ridge"

    def parameters(self, width: int) -> int:
        """One regression with intercept per number regressed."""
        return int(self.target.regressand(np.zeros(0)).shape[1]) * (width + 1)

    def _validation_losses(self, features: Floats, target: Floats, parts: Numbers) -> Floats:
        """Mean squared error of the regressand."""
        wanted = self.target.regressand(target)
        moments = [_Moments.of(features[parts == part], wanted[parts == part]) for part in range(INNER_FOLDS)]
        whole = sum(moments[1:], moments[0])
        losses = np.zeros(len(self.spec.regularisation))
        for part, own in enumerate(moments):
            rest, scored = whole - own, parts == part
            for place, value in enumerate(self.spec.regularisation):
                weights, intercept = rest.solve(value)
                losses[place] += ((features[scored] @ weights + intercept - wanted[scored]) ** 2).sum()
        return losses / len(features)

    def _fit(self, features: Floats, target: Floats, regularisation: float) -> dict[str, Floats]:
        weights, intercept = _Moments.of(features, self.target.regressand(target)).solve(regularisation)
        return {"weights": weights, "intercept": intercept}

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Scores ``[N, K]``, for an angle degrees ``[N, 1]``."""
        del given
        values = self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
        return self.target.from_regression(values)


@dataclass(frozen=True)
class _Moments:
    """Sums over samples, which decide a ridge fit: count, features, regressand, and their products."""

    count: int
    features: Floats
    wanted: Floats
    squares: Floats
    products: Floats

    @classmethod
    def of(cls, features: Floats, wanted: Floats) -> _Moments:
        """Moments of ``[N, D]`` and ``[N, K]``."""
        sums = features.sum(axis=0), wanted.sum(axis=0)
        return cls(len(features), *sums, features.T @ features, features.T @ wanted)

    def __add__(self, other: _Moments) -> _Moments:
        return self._with(other, 1)

    def __sub__(self, other: _Moments) -> _Moments:
        return self._with(other, -1)

    def _with(self, other: _Moments, sign: int) -> _Moments:
        return _Moments(
            self.count + sign * other.count,
            self.features + sign * other.features,
            self.wanted + sign * other.wanted,
            self.squares + sign * other.squares,
            self.products + sign * other.products,
        )

    def solve(self, regularisation: float) -> tuple[Floats, Floats]:
        """Weights ``[D, K]`` and intercept ``[K]``."""
        centre, level = self.features / self.count, self.wanted / self.count
        gram = self.squares / self.count - np.outer(centre, centre)
        gram[np.diag_indices_from(gram)] += regularisation
        weights: Floats = solve_positive(gram, self.products / self.count - np.outer(centre, level))
        return weights, level - centre @ weights
