"""Readouts against scikit-learn, their objectives against finite differences, and inputs that are hard to fit."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import linear_model
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

from common.errors import InputError
from emma.readouts import Discriminant, Logistic, Ridge, load_readout, make_readout
from emma.readouts.cross_entropy import CrossEntropy, minimise
from emma.tasks import TARGETS, ReadoutSpec, Split, Target, TaskSpec, target_of

SOURCE = Path(__file__).parents[3] / "src"


def spec(kind: str, *grid: float, **changes) -> ReadoutSpec:
    return ReadoutSpec(**{"kind": kind, "regularisation": grid or (1e-3,), "max_parameters": 10**6} | changes)


ANGLE = TARGETS["angle"]()


def named(classes: int) -> Target:
    """A target of so many classes."""
    return TARGETS["binary" if classes == 2 else "class"](tuple(map(str, range(classes))))


def units(count: int) -> Target:
    """A gallery of so many units."""
    return TARGETS["enrolled_class"](tuple(map(str, range(count))))


def features(n: int, width: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(n, width)) * rng.uniform(0.1, 30, width) + rng.normal(size=width) * 5).astype(np.float32)


def standardised(values: np.ndarray) -> np.ndarray:
    """Unit variance in total, as a readout takes features."""
    return StandardScaler().fit_transform(values.astype(np.float64)) / np.sqrt(values.shape[1])


# Ridge


@pytest.mark.parametrize(("n", "width", "share"), [(200, 12, 1e-3), (30, 50, 1e-2), (5, 300, 1e-1), (40, 1, 10.0)])
def test_ridge_is_that_of_scikit_learn(n, width, share):
    X = features(n, width)
    degrees = np.random.default_rng(1).uniform(0, 360, n)
    wanted = np.stack([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))], axis=1)
    reference = linear_model.Ridge(alpha=share * n, solver="cholesky").fit(standardised(X), wanted)
    readout = Ridge(spec("ridge", share), ANGLE).fit(X, degrees)
    np.testing.assert_allclose(readout.tensors["weights"], reference.coef_.T, atol=1e-8)
    np.testing.assert_allclose(readout.tensors["intercept"], reference.intercept_, atol=1e-10)
    cos, sin = reference.predict(standardised(X)).T
    found = np.deg2rad(readout.scores(X)[:, 0])
    np.testing.assert_allclose(np.exp(1j * found), (cos + 1j * sin) / np.hypot(cos, sin), atol=1e-7)


def test_ridge_finds_a_direction_across_the_wrap():
    degrees = np.random.default_rng(0).uniform(-20, 20, 400) % 360
    X = np.stack([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))], axis=1)
    found = Ridge(spec("ridge", 1e-6), ANGLE).fit(X, degrees).scores(X)[:, 0]
    assert np.abs((found - degrees + 180) % 360 - 180).max() < 0.01
    assert found.min() >= 0
    assert found.max() < 360


@pytest.mark.parametrize("sin", [-1e-20, -5e-324, -0.0, 0.0])
def test_an_angle_is_never_360(sin):
    readout = Ridge(spec("ridge"), ANGLE)
    readout.tensors = {
        "mean": np.zeros(0),
        "scale": np.zeros(0),
        "weights": np.zeros((0, 2)),
        "intercept": np.array([1.0, sin]),
    }
    assert readout.scores(np.zeros((1, 0)))[0, 0] == 0.0


def test_ridge_without_features_predicts_the_mean_direction():
    degrees = np.array([350.0, 10.0, 20.0, 340.0, 30.0])
    found = Ridge(spec("ridge"), ANGLE).fit(np.zeros((5, 0)), degrees).scores(np.zeros((3, 0)))
    mean = np.rad2deg(np.angle(np.exp(1j * np.deg2rad(degrees)).mean())) % 360
    np.testing.assert_allclose(found, np.full((3, 1), mean))


# Logistic


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize(
    ("n", "width", "classes", "strength"), [(300, 10, 2, 1e-3), (300, 10, 4, 1e-3), (25, 60, 3, 1e-1), (25, 60, 2, 1.0)]
)
def test_logistic_is_that_of_scikit_learn(n, width, classes, strength, balanced):
    X = features(n, width)
    rng = np.random.default_rng(2)
    y = np.r_[
        np.arange(classes),
        rng.choice(classes, n - classes, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2)),
    ]
    # The mean loss with an L2 weight is scikit-learn's sum with C = 1 / (weight * total), balanced or not.
    reference = linear_model.LogisticRegression(
        C=1 / (strength * n),
        class_weight="balanced" if balanced else None,
        solver="newton-cg",
        tol=1e-12,
        max_iter=10_000,
    ).fit(standardised(X), y)
    readout = Logistic(spec("logistic", strength, class_balanced=balanced), named(classes)).fit(X, y)
    np.testing.assert_allclose(readout.tensors["weights"], reference.coef_.T, atol=2e-5)
    shift = lambda values: values - values.mean() * (classes > 2)  # noqa: E731 (a softmax knows intercepts up to a constant)
    np.testing.assert_allclose(shift(readout.tensors["intercept"]), shift(reference.intercept_), atol=2e-5)
    chances = reference.predict_log_proba(standardised(X))
    logits = readout.scores(X)
    assert logits.shape == (n, 1 if classes == 2 else classes)
    logits = np.hstack([np.zeros((n, 1)), logits]) if classes == 2 else logits
    np.testing.assert_allclose(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True), chances, atol=1e-4)


@pytest.mark.parametrize("outputs", [1, 3, 5])
def test_value_and_gradient_are_those_of_the_formula_and_of_finite_differences(outputs):
    rng = np.random.default_rng(outputs)
    n, width = 40, 6
    classes = rng.integers(0, max(2, outputs), n)
    weights = rng.dirichlet(np.ones(n))
    inputs = rng.normal(size=(n, width)) * 3
    loss = CrossEntropy(inputs, classes, weights, 0.3, outputs)
    at, step = rng.normal(size=(width + 1, outputs)), 1e-6
    value, gradient = loss.value_and_gradient(at)
    logits = inputs @ at[:-1] + at[-1]
    logits = np.hstack([np.zeros((n, 1)), logits]) if outputs == 1 else logits
    plain = weights @ (np.logaddexp.reduce(logits, axis=1) - logits[np.arange(n), classes])
    assert value == pytest.approx(plain + 0.15 * (at[:-1] ** 2).sum(), rel=1e-12)
    for place in np.ndindex(at.shape):
        unit = np.zeros_like(at)
        unit[place] = step
        above, below = loss.value_and_gradient(at + unit)[0], loss.value_and_gradient(at - unit)[0]
        assert (above - below) / (2 * step) == pytest.approx(gradient[place], abs=1e-7)


@pytest.mark.parametrize("outputs", [1, 3])
def test_curvature_is_that_of_finite_differences(outputs):
    rng = np.random.default_rng(outputs)
    n, width, step = 40, 4, 1e-6
    loss = CrossEntropy(
        rng.normal(size=(n, width)), rng.integers(0, max(2, outputs), n), np.full(n, 1 / n), 0.3, outputs
    )
    at, direction = rng.normal(size=(2, width + 1, outputs))
    above, below = (loss.value_and_gradient(at + sign * step * direction)[1] for sign in (1, -1))
    np.testing.assert_allclose(loss.curvature(at)(direction), (above - below) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("kind", ["collinear", "heavy tails"])
@pytest.mark.parametrize("classes", [2, 3])
def test_both_ways_of_stepping_reach_the_same_minimum(monkeypatch, kind, classes):
    X = HARD[kind](np.random.default_rng(0))[:300]
    y = np.random.default_rng(1).integers(0, classes, len(X))
    loss = CrossEntropy(X - X.mean(axis=0), y, np.full(len(y), 1 / len(y)), 1e-2, 1 if classes == 2 else 3)
    values = []
    for iterations in (300, 100):
        monkeypatch.setattr("emma.readouts.cross_entropy._ITERATIONS", iterations)
        values.append(loss.value_and_gradient(minimise(loss)[0])[0])
    # What is left of a value is the squared gradient (1e-12) over twice the least curvature, whose path is the CPU's.
    assert values[0] == pytest.approx(values[1], rel=1e-8)


@pytest.mark.parametrize("outputs", [1, 3])
def test_whitening_evens_the_curvature_of_every_output(outputs):
    rng = np.random.default_rng(outputs)
    n, width = 60, 4
    inputs = rng.normal(size=(n, width)) * [1, 10, 0.1, 1]
    loss = CrossEntropy(inputs, rng.integers(0, max(2, outputs), n), rng.dirichlet(np.ones(n)), 0.3, outputs)
    at, step = 0.3 * rng.normal(size=(width + 1, outputs)), 1e-6
    for number, factor in enumerate(loss.whitening(at)):
        hessian = []
        for row in range(width + 1):
            unit = np.zeros_like(at)
            unit[row, number] = step
            change = loss.value_and_gradient(at + unit)[1] - loss.value_and_gradient(at - unit)[1]
            hessian.append(change[:, number] / (2 * step))
        np.testing.assert_allclose(factor @ np.array(hessian) @ factor.T, np.eye(width + 1), atol=1e-5)


def test_blocks_of_rows_add_up(monkeypatch):
    rng = np.random.default_rng(0)
    loss = CrossEntropy(rng.normal(size=(50, 3)), rng.integers(0, 3, 50), np.full(50, 0.02), 0.1, 3)
    at = rng.normal(size=(4, 3))
    whole = loss.value_and_gradient(at)
    monkeypatch.setattr("emma.readouts.cross_entropy._ROWS", 7)
    for found, expected in zip(loss.value_and_gradient(at), whole, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_loss_of_large_logits_neither_overflows_nor_rounds_to_zero():
    def loss_of(logit: float, classes: list[int]) -> float:
        n = len(classes)
        loss = CrossEntropy(np.ones((n, 1)), np.array(classes), np.full(n, 1 / n), 0.0, 1)
        return loss.value_and_gradient(np.array([[logit], [0.0]]))[0]

    assert loss_of(800.0, [0, 1]) == pytest.approx(400.0)
    assert 0 < loss_of(30.0, [1]) < 1e-12


def _collinear(rng, n, width):
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, width)) + 1e-6 * rng.normal(size=(n, width))


HARD = {
    "collinear": lambda rng: _collinear(rng, 2400, 337),
    "exactly collinear": lambda rng: np.repeat(rng.normal(size=(600, 2)), 150, axis=1),
    "a random walk": lambda rng: np.cumsum(rng.normal(size=(2400, 337)), axis=1),
    "n below the width": lambda rng: rng.normal(size=(24, 337)),
    "heavy tails": lambda rng: rng.standard_cauchy(size=(600, 100)),
    "outliers": lambda rng: np.exp(20 * rng.normal(size=(600, 100))),
    "constant": lambda rng: np.hstack([np.full((100, 50), 1e6, np.float32), rng.normal(size=(100, 1))]),
    "large offsets": lambda rng: (1000 + 1e-4 * rng.normal(size=(600, 100))).astype(np.float32),
}


@pytest.mark.parametrize("strength", [1e-3, 1e-6])
@pytest.mark.parametrize("kind", HARD)
def test_hard_features_converge(kind, strength):
    X = HARD[kind](np.random.default_rng(0)).astype(np.float64)
    n = len(X)
    separable = (X[:, -1] > np.median(X[:, -1])).astype(int)
    targets = [(separable, 2), (np.eye(1, n, dtype=int)[0], 2), (np.random.default_rng(1).integers(0, 2, n), 2)]
    targets += [(np.arange(n) % 3, 3), (np.zeros(n, int), 2), (np.zeros(n, int), 3)]
    for y, classes in targets:
        head = Logistic(spec("logistic", strength, class_balanced=True), named(classes)).fit(X, y)
        flat = np.vstack([head.tensors["weights"], head.tensors["intercept"]])
        counts = np.bincount(y, minlength=classes)
        weights = (1 / np.maximum(counts, 1))[y] / np.count_nonzero(counts)
        loss = CrossEntropy(head._standardised(X), y, weights, strength, flat.shape[1])
        gradient = loss.value_and_gradient(flat)[1]
        assert np.abs(gradient).max() < 1e-5


def test_separable_data_are_classified_and_stay_finite():
    X = features(400, 5)
    y = (X[:, 0] > np.median(X[:, 0])).astype(int)
    logits = Logistic(spec("logistic", 1e-8), named(2)).fit(X, y).scores(X)[:, 0]
    assert np.isfinite(logits).all()
    assert ((logits > 0) == y).all()


def test_logistic_without_features_gives_the_prior():
    y = np.array([0, 0, 0, 1, 2, 2])
    scores = Logistic(spec("logistic"), named(3)).fit(np.zeros((6, 0)), y).scores(np.zeros((2, 0)))
    np.testing.assert_allclose(
        np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), [[1 / 2, 1 / 6, 1 / 3]] * 2, atol=1e-6
    )
    balanced = Logistic(spec("logistic", class_balanced=True), named(2)).fit(np.zeros((6, 0)), (y > 0).astype(int))
    np.testing.assert_allclose(balanced.scores(np.zeros((2, 0))), 0.0, atol=1e-6)


def test_class_balance_makes_copies_of_a_class_count_for_nothing():
    X, y = features(60, 4), np.arange(60) % 2
    # Standardisation sees the copies, so that the features are set beforehand.
    head, copied = (Logistic(spec("logistic", class_balanced=True), named(2)) for _ in range(2))
    head.fit(X, y)
    copied.tensors = {name: head.tensors[name] for name in ("mean", "scale")}
    tripled = np.vstack([X, X[y == 1], X[y == 1]])
    weights = copied._fit(head._standardised(tripled), np.r_[y, np.ones(60, int)], 1e-3)["weights"]
    np.testing.assert_allclose(weights, head.tensors["weights"], atol=1e-5)


def test_a_fit_that_cannot_converge_is_told_in_one_line(monkeypatch):
    monkeypatch.setattr("emma.readouts.cross_entropy._ITERATIONS", 1)
    monkeypatch.setattr("emma.readouts.cross_entropy._NEWTON_ROUNDS", 0)
    with pytest.raises(InputError, match=r"regularisation: 0\.001 is too weak"):
        Logistic(spec("logistic"), named(2)).fit(features(10, 2), np.arange(10) % 2)


# Discriminant


def discriminant_data(n: int, width: int, classes: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.permutation(np.r_[np.arange(classes), rng.integers(0, classes, n - classes)])
    return rng.normal(size=(n, width)) * rng.uniform(0.1, 9, width) + 2 * rng.normal(size=(classes, width))[y], y


def assert_same_projection(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal up to the sign of each direction."""
    assert found.shape == expected.shape
    signs = np.sign((found * expected).sum(axis=0))
    np.testing.assert_allclose(found, expected * signs, atol=1e-7 * np.abs(expected).max())


