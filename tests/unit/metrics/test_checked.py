"""The library's value and the kernel that resamples it are one number, and a metric says so where they are not."""

import numpy as np
import pytest
import torch

from emma.metrics import (
    AUC,
    EER,
    METRICS,
    NMSE,
    BalancedAccuracy,
    Metric,
    MetricMismatchError,
    PlainAccuracy,
    TopKAccuracy,
    UndefinedMetricError,
    library,
)

RNG = np.random.default_rng(11)
N = 3000
SCORES, CLASSES = RNG.standard_normal(N), RNG.standard_normal((N, 7))
TIED = RNG.integers(0, 4, (N, 7))
BINARY, LABELS = RNG.integers(0, 2, N), RNG.integers(0, 7, N)
ACCURACIES = (PlainAccuracy(), METRICS["Top1Accuracy"], BalancedAccuracy(), TopKAccuracy(3))


@pytest.mark.parametrize("classes", [CLASSES, CLASSES.astype(np.float32), TIED, TIED.astype(np.float16)])
@pytest.mark.parametrize("metric", [*ACCURACIES, AUC(), METRICS["AUROC"]], ids=repr)
def test_library_and_kernel_agree_on_class_scores(metric, classes):
    for labels in (LABELS, np.where(LABELS == 4, 2, LABELS)):  # the second lacks a class
        assert metric.checked(classes, labels) == pytest.approx(metric.kernel(classes, labels), rel=1e-13)


@pytest.mark.parametrize("scores", [SCORES, 1e3 * SCORES, np.round(SCORES, 1), np.full(N, 0.5), TIED[:, 0]])
@pytest.mark.parametrize("name", ["AUC", "AUROC", "EER"])
def test_library_and_kernel_agree_to_the_last_bit_on_rankings(name, scores):
    assert METRICS[name].checked(scores, BINARY) == METRICS[name].kernel(scores, BINARY)


def test_rates_of_a_large_sample_are_exact():
    # The library alone, in single precision, errs here by 1e-7.
    scores, target = RNG.standard_normal(200_000), RNG.integers(0, 2, 200_000)
    assert AUC()(scores, target) == AUC().kernel(scores, target)
    assert EER()(scores, target) == EER().kernel(scores, target)


def test_labels_like_serial_numbers():
    preds, target = RNG.integers(0, 40, (2, N)) * 50_000_000
    recalls = [np.mean(preds[target == c] == c) for c in np.unique(target)]
    assert BalancedAccuracy().checked(preds, target) == pytest.approx(np.mean(recalls), rel=1e-13)
    assert PlainAccuracy().checked(preds, target) == np.mean(preds == target)


@pytest.mark.parametrize("error", [2e-9, -2e-9, 0.1])
def test_a_kernel_that_is_wrong_is_seen(monkeypatch, error):
    value = PlainAccuracy()(CLASSES, LABELS)
    monkeypatch.setattr(PlainAccuracy, "resampled", lambda *_: np.array([value + error]))
    with pytest.raises(MetricMismatchError, match=rf"PlainAccuracy: {value!r}, but {value + error!r} by the kernel"):
        PlainAccuracy().checked(CLASSES, LABELS)


def test_a_library_that_is_wrong_is_seen(monkeypatch):
    right = library.n_right
    monkeypatch.setattr(library, "n_right", lambda *arguments: right(*arguments) + 1)
    for metric in ACCURACIES:
        with pytest.raises(MetricMismatchError, match=metric.name):
            metric.checked(CLASSES, LABELS)
    monkeypatch.setattr(library, "area", lambda scores, positive: 0.5)
    with pytest.raises(MetricMismatchError, match=r"AUC: 0\.5, but"):
        AUC().checked(SCORES, BINARY)


class Given(Metric):
    """A metric and a kernel of any values."""

    name, direction = "Given", "higher"

    def __init__(self, value, kernel):
        self.value, self.other = value, kernel

    def __call__(self, preds, target):
        return self.value

    def resampled(self, preds, target, weights):
        return np.array([self.other])


def test_tolerance_is_relative_above_one_only():
    for value, kernel in ((1e3, 1e3 + 9e-7), (-1e3, -1e3 - 9e-7), (1e-6, 1e-6 + 9e-10), (-np.inf, -np.inf), (0.0, 0.0)):
        assert Given(value, kernel).checked([1], [1]) == value
    for value, kernel in ((1e3, 1e3 + 2e-6), (1e-6, 1e-6 + 2e-9), (1.0, np.nan), (np.inf, -np.inf), (1.0, np.inf)):
        with pytest.raises(MetricMismatchError, match="Given"):
            Given(value, kernel).checked([1], [1])


def test_what_checked_raises_otherwise():
    with pytest.raises(UndefinedMetricError):
        AUC().checked([0.1, 0.2], [1, 1])
    with pytest.raises(ValueError, match="preds"):
        AUC().checked([np.nan, 0.2], [1, 0])
    assert np.isnan(AUC().kernel([0.1, 0.2], [1, 1]))
    assert NMSE().checked([[1.0]], [[1.0]]) == -100.0


@pytest.mark.parametrize("before", [torch.float32, torch.float64, torch.bfloat16])
def test_default_precision_of_torch_is_left_as_it_was(before, monkeypatch):
    plain = torch.get_default_dtype()
    try:
        torch.set_default_dtype(before)
        assert AUC()(SCORES, BINARY) == AUC().kernel(SCORES, BINARY)
        EER()(SCORES, BINARY)
        AUC()(CLASSES, LABELS)
        assert torch.get_default_dtype() == before
        monkeypatch.setattr("torchmetrics.functional.classification.binary_auroc", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            AUC()(SCORES, BINARY)
        assert torch.get_default_dtype() == before
    finally:
        torch.set_default_dtype(plain)


@pytest.mark.parametrize("metric", ACCURACIES, ids=repr)
def test_accuracies_are_counts_of_the_library(metric, monkeypatch):
    # Where nothing is tied, all comes from the library: without its counts nothing is right.
    monkeypatch.setattr(library, "n_right", lambda *_: 0)
    assert metric(CLASSES, LABELS) == 0.0
    assert metric(np.zeros((4, 7)), [0, 1, 2, 3]) > 0.0
