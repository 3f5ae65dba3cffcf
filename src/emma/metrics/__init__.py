"""The metrics of the benchmark by name; ``METRICS[name](preds, target)`` is a float.

Every module of this folder is imported, so that a new file's metrics stand in METRICS without an edit elsewhere.
Looking a metric up imports no metric library; calling it imports the one it rests on, if any.
"""

import importlib
import pkgutil

from emma.metrics.base import Metric, MetricDetails, MetricMismatchError, Takes, UndefinedMetricError
from emma.metrics.captions import CIDER, Bleu
from emma.metrics.choices import PowerLoss
from emma.metrics.classification import BalancedAccuracy, PlainAccuracy, Top1Accuracy, TopKAccuracy
from emma.metrics.ranking import AUC, AUROC, EER
from emma.metrics.registry import METRICS, make_metric
from emma.metrics.signals import NMSE, SISDR, MeanAngularError, SISDRImprovement
from emma.metrics.text import F1, ExactMatch, Meteor

__all__ = [
    "AUC",
    "AUROC",
    "CIDER",
    "EER",
    "F1",
    "METRICS",
    "NMSE",
    "SISDR",
    "BalancedAccuracy",
    "Bleu",
    "ExactMatch",
    "MeanAngularError",
    "Meteor",
    "Metric",
    "MetricDetails",
    "MetricMismatchError",
    "PlainAccuracy",
    "PowerLoss",
    "SISDRImprovement",
    "Takes",
    "Top1Accuracy",
    "TopKAccuracy",
    "UndefinedMetricError",
    "make_metric",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
