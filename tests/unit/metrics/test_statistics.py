"""Bootstrap weights, intervals, paired differences and corrections."""

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from common.streams import random_generator
from emma.evaluation.statistics import (
    bootstrap_interval,
    bootstrap_weights,
    holm,
    paired_bootstrap_difference,
    percentile_interval,
    standard_error,
)
from emma.metrics import AUC, CIDER, NMSE, SISDR, ExactMatch, MeanAngularError, PlainAccuracy, UndefinedMetricError

RNG = np.random.default_rng(0)
PINNED = [55, 724, 142, 420]


def test_seeds_are_the_same_in_every_process():
    # Written down once: a change here changes every interval ever reported.
    assert random_generator((7, "E-LOC-AOA", "bootstrap")).integers(1000, size=4).tolist() == PINNED
    code = "from emma.evaluation.statistics import *; print(random_generator((7, 'E-LOC-AOA', 'bootstrap')).integers(1000, size=4).tolist())"  # noqa: E501
    env = {"PYTHONPATH": str(Path(__file__).parents[3] / "src"), "PYTHONHASHSEED": "5"}
    assert (
        subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        == f"{PINNED}\n"
    )


def test_seeds_that_differ_give_other_streams():
    seeds = [0, 1, "0", (0, 0), ("a", "b"), ("ab",), ("a", "b", 0), -1, 2**80, ""]
    draws = {tuple(random_generator(seed).integers(2**60, size=2)) for seed in seeds}
    assert len(draws) == len(seeds)
    assert random_generator(7).integers(2**60) == random_generator((np.int64(7),)).integers(2**60)
    for seed in (1.5, None, [1], (1, 2.0)):
        with pytest.raises(ValueError, match="seed"):
            random_generator(seed)


def test_weights_are_multinomial():
    weights = bootstrap_weights(5, n_resamples=20_000, seed=1)
    assert weights.dtype == np.uint16
    assert weights.shape == (20_000, 5)
    assert (weights.sum(1) == 5).all()
    assert weights.mean(0) == pytest.approx(np.ones(5), abs=0.03)
    assert np.cov(weights.T.astype(float)) == pytest.approx(np.eye(5) - 0.2, abs=0.04)


def test_weights_do_not_depend_on_the_number_of_blocks():
    assert bootstrap_weights(3000, n_resamples=2000, seed=1).sum(1).tolist() == [3000] * 2000
    assert np.array_equal(bootstrap_weights(9, n_resamples=4, seed=1), bootstrap_weights(9, n_resamples=8, seed=1)[:4])


def test_groups_are_drawn_whole():
    groups = np.array(["b", "a", "b", "c", "c", "c"])
    weights = bootstrap_weights(6, n_resamples=300, seed=2, groups=groups)
    assert (weights[:, 0] == weights[:, 2]).all()
    assert (weights[:, 3] == weights[:, 5]).all()
    assert (weights[:, 0] + weights[:, 1] + weights[:, 3] == 3).all()
    assert len({tuple(row) for row in weights.tolist()}) == 10  # all ways to draw three of three groups


def test_strata_keep_their_size():
    strata = np.array([0, 1, 1, 0, 1])
    weights = bootstrap_weights(5, n_resamples=200, seed=3, strata=strata)
    assert (weights[:, strata == 0].sum(1) == 2).all()
    assert (weights[:, strata == 1].sum(1) == 3).all()
    groups = ["x", "y", "y", "z", "w"]
    weights = bootstrap_weights(5, n_resamples=200, seed=3, strata=strata, groups=groups)
    assert (weights[:, 0] + weights[:, 3] == 2).all()
    assert (weights[:, 1] + weights[:, 4] == 2).all()
    assert (weights[:, 1] == weights[:, 2]).all()


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 3, "n_resamples": 0},
        {"n": -1, "n_resamples": 2},
        {"n": 3, "n_resamples": 2, "groups": [1, 2]},
        {"n": 3, "n_resamples": 2, "strata": [[1, 2, 3]]},
        {"n": 3, "n_resamples": 2, "groups": [1, 1, 2], "strata": [0, 1, 1]},
    ],
)
def test_wrong_weights(arguments):
    with pytest.raises(ValueError):
        bootstrap_weights(seed=0, **arguments)


