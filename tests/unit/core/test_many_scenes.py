"""Readouts of more scenes than are held in memory: the same fits, from blocks of rows on disk."""

import math
import tracemalloc

import numpy as np
import pytest
from safetensors.numpy import save

from common import rows
from common.rows import RowFile, Rows
from emma.readouts import READOUTS, base, cross_entropy
from emma.readouts.cross_entropy import CrossEntropy
from emma.tasks import TARGETS, ReadoutSpec

CLASSES, N, WIDTH = 5, 900, 12
GRID = (1e-4, 1e-2, 1.0)


def head(kind: str, **changes):
    """An unfitted head with a grid to choose from, and labels for ``N`` scenes."""
    labels = np.arange(N) * 7 % CLASSES
    if kind == "ridge":
        target, numbers = TARGETS["angle"](), np.random.default_rng(1).uniform(0, 360, N)
    elif kind == "mahalanobis":
        target, numbers = TARGETS["anomaly"](("normal", "anomalous")), np.zeros(N)
        changes |= {"components": 4}
    elif kind == "binary":
        kind, target, numbers = "logistic", TARGETS["binary"](("no", "yes")), (labels > 1).astype(float)
        changes |= {"class_balanced": True}
    else:
        target = TARGETS["class" if kind == "logistic" else "enrolled_class"](tuple(map(str, range(CLASSES))))
        numbers = labels.astype(float)
    grid = () if kind == "mahalanobis" else GRID
    keys = {"kind": kind, "regularisation": grid, "max_parameters": 10**6} | changes
    return READOUTS[kind](ReadoutSpec(**keys), target), numbers


def embedded(kind: str) -> np.ndarray:
    """Features that say something of the labels, one of them constant."""
    rng, labels = np.random.default_rng(0), head(kind)[1]
    values = rng.normal(size=(N, WIDTH)) * rng.uniform(0.1, 30, WIDTH) + 100.0
    values[:, 3] = 7.0
    values[:, 0] += 3 * np.cos(np.deg2rad(labels)) if kind == "ridge" else labels
    return values.astype(np.float32)


def on_disk(values: np.ndarray) -> Rows:
    """The same, in a file, in another order that is undone by the numbers of its rows."""
    order = np.random.default_rng(2).permutation(len(values))
    file = RowFile(values.shape[1:], values.dtype)
    file.append(values[order])
    return Rows(file, np.argsort(order))


@pytest.fixture
def many(monkeypatch):
    """Few scenes count as many, and are taken a few at a time."""
    monkeypatch.setattr(rows, "WHOLE", 50)
    monkeypatch.setattr(rows, "_BLOCK", 100 * WIDTH)
    monkeypatch.setattr(rows, "_LEAST", 1)


KINDS = ["ridge", "binary", "logistic", "discriminant", "mahalanobis"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_in_blocks_is_the_fit_of_the_whole(kind, request):
    values = embedded(kind)
    unfitted, labels = head(kind)
    whole = unfitted.fit(values, labels)
    request.getfixturevalue("many")
    blocked = head(kind)[0].fit(on_disk(values), labels)
    for name, tensor in whole.tensors.items():
        np.testing.assert_allclose(blocked.tensors[name], tensor, rtol=1e-6, atol=1e-8, err_msg=name)
    if kind != "discriminant":
        np.testing.assert_allclose(blocked.scores(values), whole.scores(values), rtol=1e-6, atol=1e-7)
    kept = np.arange(N) % 5 != 2
    np.testing.assert_allclose(
        blocked.without(on_disk(values), labels, kept).tensors["mean"], values[kept].mean(axis=0, dtype=np.float64)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_rows_are_kept_changes_no_byte(many, kind):
    values, labels = embedded(kind), head(kind)[1]
    fits = [head(kind)[0].fit(given, labels) for given in (values, Rows(values), on_disk(values))]
    assert len({save({name: np.ascontiguousarray(t) for name, t in fit.tensors.items()}) for fit in fits}) == 1


def test_mean_and_scale_are_those_of_the_array_to_the_bit(many):
    values = embedded("ridge")
    for one, other in zip(base.factors(values), base.factors(on_disk(values)), strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("outputs", [1, CLASSES])
def test_curvature_and_preconditioners_add_up(many, outputs):
    rng, values = np.random.default_rng(3), np.random.default_rng(0).normal(size=(N, WIDTH))
    classes = np.arange(N) % (2 if outputs == 1 else outputs)
    at, direction = rng.normal(size=(2, WIDTH + 1, outputs))
    for made in (
        lambda loss: loss.curvature(at)(direction),
        lambda loss: loss.whitening(at),
        lambda loss: loss.whitening(),
        lambda loss: loss.value_and_gradient(at)[1],
    ):
        sides = [
            CrossEntropy(inputs, classes, np.full(N, 1 / N), 1e-3, outputs) for inputs in (values, on_disk(values))
        ]
        np.testing.assert_allclose(made(sides[1]), made(sides[0]), rtol=1e-9, atol=1e-11)


def test_newtons_steps_go_in_blocks_too(many, monkeypatch):
    values, labels = embedded("logistic"), head("logistic")[1]
    one = head("logistic")[0].fit(on_disk(values), labels)
    monkeypatch.setattr(cross_entropy, "_ITERATIONS", 2)  # L-BFGS-B gives up at once
    monkeypatch.setattr(cross_entropy, "_NEWTON_ROUNDS", 40)
    other = head("logistic")[0].fit(on_disk(values), labels)
    np.testing.assert_allclose(other.tensors["weights"], one.tensors["weights"], rtol=1e-4, atol=1e-6)


def test_memory_does_not_grow_with_scenes():
    """Four times the scenes hold no more than their labels more."""
    peaks = []
    for times in (1, 4):
        count, width = times * 12_000, 200
        assert count * width > rows.WHOLE
        file = RowFile((width,), np.float32)
        for part in range(count // 2_000):
            file.append(np.random.default_rng(part).normal(size=(2_000, width)).astype(np.float32))
        labels = (np.arange(count) % 2).astype(float)
        readout = head("binary")[0].fixed(1e-2)
        tracemalloc.start()
        readout.fit(Rows(file), labels)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    labels_alone = 36_000 * 8 * 12
    assert peaks[1] - peaks[0] < labels_alone < math.prod((36_000, 200)) * 4 / 8
