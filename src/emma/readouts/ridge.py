"""Ridge regression of whatever numbers a target is regressed on."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from emma.readouts.base import Floats, Readout


class Ridge(Readout):
    """Ridge regression on a target's regressand (for an angle its cosine and sine), read back as scores.

    Minimises ``mean |y - xW - b|^2 + regularisation |W|^2`` in closed form.
    """

    kind: ClassVar[str] = "ridge"

    def parameters(self, width: int) -> int:
        """One regression with intercept per number regressed."""
        return int(self.target.regressand(np.zeros(0)).shape[1]) * (width + 1)

    def _fit(self, features: Floats, target: Floats) -> None:
        wanted = self.target.regressand(target)
        # Standardised features have mean zero, so that the intercept is the mean of the regressand.
        gram = features.T @ features / len(features)
        gram[np.diag_indices_from(gram)] += self.spec.regularisation
        self.tensors["weights"] = np.asarray(np.linalg.solve(gram, features.T @ wanted / len(features)), np.float64)
        self.tensors["intercept"] = wanted.mean(axis=0)

    def scores(self, features: NDArray[Any]) -> Floats:
        """Scores ``[N, K]``, for an angle degrees ``[N, 1]``."""
        values = self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
        return self.target.from_regression(values)