def test_interval_is_that_of_all_resamples():
    # Three samples have 27 equally likely resamples: the interval's ends must be quantiles of those.
    preds, target = np.array([0.0, 6.0, 30.0]), np.zeros(3)
    every = np.sort([np.mean([preds[i] for i in draw]) for draw in product(range(3), repeat=3)])
    low, high = bootstrap_interval(MeanAngularError(), preds, target, seed=4, n_resamples=20_000, level=0.8)
    assert low == pytest.approx(np.quantile(every, 0.1, method="inverted_cdf"), abs=1e-9)
    assert high == pytest.approx(np.quantile(every, 0.9, method="inverted_cdf"), abs=1e-9)


def test_interval_covers_the_truth_as_often_as_it_says():
    hits = 0
    for trial in range(300):
        right = random_generator((trial, "coverage")).random(60) < 0.7
        low, high = bootstrap_interval(
            PlainAccuracy(), right.astype(int), np.ones(60, int), seed=trial, n_resamples=300
        )
        hits += low <= 0.7 <= high
    assert 0.90 < hits / 300 < 0.98


def test_interval_by_groups_is_wider_where_groups_agree():
    groups = np.repeat(np.arange(10), 20)
    preds = np.repeat(RNG.uniform(0, 90, 10), 20)
    narrow = bootstrap_interval(MeanAngularError(), preds, np.zeros(200), seed=5)
    wide = bootstrap_interval(MeanAngularError(), preds, np.zeros(200), seed=5, groups=groups)
    assert wide[1] - wide[0] > 2 * (narrow[1] - narrow[0])


def test_interval_needs_half_of_the_resamples():
    target = np.array([1] + [0] * 30)  # 36 % of resamples hold no positive
    low, high = bootstrap_interval(AUC(), np.arange(31.0), target, seed=6)
    assert 0.0 <= low <= high <= 1.0
    with pytest.raises(ValueError, match="of 1000 resamples define"):
        bootstrap_interval(AUC(), np.arange(4.0), [1, 1, 1, 1], seed=6)
    with pytest.raises(ValueError, match="of 1000 resamples define"):
        bootstrap_interval(MeanAngularError(), [], [], seed=6)
    with pytest.raises(ValueError, match="of 1000 resamples define"):
        bootstrap_interval(CIDER(), ["a"], [["a"]], seed=6)
    # A silent estimate among twenty spares (19/20)^20 = 36 % of the resamples.
    signals = RNG.standard_normal((20, 8))
    silent = signals * (np.arange(20) > 0)[:, None]
    with pytest.raises(ValueError, match="of 1000 resamples define"):
        bootstrap_interval(SISDR(), silent, signals, seed=6)
    for level in (0, 1, 1.5, float("nan")):
        with pytest.raises(ValueError, match="level"):
            bootstrap_interval(MeanAngularError(), [1.0], [1.0], seed=0, level=level)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 1 / 3])
def test_percentile_interval_is_that_of_numpy(level):
    values = np.random.default_rng(1).standard_normal(999)
    values[::5] = np.nan
    tail = 50.0 * (1.0 - level)
    interval = percentile_interval(values, level)
    assert interval == tuple(np.percentile(values[~np.isnan(values)], [tail, 100.0 - tail]).tolist())
    assert [type(edge) for edge in interval] == [float, float]


def test_percentile_interval_needs_half_of_the_values():
    nan = float("nan")
    assert percentile_interval([1.0, 1.0, nan, nan], 0.95) == (1.0, 1.0)
    assert percentile_interval([1.0, nan, nan], 0.95) is None
    assert percentile_interval([nan], 0.95) is None
    assert percentile_interval([], 0.95) is None
    for level in (0, 1, nan):
        with pytest.raises(ValueError, match="level"):
            percentile_interval([1.0], level)


