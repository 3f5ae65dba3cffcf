"""The loss in power of a choice, against its formula in plain Python."""

import math

import numpy as np
import pytest

from emma.metrics import METRICS, UndefinedMetricError
from emma.metrics.choices import PowerLoss


def by_hand(scores: list[float], power: list[float]) -> float:
    best = [place for place, score in enumerate(scores) if score == max(scores)]
    losses = [100.0 if power[p] == 0 else min(100.0, 10 * math.log10(max(power) / power[p])) for p in best]
    return sum(losses) / len(losses)


def test_the_mean_over_samples_and_over_ties() -> None:
    rng = np.random.default_rng(0)
    scores, power = rng.integers(0, 3, (50, 4)).astype(float), rng.random((50, 4)) * (rng.random((50, 4)) > 0.2)
    power[:, 0] += 0.1
    wanted = [by_hand(*rows) for rows in zip(scores.tolist(), power.tolist(), strict=True)]
    assert PowerLoss()(scores, power) == pytest.approx(np.mean(wanted), abs=1e-12)
    weights = rng.integers(0, 3, (5, 50)).astype(np.uint16)
    np.testing.assert_allclose(PowerLoss().resampled(scores, power, weights), weights @ wanted / weights.sum(axis=1))
    assert PowerLoss().checked(scores, power) == PowerLoss()(scores, power)


def test_level_and_order_of_the_scores_alone_matter() -> None:
    scores, power = [[1.0, 3.0, 2.0]], np.array([[1.0, 0.5, 0.1]])
    assert PowerLoss()(scores, power) == PowerLoss()(np.exp(scores), 7.0 * power) == pytest.approx(3.0103, abs=1e-4)
    assert PowerLoss()([[3.0, 1.0, 2.0]], power) == 0.0
    assert PowerLoss()([[0.0, 1.0]], [[1.0, 0.0]]) == 100.0


@pytest.mark.parametrize(
    ("scores", "power", "message"),
    [
        ([[1.0, 2.0]], [[1.0, -0.1]], "target: expected powers from 0 on"),
        ([[1.0, 2.0]], [[0.0, 0.0]], "target: expected powers from 0 on"),
        ([[1.0, 2.0]], [[1.0, 0.5, 0.1]], "preds: expected scores"),
        ([[1.0]], [[1.0]], "preds: expected scores"),
        ([1.0, 2.0], [1.0, 0.5], "preds: expected scores"),
        ([[np.nan, 2.0]], [[1.0, 0.5]], "preds: NaN"),
        ([[1.0, 2.0]] * 2, [[1.0, 0.5]], "preds holds 2"),
    ],
)
def test_wrong_input(scores, power, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PowerLoss()(scores, power)


def test_nothing_to_score() -> None:
    with pytest.raises(UndefinedMetricError, match="no samples"):
        METRICS["PowerLoss"](np.zeros((0, 3)), np.zeros((0, 3)))
