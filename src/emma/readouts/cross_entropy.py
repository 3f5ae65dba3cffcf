"""The logistic fit: a weighted cross-entropy with an L2 penalty, minimised by scipy in preconditioned coordinates.

Preconditioning by an inverse Cholesky factor of the curvature brings it near one in every direction, however collinear
the features are (Nocedal and Wright, "Numerical Optimization", 2nd edition, section 5.1).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from common.rows import Rows, blocks

Floats = NDArray[np.float64]

#: A fit has converged where the gradient, in preconditioned coordinates, has at most this length.
GRADIENT_TOLERANCE = 1e-6

#: Corrections that L-BFGS keeps, iterations of a round, and rounds of Newton's steps after the first.
_MEMORY, _ITERATIONS, _NEWTON_ROUNDS = 20, 300, 3
_ROWS = 2048


class CrossEntropy:
    """Weighted cross-entropy with an L2 penalty, as a function of coefficients ``[D + 1, K]``, the intercept last.

    Args:
        inputs: float64 ``[N, D]``, or Rows whose blocks are.
        classes: class indices ``[N]``.
        weights: weight of each sample ``[N]``; they sum to 1.
        penalty: L2 weight of all coefficients but the intercepts.
        outputs: K scores per sample; one stands for two classes, the first of which scores 0.
    """

    def __init__(
        self, inputs: Floats | Rows, classes: NDArray[np.int64], weights: Floats, penalty: float, outputs: int
    ) -> None:
        self.inputs, self.weights, self.outputs = inputs, weights, outputs
        self.penalise(penalty)
        self._chosen = np.where(classes == 1, 1.0, -1.0) if outputs == 1 else classes

    def penalise(self, penalty: float) -> None:
        """Set the L2 weight."""
        self.penalty = np.append(np.full(self.inputs.shape[1], penalty), 0.0)[:, None]

    def value(self, coefficients: Floats) -> float:
        """The weighted cross-entropy alone, without the penalty."""
        one = self._one_output if self.outputs == 1 else self._many_outputs
        total = 0.0
        for start in range(0, len(self.inputs), _ROWS):
            rows = slice(start, start + _ROWS)
            losses, _ = one(self.inputs[rows] @ coefficients[:-1] + coefficients[-1], rows)
            total += float(self.weights[rows] @ losses)
        return total

    def value_and_gradient(self, coefficients: Floats) -> tuple[float, Floats]:
        """The objective and its gradient ``[D + 1, K]``, in one pass over the inputs."""
        one = self._one_output if self.outputs == 1 else self._many_outputs
        value = 0.5 * float((self.penalty * coefficients**2).sum())
        gradient = self.penalty * coefficients
        for start in range(0, len(self.inputs), _ROWS):
            rows = slice(start, start + _ROWS)
            block = self.inputs[rows]
            logits = block @ coefficients[:-1]
            logits += coefficients[-1]
            losses, residual = one(logits, rows)
            value += float(self.weights[rows] @ losses)
            gradient[:-1] += block.T @ residual
            gradient[-1] += residual.sum(axis=0)
        return value, gradient

    def _one_output(self, logits: Floats, rows: slice) -> tuple[Floats, Floats]:
        """Losses ``[n]`` and the weighted gradient in the logits ``[n, 1]``."""
        margin = logits[:, 0] * self._chosen[rows]
        small = np.exp(-np.abs(margin))
        losses = np.log1p(small) - np.minimum(margin, 0.0)
        wrong = np.where(margin > 0, small, 1.0) / (1.0 + small)
        return losses, (-self.weights[rows] * self._chosen[rows] * wrong)[:, None]

    def _many_outputs(self, logits: Floats, rows: slice) -> tuple[Floats, Floats]:
        """Losses ``[n]`` and the weighted gradient in the logits ``[n, K]``."""
        place = np.arange(len(logits)), self._chosen[rows]
        logits -= logits[place][:, None]
        top = logits.max(axis=1, keepdims=True)
        logits -= top
        np.exp(logits, out=logits)
        totals = logits.sum(axis=1, keepdims=True)
        losses = np.log(totals[:, 0]) + top[:, 0]
        weights = self.weights[rows, None]
        logits *= weights / totals
        logits[place] -= weights[:, 0]
        return losses, logits

    def _chances(self, coefficients: Floats) -> Floats:
        """Probabilities ``[N, K]`` of the classes that have a score of their own."""
        made = np.empty((len(self.inputs), self.outputs))
        for rows, block in blocks(self.inputs):
            logits = block @ coefficients[:-1] + coefficients[-1]
            if self.outputs == 1:
                logits = np.hstack([np.zeros_like(logits), logits])
            chances = np.exp(logits - logits.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            made[rows] = chances[:, -self.outputs :]
        return made

    def curvature(self, coefficients: Floats) -> Callable[[Floats], Floats]:
        """The Hessian there, as a map of directions ``[D + 1, K]``."""
        chances = self._chances(coefficients)

        def product(direction: Floats) -> Floats:
            bent = self.penalty * direction
            for rows, block in blocks(self.inputs):
                change = block @ direction[:-1] + direction[-1]
                change -= (chances[rows] * change).sum(axis=1, keepdims=True)
                change *= chances[rows] * self.weights[rows, None]
                bent[:-1] += block.T @ change
                bent[-1] += change.sum(axis=0)
            return bent

        return product

    def whitening(self, coefficients: Floats | None = None) -> Floats:
        """Factors ``[K or 1, D + 1, D + 1]``: the inverse Cholesky factor of the curvature in an output's coefficients.

        Args:
            coefficients: where the curvature is wanted; None for that at zero, the same for every output, from as many
                evenly spaced rows as estimate it.
        """
        if coefficients is None:
            step = max(1, len(self.inputs) // (8 * self.inputs.shape[1] + 512))
            whole = slice(None, None, step)
            chosen = np.arange(len(self.inputs))[whole] if isinstance(self.inputs, Rows) else whole
            rows, weights = self.inputs[chosen], self.weights[whole]
            classes = max(2, self.outputs)
            curvatures = [weights * (classes - 1) / classes**2 / max(weights.sum(), 1e-300)]
        else:
            rows, chances = self.inputs, self._chances(coefficients)
            curvatures = list((self.weights[:, None] * chances * (1.0 - chances)).T)
        return np.stack([self._factor(rows, curvature) for curvature in curvatures])

    def _factor(self, rows: Floats | Rows, curvature: Floats) -> Floats:
        width = rows.shape[1]
        matrix = np.zeros((width + 1, width + 1))
        for place, block in blocks(rows):
            weights = curvature[place]
            matrix[:width, :width] += block.T @ (block * weights[:, None])
            matrix[width, :width] += weights @ block
        matrix[:width, width] = matrix[width, :width]
        matrix[width, width] = curvature.sum()
        matrix[np.diag_indices_from(matrix)] += self.penalty[:, 0] + 1e-13 * np.trace(matrix) + 1e-13
        return np.asarray(np.linalg.inv(np.linalg.cholesky(matrix)), np.float64)


def minimise(
    loss: CrossEntropy,
    start: Floats | None = None,
    factors: Floats | None = None,
    tolerance: float = GRADIENT_TOLERANCE,
) -> tuple[Floats, float]:
    """Minimise by scipy, in preconditioned coordinates.

    L-BFGS-B, preconditioned by the curvature at zero, is enough for nearly every fit. Where it is not (separable
    classes, weak regularisation), Newton's steps within a trust region go on from there, preconditioned anew.

    Args:
        loss: what is minimised.
        start: coefficients ``[D + 1, K]`` to start from; zero by default.
        factors: the preconditioner, as ``loss.whitening`` gives it; by default that at zero.
        tolerance: length of the gradient, in preconditioned coordinates, at which a fit ends.

    Returns:
        the coefficients ``[D + 1, K]``, and the length of the gradient there in preconditioned coordinates.

    Reference: Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithms 7.5 and 7.2.
    """
    if start is None:
        start = np.zeros((loss.inputs.shape[1] + 1, loss.outputs))
    at, length = _Round(loss, start, loss.whitening() if factors is None else factors, tolerance).quasi_newton()
    for _ in range(_NEWTON_ROUNDS):
        if length <= tolerance:
            break
        at, length = _Round(loss, at, loss.whitening(at), tolerance).newton()
    return at, length


class _Round:
    """Minimisation from one point in coordinates that one preconditioner gives: ``start + factors' moved``."""

    def __init__(self, loss: CrossEntropy, start: Floats, factors: Floats, tolerance: float) -> None:
        self.loss, self.start, self.factors, self.tolerance = loss, start, factors, tolerance
        self.lengths: dict[bytes, float] = {}

    def quasi_newton(self) -> tuple[Floats, float]:
        """The point that L-BFGS-B finds, and the length of its gradient."""
        from scipy.optimize import minimize

        limits = {"maxcor": _MEMORY, "maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS + 1, "ftol": 0.0, "gtol": 0.0}
        zero = np.zeros(self.start.size)
        found = minimize(
            self._objective, zero, jac=True, method="L-BFGS-B", callback=self._stop_when_flat, options=limits
        )
        return self._coefficients(found.x), self.lengths[found.x.tobytes()]

    def newton(self) -> tuple[Floats, float]:
        """The point that conjugate gradients within a trust region find, and the length of its gradient."""
        from scipy.optimize import minimize

        @lru_cache(maxsize=1)  # many products are asked for at one point
        def hessian(moved: bytes) -> Callable[[Floats], Floats]:
            return self.loss.curvature(self._coefficients(np.frombuffer(moved)))

        def curvature(moved: Floats, direction: Floats) -> Floats:
            return self._folded(hessian(moved.tobytes())(self._unfolded(direction)))

        limits = {"maxiter": _ITERATIONS, "gtol": self.tolerance}
        zero = np.zeros(self.start.size)
        found = minimize(self._objective, zero, jac=True, hessp=curvature, method="trust-ncg", options=limits)
        return self._coefficients(found.x), float(np.linalg.norm(found.jac))

    def _objective(self, moved: Floats) -> tuple[float, Floats]:
        value, gradient = self.loss.value_and_gradient(self._coefficients(moved))
        slope = self._folded(gradient)
        self.lengths[moved.tobytes()] = float(np.linalg.norm(slope))
        return value, slope

    def _stop_when_flat(self, moved: Floats) -> None:
        if self.lengths[moved.tobytes()] <= self.tolerance:
            raise StopIteration

    def _coefficients(self, moved: Floats) -> Floats:
        return self.start + self._unfolded(moved)

    def _unfolded(self, moved: Floats) -> Floats:
        """A direction ``[D + 1, K]`` of coefficients from preconditioned coordinates."""
        return (self.factors.transpose(0, 2, 1) @ moved.reshape(self.loss.outputs, -1, 1))[:, :, 0].T

    def _folded(self, gradient: Floats) -> Floats:
        """A gradient in preconditioned coordinates from one ``[D + 1, K]`` in coefficients."""
        return (self.factors @ gradient.T[:, :, None]).ravel()
