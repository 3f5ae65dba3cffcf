"""The dense readout against scikit-learn, window by window, and the label that it is fit to."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest
from safetensors.numpy import save
from sklearn import linear_model

from common.errors import InputError
from common.files import parse
from common.masks import clipped, ideal_mask, spectra, waveform
from common.rows import RowFile, Rows
from emma.metrics import METRICS
from emma.readouts import masking
from emma.readouts.masking import Masking
from emma.tasks import TARGETS, ReadoutSpec, TaskSpec

T, WINDOW, HOP, WINDOWS = 96, 32, 16, 5
TARGET = TARGETS["source"]((), (T,))
SPEC = {
    "target": "source",
    "shape": [T],
    "readout": {"kind": "masking", "regularisation": (0.01,), "max_parameters": 10**6, "window": WINDOW, "hop": HOP},
    "metric": "SISDR",
    "unit": "dB",
    "ood_axis": "waveform",
    "held_out": ["a", "b"],
    "in_ood_avg": False,
    "anchors": {"minimum": 0.0, "maximum": 20.0},
}


def pinned(*grid: float, **changes) -> ReadoutSpec:
    own = {"kind": "masking", "regularisation": grid or (1e-3,), "max_parameters": 10**6, "window": WINDOW, "hop": HOP}
    return ReadoutSpec(**own | changes)


def mixtures(n: int = 40, seed: int = 0) -> np.ndarray:
    """Mixture and source ``[n, 2, T]``: a slow signal, and noise of a level of its own."""
    rng = np.random.default_rng(seed)
    slow = np.cumsum(rng.standard_normal((n, T)) + 1j * rng.standard_normal((n, T)), axis=1) / 4
    level = rng.uniform(0.2, 3.0, (n, 1))
    return np.stack([slow + level * (rng.standard_normal((n, T)) + 1j * rng.standard_normal((n, T))), slow], axis=1)


def embedded(target: np.ndarray, width: int = 6) -> np.ndarray:
    """Log powers of the first lines of every window ``[n, WINDOWS width]``."""
    lines = spectra(target[:, 0], WINDOW, HOP)[..., :width]
    return np.log(np.abs(lines) ** 2).reshape(len(target), -1).astype(np.float32)


def rows_of(features: np.ndarray) -> np.ndarray:
    return features.reshape(-1, features.shape[1] // WINDOWS).astype(np.float64)


def masks_of(target: np.ndarray) -> np.ndarray:
    source, mixture = (spectra(target[:, part], WINDOW, HOP) for part in (1, 0))
    return ideal_mask(source, mixture).view(float).reshape(-1, 2 * WINDOW)


@pytest.mark.parametrize("share", [1e-4, 1e-2])
def test_it_is_a_ridge_of_windows_to_masks(share: float) -> None:
    target = mixtures()
    features = embedded(target)
    rows, masks = rows_of(features), masks_of(target)
    inputs = (rows - rows.mean(axis=0)) / rows.std(axis=0) / np.sqrt(rows.shape[1])
    reference = linear_model.Ridge(alpha=share * len(rows), solver="cholesky").fit(inputs, masks)
    readout = Masking(pinned(share), TARGET).fit(features, target)
    np.testing.assert_allclose(readout.tensors["weights"], reference.coef_.T, atol=1e-9)
    np.testing.assert_allclose(readout.tensors["intercept"], reference.intercept_, atol=1e-10)
    lines = spectra(target[:, 0], WINDOW, HOP)
    predicted = clipped(np.ascontiguousarray(reference.predict(inputs)).view(complex).reshape(lines.shape))
    found = readout.scores(features, TARGET.given(target))
    assert found.shape == (40, TARGET.width) == (40, 2 * T)
    np.testing.assert_allclose(found.view(complex), waveform(predicted * lines, HOP), atol=1e-9)


def test_the_regularisation_is_that_of_scenes_which_the_inner_fits_did_not_see() -> None:
    """Losses from sums alone are those of predictions, with the windows of a scene on one side."""
    grid, target = (1e-6, 1e-3, 1.0), mixtures()
    features, groups = embedded(target), np.arange(40) // 2
    readout = Masking(pinned(*grid), TARGET).fit(features, target, groups)
    rows, masks = rows_of(features), masks_of(target)
    inputs = (rows - rows.mean(axis=0)) / rows.std(axis=0) / np.sqrt(rows.shape[1])
    part, losses = np.repeat(groups % 3, WINDOWS), np.zeros(3)
    for own in range(3):
        for place, value in enumerate(grid):
            rest = part != own
            fit = linear_model.Ridge(alpha=value * rest.sum(), solver="cholesky").fit(inputs[rest], masks[rest])
            losses[place] += ((fit.predict(inputs[~rest]) - masks[~rest]) ** 2).sum() / len(rows)
    np.testing.assert_allclose(readout.tensors["validation_losses"], losses, rtol=1e-8)
    assert readout.regularisation == grid[int(np.argmin(losses))]
    kept = np.arange(40) > 9
    again = readout.without(features, target, kept)
    alone = Masking(pinned(readout.regularisation), TARGET).fit(features[kept], target[kept])
    np.testing.assert_array_equal(again.tensors["weights"], alone.tensors["weights"])


def test_scenes_come_a_few_at_a_time(monkeypatch) -> None:
    target = mixtures()
    features, whole = embedded(target), Masking(pinned(1e-4, 1e-2), TARGET)
    whole.fit(features, target)
    monkeypatch.setattr(masking, "_SCENES", 7)
    parts = Masking(pinned(1e-4, 1e-2), TARGET).fit(features, target)
    for name, tensor in whole.tensors.items():
        np.testing.assert_allclose(parts.tensors[name], tensor, rtol=1e-9, atol=1e-12)
    given = TARGET.given(target)
    np.testing.assert_allclose(parts.scores(features, given), whole.scores(features, given), atol=1e-9)


@pytest.mark.parametrize("features", [np.zeros((40, 0)), np.full((40, 15), 2.5)])
def test_without_information_the_mask_is_the_mean_one(features: np.ndarray) -> None:
    target = mixtures()
    readout = Masking(pinned(1e-4, 1e-2), TARGET).fit(features, target)
    mean = masks_of(target).mean(axis=0).view(complex)
    expected = waveform(mean * spectra(target[:, 0], WINDOW, HOP), HOP)
    np.testing.assert_allclose(readout.scores(features, target[:, 0]).view(complex), expected, atol=1e-9)
    assert readout.regularisation == 1e-2


def test_an_ideal_mask_as_embedding_gives_the_source_back() -> None:
    target, other = mixtures(seed=1), mixtures(seed=2)
    truth = [masks_of(each).reshape(40, -1) for each in (target, other)]
    readout = Masking(pinned(1e-8), TARGET).fit(truth[0], target)
    preds, wanted, _ = TARGET.metric_inputs(METRICS["SISDR"], readout.scores(truth[1], other[:, 0]), other)
    lines = spectra(other[:, 0], WINDOW, HOP)
    ideal = waveform(truth[1].view(complex).reshape(lines.shape) * lines, HOP)
    assert METRICS["SISDR"](preds, wanted) == pytest.approx(METRICS["SISDR"](ideal, wanted), abs=0.05)


def test_capacity_is_that_of_a_window() -> None:
    target = mixtures(4)
    assert Masking(pinned(), TARGET).parameters(6) == 2 * WINDOW * 7
    Masking(pinned(max_embedding_dim=6, max_parameters=2 * WINDOW * 7), TARGET).fit(embedded(target), target)
    for changes, message in (
        ({"max_embedding_dim": 5}, "embedding_dim: 6 is wider than the pinned 5"),
        ({"max_parameters": 2 * WINDOW * 7 - 1}, "readout: 448 parameters for width 6, over the pinned 447"),
    ):
        with pytest.raises(InputError, match=message):
            Masking(pinned(**changes), TARGET).fit(embedded(target), target)
    with pytest.raises(InputError, match="embedding_dim: 31, expected a multiple of the 5 windows of a scene"):
        Masking(pinned(), TARGET).fit(np.zeros((4, 31)), target)


def test_labels_that_hold_no_two_waveforms_are_none() -> None:
    """Another length, a number that is not finite, a silent mixture or source."""
    good = np.random.default_rng(0).normal(size=4 * T).astype(np.float32)
    rows = [good.copy() for _ in range(5)]
    rows[1] = good[:-2]
    rows[2][7] = np.nan
    rows[3][: 2 * T] = 0
    rows[4][2 * T :] = 0
    encoded = TARGET.encode(pa.chunked_array([rows[:2], rows[2:]], TARGET.label_type))
    assert [row is None for row in encoded.to_pylist()] == [False] + 4 * [True]
    numbers = TARGET.numbers(encoded.slice(0, 1))
    assert numbers.shape == (1, 2, T)
    np.testing.assert_array_equal(numbers[0, 0], good[: 2 * T : 2].astype(float) + 1j * good[1 : 2 * T : 2])
    np.testing.assert_array_equal(TARGET.given(numbers), numbers[:, 0])


def test_scores_are_stored_as_they_are_read_and_compared_by_their_own_size() -> None:
    scores = np.random.default_rng(0).normal(size=(3, 2 * T)) * np.array([[1e-3], [1.0], [1e3]])
    column = TARGET.stored(scores)
    assert column.type == pa.list_(pa.float32())
    found = TARGET.read(pa.chunked_array([column]), "x")
    np.testing.assert_allclose(found, scores, rtol=1e-6)
    moved = found.copy()
    moved[0, 5] += 1e-4
    assert TARGET.distance(moved, found) == pytest.approx(1e-4 / np.abs(found[0]).max())
    assert TARGET.distance(found[:2], found) == float("inf")
    assert TARGET.score_fault(found) is None
    found[1] = 0
    assert TARGET.score_fault(found) == "silent waveform in row 1, expected a sample that is not 0"


def test_the_metrics_get_the_waveforms_that_they_take() -> None:
    target = mixtures(3)
    scores = np.ascontiguousarray(target[:, 1]).view(float)
    for name, wanted in (("SISDR", target[:, 1]), ("SISDRImprovement", target)):
        preds, truth, entries = TARGET.metric_inputs(METRICS[name], scores, target)
        np.testing.assert_array_equal(preds, target[:, 1])
        np.testing.assert_array_equal(truth, wanted)
        assert entries == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"classes": ["a", "b"]}, "classes: expected none with target source"),
        ({"shape": [T, 2]}, "shape: expected [samples] with target source"),
        ({"shape": []}, "shape: expected one with target source"),
        ({"shape": [100]}, "window, hop: 32, 16, expected"),
        ({"readout": SPEC["readout"] | {"hop": 20}}, "window, hop: 32, 20, expected"),
        ({"readout": SPEC["readout"] | {"hop": None}}, "hop: expected a value with kind masking"),
        ({"readout": {"kind": "ridge", "regularisation": (0.1,), "max_parameters": 9}}, "expected masking"),
    ],
)
def test_a_declaration_that_contradicts_itself_is_refused(change: dict, message: str) -> None:
    assert parse(TaskSpec, SPEC, "r").shape == (T,)
    with pytest.raises(InputError) as caught:
        parse(TaskSpec, SPEC | change, "r")
    assert message in str(caught.value)


def test_memory_does_not_grow_with_windows_times_width_in_double_precision() -> None:
    """Ten times the scenes cost a copy of a third of the embeddings and labels, as they are, and nothing else."""
    width, peaks = 64, []
    for n in (100, 1000):
        target = np.tile(mixtures(20), (n // 20, 1, 1))
        features = np.random.default_rng(0).normal(size=(n, WINDOWS * width)).astype(np.float32)
        tracemalloc.start()
        Masking(pinned(1e-4, 1e-2), TARGET).fit(features, target)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    in_double = 900 * WINDOWS * width * 8
    assert peaks[1] - peaks[0] < 0.6 * (in_double / 2 + 900 * 2 * T * 16)


def test_a_fit_on_rows_on_disk_is_that_on_an_array():
    target = mixtures()
    values = embedded(target)
    file = RowFile(values.shape[1:], values.dtype)
    file.append(values)
    fits = [Masking(pinned(1e-3, 1.0), TARGET).fit(given, target) for given in (values, Rows(file))]
    assert save(fits[0].tensors) == save(fits[1].tensors)
    assert np.array_equal(
        *(fit.scores(given, target[:, 0]) for fit, given in zip(fits, (values, Rows(file)), strict=True))
    )
