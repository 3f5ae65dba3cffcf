"""Class labels: two classes with one score, several with one each, and units that a fold enrols."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from emma.tasks.names import OODAxis
from emma.tasks.targets.base import Classes, Floats, Measure, Scores, Target

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class ClassLabel(Target):
    """One of several classes, encoded by its index; one score per class, the highest decides."""

    name: ClassVar[str] = "class"
    column: ClassVar[str] = "class"
    label_type: ClassVar[pa.DataType] = pa.string()
    readouts: ClassVar[tuple[str, ...]] = ("logistic",)
    forms: ClassVar[tuple[str, ...]] = ("decisions",)

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """Classes are named, and distinct."""
        if len(set(spec.classes)) < 2 or len(set(spec.classes)) != len(spec.classes):
            raise ValueError("classes: expected two or more distinct names")

    @property
    def width(self) -> int:
        """One score per class."""
        return len(self.classes)

    def encode(self, labels: pa.ChunkedArray) -> pa.ChunkedArray:
        """Indices of the classes; null for a name that is none of them."""
        return pc.index_in(labels, value_set=pa.array(self.classes, pa.string())).cast(pa.float64())

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """Class scores against class indices."""
        del metric
        return scores, target.astype(np.int64), 1

    def strata(self, target: Floats) -> Classes | None:
        """The classes."""
        return target.astype(np.int64)

    def undefined_reason(self, fit: Floats, scored: Floats, held_out_value: str | None) -> str | None:
        """A class without a scene on either side leaves the fold undefined."""
        del held_out_value
        return self._lacking("fit", fit) or self._lacking("scored", scored)

    def _lacking(self, what: str, target: Floats, spared: str | None = None) -> str | None:
        present = set(np.unique(target).astype(int).tolist())
        for number, name in enumerate(self.classes):
            if number not in present and name != spared:
                return f"class {name} has no {what} scene"
        return None


class Binary(ClassLabel):
    """One of two classes, the last of which is positive; one score, the positive class's logit."""

    name: ClassVar[str] = "binary"
    forms: ClassVar[tuple[str, ...]] = ("positive_score", "decisions")

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """There are two classes."""
        if len(spec.classes) != 2 or len(set(spec.classes)) != 2:
            raise ValueError("classes: expected two distinct names, the positive one last")

    @property
    def width(self) -> int:
        """The positive class's logit."""
        return 1

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """A ranking takes the logit; a decision takes two class scores, so that a logit of zero is a tie."""
        ranks = self.form_for(metric) == "positive_score"
        return (scores[:, 0] if ranks else np.hstack([-scores, scores])), target.astype(np.int64), 1


class EnrolledClass(ClassLabel):
    """A unit out of a gallery: a fold enrols every unit by captures of one session, and queries its other sessions.

    The held-out unit needs no fit scene, and one unit is queried, so that scored scenes need not show every class. One
    score per unit, also where there are two.
    """

    name: ClassVar[str] = "enrolled_class"
    readouts: ClassVar[tuple[str, ...]] = ("discriminant",)
    forms: ClassVar[tuple[str, ...]] = ("decisions", "verification")
    enrols: ClassVar[bool] = True

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """Units are enrolled on the device axis, each held out in turn; the regularisation is a share."""
        super().check(spec)
        if spec.ood_axis is not OODAxis.DEVICE or spec.classes != spec.held_out:
            raise ValueError("target: enrolled_class enrols devices, so ood_axis is device and classes equals held_out")
        if spec.readout.regularisation[-1] > 1:
            raise ValueError("readout.regularisation: expected shares, at most 1")

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """Class scores; for a verification metric every pair of a query and a unit, genuine or impostor."""
        classes = target.astype(np.int64)
        if self.form_for(metric) == "decisions":
            return scores, classes, 1
        genuine = np.arange(self.width)[None, :] == classes[:, None]
        return scores.reshape(-1), genuine.reshape(-1).astype(np.int64), self.width

    def groups(self, index: pa.Table) -> pa.ChunkedArray:
        """Sessions: captures of one share channel, drift and receiver."""
        return index["session"]

    def undefined_reason(self, fit: Floats, scored: Floats, held_out_value: str | None) -> str | None:
        """Every unit but the held-out one needs fit scenes."""
        del scored
        return self._lacking("fit", fit, spared=held_out_value)
