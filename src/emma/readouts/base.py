"""What a readout is: a light head on frozen embeddings, in float64, on one thread, without a random part.

Every head standardises features by its own fit scenes (constant features become zero), is checked against the
TaskSpec's capacity before it is fit, and has a floor at embedding width 0: mean direction, class prior, chance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.tasks import ReadoutSpec, Target

Floats = NDArray[np.float64]

#: Rows that a pass over the features takes at a time: they fit into a processor's cache.
_ROWS = 512


class Readout(ABC):
    """A head with ``fit`` and ``scores``; its tensors are plain float64 arrays.

    Args:
        spec: the pinned capacity and regularisation.
        target: the kind of label that it is fit to.

    Attributes:
        kind: the value of ``readout.kind``.
    """

    kind: ClassVar[str]

    def __init__(self, spec: ReadoutSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.tensors: dict[str, Floats] = {}

    @abstractmethod
    def parameters(self, width: int) -> int:
        """Number of fitted weights for an embedding of ``width`` features."""

    def fit(self, features: NDArray[Any], target: Floats) -> Self:
        """Fit the head.

        Args:
            features: ``[N, D]``, finite.
            target: encoded labels ``[N]``: degrees or class indices.

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
    def _fit(self, features: Floats, target: Floats) -> None:
        """Fit on standardised features, float64 ``[N, D]``."""

    @abstractmethod
    def scores(self, features: NDArray[Any]) -> Floats:
        """Scores ``[N, K]`` of embeddings ``[N, D]``; K is the target's width."""

    def enrol(self, features: NDArray[Any], target: Floats) -> None:
        """Enrol a gallery, where the target asks for one; InputError from a head that cannot."""
        raise InputError(
            f"readout.kind: {self.kind} enrols nobody, {len(features)} captures and {len(target)} labels given"
        )

    def _standardised(self, features: NDArray[Any]) -> Floats:
        return (np.asarray(features, dtype=np.float64) - self.tensors["mean"]) * self.tensors["scale"]


def _centred(features: NDArray[Any], mean: Floats) -> tuple[Floats, Floats]:
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


def _scale(features: NDArray[Any], mean: Floats, spread: Floats) -> Floats:
    """Reciprocal standard deviations ``[D]``, zero for a feature that is constant up to rounding."""
    # No value lies further from the mean than the root of N times the deviation: few features need a closer look.
    floor = 1e-9 * (np.abs(mean) + np.sqrt(len(features)) * spread)
    near = np.flatnonzero(~(spread > floor))
    floor[near] = 1e-9 * np.abs(features[:, near].astype(np.float64)).max(axis=0, initial=0.0)
    return np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > floor)
