"""Answers to questions about a scene, which are given with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emma.tasks.targets.base import LONGEST_TEXT, Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class Answer(Target):
    """Texts that answer the questions asked of a scene, as many as the shape says; one answer per question.

    A label is a list of texts, each question followed by its answer.
    """

    name: ClassVar[str] = "answer"
    column: ClassVar[str] = "qa"
    label_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    encoded_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    score_type: ClassVar[pa.DataType] = pa.list_(pa.string())
    shaped: ClassVar[bool] = True
    neighbours: ClassVar[bool] = False
    readouts: ClassVar[tuple[str, ...]] = ("answers",)
    forms: ClassVar[tuple[str, ...]] = ("answer",)

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """Answers have no classes, and the shape is the number of questions."""
        if spec.classes:
            raise ValueError("classes: expected none with target answer")
        if len(spec.shape) != 1:
            raise ValueError("shape: expected one number with target answer, that of the questions of a scene")

    @property
    def width(self) -> int:
        """One answer per question."""
        return self.shape[0]

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Questions and answers as they are; null for another number of them, or one that is missing or too long."""

        def good(entries: pa.Array) -> Any:
            lengths = np.asarray(pc.fill_null(pc.utf8_length(entries), 0)).reshape(-1, 2 * self.width)
            return ((lengths > 0) & (lengths <= LONGEST_TEXT)).all(axis=1)

        return self._whole(labels, 2 * self.width, good)

    def numbers(self, encoded: pa.ChunkedArray) -> Any:
        """Texts ``[N, width, 2]``, the question before its answer."""
        return np.array(pc.list_flatten(encoded).to_pylist(), object).reshape(-1, self.width, 2)

    def given(self, target: Any) -> Any:
        """The questions ``[N, width]``."""
        return target[:, :, 0]

    def metric_inputs(self, metric: Measure, scores: Any, target: Any) -> tuple[Scores, Scores, int]:
        """Answers against lists of the one that is accepted, question by question, scene after scene."""
        del metric
        return list(scores.reshape(-1)), [[answer] for answer in target[:, :, 1].reshape(-1)], self.width
