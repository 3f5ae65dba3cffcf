"""The choice of the regularisation: parts, inner losses against plain inner fits, and what a choice must withstand."""

import itertools

import numpy as np
import pytest
from sklearn import linear_model

from emma.readouts import Discriminant, Logistic, Ridge
from emma.readouts.base import Readout
from emma.readouts.selection import INNER_FOLDS, chosen_value, grouped_parts, inner_parts
from emma.tasks import TARGETS, ReadoutSpec

GRID = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
ANGLE, TWO = TARGETS["angle"](), TARGETS["binary"](("no", "yes"))


def head(kind: type[Readout], target, grid=GRID, **changes) -> Readout:
    return kind(ReadoutSpec(kind=kind.kind, regularisation=grid, max_parameters=10**7, **changes), target)


def test_a_group_is_never_torn_and_parts_are_alike_within_every_stratum():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 60, 500)
    strata = (groups % 4).astype(np.int64)
    parts = grouped_parts(groups, strata, 3)
    assert all(len(set(parts[groups == g].tolist())) == 1 for g in set(groups.tolist()))
    for stratum in range(4):
        sizes = [len(set(groups[(strata == stratum) & (parts == p)].tolist())) for p in range(3)]
        assert max(sizes) - min(sizes) <= 1
    order = rng.permutation(500)
    np.testing.assert_array_equal(grouped_parts(groups[order], strata[order], 3), parts[order])


@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_fewer_groups_than_parts_are_a_part_each(groups):
    names = np.arange(60) % groups
    parts = inner_parts(names, None, 60)
    assert np.array_equal(np.unique(parts), np.arange(min(groups, INNER_FOLDS)))
    assert all(len(set(parts[names == name].tolist())) == 1 for name in range(groups))


def test_of_equal_losses_the_strongest_value_is_taken():
    assert chosen_value(np.array([2.0, 1.0, 1.0, 3.0])) == 2
    assert chosen_value(np.zeros(5)) == 4
    assert chosen_value(np.array([np.inf, 0.5, 0.6])) == 1


def _angles(n: int = 150, width: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    degrees = rng.uniform(0, 360, n)
    turned = np.deg2rad(degrees)[:, None] + rng.normal(size=width)
    return np.cos(turned) + rng.normal(size=(n, width)), degrees


def _inner(readout: Readout, X: np.ndarray, y: np.ndarray, score) -> np.ndarray:
    """Inner losses by plain fits on standardised features, one per value and part."""
    parts = grouped_parts(np.arange(len(y)), readout.target.strata(y), INNER_FOLDS)
    Z = readout._standardised(X)
    return np.array(
        [
            sum(score(Z[parts != p], y[parts != p], Z[parts == p], y[parts == p], v) for p in range(3))
            for v in readout.spec.regularisation
        ]
    )


@pytest.mark.parametrize("width", [12, 400])
def test_ridge_chooses_by_the_squared_error_of_inner_fits(width):
    X, y = _angles(width=width)
    found = head(Ridge, ANGLE).fit(X, y)

    def score(A, a, B, b, value):
        model = linear_model.Ridge(alpha=value * len(A), solver="svd").fit(A, ANGLE.regressand(a))
        return ((model.predict(B) - ANGLE.regressand(b)) ** 2).sum() / len(y)

    np.testing.assert_allclose(found.tensors["validation_losses"], _inner(found, X, y, score), rtol=1e-6)
    assert found.regularisation == GRID[int(np.argmin(found.tensors["validation_losses"]))]


@pytest.mark.parametrize("kind", [Ridge, Logistic, Discriminant])
def test_two_groups_choose_and_one_group_cannot(kind):
    """Data of one clear direction ask for a weak value: a fit that skips the choice takes the strongest."""
    rng, grid = np.random.default_rng(3), (0.001, 0.1, 1.0)
    X = rng.normal(size=(120, 4))
    if kind is Ridge:
        target, y = ANGLE, np.rad2deg(np.arctan2(X[:, 1], X[:, 0])) % 360
    elif kind is Logistic:
        target, y = TWO, (X[:, 0] > 0).astype(float)
    else:
        target, y = TARGETS["enrolled_class"](tuple("abc")), rng.integers(0, 3, 120).astype(float)
        X += 2 * np.eye(3, 4)[y.astype(int)] + 30 * rng.normal(size=(120, 1))
    found = head(kind, target, grid).fit(X, y, np.arange(120) % 2)
    assert found.regularisation < grid[-1] and np.ptp(found.tensors["validation_losses"]) > 0
    alone = head(kind, target, grid).fit(X, y, np.zeros(120))
    assert alone.regularisation == grid[-1] and not alone.tensors["validation_losses"].any()


def test_logistic_chooses_by_the_cross_entropy_of_inner_fits():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 30))
    y = (X[:, :3].sum(axis=1) + rng.normal(size=300) * 2 > 0).astype(float)
    found = head(Logistic, TWO).fit(X, y)

    def score(A, a, B, b, value):
        model = linear_model.LogisticRegression(C=1 / (value * len(A)), tol=1e-8, max_iter=10_000).fit(A, a)
        return -model.predict_log_proba(B)[np.arange(len(b)), b.astype(int)].sum() / len(y)

    losses, expected = found.tensors["validation_losses"], _inner(found, X, y, score)
    tried = np.isfinite(losses)
    assert tried.sum() >= 2
    np.testing.assert_allclose(losses[tried], expected[tried], rtol=0.01)
    assert found.regularisation == GRID[int(np.argmin(expected))]


