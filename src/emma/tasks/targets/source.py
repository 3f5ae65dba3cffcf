"""Waveforms that are to be told apart from their mixture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from emma.tasks.targets.base import Floats, Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec

Waveforms = NDArray[np.complex128]


class Source(Target):
    """A source's waveform in a mixture: the label holds both, the mixture is given, the source is asked.

    A label is the mixture's samples, then the source's, real and imaginary parts in turn; the scores are a waveform's
    real and imaginary parts in turn, at any level and phase. ``shape`` is the number of samples.
    """

    name: ClassVar[str] = "source"
    column: ClassVar[str] = "mixture_and_source"
    label_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    encoded_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    score_type: ClassVar[pa.DataType] = pa.list_(pa.float32())
    shaped: ClassVar[bool] = True
    neighbours: ClassVar[bool] = False
    readouts: ClassVar[tuple[str, ...]] = ("masking",)
    forms: ClassVar[tuple[str, ...]] = ("waveform", "separation")

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """A waveform has no classes, one axis, and windows that cover it."""
        from common.masks import count_windows

        if spec.classes:
            raise ValueError("classes: expected none with target source")
        if len(spec.shape) != 1:
            raise ValueError("shape: expected [samples] with target source")
        assert spec.readout.window is not None and spec.readout.hop is not None
        count_windows(*spec.shape, spec.readout.window, spec.readout.hop)

    @property
    def width(self) -> int:
        """Real and imaginary part of every sample."""
        return 2 * self.shape[0]

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Labels as they are; null for another length, for values that are not finite, and for a silent waveform."""

        def good(entries: pa.Array) -> Any:
            values = np.asarray(entries).reshape(-1, 2, self.width)
            return np.isfinite(values).all(axis=(1, 2)) & np.abs(values).max(axis=2, initial=0.0).all(axis=1)

        return self._whole(labels, 2 * self.width, good)

    def numbers(self, encoded: pa.ChunkedArray) -> Waveforms:
        """Mixture and source, complex128 ``[N, 2, T]``."""
        values = np.asarray(pc.list_flatten(encoded), np.float64)
        return values.view(np.complex128).reshape(len(encoded), 2, *self.shape)

    def given(self, target: Waveforms) -> Waveforms:
        """The mixtures ``[N, T]``."""
        return target[:, 0]

    def metric_inputs(self, metric: Measure, scores: Floats, target: Any) -> tuple[Scores, Scores, int]:
        """Waveforms against the sources ``[N, T]``, or against mixtures and sources ``[N, 2, T]``."""
        estimate = np.ascontiguousarray(scores, np.float64).view(np.complex128)
        return estimate, target[:, 1] if self.form_for(metric) == "waveform" else target, 1

    def distance(self, actual: Any, expected: Any) -> float:
        """The largest difference of two sets of waveforms ``[N, 2 T]``, relative to the scene's largest value."""
        if actual.shape != expected.shape:
            return float("inf")
        largest = np.abs(expected).max(axis=1, initial=0.0)
        apart = np.abs(actual - expected).max(axis=1, initial=0.0) / np.where(largest > 0, largest, 1.0)
        return float(apart.max(initial=0.0))

    def score_fault(self, scores: Floats) -> str | None:
        """A silent waveform has no ratio."""
        silent = np.flatnonzero(~scores.any(axis=1))
        return f"silent waveform in row {silent[0]}, expected a sample that is not 0" if len(silent) else None
