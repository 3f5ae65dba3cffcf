"""Powers of many beams, of which the strongest is the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emma.tasks.targets.base import Floats, Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class Beam(Target):
    """Powers of the beams that the classes name, 1 for the strongest, fit by regression; one score per beam."""

    name: ClassVar[str] = "beam"
    column: ClassVar[str] = "beam_power"
    label_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    encoded_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    readouts: ClassVar[tuple[str, ...]] = ("ridge",)
    forms: ClassVar[tuple[str, ...]] = ("decisions", "choices")

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """Beams are named, and distinct."""
        if len(set(spec.classes)) < 2 or len(set(spec.classes)) != len(spec.classes):
            raise ValueError("classes: expected two or more distinct names, one for each beam")

    @property
    def width(self) -> int:
        """One score per beam."""
        return len(self.classes)

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Powers as they are; null for another number than of beams, or others than from 0 to a highest of 1."""

        def good(entries: pa.Array) -> Any:
            powers = np.asarray(entries, float).reshape(-1, self.width)
            return (powers.min(axis=1) >= 0) & (powers.max(axis=1) == 1)

        return self._whole(labels, self.width, good)

    def numbers(self, encoded: pa.ChunkedArray) -> Floats:
        """Powers ``[N, width]``."""
        return np.asarray(pc.list_flatten(encoded), np.float64).reshape(-1, self.width)

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """Scores of the beams against the number of the strongest, or against the powers of all."""
        if self.form_for(metric) == "decisions":
            return scores, target.argmax(axis=1), 1
        return scores, target, 1

    def regressand(self, target: Floats) -> Floats:
        """The powers ``[N, width]``."""
        return target.reshape(-1, self.width)

    def from_regression(self, values: Floats) -> Floats:
        """The powers, as scores."""
        return values