@pytest.mark.parametrize(("n", "width", "classes"), [(400, 10, 4), (400, 3, 6), (200, 20, 12)])
def test_discriminant_projects_as_scikit_learn_does(n, width, classes):
    # Without shrinkage: with it, scikit-learn also adds a multiple of the identity to the scatter between classes.
    X, y = discriminant_data(n, width, classes)
    directions = min(classes - 1, width)
    reference = LinearDiscriminantAnalysis(solver="eigen").fit(standardised(X), y)
    head = Discriminant(spec("discriminant", 1e-15), units(classes)).fit(X, y)
    assert_same_projection(head.tensors["projection"], reference.scalings_[:, :directions])


@pytest.mark.parametrize(("n", "width", "classes", "share"), [(400, 10, 4, 0.1), (48, 100, 12, 0.1), (30, 40, 3, 1.0)])
def test_discriminant_solves_the_generalised_eigenproblem(n, width, classes, share):
    X, y = discriminant_data(n, width, classes)
    Z = standardised(X)
    within = sum((y == c).mean() * np.cov(Z[y == c].T, bias=True) for c in range(classes))
    between = np.cov(Z.T, bias=True) - within
    within = (1 - share) * within + share * np.trace(within) / width * np.eye(width)
    values, vectors = scipy.linalg.eigh(between, within)
    order = np.argsort(values)[::-1][: classes - 1]
    head = Discriminant(spec("discriminant", share), units(classes)).fit(X, y)
    assert_same_projection(head.tensors["projection"], vectors[:, order])