def test_discriminant_chooses_by_the_captures_that_inner_fits_name_wrongly():
    rng = np.random.default_rng(2)
    y = np.arange(240) % 4
    X = rng.normal(size=(240, 60)) + 0.5 * rng.normal(size=(4, 60))[y]
    target = TARGETS["enrolled_class"](tuple("abcd"))
    found = head(Discriminant, target, (0.001, 0.1, 1.0)).fit(X, y.astype(float))

    def score(A, a, B, b, value):
        inner = head(Discriminant, target, (value,)).fit(A, a)
        inner.enrol(A, a, np.zeros(len(a), int))
        return (inner.scores(B).argmax(axis=1) != b).sum() / len(y)

    np.testing.assert_allclose(found.tensors["validation_losses"], _inner(found, X, y, score), atol=0.01)


def test_groups_keep_copies_of_a_scene_from_choosing_too_weak_a_value():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(60, 100)), 5, axis=0)
    y = np.repeat(rng.uniform(0, 360, 60), 5)
    apart = head(Ridge, ANGLE).fit(X, y).regularisation
    together = head(Ridge, ANGLE).fit(X, y, np.repeat(np.arange(60), 5)).regularisation
    assert apart == GRID[0]
    assert together == GRID[-1]


def test_columns_of_noise_and_wider_sets_of_the_same_features_cost_little():
    """Of random features a wider set is at most 5 % worse, and 1,000 columns of noise at most double the error."""
    rng = np.random.default_rng(0)

    def scenes(n: int) -> tuple[np.ndarray, np.ndarray]:
        degrees = rng.uniform(0, 360, n)
        steering = np.exp(1j * 4.1 * np.cos(np.deg2rad(degrees)[:, None] - np.arange(8) * np.pi / 4))
        other = np.exp(1j * 4.1 * np.cos(rng.uniform(0, 2 * np.pi, (n, 1)) - np.arange(8) * np.pi / 4))
        R = np.einsum("na,nb->nab", steering, steering.conj())
        R = R + 0.1 * np.einsum("na,nb->nab", other, other.conj()) + 0.1 * np.eye(8)
        i, j = np.triu_indices(8, 1)
        return np.hstack([R[:, i, j].real, R[:, i, j].imag]) + 0.05 * rng.normal(size=(n, 56)), degrees

    (A, a), (B, b) = scenes(1200), scenes(1000)
    W, shift = rng.normal(size=(56, 2048)) / 4, rng.normal(size=2048)

    def error(fit: np.ndarray, scored: np.ndarray) -> float:
        found = head(Ridge, ANGLE).fit(fit, a).scores(scored)[:, 0]
        return float(np.abs((found - b + 180) % 360 - 180).mean())

    plain = error(A, B)
    random = [np.maximum(rows @ W + shift, 0) for rows in (A, B)]
    wide = {k: error(*(rows[:, :k] for rows in random)) for k in WIDTHS}
    assert all(wide[k] <= 1.05 * wide[narrower] for narrower, k in itertools.pairwise(WIDTHS)), wide
    assert wide[2048] <= 1.2 * plain, (wide, plain)
    noise = [rng.normal(size=(len(rows), 1000)) for rows in (A, B)]
    assert error(np.hstack([A, noise[0]]), np.hstack([B, noise[1]])) <= 2 * plain


WIDTHS = (256, 512, 1024, 2048)


def test_float32_noise_in_a_constant_column_takes_nothing_from_the_score():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    X = (rng.normal(size=(400, 4)) + y[:, None]).astype(np.float32)
    flat = (np.float32(3.0) * (1 + np.float32(1e-7) * rng.integers(-1, 2, (400, 1)))).astype(np.float32)
    rounded = np.hstack([X, flat])
    assert np.ptp(flat) > 0
    fit, other = head(Logistic, TWO).fit(rounded[:200], y[:200].astype(float)), rounded[200:].copy()
    other[:, 4] += np.float32(1e-3)
    np.testing.assert_allclose(
        fit.scores(other), head(Logistic, TWO).fit(X[:200], y[:200].astype(float)).scores(X[200:]), atol=1e-6
    )


@pytest.mark.parametrize("kind", [Ridge, Logistic])
def test_without_some_scenes_a_head_is_fit_anew_at_the_chosen_value(kind):
    X, y = _angles()
    target = ANGLE if kind is Ridge else TWO
    y = y if kind is Ridge else (y > 180).astype(float)
    whole, kept = head(kind, target).fit(X, y), np.arange(len(y)) % 5 != 0
    expected = head(kind, target, (whole.regularisation,)).fit(X[kept], y[kept])
    np.testing.assert_array_equal(whole.without(X, y, kept).tensors["weights"], expected.tensors["weights"])
