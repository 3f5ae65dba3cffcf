"""The logistic fit: a weighted cross-entropy with an L2 penalty, and a minimiser that suits it, in numpy alone.

L-BFGS (Nocedal and Wright, "Numerical Optimization", 2nd edition, algorithms 7.4 and 7.5) in coordinates in which the
curvature is near one in every direction, however collinear the features are; where that is not enough, Newton's steps
by conjugate gradients (algorithm 7.1) in the same coordinates. scipy's minimisers take half a second to
import, more than most of the fits themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

#: A fit has converged where the gradient, in the coordinates of even curvature, has at most this length.
GRADIENT_TOLERANCE = 1e-6

_MEMORY, _ITERATIONS, _PATIENCE = 20, 1_000, 300
_ROWS = 2048


class CrossEntropy:
    """Weighted cross-entropy with an L2 penalty, as a function of coefficients ``[D + 1, K]``, the intercept last.

    Args:
        inputs: float64 ``[N, D]``.
        classes: class indices ``[N]``.
        weights: weight of each sample ``[N]``; they sum to 1.
        penalty: L2 weight of all coefficients but the intercepts.
        outputs: K scores a sample; one stands for two classes, the first of which scores 0.
    """

    def __init__(
        self, inputs: np.ndarray, classes: np.ndarray, weights: np.ndarray, penalty: float, outputs: int
    ) -> None:
        self.inputs, self.weights, self.outputs = inputs, weights, outputs
        self.penalty = np.append(np.full(inputs.shape[1], penalty), 0.0)[:, None]
        self._chosen = np.where(classes == 1, 1.0, -1.0) if outputs == 1 else classes

    def value_and_gradient(self, coefficients: np.ndarray) -> tuple[float, np.ndarray]:
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

    def _one_output(self, logits: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """Losses ``[n]`` and the weighted gradient in the logits ``[n, 1]``."""
        margin = logits[:, 0] * self._chosen[rows]
        small = np.exp(-np.abs(margin))
        losses = np.log1p(small) - np.minimum(margin, 0.0)
        wrong = np.where(margin > 0, small, 1.0) / (1.0 + small)
        return losses, (-self.weights[rows] * self._chosen[rows] * wrong)[:, None]

    def _many_outputs(self, logits: np.ndarray, rows: slice) -> tuple[np.ndarray, np.ndarray]:
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

    def _chances(self, coefficients: np.ndarray) -> np.ndarray:
        """Probabilities ``[N, K]`` of the classes that have a score of their own."""
        logits = self.inputs @ coefficients[:-1] + coefficients[-1]
        if self.outputs == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        return chances[:, -self.outputs :]

    def curvature(self, coefficients: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """The Hessian there, as a map of directions ``[D + 1, K]``."""
        chances = self._chances(coefficients)

        def product(direction: np.ndarray) -> np.ndarray:
            change = self.inputs @ direction[:-1] + direction[-1]
            change -= (chances * change).sum(axis=1, keepdims=True)
            change *= chances * self.weights[:, None]
            bent = self.penalty * direction
            bent[:-1] += self.inputs.T @ change
            bent[-1] += change.sum(axis=0)
            return bent

        return product

    def whitening(self, coefficients: np.ndarray | None = None) -> np.ndarray:
        """Factors ``[K or 1, D + 1, D + 1]``: the inverse Cholesky factor of the curvature in an output's coefficients.

        Args:
            coefficients: where the curvature is wanted; None for that at zero, the same for every output, from as many
                evenly spaced rows as estimate it.
        """
        if coefficients is None:
            step = max(1, len(self.inputs) // (8 * self.inputs.shape[1] + 512))
            rows, weights = self.inputs[::step], self.weights[::step]
            classes = max(2, self.outputs)
            curvatures = [weights * (classes - 1) / classes**2 / max(weights.sum(), 1e-300)]
        else:
            rows, chances = self.inputs, self._chances(coefficients)
            curvatures = list((self.weights[:, None] * chances * (1.0 - chances)).T)
        return np.stack([self._factor(rows, curvature) for curvature in curvatures])

    def _factor(self, rows: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        width = rows.shape[1]
        matrix = np.empty((width + 1, width + 1))
        matrix[:width, :width] = rows.T @ (rows * curvature[:, None])
        matrix[width, :width] = matrix[:width, width] = curvature @ rows
        matrix[width, width] = curvature.sum()
        matrix[np.diag_indices_from(matrix)] += self.penalty[:, 0] + 1e-13 * np.trace(matrix) + 1e-13
        return np.linalg.inv(np.linalg.cholesky(matrix))


def minimise(loss: CrossEntropy) -> tuple[np.ndarray, float]:
    """Minimise from zero.

    Returns:
        the coefficients ``[D + 1, K]``, and the length of the gradient there in the coordinates of even curvature.
    """
    at = np.zeros((loss.inputs.shape[1] + 1, loss.outputs))
    value, gradient = loss.value_and_gradient(at)
    factors = loss.whitening()
    length = _length(factors, gradient)
    steps: list[tuple[np.ndarray, np.ndarray, float]] = []
    newton = False
    for number in range(_ITERATIONS):
        if length <= GRADIENT_TOLERANCE:
            break
        if number % _PATIENCE == _PATIENCE - 1:
            # Where the classes part, the curvature at zero says little of that here.
            factors, newton = loss.whitening(at), True
        direction = _newton(loss, at, factors, gradient) if newton else _direction(factors, steps, gradient)
        found = _line_search(loss, at, value, gradient, direction)
        if found is None:
            if newton:
                break
            factors, newton = loss.whitening(at), True
            continue
        step, value, new_gradient = found
        change = new_gradient - gradient
        if (product := float(np.vdot(step, change))) > 0.0:
            steps = [*steps[-_MEMORY + 1 :], (step, change, product)]
        at, gradient = at + step, new_gradient
        length = _length(factors, gradient)
    return at, length


def _newton(loss: CrossEntropy, at: np.ndarray, factors: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Minus the inverse curvature times the gradient, by conjugate gradients."""
    product = loss.curvature(at)
    direction, rest = np.zeros_like(gradient), -gradient
    evened = _evened(factors, rest)
    search, level = evened, float(np.vdot(rest, evened))
    enough = level * min(0.01, level**0.5)
    for _ in range(250):
        bent = product(search)
        curved = float(np.vdot(search, bent))
        if not curved > 0.0:
            break
        size = level / curved
        direction = direction + size * search
        rest = rest - size * bent
        evened = _evened(factors, rest)
        before, level = level, float(np.vdot(rest, evened))
        if not level > enough:
            break
        search = evened + level / before * search
    return direction if direction.any() else -_evened(factors, gradient)