def test_discriminant_does_not_depend_on_order_or_names_of_classes():
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    X = rng.normal(size=(90, 6)) + 2 * rng.normal(size=(3, 6))[y]
    head = Discriminant(spec("discriminant", 0.1), units(6)).fit(X, y)
    order = rng.permutation(90)
    other = Discriminant(spec("discriminant", 0.1), units(6)).fit(X[order], 2 * y[order] + 1)
    np.testing.assert_allclose(other.tensors["projection"], head.tensors["projection"], atol=1e-9)


def test_cosines_name_a_unit_that_was_never_fit():
    rng = np.random.default_rng(0)
    means = 4 * rng.normal(size=(4, 8))
    y = np.arange(200) % 4
    X = rng.normal(size=(200, 8)) + means[y]
    head = Discriminant(spec("discriminant", 0.1), units(4)).fit(X[y != 3], y[y != 3])
    assert head.tensors["projection"].shape == (8, 2)
    head.enrol(X[:100], y[:100], np.zeros(100, int))
    scores = head.scores(X[100:])
    assert scores.shape == (100, 4)
    assert np.abs(scores).max() <= 1 + 1e-12
    assert (scores.argmax(axis=1) == y[100:]).mean() > 0.8


def test_every_turn_has_the_centroids_of_its_own_captures():
    rng = np.random.default_rng(3)
    X, y, turns = rng.normal(size=(120, 6)), np.arange(120) % 3, rng.permutation(np.arange(120) // 3 % 4)
    turns[:12] = np.repeat(range(4), 3)
    head = Discriminant(spec("discriminant", 0.1), units(3)).fit(X, y)
    head.enrol(X, y, turns)
    assert head.tensors["centroids"].shape == (4, 3, 2)
    together = head.turn_scores(X[:9])
    np.testing.assert_array_equal(head.scores(X[:9]), together[0])
    for turn in range(4):
        own = turns == turn
        alone = Discriminant(spec("discriminant", 0.1), units(3)).fit(X, y)
        alone.enrol(X[own], y[own], np.zeros(own.sum(), int))
        np.testing.assert_allclose(alone.scores(X[:9]), together[turn], atol=1e-12)
    plain = Logistic(spec("logistic", 0.1), TARGETS["class"](("a", "b", "c"))).fit(X, y)
    np.testing.assert_array_equal(plain.turn_scores(X), plain.scores(X)[None])
    with pytest.raises(InputError, match="logistic enrols nobody, 120 captures and 120 labels given for 4 turns"):
        plain.enrol(X, y, turns)


@pytest.mark.parametrize("width", [0, 3])
def test_discriminant_at_its_floor_ties_all_units(width):
    X, y = np.ones((12, width), np.float32), np.arange(12) % 3
    head = Discriminant(spec("discriminant", 0.1), units(3)).fit(X, y)
    head.enrol(X, y, np.zeros(12, int))
    np.testing.assert_array_equal(head.scores(X), np.zeros((12, 3)))


# All heads

HEADS = [
    (Ridge, ANGLE),
    (Logistic, named(2)),
    (Logistic, named(3)),
    (Discriminant, units(3)),
]


def labels_of(target: Target, count: int) -> np.ndarray:
    """Encoded labels of every class in turn, or a few degrees."""
    return np.arange(count) % max(len(target.classes), 2)


@pytest.mark.parametrize(("head", "target"), HEADS)
def test_capacity_is_checked_before_anything_is_fit(head, target, monkeypatch):
    monkeypatch.setattr(head, "_fit", lambda *_: pytest.fail("fit was called"))
    X, y = features(12, 5), labels_of(target, 12)
    readout = head(spec(head.kind, 0.1, max_embedding_dim=4), target)
    with pytest.raises(InputError, match="embedding_dim: 5 is wider than the pinned 4"):
        readout.fit(X, y)
    assert readout.tensors == {}
    wanted = {"ridge": 12, "logistic": 6 * target.width, "discriminant": 10}[head.kind]
    readout = head(spec(head.kind, 0.1, max_parameters=wanted - 1), target)
    with pytest.raises(InputError, match=f"{wanted} parameters for width 5, over the pinned {wanted - 1}"):
        readout.fit(X, y)
    assert readout.tensors == {}


@pytest.mark.parametrize(("head", "target"), HEADS)
def test_the_weights_that_are_fit_are_as_many_as_declared(head, target):
    readout = head(spec(head.kind, 0.1), target).fit(features(60, 5), labels_of(target, 60))
    fitted = sum(
        readout.tensors[name].size for name in ("weights", "intercept", "projection") if name in readout.tensors
    )
    assert fitted == readout.parameters(5)


@pytest.mark.parametrize(("head", "target"), HEADS)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_scale_and_offset_of_a_feature_change_no_score(head, target, data):
    factors = np.array(data.draw(st.lists(st.sampled_from([-1e3, -1.0, 1e-3, 0.5, 2.0, 1e6]), min_size=4, max_size=4)))
    offsets = np.array(data.draw(st.lists(st.sampled_from([-100.0, 0.0, 1.0]), min_size=4, max_size=4))) * np.abs(
        factors
    )
    X, y = features(50, 4).astype(np.float64), labels_of(target, 50)
    scores = []
    for values in (X, X * factors + offsets):
        readout = head(spec(head.kind, 0.1), target).fit(values, y)
        if head is Discriminant:
            readout.enrol(values, y, np.zeros(50, int))
        scores.append(readout.scores(values))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-5)


