"""TaskSpecs that contradict themselves are refused when they are read."""

import numpy as np
import pyarrow as pa
import pytest

from common.errors import InputError
from common.files import parse
from emma.evaluation.task_metrics import check_metrics, metric_of
from emma.metrics import METRICS
from emma.readouts import READOUTS
from emma.tasks import TARGETS, Anchors, OODAxis, Split, TaskID, TaskSpec

LOS = {
    "target": "binary",
    "classes": ["NLOS", "LOS"],
    "readout": {"kind": "logistic", "regularisation": (0.001, 0.01), "max_parameters": 2049},
    "metric": "BalancedAccuracy",
    "unit": "1",
    "ood_axis": "environment",
    "held_out": ["E_URBAN", "E_RURAL"],
    "secondary": [{"ood_axis": "frequency_band", "held_out": ["2.4GHz", "5.8GHz"], "layered": True}],
    "in_ood_avg": True,
    "anchors": {"minimum": 0.5, "maximum": 1.0},
}
FP = LOS | {
    "target": "enrolled_class",
    "classes": ["U1", "U2"],
    "held_out": ["U1", "U2"],
    "ood_axis": "device",
    "readout": {"kind": "discriminant", "regularisation": (0.1,), "max_parameters": 99},
    "metric": "Top1Accuracy",
    "secondary_metrics": ["EER"],
    "secondary": [],
}

ANOM = LOS | {
    "target": "anomaly",
    "classes": ["normal", "anomalous"],
    "readout": {"kind": "mahalanobis", "components": 8, "regularisation": (), "max_parameters": 99},
    "metric": "AUROC",
}


def secondary(*held_out, axis="waveform", **more):
    return {"secondary": [{"ood_axis": axis, "held_out": list(held_out)} | more]}


def test_names_of_the_protocol():
    first = ["E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE", "E-ID-FP", "E-ID-AMC"]
    later = ["E-SC-SENSE", "E-SC-ANOM", "E-SC-SEP", "E-CH-BEAM", "E-CH-CSI", "E-S2T-CAP", "E-S2T-QA"]
    assert [task.value for task in TaskID] == [*first, *later]
    assert [axis.name for axis in OODAxis] == [
        *("ENVIRONMENT", "DEVICE", "FREQUENCY_BAND", "SNR_REGIME", "WAVEFORM", "RECEIVER")
    ]
    assert [split.name for split in Split] == ["TRAIN", "DEV", "HOLDOUT"]


@pytest.mark.parametrize("good", [LOS, FP, ANOM])
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
        (LOS, {"layered_band": ["2.4GHz", "5.8GHz"]}, "layered_band: is now called secondary, expected an entry"),
        (LOS, secondary("a"), "secondary.0: held_out: expected two or more distinct values"),
        (LOS, secondary("a", "a"), "secondary.0: held_out: expected two or more distinct values"),
        (LOS, secondary("2.4/5.8", "x"), "secondary.0.held_out.0"),
        (LOS, secondary("a", "b", axis="environment"), "secondary: an axis occurs twice or is ood_axis itself"),
        (LOS, {"secondary": 2 * secondary("a", "b")["secondary"]}, "secondary: an axis occurs twice"),
        (LOS, secondary("a", "b", axis="weather"), "secondary.0.ood_axis"),
        (LOS, {"new_holdout_units": True}, "new_holdout_units: expected with a target that enrols, not binary"),
        (LOS, secondary("a", "b", layer=True), "secondary.0.layer: unknown key"),
        (LOS, {"classes": ["LOS"]}, "classes"),
        (LOS, {"classes": ["LOS", "LOS"]}, "classes"),
        (LOS, {"classes": []}, "classes"),
        (LOS, {"classes": ["a", "b", "c"]}, "classes: expected two distinct names, the positive one last"),
        (LOS, {"target": "class", "classes": ["a"]}, "classes: expected two or more distinct names"),
        (LOS, {"target": "angle"}, "readout.kind: logistic does not fit target angle, expected ridge"),
        (
            LOS,
            {"target": "snr"},
            f"target: snr is unknown, expected one of {', '.join(TARGETS)}",
        ),
        (
            {key: LOS[key] for key in LOS if key != "target"},
            {"label": "label_class"},
            f"label: is now called target, expected one of {', '.join(TARGETS)}, found label_class",
        ),
        (LOS, {"secondary_metrics": ["BalancedAccuracy"]}, "secondary_metrics: a metric occurs twice"),
        (LOS, {"ood_axis": "weather"}, "ood_axis"),
        (LOS, {"in_ood_avg": 1}, "in_ood_avg"),
        (LOS, {"anchors": {"minimum": 1.0, "maximum": 1.0}}, "minimum must be below maximum"),
        (LOS, {"anchors": {"minimum": 0.5}}, "anchors.maximum: Field required"),
        (LOS, readout(regularisation=(0.0,)), "readout.regularisation"),
        (LOS, readout(regularisation=(-1,)), "readout.regularisation"),
        (LOS, readout(regularisation=()), "readout: regularisation: expected one value or more"),
        (LOS, readout(regularisation=(0.1, 0.1)), "readout.regularisation: expected increasing values"),
        (LOS, readout(regularisation=(0.1, 0.01)), "readout.regularisation: expected increasing values"),
        (LOS, readout(max_parameters=0), "readout.max_parameters"),
        (LOS, readout(kind="forest"), "readout.kind"),
        (LOS, readout(kind="ridge_angle"), "readout.kind: ridge_angle is now called ridge"),
        (LOS, readout(kind="ridge"), "readout.kind: ridge does not fit target binary, expected logistic"),
        (LOS, {"target": "angle"} | readout(kind="ridge"), "classes: expected none with target angle"),
        (LOS, readout(depth=3), "readout.depth: unknown key"),
        (FP, {"readout": FP["readout"] | {"class_balanced": True}}, "readout.class_balanced: expected with"),
        (FP, {"ood_axis": "environment"}, "target: enrolled_class enrols devices"),
        (FP, {"held_out": ["U1", "U3"]}, "target: enrolled_class enrols devices"),
        (FP, {"readout": FP["readout"] | {"regularisation": (0.1, 1.5)}}, "readout.regularisation: expected shares"),
        (ANOM, {"classes": ["a", "a"]}, "classes: expected two distinct names, the normal one first"),
        (ANOM, {"classes": ["a", "b", "c"]}, "classes: expected two distinct names, the normal one first"),
        (ANOM, {"readout": LOS["readout"]}, "readout.kind: logistic does not fit target anomaly, expected mahalanobis"),
        (ANOM, {"readout": ANOM["readout"] | {"components": None}}, "components: expected a value with kind mahala"),
        (ANOM, {"readout": ANOM["readout"] | {"regularisation": (0.1,)}}, "regularisation: expected no value with"),
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


