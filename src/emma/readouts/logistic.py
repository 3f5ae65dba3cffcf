"""L2-regularised logistic regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.readouts.base import Features, Floats, Readout
from emma.readouts.cross_entropy import GRADIENT_TOLERANCE, CrossEntropy, minimise
from emma.readouts.selection import Numbers
from emma.tasks import ReadoutSpec, Target

#: Where an inner fit ends: its loss is then right to about half the square of this.
INNER_TOLERANCE = 1e-2

#: Weaker values are not tried once a value loses by this factor against a stronger one.
_WORSE = 1.05


class Logistic(Readout):
    """L2-regularised logistic regression, binary or multinomial, fit from zero by ``emma.readouts.cross_entropy``.

    Minimises ``mean_w loss + regularisation / 2 |W|^2``; the intercept is not penalised, and with
    ``class_balanced`` the weights of the mean make every class count the same. InputError where the pinned
    regularisation is too weak for the fit to converge.
    """

    kind: ClassVar[str] = "logistic"

    def __init__(self, spec: ReadoutSpec, target: Target) -> None:
        super().__init__(spec, target)
        self._ends: dict[float, Floats] = {}

    def parameters(self, width: int) -> int:
        """One linear score per score of the target (one for two classes), with intercepts."""
        return (width + 1) * self.target.width

    def _validation_losses(self, features: Features, target: Floats, parts: Numbers) -> Floats:
        """Weighted cross-entropy, the weights being those of the whole fit; inner fits stop early."""
        self._ends.clear()
        grid, classes, weights = self.spec.regularisation, *self._classes_and_weights(target)
        losses = np.zeros(len(grid))
        inner = []
        for part in range(parts.max() + 1):
            rest, scored = parts != part, parts == part
            fit = CrossEntropy(
                features[rest], classes[rest], weights[rest] / weights[rest].sum(), grid[-1], self.target.width
            )
            inner.append((fit, CrossEntropy(features[scored], classes[scored], weights[scored], 0.0, fit.outputs)))
        starts: list[Floats] = [np.zeros((features.shape[1] + 1, self.target.width))] * len(inner)
        # From the strongest value on, each fit starts where the one before ended; one preconditioner serves all parts.
        for place in reversed(range(len(grid))):
            if len(grid) - place > 2 and losses[place + 1] > _WORSE * losses[place + 2 :].min():
                losses[: place + 1] = np.inf
                break
            factors = None
            for part, (fit, scored) in enumerate(inner):
                fit.penalise(grid[place])
                factors = fit.whitening() if factors is None else factors
                found, _ = minimise(fit, starts[part], factors, INNER_TOLERANCE)
                losses[place] += scored.value(found)
                starts[part] = found
            self._ends[grid[place]] = np.mean(np.stack(starts), axis=0)
        return losses

    def _classes_and_weights(self, target: Floats) -> tuple[NDArray[np.int64], Floats]:
        classes = target.astype(np.int64)
        weights = np.ones(len(classes))
        if self.spec.class_balanced:
            count = np.bincount(classes, minlength=len(self.target.classes))
            weights = (1.0 / np.maximum(count, 1))[classes]
        return classes, weights / weights.sum()

    def _fit(self, features: Features, target: Floats, regularisation: float) -> dict[str, Floats]:
        loss = CrossEntropy(features, *self._classes_and_weights(target), regularisation, self.target.width)
        # Where the inner fits at the chosen value ended is near the end of the whole one.
        solution, gradient = minimise(loss, self._ends.get(regularisation))
        if not gradient <= 100 * GRADIENT_TOLERANCE:
            raise InputError(
                f"readout: regularisation: {regularisation} is too weak for a logistic fit of these features "
                f"to converge (gradient {gradient:.1e})"
            )
        return {"weights": solution[:-1].copy(), "intercept": solution[-1].copy()}

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Logits ``[N, 1]`` of the positive class, or ``[N, C]``."""
        del given
        logits: Floats = self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
        return logits