@pytest.mark.parametrize(("head", "target"), HEADS)
def test_a_constant_feature_has_no_say(head, target):
    X, y = features(40, 3), labels_of(target, 40)
    constant = np.full((40, 2), [0.1, 1e8], np.float32)
    scores = []
    for train, test in ((X, X), (np.hstack([X, constant]), np.hstack([X, constant + np.float32([5, 1e9])]))):
        readout = head(spec(head.kind, 0.1), target).fit(train, y)
        if head is Discriminant:
            readout.enrol(test, y, np.zeros(40, int))
        scores.append(readout.scores(test))
    np.testing.assert_allclose(scores[1], scores[0], atol=1e-6)


def test_a_feature_that_is_constant_up_to_rounding_has_no_say():
    X, y = features(40, 3), np.arange(40) % 2
    rounding = (1e8 * (1 + 1e-7 * np.random.default_rng(0).normal(size=(40, 1)))).astype(np.float32)
    assert np.ptp(rounding) > 0
    head = Logistic(spec("logistic"), named(2)).fit(np.hstack([X, rounding]), y)
    assert head.tensors["scale"][3] == 0.0
    np.testing.assert_allclose(
        head.tensors["weights"][:3], Logistic(spec("logistic"), named(2)).fit(X, y).tensors["weights"]
    )


