"""Linear discriminant projection with cosine to enrolled centroids."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from emma.readouts.base import Floats, Readout


class Discriminant(Readout):
    """Linear discriminant projection, then cosine to enrolled centroids.

    The projection maximises between-class over within-class scatter (Fisher), with a share ``regularisation`` of the
    within-class scatter replaced by its mean variance times the identity. Directions are at most classes - 1.
    """

    kind: ClassVar[str] = "discriminant"

    def parameters(self, width: int) -> int:
        """The projection's weights."""
        return width * max(0, min(len(self.target.classes) - 1, width))

    def _fit(self, features: Floats, target: Floats) -> None:
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

    def enrol(self, features: NDArray[Any], target: Floats) -> None:
        """Set one centroid per class from enrolment captures ``[N, D]`` with class indices ``[N]``."""
        projected = self._standardised(features) @ self.tensors["projection"]
        self.tensors["centroids"] = np.stack(
            [projected[target == number].mean(axis=0) for number in range(len(self.target.classes))]
        )

    def scores(self, features: NDArray[Any]) -> Floats:
        """Cosines ``[N, C]`` to the enrolled centroids; zero where a vector has no length."""
        projected = self._standardised(features) @ self.tensors["projection"]
        cosines: Floats = _unit(projected) @ _unit(self.tensors["centroids"]).T
        return cosines


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Floats = np.divide(rows, length, out=np.zeros_like(rows), where=length > 0)
    return unit
