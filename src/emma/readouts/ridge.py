"""Ridge regression of whatever numbers a target is regressed on."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.rows import blocks
from emma.readouts.base import Features, Floats, Readout
from emma.readouts.moments import Moments
from emma.readouts.selection import Numbers


class Ridge(Readout):
    """Ridge regression on a target's regressand (for an angle its cosine and sine), read back as scores.

    Minimises ``mean |y - xW - b|^2 + regularisation |W|^2`` in closed form.
    """

    kind: ClassVar[str] = "ridge"

    def parameters(self, width: int) -> int:
        """One regression with intercept per number regressed."""
        return int(self.target.regressand(np.zeros(0)).shape[1]) * (width + 1)

    def _validation_losses(self, features: Features, target: Floats, parts: Numbers) -> Floats:
        """Mean squared error of what is regressed."""
        wanted = self.wanted(target)
        kept = [parts == part for part in range(parts.max() + 1)]
        moments = [Moments.over(features[own], wanted[own]) for own in kept]
        whole = sum(moments[1:], moments[0])
        losses = np.zeros(len(self.spec.regularisation))
        for own, scored in zip(moments, kept, strict=True):
            rest, asked = whole - own, wanted[scored]
            solved = list(rest.solutions(self.spec.regularisation))
            for rows, block in blocks(features[scored]):
                for place, (weights, intercept) in enumerate(solved):
                    losses[place] += ((block @ weights + intercept - asked[rows]) ** 2).sum()
        return losses / len(features)

    def _fit(self, features: Features, target: Floats, regularisation: float) -> dict[str, Floats]:
        weights, intercept = Moments.over(features, self.wanted(target)).solve(regularisation)
        return {"weights": weights, "intercept": intercept}

    def wanted(self, target: Floats) -> Floats:
        """What is regressed ``[N, K]``, of encoded labels."""
        return self.target.regressand(target)

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Scores ``[N, K]``, for an angle degrees ``[N, 1]``."""
        del given
        values = self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
        return self.target.from_regression(values)