def test_two_processes_give_the_same_bytes():
    code = """
import hashlib, numpy as np
from emma.readouts import Discriminant, Logistic, Ridge
from emma.tasks import TARGETS, ReadoutSpec
rng = np.random.default_rng(0)
X, y, h = rng.normal(size=(300, 64)), rng.integers(0, 5, 300), hashlib.sha256()
names = tuple("abcde")
for head, name in ((Logistic, "class"), (Ridge, "angle"), (Discriminant, "enrolled_class")):
    target = TARGETS[name](names)
    t = head(ReadoutSpec(kind=head.kind, regularisation=(1e-3, 0.01), max_parameters=9999), target).fit(X, y).tensors
    for name in sorted(t): h.update(t[name].tobytes())
print(h.hexdigest())
"""
    found = set()
    for seed in ("1", "2"):
        env = {"PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        found.add(
            subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
        )
    assert len(found) == 1


def test_a_head_comes_back_from_its_tensors(world):
    for task, task_spec in world.manifest.tasks.items():
        assert isinstance(task_spec, TaskSpec), task
        kind = target_of(task_spec)
        labels = kind.numbers(kind.encode(world.index(task, Split.TRAIN)[kind.column]).drop_null())
        head = make_readout(task_spec)
        # A dense head reads as many windows.
        width = 4 * getattr(head, "windows", 1)
        known = features(len(labels), width)
        readout = head.fit(known, labels)
        if isinstance(readout, Discriminant):
            readout.enrol(known, labels, np.zeros(len(labels), int))
        again, shown = load_readout(task_spec, readout.tensors), kind.given(labels)
        asked = features(len(labels), width, 1)
        np.testing.assert_array_equal(again.scores(asked, shown), readout.scores(asked, shown))
