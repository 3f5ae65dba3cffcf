"""Cases with right values, each of which some library call or plain formula gets wrong or leaves open."""

import json
from pathlib import Path

import numpy as np
import pytest

from emma.metrics import METRICS, TopKAccuracy, UndefinedMetricError

CASES = json.loads(Path(__file__).with_name("cases.json").read_text())
ERRORS = {"UndefinedMetricError": UndefinedMetricError, "ValueError": ValueError}


def metric_of(name):
    base, _, k = name.partition("@")
    return TopKAccuracy(int(k)) if k else METRICS[base]


def samples_of(values):
    return np.array(values["re"]) + 1j * np.array(values["im"]) if isinstance(values, dict) else values


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['metric']}: {case['why']}")
def test_case(case):
    metric, preds, target = metric_of(case["metric"]), samples_of(case["preds"]), samples_of(case["target"])
    if case["value"] is None:
        with pytest.raises(ERRORS[case["error"]]):
            metric(preds, target)
        return
    value = metric(preds, target)
    assert type(value) is float
    rounded = {"rel": 0, "abs": 5.1e-7} if "six decimals" in case["why"] else {"rel": 1e-9, "abs": 1e-12}
    assert value == pytest.approx(case["value"], **rounded)
    ones = np.ones((1, len(target)), np.uint16)
    assert metric.resampled(preds, target, ones)[0] == pytest.approx(value, rel=1e-12, abs=1e-12)


def test_every_name_of_the_reference_is_there():
    names = (
        "MeanAngularError BalancedAccuracy AUC Top1Accuracy EER PlainAccuracy TopKAccuracy NMSE SISDR AUROC "
        "Bleu Meteor CIDER ExactMatch F1"
    )
    assert [*METRICS][:15] == names.split()
    for name, metric in ((name, METRICS[name]) for name in names.split()):
        assert metric.name == name
        assert metric.direction == ("lower" if name in {"MeanAngularError", "EER", "NMSE"} else "higher")
        assert metric.unit == {"MeanAngularError": "degrees", "NMSE": "dB", "SISDR": "dB"}.get(name, "1")
    assert METRICS["TopKAccuracy"].k == 5
