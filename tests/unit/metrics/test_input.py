"""What wrong or undefined input raises, and that nothing is given in its place."""

import numpy as np
import pytest

from emma.metrics import METRICS, Metric, TopKAccuracy, UndefinedMetricError

pytestmark = pytest.mark.filterwarnings("error")
NAN, INF = float("nan"), float("inf")
LABELLED = ("BalancedAccuracy", "PlainAccuracy", "Top1Accuracy")
RANKED = ("AUC", "AUROC", "EER")
TEXTS = ("Bleu", "Meteor", "CIDER", "ExactMatch", "F1")

UNDEFINED = [
    *((name, [], []) for name in METRICS),
    *((name, np.empty((0, 5)), []) for name in (*LABELLED, "AUC", "TopKAccuracy")),
    *((name, [0.1, 0.4], [c, c]) for name in RANKED for c in (0, 1)),
    ("AUC", [[0.1, 0.4], [1, 2]], [1, 1]),
    ("BalancedAccuracy", [0, 1], [1, 1]),
    ("BalancedAccuracy", [[0.0, 1.0]], [1]),
    ("NMSE", [[1.0]], [[0.0]]),
    ("SISDR", [[1.0, 2.0]], [[0.0, 0.0]]),
    ("SISDR", [[[1.0, 2.0], [0.0, 0.0]]], [[[0.0, 0.0], [1.0, 2.0]]]),
    ("SISDR", [[1.0, 2.0], [0.0, 0.0]], [[1.0, 2.0], [1.0, 2.0]]),
    ("SISDR", np.empty((2, 0)), np.empty((2, 0))),
    ("CIDER", ["a tone"], [["a tone"]]),
]

