"""Captions: several reference texts of a scene, of which an answer is one of the same kind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emma.tasks.targets.base import Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class Caption(Target):
    """Reference captions, as many as a scene has; the answer is one text."""

    name: ClassVar[str] = "caption"
    column: ClassVar[str] = "captions"
    label_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    encoded_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    score_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    # No mean and no vote of texts is a text: what neighbours agree on is the readout.
    neighbours: ClassVar[bool] = False
    readouts: ClassVar[tuple[str, ...]] = ("consensus",)
    forms: ClassVar[tuple[str, ...]] = ("caption",)

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """Captions have no classes, and a tokenizer that is pinned."""
        if spec.classes:
            raise ValueError("classes: expected none with target caption")
        if spec.tokenizer is None:
            raise ValueError("tokenizer: expected one with target caption")

    @property
    def width(self) -> int:
        """One text."""
        return 1

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Captions as they are; null where there is none, or an empty one."""
        chunks = labels.chunks if isinstance(labels, pa.ChunkedArray) else [labels]
        return pa.chunked_array([self._encoded(chunk) for chunk in chunks], self.encoded_type)

    def _encoded(self, labels: pa.Array) -> pa.Array:
        flat = labels.flatten()
        bad = pc.fill_null(pc.equal(pc.utf8_length(pc.utf8_trim_whitespace(flat)), 0), True)
        counts = np.asarray(pc.fill_null(pc.list_value_length(labels), 0))
        faults = np.bincount(np.repeat(np.arange(len(labels)), counts)[np.asarray(bad)], minlength=len(labels))
        return pc.if_else(pa.array((counts > 0) & (faults == 0)), labels, None)

    def numbers(self, encoded: pa.ChunkedArray) -> Any:
        """Lists of captions, an object array ``[N]``."""
        return np.fromiter(encoded.to_pylist(), object, len(encoded))

    def undefined_reason(self, fit: Any, scored: Any, held_out_value: str | None) -> str | None:
        """A fit without a caption, or a document frequency of one document, says nothing."""
        del held_out_value
        if len(fit) == 0:
            return "no captions in fit scenes"
        return "fewer than two scored scenes" if len(scored) < 2 else None

    def metric_inputs(self, metric: Measure, scores: Any, target: Any) -> tuple[Scores, Scores, int]:
        """The answers against the references of each scene."""
        del metric
        return scores[:, 0].tolist(), target.tolist(), 1
