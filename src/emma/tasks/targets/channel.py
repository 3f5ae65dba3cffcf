"""Complex channels of pinned shape, such as antennas by carriers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emma.tasks.targets.base import Floats, Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class Channel(Target):
    """A complex tensor of the pinned shape, fit by regression; label and scores are pairs of real and imaginary part.

    Pairs stand in the order of a C array of ``shape``: of antennas by carriers, all of the first antenna first.
    """

    name: ClassVar[str] = "channel"
    column: ClassVar[str] = "channel"
    label_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    encoded_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    score_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    shaped: ClassVar[bool] = True
    readouts: ClassVar[tuple[str, ...]] = ("reduced_ridge",)
    forms: ClassVar[tuple[str, ...]] = ("complex_tensor",)

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """No classes, and no more components than the tensor has numbers."""
        if spec.classes:
            raise ValueError("classes: expected none with target channel")
        if (spec.readout.components or 0) > math.prod(spec.shape):
            raise ValueError(f"readout.components: expected at most the {math.prod(spec.shape)} entries of shape")

    @property
    def width(self) -> int:
        """Two numbers for each entry of the tensor."""
        return 2 * math.prod(self.shape)

    @property
    def regressed(self) -> bool:
        """It is."""
        return True

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Channels as they are; null for another number of entries, one that is not finite, or none but zeros."""

        def good(entries: pa.Array) -> Any:
            values = np.asarray(entries, float).reshape(-1, self.width)
            return np.isfinite(values).all(axis=1) & values.any(axis=1)

        return self._whole(labels, self.width, good)

    def numbers(self, encoded: pa.ChunkedArray) -> Floats:
        """Pairs ``[N, width]``."""
        return np.asarray(pc.list_flatten(encoded), np.float64).reshape(-1, self.width)

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """Complex tensors ``[N, *shape]`` against complex tensors."""
        del metric
        return self.tensor(scores), self.tensor(target), 1

    def tensor(self, pairs: Floats) -> np.ndarray:
        """Pairs ``[N, width]`` as complex128 ``[N, *shape]``."""
        return np.ascontiguousarray(pairs, np.float64).view(np.complex128).reshape(-1, *self.shape)

    def regressand(self, target: Floats) -> Floats:
        """The pairs ``[N, width]``."""
        return target.reshape(-1, self.width)

    def from_regression(self, values: Floats) -> Floats:
        """The pairs, as scores."""
        return values
