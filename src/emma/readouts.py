"""Pinned readouts: light heads fit on frozen embeddings, in float64, on one thread, without a random part.

Every head standardises features by its own fit scenes (constant features become zero), is checked against the
TaskSpec's capacity before it is fit, and has a floor at embedding width 0: mean direction, class prior, chance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from emma.files import InputError
from emma.tasks import ReadoutSpec, TaskSpec

_GRADIENT_TOLERANCE = 1e-7


class Readout(ABC):
    """A head with ``fit`` and ``scores``; its tensors are plain float64 arrays.

    Args:
        spec: the pinned capacity and regularisation.
        n_classes: number of classes; 0 for an angle.
    """

    def __init__(self, spec: ReadoutSpec, n_classes: int) -> None:
        self.spec, self.n_classes = spec, n_classes
        self.tensors: dict[str, np.ndarray] = {}

    @abstractmethod
    def parameters(self, width: int) -> int:
        """Number of fitted weights for an embedding of ``width`` features."""

    def fit(self, features: np.ndarray, target: np.ndarray) -> Readout:
        """Fit the head.

        Args:
            features: ``[N, D]``, finite.
            target: ``[N]``, degrees or class indices.

        Raises:
            InputError: the embedding is wider, or the head larger, than pinned; nothing is fit then.
        """
        width = features.shape[1]
        if width > self.spec.max_embedding_dim:
            raise InputError(f"embedding_dim: {width} is wider than the pinned {self.spec.max_embedding_dim}")
        if self.parameters(width) > self.spec.max_parameters:
            raise InputError(
                f"readout: {self.parameters(width)} parameters for width {width}, over the pinned "
                f"{self.spec.max_parameters}"
            )
        features = np.asarray(features, dtype=np.float64)
        self.tensors = {"mean": features.mean(axis=0), "scale": _scale(features)}
        self._fit(self._standardised(features), np.asarray(target))
        return self

    @abstractmethod
    def _fit(self, features: np.ndarray, target: np.ndarray) -> None: ...

    @abstractmethod
    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores ``[N, K]`` of embeddings ``[N, D]``: degrees (K = 1), a positive-class logit (K = 1), or K classes."""

    def _standardised(self, features: np.ndarray) -> np.ndarray:
        return (np.asarray(features, dtype=np.float64) - self.tensors["mean"]) * self.tensors["scale"]