def test_interval_of_exact_predictions_is_finite():
    assert bootstrap_interval(NMSE(), [[1.0], [1.0]], [[1.0], [1.0]], seed=0) == (-100.0, -100.0)
    low, high = bootstrap_interval(NMSE(), [[1.0], [2.0]], [[1.0], [1.0]], seed=0)
    assert (low, high) == (-100.0, 0.0)


def test_interval_of_texts():
    low, high = bootstrap_interval(ExactMatch(), ["a tone", "noise"] * 20, [["tone"], ["hum"]] * 20, seed=0)
    assert 0.3 < low < 0.5 < high < 0.7


def test_paired_difference():
    target = np.zeros(200)
    base = RNG.uniform(0, 20, 200)
    better = np.abs(base - 1.0)
    result = paired_bootstrap_difference(MeanAngularError(), better, base, target, seed=1)
    assert result.difference == pytest.approx(np.mean(better) - np.mean(base))
    assert result.interval[0] <= result.difference <= result.interval[1] < 0  # lower is better, and pairing narrows it
    assert result.p_one_sided == pytest.approx(1 / 1001)
    assert result.p_two_sided == pytest.approx(2 / 1001)
    assert result.n_defined == 1000
    worse = paired_bootstrap_difference(MeanAngularError(), base, better, target, seed=1)
    assert worse.difference == -result.difference
    assert worse.p_one_sided == 1.0
    assert worse.p_two_sided == result.p_two_sided
    same = paired_bootstrap_difference(MeanAngularError(), base, base, target, seed=1)
    assert (same.difference, same.interval, same.p_one_sided, same.p_two_sided) == (0.0, (0.0, 0.0), 1.0, 1.0)


def test_paired_p_values_are_even_without_a_difference():
    values = []
    for trial in range(200):
        a, b = (random_generator((trial, "null")).random((2, 80)) < 0.6).astype(int)
        result = paired_bootstrap_difference(PlainAccuracy(), a, b, np.ones(80, int), seed=trial, n_resamples=200)
        values.append(result.p_two_sided)
    assert np.mean(np.array(values) < 0.05) < 0.09
    assert np.mean(np.array(values) < 0.5) == pytest.approx(0.5, abs=0.12)


def test_paired_difference_of_means_over_strata():
    strata = np.array(["rural"] * 4 + ["urban"] * 12)
    target = np.array([0, 1] * 8)
    a, b = RNG.standard_normal((2, 16)) + target
    result = paired_bootstrap_difference(
        AUC(), a, b, target, seed=2, strata=strata, mean_over_strata=True, n_resamples=400
    )
    parts = [strata == s for s in ("rural", "urban")]
    expected = np.mean([AUC()(a[p], target[p]) for p in parts]) - np.mean([AUC()(b[p], target[p]) for p in parts])
    assert result.difference == pytest.approx(expected)
    assert result.n_defined < 400  # some resamples of four scenes hold one class
    with pytest.raises(ValueError, match="strata"):
        paired_bootstrap_difference(AUC(), a, b, target, seed=2, mean_over_strata=True)


def test_paired_difference_of_wrong_input():
    with pytest.raises(ValueError, match="preds_a"):
        paired_bootstrap_difference(PlainAccuracy(), [0], [0, 1], [0, 1], seed=0)
    with pytest.raises(UndefinedMetricError):
        paired_bootstrap_difference(AUC(), [0.1, 0.2], [0.1, 0.3], [1, 1], seed=0)


def test_standard_error():
    assert standard_error([2.0, 4.0, 9.0]) == pytest.approx(np.std([2, 4, 9], ddof=1) / np.sqrt(3))
    assert standard_error([2.0]) is None
    assert standard_error([]) is None
    with pytest.raises(ValueError):
        standard_error([1.0, float("nan")])


def test_holm():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([0.04, 0.04]) == [0.08, 0.08]
    assert holm([]) == []
    for wrong in ([-0.1], [1.1], [float("nan")]):
        with pytest.raises(ValueError):
            holm(wrong)
