"""Pinned readouts: light heads fit on frozen embeddings, in float64, on one thread, without a random part.

Every head standardises features by its own fit scenes (constant features become zero), is checked against the
TaskSpec's capacity before it is fit, and has a floor at embedding width 0: mean direction, class prior, chance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from common.errors import InputError
from emma.readouts.cross_entropy import GRADIENT_TOLERANCE, CrossEntropy, minimise
from emma.tasks import ReadoutSpec, TaskSpec

#: Rows a pass over the features takes at a time: they fit into a processor's cache.
_ROWS = 512


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
        mean = features.mean(axis=0, dtype=np.float64)
        # One float64 copy: at many scenes, copies are what a fit costs.
        inputs, spread = _centred(features, mean)
        self.tensors = {"mean": mean, "scale": _scale(features, mean, spread)}
        inputs *= self.tensors["scale"]
        self._fit(inputs, np.asarray(target))
        return self

    @abstractmethod
    def _fit(self, features: np.ndarray, target: np.ndarray) -> None:
        """Fit on standardised features, float64 ``[N, D]``."""

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
    """L2-regularised logistic regression, binary or multinomial, fit from zero by ``emma.readouts.cross_entropy``.

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
        classes = target.astype(np.int64)
        weights = np.ones(len(classes))
        if self.spec.class_balanced:
            weights = (1.0 / np.maximum(np.bincount(classes, minlength=self.n_classes), 1))[classes]
        weights /= weights.sum()
        loss = CrossEntropy(features, classes, weights, self.spec.regularisation, self._outputs)
        solution, gradient = minimise(loss)
        if not gradient <= 100 * GRADIENT_TOLERANCE:
            raise InputError(
                f"readout: regularisation: {self.spec.regularisation} is too weak for a logistic fit of these features "
                f"to converge (gradient {gradient:.1e})"
            )
        self.tensors |= {"weights": solution[:-1].copy(), "intercept": solution[-1].copy()}

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
        values, vectors = np.linalg.eigh((small + small.T) / 2.0)
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


def _centred(features: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Features less their mean, float64 ``[N, D]``, and their standard deviations ``[D]``."""
    centred = np.empty(features.shape)
    # Row by row, as numpy's own std adds them, and without an array of all squares.
    total, squares = np.zeros(features.shape[1]), np.empty((_ROWS + 1, features.shape[1]))
    for start in range(0, len(features), _ROWS):
        block = centred[start : start + _ROWS]
        np.subtract(features[start : start + _ROWS], mean, out=block)
        squares[0] = total
        np.multiply(block, block, out=squares[1 : len(block) + 1])
        total = np.add.reduce(squares[: len(block) + 1], axis=0)
    return centred, np.sqrt(total / len(features))


def _scale(features: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Reciprocal standard deviations ``[D]``, zero for a feature that is constant up to rounding."""
    # No value lies further from the mean than the root of N times the deviation: few features need a closer look.
    floor = 1e-9 * (np.abs(mean) + np.sqrt(len(features)) * spread)
    near = np.flatnonzero(~(spread > floor))
    floor[near] = 1e-9 * np.abs(features[:, near].astype(np.float64)).max(axis=0, initial=0.0)
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > floor)


def _unit(rows: np.ndarray) -> np.ndarray:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
