"""E-ID-AMC: fading against closed forms, the linearity of its delays, and the likelihoods of an oracle."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from rfgen.physics.delays import delay_line
from rfgen.recipe import Recipe
from rfgen.scenes import generate
from rfgen.scenes.modulation import Fading
from rfgen.waveforms import likelihoods, linear
from rfgen.waveforms.angular import fsk_frequency, gaussian_step_integral

TASK = "E-ID-AMC"
TWO_PATHS = {"delay_symbols": [0.1, 1.0], "power_db": [-10.0, -1.0]}


def recipe_of(mapping, **changes) -> Recipe:
    data = mapping("v0.1")
    data["tasks"], data["environments"] = {TASK: data["tasks"][TASK] | changes}, {}
    return Recipe.from_mapping(data)


def test_flat_fading_is_rayleigh() -> None:
    fading, rng = Fading(kinds=("flat",)), stream(0, "flat")
    power = np.array([np.sum(np.abs(fading.draw("flat", 8.0, rng)[0]) ** 2) for _ in range(8000)])
    assert power.mean() == pytest.approx(1.0, abs=4 / np.sqrt(8000))
    # |h|^2 is exponential: P(|h|^2 > x) = exp(-x).
    for level in (0.1, 0.5, 1.0, 2.0, 4.0):
        share = np.exp(-level)
        assert np.mean(power > level) == pytest.approx(share, abs=4 * np.sqrt(share * (1 - share) / 8000))


def test_two_paths_have_their_frequency_response() -> None:
    fading, rng = Fading.model_validate({"kinds": ["two-path"], **TWO_PATHS}), stream(0, "two")
    ratios = []
    for _ in range(300):
        symbol = rng.uniform(4, 16)
        gains, delays = fading.draw("two-path", symbol, rng)
        assert np.sum(np.abs(gains) ** 2) == pytest.approx(1.0)
        assert delays[0] == 0
        assert 0.1 * symbol <= delays[1] <= symbol
        ratios.append(20 * np.log10(abs(gains[1] / gains[0])))
    assert -10 <= min(ratios) < -9.5
    assert -1.5 < max(ratios) <= -1
    for frequency in (-0.2, 0.03, 0.37):
        tone = np.exp(2j * np.pi * frequency * np.arange(300))[None]
        heard = delay_line(tone, gains[None], delays[None], 1.0)[0, 60:240] / tone[0, 60:240]
        # |H(f)|^2 = |g0|^2 + |g1|^2 + 2 |g0 g1| cos(2 pi f d - (phase of g1 - phase of g0)).
        angle = 2 * np.pi * frequency * delays[1] - np.angle(gains[1] * gains[0].conj())
        power = np.sum(np.abs(gains) ** 2) + 2 * np.prod(np.abs(gains)) * np.cos(angle)
        assert np.abs(heard) ** 2 == pytest.approx(power, abs=4e-3)


def test_kinds_take_turns_within_every_class_and_none_is_the_default(mapping) -> None:
    plain = next(generate(recipe_of(mapping), TASK, "DEV", None, 1))
    assert plain.labels["detail"] == plain.labels["class"]
    recipe = recipe_of(mapping, fading={"kinds": ["none", "flat", "two-path"], **TWO_PATHS})
    chunks = list(generate(recipe, TASK, "DEV", None, 1, chunk_keys=[("mid", "2.4GHz", n) for n in range(3)]))
    details = [detail for chunk in chunks for detail in chunk.labels["detail"]]
    counts = {detail: details.count(detail) for detail in set(details)}
    assert len(counts) == 33
    assert set(counts.values()) == {4}
    assert {label for chunk in chunks for label in chunk.labels["class"]} == set(recipe.tasks[TASK].classes)
    with pytest.raises(ValueError, match="delay_symbols: expected none below 0"):
        recipe_of(mapping, fading={"kinds": ["two-path"], "delay_symbols": [-1.0, 1.0]})
    with pytest.raises(ValueError, match="kinds"):
        recipe_of(mapping, fading={"kinds": ["rician"]})


def test_the_stated_snr_is_the_mean_over_the_fading(mapping) -> None:
    limits = {"low": [-10.0, -9.9], "high": [20.0, 20.0]}
    for kind, spread in (("none", 0.0), ("flat", 1.0)):
        recipe = recipe_of(mapping, fading={"kinds": [kind]}, regimes_db=limits)
        task = recipe.tasks[TASK]
        made = [task.made(recipe, TASK, "DEV", ("high", "2.4GHz", n), 1) for n in range(5)]
        power = np.concatenate([np.mean(np.abs(m.received) ** 2, axis=1) - 1 for m in made]) / 100
        assert power.mean() == pytest.approx(1.0, abs=0.02 + 4 * spread / np.sqrt(len(power)))
        assert power.std() == pytest.approx(spread, abs=0.05 + 0.4 * spread)


def test_messages_of_a_scene_do_not_come_back_to_their_start(mapping) -> None:
    """A circular message ends where it starts: its last sample would be next to its first."""
    task = recipe_of(mapping).tasks[TASK]
    am = task.signals("AM-DSB", 300, stream(0, "am")).real - 1
    am /= am.std(axis=1, keepdims=True)
    assert abs(np.mean(am[:, 0] * am[:, -1])) < 0.25
    assert np.mean(am[:, 0] * am[:, 1]) > 0.9


def test_a_faded_scene_hears_what_was_sent_before_it(mapping) -> None:
    """The window of a faded scene agrees with that of a stretch that starts much earlier, to -60 dB."""
    rng = stream(0, "before")
    task = recipe_of(mapping).tasks[TASK]
    fading = Fading.model_validate({"kinds": ["two-path"], **TWO_PATHS})
    for modulation in ("QPSK", "2FSK", "OOK"):
        long = task.signals(modulation, 8, rng, 4000)
        gains, delays = (np.stack(x) for x in zip(*[fading.draw("two-path", 16.0, rng) for _ in range(8)], strict=True))
        whole = delay_line(long, gains, delays, 1.0)[:, 2000:3024]
        part = delay_line(long[:, 2000 - 28 : 3024 + 12], gains, delays, 1.0)[:, 28:-12]
        assert 10 * np.log10(np.max(np.mean(np.abs(part - whole) ** 2, axis=0)) + 1e-30) < -60


def test_a_mixture_is_the_one_summed_by_hand() -> None:
    """Matched filters at whole symbols of one sample: the textbook's independent observations."""
    rng = stream(0, "mixture")
    matched, energy = complex_normal(rng, (3, 20)), np.ones((3, 20))
    amplitude = np.array([0.5, 1.0, 2.0])
    for name in ("BPSK", "OOK", "16QAM"):
        points = linear.constellation(name)
        distance = -(np.abs(matched[..., None] - amplitude[:, None, None] * points) ** 2)
        expected = np.log(np.mean(np.exp(distance), axis=2)).sum(axis=1) + np.sum(np.abs(matched) ** 2, axis=1)
        assert likelihoods.linear(matched, energy, amplitude, points) == pytest.approx(expected)


