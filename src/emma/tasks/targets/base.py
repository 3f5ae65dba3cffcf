"""What a kind of label is: its column, the readouts and metrics that fit it, and what a fold needs to be defined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.columns import lists_to_matrix, matrix_to_lists
from common.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from emma.tasks.spec import TaskSpec

Floats = NDArray[np.float64]
Classes = NDArray[np.int64]
#: What a metric takes: numbers, class indices, scores, complex tensors, or lists of texts.
Scores = Floats | Classes | NDArray[np.complex128] | list[str] | list[list[str]]

#: Most characters of a text that is an answer.
LONGEST_TEXT = 512

#: Every kind of label by its name, in the order of their modules' names.
TARGETS: dict[str, type[Target]] = {}


class Measure(Protocol):
    """What a target asks of a metric: the forms of input that it takes (``emma.metrics.Takes``)."""

    @property
    def name(self) -> str:
        """The metric's name."""

    @property
    def takes(self) -> frozenset[str]:
        """Forms of input."""


class Target(ABC):
    """One kind of label. A subclass with a ``name`` enters ``TARGETS`` by being defined.

    Scores of a scene are a list ``[width]`` of numbers, or of texts; the readout gives them, the predictions hold them,
    and the target turns them into what a metric takes.

    Args:
        classes: names of the task's classes, in the order of their indices; empty for a target without classes.
        shape: shape of a label that is a tensor or a waveform; empty for any other.

    Attributes:
        name: the value of ``TaskSpec.target``.
        column: the label's column in a table of labels.
        label_type: that column's Arrow type.
        encoded_type: Arrow type of encoded labels, in folds and predictions.
        score_type: Arrow type of a scene's scores, a list of numbers or of texts.
        shaped: whether a task pins the shape of its labels.
        neighbours: whether the mean, or the votes, of neighbours' labels are an answer.
        readouts: kinds of readout that fit it (``emma.readouts``).
        forms: forms of metric input that scores can take, the preferred one first (``emma.metrics.Takes``).
        enrols: whether a fold enrols units by a gallery of their own scenes.
        one_class: whether fit scenes are all of one class, by design.
        needs_array: what it is called, where it lies between antennas, so that one alone says nothing of it; else None.
    """

    name: ClassVar[str]
    column: ClassVar[str]
    label_type: ClassVar[pa.DataType]
    encoded_type: ClassVar[pa.DataType] = pa.float64()
    score_type: ClassVar[pa.DataType] = pa.list_(pa.float64())
    shaped: ClassVar[bool] = False
    neighbours: ClassVar[bool] = True
    readouts: ClassVar[tuple[str, ...]]
    forms: ClassVar[tuple[str, ...]]
    enrols: ClassVar[bool] = False
    one_class: ClassVar[bool] = False
    needs_array: ClassVar[str | None] = None

    def __init__(self, classes: tuple[str, ...] = (), shape: tuple[int, ...] = ()) -> None:
        self.classes, self.shape = classes, shape

    def __init_subclass__(cls) -> None:
        """Enter the class in ``TARGETS``; TypeError where another one has its name."""
        super().__init_subclass__()
        if name := cls.__dict__.get("name"):
            if name in TARGETS:
                raise TypeError(f"target {name}: {cls.__qualname__} and {TARGETS[name].__qualname__} have one name")
            TARGETS[name] = cls

    @classmethod
    @abstractmethod
    def check(cls, spec: TaskSpec) -> None:
        """Raise ValueError, ``key: expectation``, where a TaskSpec of this target contradicts itself."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of scores per scene."""

    @abstractmethod
    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Labels as what a fit takes, of ``encoded_type``; null where a scene has no label of the task."""

    def _whole(self, labels: pa.ChunkedArray, width: int, good: Callable[[pa.Array], Any]) -> pa.ChunkedArray:
        """Labels that are lists, as they are; null for another length than ``width``, and where they are not good.

        Args:
            labels: one chunk, as a table that was read holds them, or several.
            width: entries of a label.
            good: from the entries of n labels of that length, one after another, which of them are good, ``[n]``.
        """
        array = labels.combine_chunks() if isinstance(labels, pa.ChunkedArray) else labels
        fits = np.array(pc.fill_null(pc.equal(pc.list_value_length(array), width), False))
        fits[fits] = good(array.filter(pa.array(fits)).flatten())
        return pa.chunked_array([pc.if_else(pa.array(fits), array, None)], self.encoded_type)

    def numbers(self, encoded: pa.ChunkedArray) -> Any:
        """Encoded labels without a null as an array, one row per scene.

        Float64 ``[N]``; ``[N, K]`` where a label is several numbers; an object array where it is texts.
        """
        return np.asarray(encoded)

    def given(self, target: Any) -> Any:
        """The part of encoded labels, as ``numbers`` gives them, that is given with a scene and not asked, or None."""
        del target

    def stored(self, scores: Any) -> pa.Array:
        """Scores ``[N, width]`` as a column of ``score_type``."""
        return matrix_to_lists(scores, self.score_type)

    def read(self, column: pa.ChunkedArray, what: str | Path) -> Any:
        """A column of scores as float64 ``[N, width]``, or an object array of texts.

        Raises:
            InputError: names ``what``; another type, a list of another length, a null, NaN or infinity, or a text of
                more than LONGEST_TEXT characters.
        """
        if column.type != self.score_type:
            raise InputError(f"{what}: expected {self.score_type}, found {column.type}")
        scores = lists_to_matrix(column, self.width, what)
        if pa.types.is_string(self.score_type.value_type):
            if (longest := pc.max(pc.utf8_length(pc.list_flatten(column))).as_py() or 0) > LONGEST_TEXT:
                raise InputError(f"{what}: {longest} characters, expected at most {LONGEST_TEXT}")
            return scores
        finite = np.isfinite(scores).all(axis=1)
        if not finite.all():
            raise InputError(f"{what}: NaN or infinity in row {int(np.argmin(finite))}, expected finite numbers")
        wide: Floats = scores.astype(np.float64, copy=False)
        return wide

    @property
    def regressed(self) -> bool:
        """Whether a regression is fit, and not classes."""
        return "ridge" in self.readouts

    @abstractmethod
    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """What a metric takes, from scores.

        Args:
            metric: one that ``form_for`` finds a form for.
            scores: ``[N, width]``.
            target: encoded labels, as ``numbers`` gives them.

        Returns:
            preds, target, and how many entries of each stand for one scene.
        """

    def form_for(self, metric: Measure) -> str | None:
        """The preferred form of input that a metric takes and this target can give, or None."""
        return next((form for form in self.forms if form in metric.takes), None)

    def strata(self, target: Floats) -> Classes | None:
        """Stratum ``[N]`` of each scene for resampling and inner cross-validation; None where there is but one."""
        del target
        return None

    def groups(self, index: pa.Table) -> pa.ChunkedArray:
        """What is drawn as a whole in a resample ``[N]``: text, null where every scene stands for itself."""
        return pa.chunked_array([pa.nulls(index.num_rows, pa.string())])

    def undefined_reason(self, fit: Floats, scored: Floats, held_out_value: str | None) -> str | None:
        """Why a fold cannot be fit and scored, from the encoded labels of both sides, or None.

        ``held_out_value``: what the fit scenes lack; None for a reference, which has met it.
        """
        del fit, scored, held_out_value
        return None

    def score_fault(self, scores: Floats) -> str | None:
        """What is wrong with finite scores ``[N, width]`` from elsewhere, or None."""
        del scores
        return None

    def distance(self, actual: Any, expected: Any) -> float:
        """The largest difference of two sets of scores ``[N, width]``, relative to the largest score or to 1.

        Texts are equal, or infinitely far apart.
        """
        if actual.shape != expected.shape:
            return float("inf")
        if pa.types.is_string(self.score_type.value_type):
            return 0.0 if (actual == expected).all() else float("inf")
        if not actual.size:
            return 0.0
        return float(np.abs(actual - expected).max() / max(1.0, np.abs(expected).max()))

    def regressand(self, target: Floats) -> Floats:
        """Numbers ``[N, K]`` that a regression fits for encoded labels ``[N]``."""
        raise NotImplementedError(f"target {self.name} is not fit by regression, nor of {target.shape}")

    def from_regression(self, values: Floats) -> Floats:
        """Scores ``[N, width]`` of regressed numbers ``[N, K]``."""
        raise NotImplementedError(f"target {self.name} is not fit by regression, nor of {values.shape}")
