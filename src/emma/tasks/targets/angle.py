"""Angles in degrees, on the circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emma.tasks.targets.base import Floats, Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class Angle(Target):
    """An azimuth in degrees in [0, 360), fit by regression on its cosine and sine; one score, in degrees."""

    name: ClassVar[str] = "angle"
    column: ClassVar[str] = "azimuth_deg"
    label_type: ClassVar[pa.DataType] = pa.float64()
    readouts: ClassVar[tuple[str, ...]] = ("ridge",)
    forms: ClassVar[tuple[str, ...]] = ("angles",)
    needs_array: ClassVar[str | None] = "bearing"

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """An angle has no classes."""
        if spec.classes:
            raise ValueError("classes: expected none with target angle")

    @property
    def width(self) -> int:
        """Degrees."""
        return 1

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Degrees as they are; null for a number outside [0, 360)."""
        degrees = labels.cast(pa.float64())
        inside = pc.and_(pc.greater_equal(degrees, 0.0), pc.less(degrees, 360.0))
        return pc.if_else(inside, degrees, None)

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """Degrees against degrees."""
        del metric
        return scores[:, 0], target, 1

    def score_fault(self, scores: Floats) -> str | None:
        """Degrees lie in [0, 360)."""
        return "expected degrees in [0, 360)" if ((scores < 0) | (scores >= 360)).any() else None

    def distance(self, actual: Floats, expected: Floats) -> float:
        """The largest difference around the circle, in degrees."""
        if actual.shape != expected.shape:
            return float("inf")
        return float(np.abs((actual - expected + 180.0) % 360.0 - 180.0).max()) if actual.size else 0.0

    def regressand(self, target: Floats) -> Floats:
        """(cos, sin) ``[N, 2]``."""
        radians = np.deg2rad(target)
        return np.stack([np.cos(radians), np.sin(radians)], axis=1)

    def from_regression(self, values: Floats) -> Floats:
        """Degrees ``[N, 1]`` in [0, 360) by atan2."""
        cos, sin = values.T
        angle = np.rad2deg(np.arctan2(sin, cos))[:, None] % 360.0
        # A tiny negative angle rounds to 360 itself.
        return np.where(angle < 360.0, angle, 0.0)
