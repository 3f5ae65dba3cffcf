"""The metric on resamples is the metric of the repeated rows, computed without repeating them."""

import numpy as np
import pytest

from emma.evaluation.statistics import bootstrap_weights
from emma.metrics import AUC, METRICS, Metric, PlainAccuracy, TopKAccuracy, UndefinedMetricError
from emma.metrics.base import MetricDetails

pytestmark = pytest.mark.filterwarnings("error")
N = 24
WORDS = ["a", "weak", "tone", "of", "noise", "drone", "sends", "video"]


def samples(name, seed):
    rng = np.random.default_rng(seed)
    if name == "MeanAngularError":
        return rng.uniform(-500, 500, (2, N))
    if name in {"AUC", "AUROC", "EER"}:
        return rng.integers(0, 6, N) * 10.0, rng.permutation(np.arange(N) % 8 == 0).astype(int)
    if name in {"NMSE", "SISDR"}:
        estimate, reference = rng.standard_normal((2, N, 16)) + 1j * rng.standard_normal((2, N, 16))
        reference[[3, 9]] = 0
        return estimate, reference
    if name in {"Bleu", "Meteor", "CIDER", "ExactMatch", "F1"}:
        draw = lambda: " ".join(rng.choice(WORDS, rng.integers(0, 9)))  # noqa: E731
        target = [[draw() for _ in range(1 + i % 3)] for i in range(N)]
        return [f"{refs[0]} {draw()}" if i % 2 else draw() for i, refs in enumerate(target)], target
    if name == "SISDRImprovement":
        known = rng.normal(size=(N, 2, 16)) + 1j * rng.normal(size=(N, 2, 16))
        return known[:, 1] + rng.normal(size=(N, 16)), known
    if name == "PowerLoss":
        return rng.integers(0, 3, (N, 6)), rng.random((N, 6))
    return rng.integers(0, 3, (N, 6)), rng.permutation(np.minimum(np.arange(N) % 9, 5))


CASES = [(METRICS[name], samples(name, seed)) for name in METRICS for seed in range(3)]
CASES += [(metric, samples("Top1Accuracy", 3)) for metric in (AUC(), TopKAccuracy(2))]
CASES += [
    (METRICS[name], np.random.default_rng(4).integers(0, 5, (2, N))) for name in ("PlainAccuracy", "BalancedAccuracy")
]


@pytest.mark.parametrize(("metric", "data"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_equals_the_metric_of_repeated_rows(metric, data):
    drawn = bootstrap_weights(N, n_resamples=20, seed=1)
    none, ones = np.zeros(N, np.uint16), np.ones(N, np.uint16)
    alone, twice = np.eye(N, dtype=np.uint16), 2 * ones
    weights = np.vstack([drawn, ones, none, twice, alone])
    values = metric.resampled(*data, weights)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, Metric.resampled(metric, *data, weights), rtol=1e-12, atol=1e-12)
    assert values[20] == pytest.approx(metric(*data), rel=1e-12, abs=1e-12)
    assert np.isnan(values[21])


@pytest.mark.parametrize(("metric", "data"), CASES, ids=lambda value: getattr(value, "name", ""))
def test_no_resamples(metric, data):
    assert metric.resampled(*data, np.empty((0, N), np.uint16)).shape == (0,)


@pytest.mark.parametrize("name", list(METRICS))
def test_wrong_weights(name):
    data = samples(name, 0)
    for weights in (np.ones(N, int), np.ones((2, N + 1), int), np.full((2, N), -1), np.full((2, N), 0.5), [["a"] * N]):
        with pytest.raises(ValueError, match="weights"):
            METRICS[name].resampled(*data, weights)


def test_blocks_of_rows_do_not_show(monkeypatch):
    from emma.metrics import base, captions, classification, ranking

    weights = bootstrap_weights(N, n_resamples=50, seed=2)
    names = ("AUC", "EER", "BalancedAccuracy", "CIDER")
    whole = [METRICS[name].resampled(*samples(name, 1), weights) for name in names]
    for module in (captions, classification, ranking):
        monkeypatch.setattr(module, "row_blocks", lambda weights, cells=0: base.row_blocks(weights, 7 * N))
    for name, expected in zip(names, whole, strict=True):
        np.testing.assert_allclose(METRICS[name].resampled(*samples(name, 1), weights), expected, rtol=1e-13)


def test_silent_estimate_spoils_only_the_resamples_that_hold_it():
    estimate, reference = np.array([[1.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0]])
    values = METRICS["SISDR"].resampled(estimate, reference, np.array([[1, 0], [1, 1], [0, 3]]))
    assert values[0] == pytest.approx(0.0, abs=1e-12)
    assert np.isnan(values[1:]).all()


def test_default_passes_wrong_input_on_and_details_count_samples():
    class Spread(Metric):
        name, direction = "Spread", "lower"

        def __call__(self, preds, target):
            if len(preds) < 2:
                raise UndefinedMetricError("Spread is undefined: fewer than two samples")
            return float(np.ptp(preds))

    values = Spread().resampled([1.0, 4.0, 2.0], [0, 0, 0], np.array([[1, 1, 1], [1, 0, 2], [0, 1, 0]]))
    assert np.array_equal(values, [3.0, 1.0, np.nan], equal_nan=True)
    assert Spread().details([1.0, 4.0], [0, 0]) == MetricDetails(3.0, 2)
    assert repr(Spread()) == "Spread()"
    assert [repr(m) for m in (TopKAccuracy(3), PlainAccuracy())] == ["TopKAccuracy(3)", "PlainAccuracy()"]