WRONG = [
    *(("MeanAngularError", [bad, 1.0], [1.0, 2.0]) for bad in (NAN, INF, -INF, 1j, "1", None)),
    ("MeanAngularError", [1.0], [NAN]),
    ("MeanAngularError", [1.0], [1.0, 2.0]),
    ("MeanAngularError", [[1.0]], [[1.0]]),
    ("MeanAngularError", 1.0, 1.0),
    ("MeanAngularError", [[1.0], [1.0, 2.0]], [1.0, 2.0]),
    ("MeanAngularError", np.ma.array([1.0, 2.0], mask=[0, 1]), [1.0, 2.0]),
    *((name, preds, target) for name in LABELLED for preds, target in (
        ([[NAN, 0.0]], [0]),
        ([[INF, 0.0]], [0]),
        ([[0.0, 1.0]], [2]),
        ([[0.3], [0.7]], [0, 0]),
        ([[0.0, 1.0]], [-1]),
        ([[0.0, 1.0]], [0.5]),
        ([[0.0, 1.0]], [0, 1]),
        ([[0.0, 1.0]], [[0]]),
        ([[0.0, 1.0]], 0),
        ([0.3, 0.7], [0, 1]),
        ([0, -1], [0, 1]),
        ([0, 1], [0, -1]),
        ([0, 1], [0, NAN]),
        ([0, 2**31], [0, 1]),
        ([0, 1, 1], [0, 1]),
        (np.zeros((2, 2, 2)), [0, 1]),
        (1, 1),
    )),
    ("TopKAccuracy", [[0.0, 1.0, 2.0, 3.0]], [0]),
    ("TopKAccuracy", [0, 1], [0, 1]),
    ("TopKAccuracy", [[0.0, 1.0, 2.0, 3.0, NAN]], [0]),
    *((name, preds, target) for name in RANKED for preds, target in (
        ([NAN, 0.5], [0, 1]),
        ([INF, 0.5], [0, 1]),
        ([0.1, 0.5], [0, 2]),
        ([0.1, 0.5], [-1, 1]),
        ([0.1, 0.5], [0, 0.5]),
        ([0.1, 0.5, 0.7], [0, 1]),
        (["a", "b"], [0, 1]),
        (0.5, 1),
        ([0.5], 1),
    )),
    ("EER", [[0.1, 0.5], [0.3, 0.2]], [0, 1]),
    *((name, [[0.1, 0.5], [0.3, 0.2]], [0, 2]) for name in ("AUC", "AUROC")),
    *((name, np.zeros((2, 2, 2)), [0, 1]) for name in RANKED),
    *((name, preds, target) for name in ("NMSE", "SISDR") for preds, target in (
        ([[NAN, 1.0]], [[1.0, 1.0]]),
        ([[1.0, 1.0]], [[complex(0, INF), 1.0]]),
        ([[1.0]], [[1.0, 1.0]]),
        ([[1.0, 1.0]], [[1.0, 1.0]] * 2),
        (1.0, 1.0),
    )),
    ("SISDR", [1.0, 2.0], [[1.0, 2.0]]),
    ("SISDR", np.ones((2, 1, 1, 1)), np.ones((2, 1, 1, 1))),
    *((name, preds, target) for name in TEXTS for preds, target in (
        ("ab", [["a"], ["b"]]),
        (["a", "b"], ["a", "b"]),
        (["a", "b"], [["a"], []]),
        (["a", None], [["a"], ["b"]]),
        (["a", NAN], [["a"], ["b"]]),
        (["a", "b"], [["a"], [None]]),
        (["a", "b"], [["a"]]),
        (None, [["a"]]),
        (["a"], None),
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "preds", "target"), UNDEFINED)
def test_what_the_input_does_not_define(name, preds, target):
    with pytest.raises(UndefinedMetricError, match=f"{name} is undefined: "):
        METRICS[name](preds, target)
    # On resamples the same is NaN, not an error.
    values = METRICS[name].resampled(preds, target, np.ones((3, len(target)), np.uint16))
    assert values.shape == (3,)
    assert np.isnan(values).all()


@pytest.mark.parametrize(("name", "preds", "target"), WRONG)
def test_wrong_input(name, preds, target):
    with pytest.raises(ValueError) as caught:
        METRICS[name](preds, target)
    assert not isinstance(caught.value, UndefinedMetricError)
    assert str(caught.value).startswith(("preds", "target"))
    with pytest.raises(ValueError):
        METRICS[name].resampled(preds, target, np.ones((1, 2), np.uint16))


@pytest.mark.parametrize("k", [0, -1, 1.5, True, "3", None])
def test_top_k_of_no_whole_number(k):
    with pytest.raises(ValueError, match="k: expected"):
        TopKAccuracy(k)


def test_one_sample_in_two_thousand_names_the_sample():
    preds = np.zeros(2000)
    preds[[1203, 1204]] = NAN
    with pytest.raises(ValueError, match="sample 1203, 1204"):
        METRICS["MeanAngularError"](preds, np.zeros(2000))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint8, bool, np.int64])
def test_any_real_dtype(dtype):
    preds, target = np.array([0, 1, 1, 0], dtype), np.array([0, 1, 0, 0], dtype)
    assert METRICS["AUC"](preds, target) == pytest.approx(5 / 6)
    assert METRICS["PlainAccuracy"](preds, target) == 0.75
    assert METRICS["MeanAngularError"](preds, target) == 0.25


def test_large_whole_scores_are_not_rounded_into_ties():
    assert METRICS["AUC"](np.array([2**60, 2**60 + 1]), [0, 1]) == 1.0
    assert METRICS["EER"](np.array([2**60, 2**60 + 1]), [0, 1]) == 0.0
    assert METRICS["PlainAccuracy"](np.array([[2**60, 2**60 + 1], [2**60 + 1, 2**60]]), [1, 0]) == 1.0
    assert METRICS["PlainAccuracy"](np.array([[-(2**63), -(2**63) + 1]]), [1]) == 1.0
    assert METRICS["PlainAccuracy"](np.array([[2**64 - 2, 2**64 - 1]], np.uint64), [1]) == 1.0


def test_results_are_python_floats_in_double_precision():
    preds = np.array([1.0, 1.1], np.float32)
    value = METRICS["MeanAngularError"](preds, np.zeros(2, np.float32))
    assert type(value) is float
    assert value == (1.0 + float(preds[1])) / 2


def test_a_metric_must_be_callable():
    class Nameless(Metric):
        name = "Nameless"

    with pytest.raises(TypeError):
        Nameless()