METRIC_FAULTS = [
    ({"metric": "Accuracy"}, "metric: Accuracy is unknown, expected BalancedAccuracy, AUC, "),
    ({"metric": "EER"}, "metric: EER does not measure target binary"),
    ({"metric": "MeanAngularError"}, "metric: MeanAngularError does not measure target binary"),
    ({"secondary_metrics": ["Bleu"]}, "metric: Bleu does not measure target binary"),
    ({"unit": "degrees"}, "unit: degrees, expected 1, that of BalancedAccuracy"),
    ({"k": 3}, "k: none of BalancedAccuracy takes it"),
    ({"metric": "TopKAccuracy"}, "k: 5, expected fewer than the 2 classes"),
    ({"tokenizer": "13a-lower"}, "tokenizer: none of BalancedAccuracy takes it"),
]


@pytest.mark.parametrize(("change", "message"), METRIC_FAULTS)
def test_a_metric_that_does_not_measure_the_target_is_refused(change, message):
    check_metrics({TaskID.E_LOC_LOS: parse(TaskSpec, LOS, "r"), TaskID.E_ID_FP: parse(TaskSpec, FP, "r")}, "r")
    with pytest.raises(InputError, match=r"r: tasks\.E-LOC-LOS\.") as caught:
        check_metrics({TaskID.E_LOC_LOS: parse(TaskSpec, LOS | change, "r")}, "r")
    assert message in str(caught.value)


def test_a_release_pins_k():
    many = {"target": "class", "classes": list("abcde"), "metric": "TopKAccuracy", "k": 3}
    spec = parse(TaskSpec, LOS | many, "r")
    check_metrics({TaskID.E_LOC_LOS: spec}, "r")
    ties = np.zeros((1, 5)), np.array([0])
    assert metric_of(spec, "TopKAccuracy")(*ties) == 0.6
    assert metric_of(spec.model_copy(update={"k": None}), "TopKAccuracy").k == 5
    with pytest.raises(InputError, match=r"k: Input should be greater than or equal to 1"):
        parse(TaskSpec, LOS | many | {"k": 0}, "r")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_a_target_fits_known_readouts_and_is_measured_by_some_metric(target):
    assert target.readouts
    assert set(target.readouts) <= set(READOUTS)
    assert all(any(form in METRICS[name].takes for name in METRICS) for form in target.forms)


def test_two_targets_of_one_name_are_refused():
    with pytest.raises(TypeError, match=r"target angle: .*Other and Angle have one name"):

        class Other(TARGETS["angle"]):
            name = "angle"


