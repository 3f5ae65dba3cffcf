"""TaskSpecs that contradict themselves are refused when they are read."""

import pytest

from common.errors import InputError
from common.files import parse
from emma.metrics import METRICS
from emma.tasks import Anchors, OODAxis, Split, TaskID, TaskSpec
from emma.tasks.spec import _METRICS

LOS = {
    "label": "label_class",
    "classes": ["NLOS", "LOS"],
    "readout": {"kind": "logistic", "regularisation": 0.001, "max_parameters": 2049},
    "metric": "BalancedAccuracy",
    "unit": "1",
    "ood_axis": "environment",
    "held_out": ["E_URBAN", "E_RURAL"],
    "layered_band": ["2.4GHz", "5.8GHz"],
    "in_ood_avg": True,
    "anchors": {"minimum": 0.5, "maximum": 1.0},
}
FP = LOS | {
    "classes": ["U1", "U2"],
    "held_out": ["U1", "U2"],
    "ood_axis": "device",
    "readout": {"kind": "discriminant", "regularisation": 0.1, "max_parameters": 99},
    "metric": "Top1Accuracy",
    "secondary_metrics": ["EER"],
    "layered_band": [],
}


def test_names_of_the_protocol():
    assert [task.value for task in TaskID] == ["E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE", "E-ID-FP", "E-ID-AMC"]
    assert [axis.name for axis in OODAxis] == ["ENVIRONMENT", "DEVICE", "FREQUENCY_BAND", "SNR_REGIME"]
    assert [split.name for split in Split] == ["TRAIN", "DEV", "HOLDOUT"]


@pytest.mark.parametrize("good", [LOS, FP])
def test_a_spec_that_agrees_with_itself_is_taken(good):
    assert parse(TaskSpec, good, "r").held_out == tuple(good["held_out"])


def readout(**changes):
    return {"readout": LOS["readout"] | changes}


@pytest.mark.parametrize(
    ("base", "change", "message"),
    [
        (LOS, {"held_out": ["E_URBAN"]}, "held_out"),
        (LOS, {"held_out": ["E_URBAN", "E_URBAN"]}, "held_out"),
        (LOS, {"held_out": ["E+URBAN", "E_RURAL"]}, "held_out.0"),
        (LOS, {"held_out": ["../up", "E_RURAL"]}, "held_out.0"),
        (LOS, {"held_out": ["", "E_RURAL"]}, "held_out.0"),
        (LOS, {"layered_band": ["2.4GHz"]}, "layered_band"),
        (LOS, {"layered_band": ["2.4GHz", "2.4GHz"]}, "layered_band"),
        (LOS, {"layered_band": ["2.4/5.8", "x"]}, "layered_band.0"),
        (LOS, {"classes": ["LOS"]}, "classes"),
        (LOS, {"classes": ["LOS", "LOS"]}, "classes"),
        (LOS, {"classes": []}, "classes"),
        (LOS, {"label": "label_azimuth_deg"}, "classes"),
        (LOS, {"label": "label_snr"}, "label"),
        (LOS, {"metric": "Accuracy"}, "metric: Accuracy does not measure"),
        (LOS, {"metric": "EER"}, "metric: EER does not measure a logistic"),
        (LOS, {"metric": "MeanAngularError"}, "metric: MeanAngularError"),
        (LOS, {"secondary_metrics": ["Bleu"]}, "metric: Bleu"),
        (LOS, {"secondary_metrics": ["BalancedAccuracy"]}, "secondary_metrics: a metric stands twice"),
        (LOS, {"ood_axis": "weather"}, "ood_axis"),
        (LOS, {"in_ood_avg": 1}, "in_ood_avg"),
        (LOS, {"anchors": {"minimum": 1.0, "maximum": 1.0}}, "minimum must be below maximum"),
        (LOS, {"anchors": {"minimum": 0.5}}, "anchors.maximum: Field required"),
        (LOS, readout(regularisation=0.0), "readout.regularisation"),
        (LOS, readout(regularisation=-1), "readout.regularisation"),
        (LOS, readout(max_parameters=0), "readout.max_parameters"),
        (LOS, readout(kind="forest"), "readout.kind"),
        (LOS, readout(kind="ridge_angle"), "classes"),
        (LOS, readout(depth=3), "readout.depth: unknown key"),
        (FP, {"ood_axis": "environment"}, "readout.kind"),
        (FP, {"held_out": ["U1", "U3"]}, "readout.kind"),
        (FP, {"readout": FP["readout"] | {"regularisation": 1.5}}, "readout.regularisation: expected a share"),
        (FP, {"metric": "AUC"}, "metric: AUC does not measure a discriminant"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(base, change, message):
    with pytest.raises(InputError, match="r: ") as caught:
        parse(TaskSpec, base | change, "r")
    assert message in str(caught.value)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_no_number_of_a_spec_is_nan_or_infinite(bad):
    with pytest.raises(ValueError, match="finite"):
        Anchors(minimum=bad, maximum=1.0)
    with pytest.raises(ValueError, match="finite"):
        Anchors(minimum=0.0, maximum=bad)


def test_specs_are_frozen():
    spec = parse(TaskSpec, LOS, "r")
    with pytest.raises(ValueError, match="frozen"):
        spec.metric = "AUC"


def test_every_metric_that_a_readout_may_have_exists():
    assert {name for names in _METRICS.values() for name in names} <= set(METRICS)