class RidgeAngle(Readout):
    """Ridge regression on (cos, sin) of the angle; the angle is their atan2, in [0, 360) degrees.

    Minimises ``mean |y - xW - b|^2 + regularisation |W|^2`` in closed form.
    """

    def parameters(self, width: int) -> int:
        """Two regressions with intercepts."""
        return 2 * (width + 1)

    def _fit(self, features: np.ndarray, target: np.ndarray) -> None:
        radians = np.deg2rad(target)
        wanted = np.stack([np.cos(radians), np.sin(radians)], axis=1)
        # Standardised features have mean zero, so that the intercept is the mean of the target.
        gram = features.T @ features / len(features)
        gram[np.diag_indices_from(gram)] += self.spec.regularisation
        self.tensors["weights"] = np.linalg.solve(gram, features.T @ wanted / len(features))
        self.tensors["intercept"] = wanted.mean(axis=0)

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Angles ``[N, 1]`` in degrees."""
        cos, sin = (self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]).T
        angle = np.rad2deg(np.arctan2(sin, cos))[:, None] % 360.0
        # A tiny negative angle rounds to 360 itself.
        return np.where(angle < 360.0, angle, 0.0)


class Logistic(Readout):
    """L2-regularised logistic regression, binary or multinomial, fit by a trust-region Newton method from zero.

    Minimises ``mean_w loss + regularisation / 2 |W|^2``; the intercept is not penalised, and with
    ``class_balanced`` the weights of the mean make every class count the same. InputError where the pinned
    regularisation is too weak for the fit to converge.
    """

    @property
    def _outputs(self) -> int:
        return 1 if self.n_classes == 2 else self.n_classes

    def parameters(self, width: int) -> int:
        """One linear score a class (one in all for two classes), with intercepts."""
        return (width + 1) * self._outputs

    def _fit(self, features: np.ndarray, target: np.ndarray) -> None:
        from scipy.optimize import minimize

        classes = target.astype(np.int64)
        weights = np.ones(len(classes))
        if self.spec.class_balanced:
            weights = (1.0 / np.maximum(np.bincount(classes, minlength=self.n_classes), 1))[classes]
        weights /= weights.sum()
        # Coordinates in which the curvature is near one in every direction, however collinear the features are.
        spread, axes = np.linalg.eigh(features.T * weights @ features)
        basis = axes / np.sqrt(np.maximum(spread, 0.0) / 4.0 + self.spec.regularisation)
        penalty = np.append(self.spec.regularisation * (basis * basis).sum(axis=0), 0.0)[:, None]
        inputs = np.hstack([features @ basis, np.ones((len(features), 1))])
        loss = _CrossEntropy(inputs, classes, weights, penalty, self._outputs)
        result = minimize(
            loss.value_and_gradient,
            np.zeros(inputs.shape[1] * self._outputs),
            jac=True,
            hessp=loss.curvature,
            method="trust-ncg",
            options={"gtol": _GRADIENT_TOLERANCE, "maxiter": 1_000},
        )
        gradient = np.linalg.norm(result.jac)
        if not gradient <= 100 * _GRADIENT_TOLERANCE:
            raise InputError(
                f"readout: regularisation: {self.spec.regularisation} is too weak for a logistic fit of these features "
                f"to converge (gradient {gradient:.1e})"
            )
        solution = result.x.reshape(-1, self._outputs)
        self.tensors |= {"weights": basis @ solution[:-1], "intercept": solution[-1]}

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Logits ``[N, 1]`` of the positive class, or ``[N, C]``."""
        return self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]


