"""The metrics of the benchmark by name; ``METRICS[name](preds, target)`` is a float.

Looking a metric up imports no metric library; calling it imports the one it rests on, if any.
"""

from collections.abc import Iterator, Mapping

from emma.metrics.base import Metric, MetricDetails, UndefinedMetricError
from emma.metrics.captions import CIDER, Bleu
from emma.metrics.classification import BalancedAccuracy, PlainAccuracy, Top1Accuracy, TopKAccuracy
from emma.metrics.ranking import AUC, AUROC, EER
from emma.metrics.signals import NMSE, SISDR, MeanAngularError
from emma.metrics.text import F1, ExactMatch, Meteor

_CLASSES: tuple[type[Metric], ...] = (
    MeanAngularError,
    BalancedAccuracy,
    AUC,
    Top1Accuracy,
    EER,
    PlainAccuracy,
    TopKAccuracy,
    NMSE,
    SISDR,
    AUROC,
    Bleu,
    Meteor,
    CIDER,
    ExactMatch,
    F1,
)


class _Metrics(Mapping[str, Metric]):
    """Metrics by name, each made when first asked for, so that one whose data are absent fails at that point."""

    def __init__(self, classes: tuple[type[Metric], ...]) -> None:
        self._classes = {cls.name: cls for cls in classes}
        self._made: dict[str, Metric] = {}

    def __getitem__(self, name: str) -> Metric:
        if name not in self._made:
            self._made[name] = self._classes[name]()
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)


METRICS: Mapping[str, Metric] = _Metrics(_CLASSES)