def test_bessel_and_step_integral() -> None:
    x = np.array([0.0, 0.5, 3.7, 3.8, 20.0, 300.0])
    assert likelihoods._log_bessel(x) == pytest.approx(np.log(np.i0(x)), abs=1e-6)
    # The integral of the frequency pulse is what the waveform itself adds up to.
    one, sps = np.ones(1), 400.0
    bits = -np.ones((1, 12), int)
    bits[0, 5] = 1
    frequency = (fsk_frequency(bits, 3000, sps * one, 0 * one, 0.3 * one)[0] + 1) / 2 / sps
    place = (np.arange(3000) + 0.5) / sps + 2 - 5
    assert np.cumsum(frequency) == pytest.approx(gaussian_step_integral(place[None], 0.3 * one)[0], abs=2e-3)


def test_the_oracle_knows_the_classes_and_changes_no_scene(mapping) -> None:
    recipe = recipe_of(mapping)
    task = recipe.tasks[TASK]
    correct = {}
    for regime in ("low", "mid", "high"):
        hits = []
        for number in range(3):
            key = (regime, "2.4GHz", number)
            before = next(generate(recipe, TASK, "DEV", None, 1, chunk_keys=[key]))
            truth = task.truth(recipe, TASK, "DEV", key, 1)
            assert truth.shape == (44, 11)
            assert np.exp(truth).sum(axis=1) == pytest.approx(1.0, abs=1e-3)
            assert np.array_equal(truth, task.truth(recipe, TASK, "DEV", key, 1))
            after = next(generate(recipe, TASK, "DEV", None, 1, chunk_keys=[key]))
            assert np.array_equal(before.iq, after.iq)
            hits.append(np.array(task.classes)[truth.argmax(axis=1)] == np.array(before.labels["class"]))
        correct[regime] = np.mean(hits)
    assert correct["low"] > 0.75
    assert correct["mid"] > 0.95
    assert correct["high"] > 0.99