class Discriminant(Readout):
    """Linear discriminant projection, then cosine to enrolled centroids.

    The projection maximises between-class over within-class scatter (Fisher), with a share ``regularisation`` of the
    within-class scatter replaced by its mean variance times the identity. Directions are at most classes - 1.
    """

    def parameters(self, width: int) -> int:
        """The projection's weights."""
        return width * max(0, min(self.n_classes - 1, width))

    def _fit(self, features: np.ndarray, target: np.ndarray) -> None:
        from scipy.linalg import eigh

        classes = np.unique(target)
        width, share = features.shape[1], self.spec.regularisation
        means = np.stack([features[target == name].mean(axis=0) for name in classes])
        directions = min(len(classes) - 1, width)
        if directions == 0:
            self.tensors |= {"projection": np.zeros((width, 0))}
            return
        residuals = features - means[np.searchsorted(classes, target)]
        within = residuals.T @ residuals / len(features)
        within = (1.0 - share) * within + share * max(np.trace(within) / width, 1e-12) * np.eye(width)
        counts = np.array([(target == name).sum() for name in classes])
        offsets = (means - features.mean(axis=0)) * np.sqrt(counts / len(features))[:, None]
        # Sw^-1 Sb has rank classes - 1: solve in the small space spanned by the class means.
        spanned = np.linalg.solve(within, offsets.T)
        small = offsets @ spanned
        values, vectors = eigh((small + small.T) / 2.0)
        order = np.argsort(values)[::-1][:directions]
        projection = spanned @ vectors[:, order] / np.sqrt(np.maximum(values[order], 1e-12))
        signs = np.sign(projection[np.abs(projection).argmax(axis=0), np.arange(directions)])
        self.tensors |= {"projection": projection * np.where(signs == 0, 1.0, signs)}

    def enrol(self, features: np.ndarray, target: np.ndarray) -> None:
        """Set one centroid per class from enrolment captures ``[N, D]`` with class indices ``[N]``."""
        projected = self._standardised(features) @ self.tensors["projection"]
        self.tensors["centroids"] = np.stack(
            [projected[target == number].mean(axis=0) for number in range(self.n_classes)]
        )

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Cosines ``[N, C]`` to the enrolled centroids; zero where a vector has no length."""
        projected = self._standardised(features) @ self.tensors["projection"]
        return _unit(projected) @ _unit(self.tensors["centroids"]).T


_KINDS = {"ridge_angle": RidgeAngle, "logistic": Logistic, "discriminant": Discriminant}


def make_readout(spec: TaskSpec) -> Readout:
    """The unfitted head that a TaskSpec pins."""
    return _KINDS[spec.readout.kind](spec.readout, len(spec.classes))


def load_readout(spec: TaskSpec, tensors: Mapping[str, np.ndarray]) -> Readout:
    """A fitted head from its tensors."""
    readout = make_readout(spec)
    readout.tensors = dict(tensors)
    return readout


def _scale(features: np.ndarray) -> np.ndarray:
    """Reciprocal standard deviations ``[D]``, zero for a feature that is constant up to rounding."""
    spread = features.std(axis=0)
    floor = 1e-9 * np.abs(features).max(axis=0, initial=0.0)
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > floor)


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)


class _CrossEntropy:
    """Weighted cross-entropy with an L2 penalty, as a function of flat coefficients ``[D * K]``.

    Args:
        inputs: ``[N, D]``, a column of ones among them.
        classes: class indices ``[N]``.
        weights: weight of each sample ``[N]``; they sum to 1.
        penalty: L2 weight of each row of coefficients ``[D, 1]``.
        outputs: K scores a sample; one stands for two classes, the first of which scores 0.
    """

    def __init__(
        self, inputs: np.ndarray, classes: np.ndarray, weights: np.ndarray, penalty: np.ndarray, outputs: int
    ) -> None:
        self._inputs, self._weights, self._penalty, self._outputs = inputs, weights[:, None], penalty, outputs
        self._chosen = classes[:, None] == np.arange(2 if outputs == 1 else outputs)
        self._last = (np.empty(0), (np.empty(0), np.empty(0)))

    def _losses(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cross-entropy of each sample ``[N]`` and class probabilities ``[N, C]``; the last ones are kept."""
        if not np.array_equal(flat, self._last[0]):
            self._last = (flat.copy(), self._evaluated(flat))
        return self._last[1]

    def _evaluated(self, flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        logits = self._inputs @ flat.reshape(-1, self._outputs)
        if self._outputs == 1:
            logits = np.hstack([np.zeros_like(logits), logits])
        margins = logits - logits[self._chosen][:, None]
        top = margins.max(axis=1, keepdims=True)
        exponentials = np.exp(margins - top)
        totals = exponentials.sum(axis=1, keepdims=True)
        return (np.log(totals) + top)[:, 0], exponentials / totals

    def value_and_gradient(self, flat: np.ndarray) -> tuple[float, np.ndarray]:
        """The objective and its gradient ``[D * K]``."""
        losses, probabilities = self._losses(flat)
        coefficients = flat.reshape(-1, self._outputs)
        residual = self._weights * (probabilities - self._chosen)[:, -self._outputs :]
        value = self._weights[:, 0] @ losses + 0.5 * (self._penalty * coefficients**2).sum()
        return value, (self._inputs.T @ residual + self._penalty * coefficients).reshape(-1)

    def curvature(self, flat: np.ndarray, direction: np.ndarray) -> np.ndarray:
        """Product ``[D * K]`` of the Hessian at ``flat`` with a direction."""
        probabilities = self._losses(flat)[1][:, -self._outputs :]
        direction = direction.reshape(-1, self._outputs)
        change = self._inputs @ direction
        change = probabilities * (change - (probabilities * change).sum(axis=1, keepdims=True))
        return (self._inputs.T @ (self._weights * change) + self._penalty * direction).reshape(-1)