def test_two_classes_share_a_logit_and_a_gallery_of_two_does_not():
    binary, enrolled = TARGETS["binary"](("a", "b")), TARGETS["enrolled_class"](("a", "b"))
    assert (binary.width, enrolled.width, TARGETS["class"](("a", "b")).width) == (1, 2, 2)
    scores, truth = np.array([[0.0], [2.0]]), np.array([0.0, 1.0])
    ranks, _, _ = binary.metric_inputs(METRICS["AUC"], scores, truth)
    decisions, _, _ = binary.metric_inputs(METRICS["BalancedAccuracy"], scores, truth)
    assert (ranks.tolist(), decisions.tolist()) == ([0.0, 2.0], [[0.0, 0.0], [-2.0, 2.0]])
    pairs, genuine, entries = enrolled.metric_inputs(METRICS["EER"], np.array([[0.9, 0.1]]), np.array([1.0]))
    assert (pairs.tolist(), genuine.tolist(), entries) == ([0.9, 0.1], [0, 1], 2)


BEAM = TARGETS["beam"](("a", "b", "c"))


def test_powers_that_are_none_of_the_beams_are_no_label():
    """Another number of them, one below 0, none that is 1, one above it, one that is missing."""
    rows = [[0.0, 1.0, 0.5], [1.0, 0.5], [-0.1, 1.0, 0.0], [0.2, 0.9, 0.1], [0.2, 2.0, 1.0], [None, 1.0, 0.0], []]
    given = pa.chunked_array([rows[:2], rows[2:]], BEAM.label_type)
    encoded = BEAM.encode(given)
    assert [row is None for row in encoded.to_pylist()] == [False] + 6 * [True]
    assert encoded.type == BEAM.encoded_type
    assert BEAM.numbers(BEAM.encode(given.slice(0, 1))).tolist() == [[0.0, 1.0, 0.5]]
    assert BEAM.numbers(BEAM.encode(given.slice(0, 0))).shape == (0, 3)


def test_the_strongest_beam_is_the_decision_and_its_power_the_choice():
    scores, powers = np.array([[0.1, 0.9, 0.3]]), np.array([[0.25, 0.5, 1.0]])
    decided, best, _ = BEAM.metric_inputs(METRICS["Top1Accuracy"], scores, powers)
    assert (decided.tolist(), best.tolist()) == (scores.tolist(), [2])
    assert BEAM.metric_inputs(METRICS["PowerLoss"], scores, powers)[1].tolist() == powers.tolist()
    assert BEAM.regressand(powers).tolist() == BEAM.from_regression(powers).tolist() == powers.tolist()
    assert BEAM.regressed


ANOMALY = TARGETS["anomaly"](("normal", "anomalous"))


def test_a_fit_that_shows_an_anomaly_and_scored_scenes_of_one_class_leave_no_fold():
    normal, both = np.zeros(5), np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    assert ANOMALY.undefined_reason(normal, both, "x") is None
    assert ANOMALY.undefined_reason(both, both, None) == (
        "class anomalous has 3 fit scenes, expected none: the fit is to know what is normal"
    )
    assert ANOMALY.undefined_reason(normal, normal, "x") == "class anomalous has no scored scene"
    assert ANOMALY.undefined_reason(normal, np.ones(2), "x") == "class normal has no scored scene"
    assert ANOMALY.one_class


def test_an_anomaly_is_ranked_and_never_decided():
    ranks, truth, entries = ANOMALY.metric_inputs(METRICS["AUROC"], np.array([[0.5], [2.0]]), np.array([0.0, 1.0]))
    assert (ranks.tolist(), truth.tolist(), entries) == ([0.5, 2.0], [0, 1], 1)
    assert ANOMALY.form_for(METRICS["AUROC"]) == "positive_score"
    assert ANOMALY.form_for(METRICS["BalancedAccuracy"]) is None


def test_degrees_outside_a_turn_are_no_angle():
    labels = pa.chunked_array([[0.0, 359.9, 360.0, -1.0, 4000.0]])
    assert TARGETS["angle"]().encode(labels).to_pylist() == [0.0, 359.9, None, None, None]


def test_differences_of_angles_are_those_around_the_circle():
    angle = TARGETS["angle"]()
    assert angle.distance(np.array([[359.0]]), np.array([[1.0]])) == 2.0
    assert angle.distance(np.zeros((1, 1)), np.zeros((2, 1))) == float("inf")
    assert angle.score_fault(np.array([[360.0]])) == "expected degrees in [0, 360)"
    assert angle.score_fault(np.array([[0.0]])) is None
