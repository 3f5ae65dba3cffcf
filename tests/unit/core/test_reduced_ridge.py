"""Ridge on leading complex components, against a plain SVD and scikit-learn; the target of channels."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn import linear_model
from sklearn.preprocessing import StandardScaler

from common.errors import InputError
from common.files import parse
from emma.metrics import METRICS
from emma.readouts import READOUTS
from emma.readouts.reduced_ridge import ReducedRidge, leading_components
from emma.tasks import TARGETS, ReadoutSpec, TaskSpec

SHAPE, COUNT = (2, 5), 4
CHANNEL = TARGETS["channel"](shape=SHAPE)
SPEC = {
    "target": "channel",
    "shape": list(SHAPE),
    "readout": {"kind": "reduced_ridge", "regularisation": [0.01], "components": COUNT, "max_parameters": 10**6},
    "metric": "NMSE",
    "unit": "dB",
    "ood_axis": "environment",
    "held_out": ["E_URBAN", "E_RURAL"],
    "in_ood_avg": False,
    "anchors": {"minimum": -20.0, "maximum": 0.0},
}


def head(*grid: float, components: int = COUNT) -> ReducedRidge:
    own = SPEC["readout"] | {"regularisation": grid or (1e-2,), "components": components}
    return ReducedRidge(ReadoutSpec(**own), CHANNEL)


def channels(n: int, seed: int = 0) -> np.ndarray:
    """Complex ``[n, 10]`` of falling powers about a mean."""
    rng = np.random.default_rng(seed)
    draws = rng.standard_normal((n, 10)) + 1j * rng.standard_normal((n, 10))
    turned = np.linalg.qr(np.random.default_rng(9).standard_normal((10, 20)).view(complex))[0]
    return draws * 0.6 ** np.arange(10) @ turned + 0.3 - 0.2j


def pairs(values: np.ndarray) -> np.ndarray:
    return np.stack([values.real, values.imag], axis=-1).reshape(len(values), -1)


def features(n: int, width: int, seed: int = 0) -> np.ndarray:
    """Some of what the channels of the same seed are, and noise."""
    own, rng = pairs(channels(n, seed)), np.random.default_rng(seed + 50)
    return np.hstack([own[:, : width // 2], rng.standard_normal((n, width - width // 2))]).astype(np.float32)


@pytest.mark.parametrize(("n", "width", "share"), [(200, 8, 1e-3), (60, 15, 1e-1), (12, 15, 1e-2)])
def test_it_is_the_ridge_of_all_numbers_projected_on_the_leading_components(n, width, share) -> None:
    X, Y = features(n, width), channels(n)
    scaler = StandardScaler().fit(X.astype(float))
    scaled = [scaler.transform(values.astype(float)) / np.sqrt(width) for values in (X, features(30, width, 1))]
    whole = linear_model.Ridge(alpha=share * n, solver="cholesky").fit(scaled[0], pairs(Y)).predict(scaled[1])
    mean = Y.mean(axis=0)
    leading = np.linalg.svd(Y - mean, full_matrices=False)[2][:COUNT]
    wanted = (np.ascontiguousarray(whole).view(complex) - mean) @ leading.conj().T @ leading + mean
    found = head(share).fit(X, pairs(Y)).scores(features(30, width, 1))
    np.testing.assert_allclose(found, pairs(wanted), atol=1e-8)


def test_all_components_are_plain_ridge() -> None:
    X, Y = features(80, 8), pairs(channels(80))
    target = TARGETS["channel"](shape=SHAPE)
    plain = READOUTS["ridge"](ReadoutSpec(kind="ridge", regularisation=(1e-2,), max_parameters=10**6), target)
    np.testing.assert_allclose(head(components=10).fit(X, Y).scores(X), plain.fit(X, Y).scores(X), rtol=1e-9, atol=1e-9)


def test_components_are_orthonormal_in_order_and_do_not_depend_on_a_phase() -> None:
    Y = channels(100)
    level, basis = leading_components(pairs(Y), COUNT)
    components = basis.view(complex)
    np.testing.assert_allclose(components @ components.conj().T, np.eye(COUNT), atol=1e-12)
    np.testing.assert_allclose(level.view(complex), Y.mean(axis=0))
    power = np.mean(np.abs((Y - Y.mean(axis=0)) @ components.conj().T) ** 2, axis=0)
    assert (np.diff(power) < 0).all()
    np.testing.assert_allclose(power, np.linalg.svd(Y - Y.mean(axis=0))[1][:COUNT] ** 2 / 100)
    # One phase for all channels turns the mean; the components span the same, and are turned to the same.
    np.testing.assert_allclose(leading_components(pairs(1j * Y), COUNT)[1], basis, atol=1e-9)


def test_without_features_it_gives_the_mean_channel() -> None:
    Y = pairs(channels(20))
    found = head().fit(np.zeros((20, 0)), Y).scores(np.zeros((3, 0)))
    np.testing.assert_allclose(found, np.tile(Y.mean(axis=0), (3, 1)), atol=1e-12)


def test_the_regularisation_is_chosen_for_unseen_scenes() -> None:
    """Features of noise alone want the strongest; clean ones, the weakest."""
    grid = (1e-6, 1e-3, 1.0, 1e3)
    Y = channels(90)
    noise = np.random.default_rng(1).standard_normal((90, 30))
    assert head(*grid).fit(noise, pairs(Y)).regularisation == 1e3
    assert head(*grid).fit(pairs(Y), pairs(Y)).regularisation == 1e-6


def test_a_fit_anew_without_scenes_finds_its_own_components() -> None:
    X, Y = features(60, 6), pairs(channels(60))
    kept = np.arange(60) % 3 > 0
    again = head(1e-3, 1e-1).fit(X, Y).without(X, Y, kept)
    np.testing.assert_array_equal(again.tensors["level"], Y[kept].mean(axis=0))
    fresh = head(again.regularisation).fit(X[kept], Y[kept])
    np.testing.assert_array_equal(again.scores(X), fresh.scores(X))


def test_a_head_over_its_capacity_is_refused() -> None:
    tight = ReadoutSpec(**SPEC["readout"] | {"max_parameters": 2 * COUNT * 7 - 1})
    assert ReducedRidge(tight, CHANNEL).parameters(6) == 2 * COUNT * 7
    with pytest.raises(InputError, match="56 parameters for width 6, over the pinned 55"):
        ReducedRidge(tight, CHANNEL).fit(np.zeros((9, 6)), np.zeros((9, 20)))


# The target


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shape": []}, "shape: expected one with target channel"),
        ({"shape": [8, 0]}, "shape.1"),
        ({"classes": ["a", "b"]}, "classes: expected none with target channel"),
        ({"readout": SPEC["readout"] | {"components": 11}}, "readout.components: expected at most the 10"),
        ({"readout": SPEC["readout"] | {"components": None}}, "components: expected a value with kind reduced_ridge"),
        ({"readout": SPEC["readout"] | {"kind": "ridge", "components": None}}, "readout.kind: ridge does not fit"),
    ],
)
def test_a_spec_that_contradicts_itself_is_refused(change, message) -> None:
    assert parse(TaskSpec, SPEC, "r").shape == SHAPE
    with pytest.raises(InputError, match="r: ") as caught:
        parse(TaskSpec, SPEC | change, "r")
    assert message in str(caught.value)


def test_lists_that_are_no_channel_are_no_label() -> None:
    good = np.arange(20.0)
    rows = [good.tolist(), good[:19].tolist(), None, [0.0] * 20, [np.nan, *good[1:]], [np.inf, *good[1:]]]
    given = pa.chunked_array([rows[:2], rows[2:]], CHANNEL.label_type)
    encoded = CHANNEL.encode(given)
    assert encoded.is_valid().to_pylist() == [True, *[False] * 5]
    assert encoded.type == CHANNEL.encoded_type
    assert CHANNEL.numbers(encoded.slice(0, 1)).tolist() == [good.tolist()]
    assert CHANNEL.numbers(CHANNEL.encode(given.slice(0, 0))).shape == (0, 20)


def test_pairs_are_complex_tensors_to_the_metric() -> None:
    truth = channels(6).reshape(6, *SHAPE)
    estimate = truth + 0.1
    flat = [pairs(values.reshape(6, -1)) for values in (estimate, truth)]
    given = CHANNEL.metric_inputs(METRICS["NMSE"], *flat)
    np.testing.assert_array_equal(given[0], estimate)
    np.testing.assert_array_equal(given[1], truth)
    assert given[2] == 1
    wanted = 10 * np.log10(np.sum(np.abs(estimate - truth) ** 2) / np.sum(np.abs(truth) ** 2))
    assert METRICS["NMSE"](*given[:2]) == pytest.approx(wanted)


def test_scores_are_stored_in_single_precision_and_come_back() -> None:
    scores = pairs(channels(5))
    column = CHANNEL.stored(scores)
    assert column.type == pa.list_(pa.float32())
    back = CHANNEL.read(pa.chunked_array([column]), "x")
    assert back.dtype == np.float64
    np.testing.assert_array_equal(back, scores.astype(np.float32))
    for broken in ([1.0] * 19, [np.nan] * 20, None):
        rows = pa.chunked_array([[broken, [0.0] * 20]], CHANNEL.score_type)
        with pytest.raises(InputError, match="x: "):
            CHANNEL.read(rows, "x")
