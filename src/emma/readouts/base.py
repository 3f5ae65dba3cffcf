"""What a readout is: a light head on frozen embeddings, in float64, on one thread, without a random part.

Every head standardises features by its own fit scenes (features that are constant up to rounding become zero) and
divides them by the root of their number, so that a value of the regularisation means the same at every width. It
chooses that value from the pinned grid by inner cross-validation, is checked against the TaskSpec's capacity before it
is fit, and has a floor at embedding width 0: mean direction, class prior, chance.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.rows import Rows, blocks, held
from emma.readouts.selection import Numbers, chosen_value, inner_parts
from emma.tasks import ReadoutSpec, Target

Floats = NDArray[np.float64]
#: Embeddings of many scenes, as one array or read a block at a time.
Features = NDArray[Any] | Rows

#: A feature that varies by less than this share of its size is constant up to the rounding of float32 sums.
_ROUNDING = 16 * float(np.finfo(np.float32).eps)

#: Rows that a pass over the features takes at a time: they fit into a processor's cache.
_ROWS = 512


#: Readouts by their kind, in the order of their modules' names.
READOUTS: dict[str, type[Readout]] = {}


class Readout(ABC):
    """A head with ``fit`` and ``scores``; its tensors are plain arrays, float64 where they are numbers.

    A subclass with a ``kind`` enters ``READOUTS`` by being defined.

    Args:
        spec: the pinned capacity and regularisation.
        target: the kind of label that it is fit to.

    Attributes:
        kind: the value of ``readout.kind``.
        linear: the tensor ``[D, K]`` that maps standardised features.
    """

    kind: ClassVar[str]
    linear: ClassVar[str] = "weights"

    def __init__(self, spec: ReadoutSpec, target: Target) -> None:
        self.spec, self.target = spec, target
        self.tensors: dict[str, Any] = {}

    def __init_subclass__(cls) -> None:
        """Enter the class in ``READOUTS``; TypeError where another one has its kind."""
        super().__init_subclass__()
        if kind := cls.__dict__.get("kind"):
            if kind in READOUTS:
                raise TypeError(f"readout {kind}: {cls.__qualname__} and {READOUTS[kind].__qualname__} have one kind")
            READOUTS[kind] = cls

    @abstractmethod
    def parameters(self, width: int) -> int:
        """Number of fitted weights for an embedding of ``width`` features."""

    def fit(self, features: Features, target: Any, groups: Any = None) -> Self:
        """Choose the regularisation and fit the head.

        Args:
            features: ``[N, D]``, finite; an array, or Rows where they are many.
            target: encoded labels, one row per scene, as ``Target.numbers`` gives them.
            groups: labels ``[N]`` of scenes that belong together (one link, one session), which the inner
                cross-validation never parts; by default every scene stands for itself.

        Raises:
            InputError: the embedding is wider, or the head larger, than pinned; nothing is fit then.
        """
        width = features.shape[1]
        self.check_capacity(width)
        inputs, mean, scale = standardise(features)
        self.tensors = {"mean": mean, "scale": scale}
        target = np.asarray(target)
        basis = None
        if isinstance(inputs, np.ndarray) and width > len(inputs):
            # Every head is invariant to rotations: fit in the space that the scenes span, which is smaller.
            basis, triangle = np.linalg.qr(inputs.T)
            inputs = triangle.T
        grid = np.array(self.spec.regularisation)
        losses = np.zeros(len(grid))
        if len(grid) > 1 and self.tensors["scale"].any():
            parts = inner_parts(groups, self.target.strata(target), len(target))
            if parts.any():
                losses = self._validation_losses(inputs, target, parts)
        self.tensors |= {"regularisation": grid[[chosen_value(losses)]], "validation_losses": losses}
        self.tensors |= self._fit(inputs, target, self.regularisation)
        if basis is not None:
            self.tensors[self.linear] = basis @ self.tensors[self.linear]
        return self

    def fitted_width(self, width: int) -> int:
        """Features that a fit sees of a row of so many: all of them, or of a dense readout those of one window."""
        return width

    def check_capacity(self, width: int) -> None:
        """Raise InputError where an embedding is wider, or the head on it larger, than pinned."""
        own = self.fitted_width(width)
        if own > self.spec.max_embedding_dim:
            raise InputError(f"embedding_dim: {own} is wider than the pinned {self.spec.max_embedding_dim}")
        if self.parameters(own) > self.spec.max_parameters:
            raise InputError(
                f"readout: {self.parameters(own)} parameters for width {own}, over the pinned "
                f"{self.spec.max_parameters}"
            )

    @property
    def regularisation(self) -> float:
        """The value that the fit chose from the grid."""
        return float(self.tensors["regularisation"][0])

    def without(self, features: Features, target: Any, kept: NDArray[np.bool_]) -> Self:
        """The same head fit anew, at the regularisation that this one chose, on the samples that are ``kept``."""
        return self.fixed(self.regularisation).fit(features[kept], np.asarray(target)[kept])

    def fixed(self, regularisation: float) -> Self:
        """The same head, unfitted, with one value of the regularisation in place of the grid."""
        return type(self)(self.spec.model_copy(update={"regularisation": (regularisation,)}), self.target)

    def _validation_losses(self, features: Features, target: Any, parts: Numbers) -> Floats:
        """Mean loss ``[L]`` of each value of the grid on scenes that the inner fits did not see.

        Args:
            features: standardised, float64 ``[N, D]``, to be taken in ``blocks``.
            target: encoded labels ``[N]``.
            parts: the part ``[N]``, from 0 on and none empty, with which a scene is left out.

        Returns:
            the losses; infinite for values that were not tried, as weaker ones than a value that was worse.
        """
        raise NotImplementedError(f"readout {self.kind} chooses from no grid")

    def _fit(self, features: Features, target: Any, regularisation: float) -> dict[str, Floats]:
        """Tensors of a fit on standardised features, float64 ``[N, D]``."""
        raise NotImplementedError(f"readout {self.kind} has a fit of its own")

    @abstractmethod
    def scores(self, features: NDArray[Any], given: Any = None) -> Any:
        """Scores ``[N, K]`` of embeddings ``[N, D]``; K is the target's width.

        ``given``: what is given with each scene ``[N, ...]`` (``Target.given``), or None.
        """

    def turn_scores(self, features: NDArray[Any], given: Any = None) -> Any:
        """Scores ``[T, N, K]`` under each turn of enrolment; T is 1 for a head that enrols nobody."""
        return self.scores(features, given)[None]

    def enrol(self, features: Features, target: Floats, turns: NDArray[np.integer[Any]]) -> None:
        """Enrol galleries in turn, where the target asks for them; InputError from a head that cannot."""
        raise InputError(
            f"readout.kind: {self.kind} enrols nobody, {len(features)} captures and {len(target)} labels given "
            f"for {len(np.unique(turns))} turns"
        )

    def _standardised(self, features: NDArray[Any]) -> Floats:
        standardised: Floats = (np.asarray(features, np.float64) - self.tensors["mean"]) * self.tensors["scale"]
        return standardised


def standardise(features: Features) -> tuple[Floats | Rows, Floats, Floats]:
    """Features ``[N, D]`` of equal variances, one in total, and the mean ``[D]`` and factors ``[D]`` that made them so.

    Features that are constant up to rounding become zero. More than ``WHOLE`` numbers, where scenes outnumber
    features, come as Rows, each block of which is standardised when it is asked for: memory does not grow with scenes.
    """
    features = np.asarray(features) if len(features) <= features.shape[1] else held(features)
    if isinstance(features, Rows):
        mean, scale = factors(features)
        return features.then(lambda block: (block - mean) * scale), mean, scale
    # One float64 copy: at many scenes, copies are what a fit costs.
    inputs = np.empty(features.shape)
    mean, scale = factors(features, inputs)
    inputs *= scale
    return inputs, mean, scale


def factors(features: Features, centred: Floats | None = None) -> tuple[Floats, Floats]:
    """Mean ``[D]`` and factors ``[D]`` by which ``standardise`` makes features ``[N, D]`` alike, a few rows at a time.

    ``centred``: where the features less their mean are written, float64 ``[N, D]``.
    """
    if isinstance(features, Rows):
        mean = np.zeros(features.shape[1])
        for _, block in blocks(features):
            # Row by row from what there was, as an array's mean adds them.
            mean = np.add.reduce(np.vstack([mean, block]), axis=0)
        mean /= len(features)
    else:
        mean = features.mean(axis=0, dtype=np.float64)
    # Row by row, as numpy's own std adds them, and without an array of all squares.
    total, squares = np.zeros(features.shape[1]), np.empty((_ROWS + 1, features.shape[1]))
    for start in range(0, len(features), _ROWS):
        rows = features[start : start + _ROWS]
        block = np.subtract(rows, mean, out=None if centred is None else centred[start : start + _ROWS])
        squares[0] = total
        np.multiply(block, block, out=squares[1 : len(block) + 1])
        total = np.add.reduce(squares[: len(block) + 1], axis=0)
    return mean, _scale(features, mean, np.sqrt(total / len(features)))


def _scale(features: Features, mean: Floats, spread: Floats) -> Floats:
    """Factors ``[D]`` that give features equal variances, one in total; zero for those constant up to rounding."""
    # No value lies further from the mean than the root of N times the deviation: few features need a closer look.
    floor = _ROUNDING * (np.abs(mean) + np.sqrt(len(features)) * spread)
    near = np.flatnonzero(~(spread > floor))
    if len(near):
        sizes = [np.abs(block[:, near].astype(np.float64)).max(axis=0, initial=0.0) for _, block in blocks(features)]
        floor[near] = _ROUNDING * np.max(sizes, axis=0)
    varies = spread > floor
    scale: Floats = np.divide(1.0, spread, out=np.zeros_like(spread), where=varies)
    return scale / math.sqrt(max(1, int(np.count_nonzero(varies))))
