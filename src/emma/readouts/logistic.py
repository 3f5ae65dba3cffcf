"""L2-regularised logistic regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.readouts.base import Floats, Readout
from emma.readouts.cross_entropy import GRADIENT_TOLERANCE, CrossEntropy, minimise


class Logistic(Readout):
    """L2-regularised logistic regression, binary or multinomial, fit from zero by ``emma.readouts.cross_entropy``.

    Minimises ``mean_w loss + regularisation / 2 |W|^2``; the intercept is not penalised, and with
    ``class_balanced`` the weights of the mean make every class count the same. InputError where the pinned
    regularisation is too weak for the fit to converge.
    """

    kind: ClassVar[str] = "logistic"

    def parameters(self, width: int) -> int:
        """One linear score per score of the target (one for two classes), with intercepts."""
        return (width + 1) * self.target.width

    def _fit(self, features: Floats, target: Floats) -> None:
        classes = target.astype(np.int64)
        weights = np.ones(len(classes))
        if self.spec.class_balanced:
            count = np.bincount(classes, minlength=len(self.target.classes))
            weights = (1.0 / np.maximum(count, 1))[classes]
        weights /= weights.sum()
        loss = CrossEntropy(features, classes, weights, self.spec.regularisation, self.target.width)
        solution, gradient = minimise(loss)
        if not gradient <= 100 * GRADIENT_TOLERANCE:
            raise InputError(
                f"readout: regularisation: {self.spec.regularisation} is too weak for a logistic fit of these features "
                f"to converge (gradient {gradient:.1e})"
            )
        self.tensors |= {"weights": solution[:-1].copy(), "intercept": solution[-1].copy()}

    def scores(self, features: NDArray[Any]) -> Floats:
        """Logits ``[N, 1]`` of the positive class, or ``[N, C]``."""
        return self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
