"""The distance from what is normal: against scikit-learn, the chi-square law, and inputs that are hard to fit."""

import numpy as np
import pytest
from scipy import stats
from sklearn.covariance import LedoitWolf
from sklearn.covariance import ledoit_wolf as reference
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from common.errors import InputError
from emma.readouts.mahalanobis import Mahalanobis, ledoit_wolf
from emma.tasks import TARGETS, ReadoutSpec

TARGET = TARGETS["anomaly"](("normal", "anomalous"))


def head(components: int = 64, **changes) -> Mahalanobis:
    given = {"kind": "mahalanobis", "regularisation": (), "components": components, "max_parameters": 10**6}
    return Mahalanobis(ReadoutSpec(**given | changes), TARGET)


def correlated(n: int, width: int, seed: int = 0, of: int = 0) -> np.ndarray:
    """Gaussian features ``[N, D]`` of one law, which ``of`` draws; as float32, as embeddings are."""
    mixing = np.random.default_rng(of).normal(size=(width, width)) * np.geomspace(0.05, 3, width)
    return (np.random.default_rng(seed + 1).normal(size=(n, width)) @ mixing.T * 4 + 7).astype(np.float32)


@pytest.mark.parametrize(("n", "width"), [(50, 10), (500, 30), (40, 40), (30, 60), (12, 1), (9, 2)])
def test_the_shrinkage_is_that_of_scikit_learn(n: int, width: int) -> None:
    centred = correlated(n, width).astype(float)
    centred -= centred.mean(axis=0)
    values, directions = np.linalg.eigh(centred.T @ centred / n)
    found = ledoit_wolf(centred @ directions, np.maximum(values, 0))
    # Of one column scikit-learn says 0 as well.
    assert found == pytest.approx(reference(centred, assume_centered=True)[1], abs=1e-9)


@pytest.mark.parametrize(("n", "width", "components"), [(400, 12, 64), (400, 30, 5), (50, 80, 20), (60, 300, 64)])
def test_the_distance_is_that_of_scikit_learn_on_its_components(n: int, width: int, components: int) -> None:
    fit, scored = correlated(n, width), correlated(50, width, seed=9)
    scaler = StandardScaler().fit(fit.astype(float))
    count = min(components, width, n - 1)
    projection = PCA(count, svd_solver="full").fit(scaler.transform(fit.astype(float)))
    covariance = LedoitWolf(assume_centered=True).fit(projection.transform(scaler.transform(fit.astype(float))))
    expected = covariance.mahalanobis(projection.transform(scaler.transform(scored.astype(float))))
    readout = head(components).fit(fit, np.zeros(n))
    np.testing.assert_allclose(np.exp(readout.scores(scored)[:, 0]), expected, rtol=2e-4)
    assert readout.regularisation == pytest.approx(covariance.shrinkage_, rel=1e-4)
    assert readout.tensors["projection"].shape == (width, count)


def test_distances_of_gaussian_scenes_are_chi_square() -> None:
    """With many fit scenes, of as many degrees of freedom as components; a shift adds its squared length.

    Reference: P. C. Mahalanobis, "On the generalised distance in statistics", Proceedings of the National Institute of
    Sciences of India 2, 1936.
    """
    rng, n, width = np.random.default_rng(0), 60_000, 6
    fit, shift = rng.normal(size=(n, width)), 3.0
    readout = head().fit(fit, np.zeros(n))
    scored = rng.normal(size=(4000, width))
    normal = np.exp(readout.scores(scored)[:, 0])
    moved = np.exp(readout.scores(scored + shift * np.eye(width)[2])[:, 0])
    assert stats.kstest(normal, stats.chi2(width).cdf).pvalue > 1e-3
    assert stats.kstest(moved, stats.ncx2(width, shift**2).cdf).pvalue > 1e-3


def test_columns_of_noise_cost_a_distance_that_is_not_projected() -> None:
    """Structure of rank 4 in 40 features and a shift within it: 1,000 columns of noise bury all but its leading part.

    Squared distances over D noise columns spread by the root of 2 D, which is what the shift stands against.
    """
    rng, n = np.random.default_rng(0), 1600
    mixing = rng.normal(size=(4, 40))

    def made(count: int, shift: float) -> np.ndarray:
        hidden = rng.normal(size=(count, 4)) + shift * np.eye(4)[0]
        return np.hstack([hidden @ mixing + 0.1 * rng.normal(size=(count, 40)), rng.normal(size=(count, 1000))])

    fit, normal, moved = made(n, 0.0), made(1000, 0.0), made(1000, 3.0)
    truth = np.repeat([0, 1], 1000)

    def area(components: int, width: int) -> float:
        readout = head(components, max_embedding_dim=2048, max_parameters=2**22).fit(fit[:, :width], np.zeros(n))
        return roc_auc_score(truth, readout.scores(np.concatenate([normal, moved])[:, :width])[:, 0])

    plain, buried, projected = area(4, 40), area(1040, 1040), area(4, 1040)
    assert plain > 0.9
    assert buried < plain - 0.15
    assert projected > plain - 0.02


def test_an_anomaly_in_the_fit_is_refused() -> None:
    target = np.zeros(20)
    target[[3, 5]] = 1
    readout = head()
    with pytest.raises(InputError, match="readout: 2 fit scenes of class anomalous, expected none"):
        readout.fit(correlated(20, 4), target)
    assert readout.tensors == {}


@pytest.mark.parametrize("given", [np.zeros((30, 0)), np.zeros((30, 3)), np.full((30, 2), 1e6, np.float32)])
def test_without_a_feature_that_varies_every_scene_scores_alike(given: np.ndarray) -> None:
    readout = head().fit(given, np.zeros(30))
    scores = readout.scores(given[:4] + 5)
    assert scores.shape == (4, 1)
    assert np.isfinite(scores).all()
    assert len(set(scores[:, 0])) == 1
    assert readout.tensors["projection"].shape == (given.shape[1], 0)


def test_features_that_repeat_one_another_add_no_direction() -> None:
    fit = correlated(100, 3)
    readout = head().fit(np.hstack([fit, fit, 2 * fit[:, :1]]), np.zeros(100))
    assert readout.tensors["projection"].shape == (7, 3)
    assert np.isfinite(readout.scores(np.hstack([fit, fit, 2 * fit[:, :1]]))).all()


def test_the_order_of_scenes_tells_nothing() -> None:
    fit, order = correlated(80, 12), np.random.default_rng(3).permutation(80)
    scores = [head(5).fit(rows, np.zeros(80)).scores(fit) for rows in (fit, fit[order])]
    np.testing.assert_allclose(*scores, rtol=1e-9)


def test_scale_and_offset_of_a_feature_tell_nothing() -> None:
    fit, scored = correlated(80, 6).astype(float), correlated(20, 6, seed=4).astype(float)
    factors, offset = np.geomspace(1e-3, 1e3, 6), np.linspace(-5, 5, 6)
    scores = [head().fit(fit * f + o, np.zeros(80)).scores(scored * f + o) for f, o in ((1, 0), (factors, offset))]
    np.testing.assert_allclose(*scores, rtol=1e-6)


def test_a_refit_without_scenes_is_a_fit_of_the_others() -> None:
    fit, kept = correlated(90, 8), np.arange(90) % 5 != 2
    without = head().fit(fit, np.zeros(90)).without(fit, np.zeros(90), kept)
    alone = head().fit(fit[kept], np.zeros(kept.sum()))
    assert without.regularisation == alone.regularisation
    np.testing.assert_array_equal(without.scores(fit), alone.scores(fit))