def _length(factors: np.ndarray, gradient: np.ndarray) -> float:
    return float(np.linalg.norm(factors @ gradient.T[:, :, None]))


def _direction(factors: np.ndarray, steps: list, gradient: np.ndarray) -> np.ndarray:
    """Minus the inverse curvature, as the last steps tell it, times the gradient: the two-loop recursion."""
    rest, shares = gradient.copy(), []
    for step, change, product in reversed(steps):
        share = float(np.vdot(step, rest)) / product
        rest -= share * change
        shares.append(share)
    rest = _evened(factors, rest)
    if steps:
        step, change, product = steps[-1]
        rest *= product / float(np.vdot(change, _evened(factors, change)))
    for (step, change, product), share in zip(steps, reversed(shares), strict=True):
        rest += (share - float(np.vdot(change, rest)) / product) * step
    return -rest


def _evened(factors: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    return (factors.transpose(0, 2, 1) @ (factors @ gradient.T[:, :, None]))[:, :, 0].T


def _line_search(
    loss: CrossEntropy, at: np.ndarray, value: float, gradient: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray] | None:
    """A step along ``direction`` that lowers the value enough, with value and gradient after it; None if there is none.

    Where the value no longer resolves the fall, the slope decides (Hager and Zhang, SIAM J. Optim. 16(1), 2005).
    """
    slope, size = float(np.vdot(gradient, direction)), 1.0
    if not slope < 0.0:
        return None
    for _ in range(40):
        step = size * direction
        new_value, new_gradient = loss.value_and_gradient(at + step)
        falls = new_value <= value + 1e-4 * size * slope
        level = new_value <= value + 1e-14 * abs(value) and float(np.vdot(new_gradient, direction)) <= -0.9 * slope
        if falls or level:
            return step, new_value, new_gradient
        fitted = -slope * size / (2.0 * (new_value - value - size * slope)) if np.isfinite(new_value) else 0.0
        size *= min(0.5, max(0.1, fitted))
    return None
