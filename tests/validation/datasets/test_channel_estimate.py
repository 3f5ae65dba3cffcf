"""Least-squares channel estimates of the reference symbol against theory: channel, noise, timing, the whole path."""

import numpy as np
import pytest

from common.streams import complex_normal
from emma.backbones.views import channel_estimate
from emma.data.reference import Reference
from rfgen import scenes
from rfgen.physics.propagation import apply_channel
from rfgen.scenes.base import POOL
from rfgen.waveforms import ofdm

AOA, SIZE, WINDOW = "E-LOC-AOA", 64, slice(578, 578 + 256)


@pytest.fixture(scope="module")
def task(tiny):
    return tiny.recipe.tasks[AOA]


@pytest.fixture(scope="module")
def reference(task):
    return Reference.of(task.known_symbol())


@pytest.fixture(scope="module")
def sent(task):
    """What 2,000 terminals send from the lead on, and where the symbol's body starts in the window."""
    rng = np.random.default_rng(0)
    values, start = task._drawn(2000, WINDOW.stop + 64, rng)
    values, body = task._place_reference(task.reference.root, values, start, WINDOW, rng)
    return task._sent(values, start, WINDOW.stop + 64), body


def estimated(signal, body, reference, window=WINDOW):
    return channel_estimate(signal[:, None, window].astype(np.complex64), body, reference)[:, 0]


def response(reference, taps):
    """Frequency response of taps, gain by delay in samples, at the reference's carriers."""
    k = np.array(reference.carriers)
    return sum(gain * np.exp(-2j * np.pi * k * delay / SIZE) for delay, gain in taps.items())


def test_a_flat_channel_without_noise_is_constant(sent, reference):
    signal, body = sent
    gain = 0.3 - 1.2j
    np.testing.assert_allclose(estimated(gain * signal, body, reference), gain, atol=1e-6)


@pytest.mark.parametrize("echo", [1, 7, 16])
def test_two_taps_within_the_prefix_give_their_frequency_response(sent, reference, echo):
    signal, body = sent
    heard = signal.copy()
    heard[:, echo:] += 0.5j * signal[:, :-echo]
    expected = np.broadcast_to(response(reference, {0: 1.0, echo: 0.5j}), (len(body), 52))
    np.testing.assert_allclose(estimated(heard, body, reference), expected, atol=1e-6)


def test_an_echo_beyond_the_prefix_leaves_an_error(sent, reference):
    signal, body = sent
    heard = signal.copy()
    heard[:, 24:] += 0.5j * signal[:, :-24]
    error = np.abs(estimated(heard, body, reference) - response(reference, {0: 1.0, 24: 0.5j})) ** 2
    # The share of the body that the former symbol reaches into, twice: that comes in, and ours is missing.
    assert error.mean() == pytest.approx(0.25 * 2 * (24 - 16) / SIZE, rel=0.1)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 25.0])
def test_the_error_of_the_estimate_is_the_noise_of_a_carrier(sent, reference, snr_db):
    signal, body = sent
    noise_power = 10 ** (-snr_db / 10)
    noise = complex_normal(np.random.default_rng(1), signal.shape) * np.sqrt(noise_power)
    error = np.abs(estimated(signal + noise, body, reference) - 1.0) ** 2
    expected = noise_power * 52 / 64
    assert error.mean() == pytest.approx(expected, rel=5 / np.sqrt(error.size))
    # The same on every carrier, and of a complex Gaussian: its square spreads as far as its mean.
    assert error.mean(axis=0) == pytest.approx(np.full(52, expected), rel=6 / np.sqrt(len(body)))
    assert error.std() == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("late", [0, 3, 16])
def test_a_timing_offset_within_the_prefix_is_a_linear_phase(sent, reference, late):
    signal, body = sent
    early = estimated(signal, body - late, reference)
    np.testing.assert_allclose(early, np.broadcast_to(response(reference, {late: 1.0}), early.shape), atol=1e-6)


@pytest.mark.parametrize(("delay", "limit_db"), [(0.0, -45), (0.25, -32), (0.5, -29), (6.3, -35)])
def test_behind_the_channel_filter_a_path_between_samples_leaves_little(sent, reference, delay, limit_db):
    """What rings ahead of a path between samples comes from the next symbol: -30 dB, below the noise at 25 dB."""
    signal, body = sent
    gains, delays = np.ones((len(body), 1, 1), complex), np.full((len(body), 1), delay / 2e7)
    heard = apply_channel(signal, gains, delays, 2e7, WINDOW)[:, 0]
    error = np.abs(estimated(heard, body, reference, slice(None)) - response(reference, {delay: 1.0})) ** 2
    assert 10 * np.log10(error.mean()) < limit_db


@pytest.mark.parametrize("split", ["DEV", POOL])
def test_scenes_hold_the_symbol_where_their_metadata_say(tiny, reference, split):
    """Neighbouring carriers are alike, as they are not for another sequence, and say when the first paths come."""
    made = list(scenes.generate(tiny.recipe, AOA, split, tiny.rays(split), tiny.seed))
    iq = np.concatenate([chunk.iq for chunk in made])
    starts = np.concatenate([chunk.metadata["reference_start"] for chunk in made])
    clear = np.concatenate([chunk.metadata["snr_db"] for chunk in made]) > 10
    assert all(chunk.reference == tiny.recipe.tasks[AOA].known_symbol() for chunk in made)

    def likeness(known):
        found = channel_estimate(iq, starts, known)[clear][..., :26]
        turn = np.sum(found[..., 1:] * found[..., :-1].conj(), axis=(1, 2))
        return np.abs(turn) / np.sum(np.abs(found) ** 2, axis=(1, 2)), -np.angle(turn) * SIZE / (2 * np.pi)

    alike, delay = likeness(reference)
    assert np.median(alike) > 0.8
    # In samples: the timing is between 0 and 1, and what comes later comes after that.
    assert 0 < np.quantile(delay, 0.1) < 1.2
    values = ofdm.punctured_zadoff_chu(5, 52)
    wrong = reference.model_copy(update={"values": tuple((value.real, value.imag) for value in values)})
    assert np.median(likeness(wrong)[0]) < 0.3


def test_a_reference_moves_neither_links_nor_labels_nor_noise(tiny, mapping):
    """Without it, the same chunk is received over the same channel: samples before the symbol differ in level alone."""
    bare = mapping("tiny")
    del bare["tasks"][AOA]["reference"]
    plain = next(scenes.generate(type(tiny.recipe).from_mapping(bare), AOA, "DEV", tiny.rays("DEV"), tiny.seed))
    with_one = next(scenes.generate(tiny.recipe, AOA, "DEV", tiny.rays("DEV"), tiny.seed))
    for one, other in ((plain.labels, with_one.labels), (plain.metadata, with_one.metadata)):
        assert all(list(one[name]) == list(other[name]) for name in one)
    assert "reference_start" not in plain.metadata
    assert plain.reference is None
    late = np.flatnonzero(np.asarray(with_one.metadata["reference_start"]) > 100)
    assert late.size
    before = slice(0, 40)
    for row in late:
        one, other = plain.iq[row, :, before].ravel(), with_one.iq[row, :, before].ravel()
        alike = np.abs(np.vdot(one, other)) / np.linalg.norm(one) / np.linalg.norm(other)
        assert alike > 0.98
