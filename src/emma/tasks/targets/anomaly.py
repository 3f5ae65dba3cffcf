"""Normal or anomalous, where nobody shows an anomaly beforehand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from emma.tasks.targets.base import Floats, Measure, Scores
from emma.tasks.targets.classes import Binary

if TYPE_CHECKING:
    from emma.tasks.spec import TaskSpec


class Anomaly(Binary):
    """One of two classes, of which fit scenes hold the first, the normal one, alone; one score, higher for anomalous.

    A score ranks scenes and has no threshold: metrics that decide have no use for it. Where the fit holds an anomaly,
    or scored scenes lack one class, a fold is undefined.
    """

    name: ClassVar[str] = "anomaly"
    readouts: ClassVar[tuple[str, ...]] = ("mahalanobis",)
    forms: ClassVar[tuple[str, ...]] = ("positive_score",)
    one_class: ClassVar[bool] = True

    @classmethod
    def check(cls, spec: TaskSpec) -> None:
        """There are two classes, the normal one first."""
        if len(spec.classes) != 2 or len(set(spec.classes)) != 2:
            raise ValueError("classes: expected two distinct names, the normal one first")

    def metric_inputs(self, metric: Measure, scores: Floats, target: Floats) -> tuple[Scores, Scores, int]:
        """The score against class indices."""
        del metric
        return scores[:, 0], target.astype(np.int64), 1

    def undefined_reason(self, fit: Any, scored: Any, held_out_value: str | None) -> str | None:
        """An anomaly among fit scenes leaves the fold undefined, as does a class without a scored scene."""
        del held_out_value
        if shown := int(np.count_nonzero(fit)):
            return f"class {self.classes[-1]} has {shown} fit scenes, expected none: the fit is to know what is normal"
        return self._lacking("scored", scored)
