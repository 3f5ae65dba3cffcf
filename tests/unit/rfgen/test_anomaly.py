"""E-SC-ANOM: kinds of anomaly are what they are called, normal scenes follow the same laws, recipes have limits."""

import dataclasses

import numpy as np
import pytest

from common.streams import stream
from rfgen import scenes
from rfgen.recipe import Recipe
from rfgen.scenes.anomaly import NORMAL, Observed
from rfgen.waveforms.intrusions import FOREIGN, KINDS, NEEDS, OnAir
from rfgen.waveforms.traffic import FAMILIES, RATE

TASK, SAMPLES = "E-SC-ANOM", 4096
FREQUENCY = np.fft.fftfreq(SAMPLES, 1 / RATE)


@pytest.fixture(scope="module")
def recipe(mapping) -> Recipe:
    return Recipe.from_mapping(mapping("v1.0"))


@pytest.fixture(scope="module")
def task(recipe):
    return recipe.tasks[TASK]


def traffic(task, family: str, n: int = 20) -> list[OnAir]:
    rng = stream(0, "traffic", family)
    made = [FAMILIES[family](rng, SAMPLES, task.families[family]) for _ in range(n)]
    return [OnAir(each.signal, 0.0, each.opening, slice(0, SAMPLES)) for each in made]


def added(task, kind: str, family: str = "nr-ofdm", n: int = 20) -> np.ndarray:
    rng = stream(0, "kinds", kind)
    return np.stack([KINDS[kind](rng, each, task.kinds[kind]) for each in traffic(task, family, n)])


def spectrum(signal: np.ndarray) -> np.ndarray:
    power = np.abs(np.fft.fft(signal * np.hanning(SAMPLES))) ** 2
    return power / power.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("family", FAMILIES)
def test_traffic_stays_within_its_width_and_the_band(task, family: str) -> None:
    rng = stream(0, "widths", family)
    made = [FAMILIES[family](rng, SAMPLES, task.families[family]) for _ in range(20)]
    assert set(task.families) == set(FAMILIES)
    for each in made:
        inside = np.abs(FREQUENCY) <= each.half_width_hz + 3 * RATE / SAMPLES
        assert each.half_width_hz <= task.band_hz / 2
        assert spectrum(each.signal[None])[0][inside].sum() > 0.95
        assert each.opening.shape[0] < SAMPLES
        # Pauses are shorter than the shortest silence of dropped traffic.
        on = np.flatnonzero(np.abs(each.signal) > 0)
        assert np.diff(on).max() / RATE * 1e6 < task.kinds["dropped"].silence_us[0]


def test_a_tone_is_one_line_and_pulses_are_one_that_comes_and_goes(task) -> None:
    tone, pulses = added(task, "tone"), added(task, "pulses")
    np.testing.assert_allclose(np.abs(tone), 1.0)
    assert np.all(np.sort(spectrum(tone), axis=1)[:, -4:].sum(axis=1) > 0.99)
    on = np.abs(pulses) > 0.5
    lengths = np.concatenate([np.diff(np.flatnonzero(np.diff(row)))[::2] for row in on]) / RATE * 1e6
    low, high = task.kinds["pulses"].pulse_us[0] / task.kinds["pulses"].interval_us[1], 0.25
    assert np.all((on.mean(axis=1) > 0.5 * low) & (on.mean(axis=1) < high + 0.1))
    assert lengths.max() < task.kinds["pulses"].interval_us[1]
    np.testing.assert_allclose(np.abs(pulses[on]), 1.0)


def test_a_sweep_covers_its_width_at_one_level(task) -> None:
    sweep = added(task, "sweep", n=40)
    np.testing.assert_allclose(np.abs(sweep), 1.0)
    frequency = np.angle(sweep[:, 1:] * sweep[:, :-1].conj()) / (2 * np.pi) * RATE
    width = frequency.max(axis=1) - frequency.min(axis=1)
    limits, reach = task.kinds["sweep"].width_hz, task.kinds["sweep"].reach_hz
    assert limits[0] * 0.98 < width.min() < width.max() < limits[1] * 1.01
    assert np.abs(frequency).max() <= reach * 1.001
    slopes = np.sign(np.median(np.diff(frequency, axis=1), axis=1))
    assert set(slopes) == {-1.0, 1.0}


def test_a_barrage_is_gaussian_and_flat_over_its_width(task) -> None:
    barrage = added(task, "barrage", n=40)
    moments = np.mean(np.abs(barrage) ** 4, axis=1) / np.mean(np.abs(barrage) ** 2, axis=1) ** 2
    assert moments.mean() == pytest.approx(2.0, abs=0.1)
    share = spectrum(barrage)
    assert share[:, np.abs(FREQUENCY) > task.kinds["barrage"].reach_hz * 1.01].sum(axis=1).max() < 1e-3
    # A flat spectrum of exponential lines: half of the power lies in 18.7 % of the width's lines.
    width = (np.cumsum(-np.sort(-share, axis=1), axis=1) < 0.5).mean(axis=1) * RATE
    assert np.all((width > 0.12 * 6e6) & (width < 0.25 * 16e6))


def test_a_guard_band_emitter_is_where_no_traffic_is(task) -> None:
    share = spectrum(added(task, "guard-band", n=40))
    assert share[:, np.abs(FREQUENCY) < task.band_hz / 2].sum(axis=1).max() < 0.01
    centre = share @ FREQUENCY
    assert (centre > 0).any() and (centre < 0).any()


@pytest.mark.parametrize("family", FAMILIES)
def test_an_amplifier_regrows_what_varies_and_leaves_a_constant_envelope(task, family: str) -> None:
    before = np.stack([each.signal for each in traffic(task, family)])
    after = added(task, "regrowth", family)
    share = np.mean(np.abs(after) ** 2, axis=1) / np.mean(np.abs(before) ** 2, axis=1)
    # Interpolation between the samples leaves ripples, and the ends of the stretch ring.
    middle = slice(200, -200)
    assert np.all(np.abs(np.sum(after * before.conj(), axis=1)) < 1e-6 * np.sum(np.abs(before) ** 2, axis=1))
    if family in NEEDS["regrowth"]:
        assert np.all(10 * np.log10(share) > -28)
    elif family != "bluetooth-gfsk":  # its bursts begin at once, which no interpolation follows
        quiet = np.mean(np.abs(after[:, middle]) ** 2, axis=1) / np.mean(np.abs(before) ** 2, axis=1)
        assert np.all(10 * np.log10(quiet) < -25)


def test_a_replay_is_the_preamble_on_another_carrier(task) -> None:
    """Off the traffic's carrier by the offset alone, it correlates wholly with the preamble."""
    for each in traffic(task, "wifi-frames", 10):
        rng = stream(1, "replay")
        moved = dataclasses.replace(each, carrier_hz=1e6)
        heard = KINDS["replay"](rng, moved, task.kinds["replay"])
        on = np.flatnonzero(np.abs(heard) > 0)
        length = len(each.preamble)
        assert on[-1] - on[0] < length == 640
        start = on[0] - np.flatnonzero(np.abs(each.preamble) > 0)[0]
        product = heard[start : start + length] * each.preamble.conj()
        line = np.abs(np.fft.fft(product, 1 << 16))
        offset = np.fft.fftfreq(1 << 16, 1 / RATE)[line.argmax()] - 1e6
        assert line.max() == pytest.approx(np.sum(np.abs(each.preamble) ** 2), rel=1e-3)
        assert task.kinds["replay"].offset_hz[0] - 500 < abs(offset) < task.kinds["replay"].offset_hz[1] + 500


@pytest.mark.parametrize("family", FAMILIES)
def test_dropped_traffic_is_silent_for_a_stretch_and_as_it_was_elsewhere(task, family: str) -> None:
    before = np.stack([each.signal for each in traffic(task, family)])
    after = before + added(task, "dropped", family)
    lost = (after == 0) & (before != 0)
    for row, rest in zip(lost, after - before, strict=True):
        gone = np.flatnonzero(row)
        assert (rest[: gone[0]] == 0).all() and (rest[gone[-1] + 1 :] == 0).all()
        assert 40 - 24 < (gone[-1] - gone[0] + 1) / RATE * 1e6 <= 80.1
        assert row.sum() / RATE * 1e6 > 10


def observed(recipe, split: str, count: int = 8) -> list[Observed]:
    keys = [key for key in scenes.chunk_keys(recipe, TASK, split) if key[0] == "F1"][:count]
    return [recipe.tasks[TASK].made(recipe, TASK, split, key, 5) for key in keys]


def test_training_shows_nothing_that_is_wrong(recipe, task) -> None:
    for split in ("TRAIN", "PRETRAIN"):
        key = scenes.chunk_keys(recipe, TASK, split)[0]
        assert not task.made(recipe, TASK, split, key, 5).anomalous.any()
    labels = next(scenes.generate(recipe, TASK, "TRAIN", None, 5)).labels
    assert set(labels["class"]) == set(labels["detail"]) == {NORMAL}
    chunk = next(scenes.generate(recipe, TASK, "DEV", None, 5))
    assert sorted(chunk.labels["class"]).count("anomalous") == 4
    wrong = np.array(chunk.labels["class"]) == "anomalous"
    assert set(np.array(chunk.labels["detail"])[wrong]) <= set(KINDS)
    assert set(np.array(chunk.labels["detail"])[~wrong]) == {NORMAL}


def test_every_kind_is_shown_alike_and_by_every_family_that_can(recipe, task) -> None:
    """Over all chunks of DEV; a normal scene's nominal kind and family follow the same law."""
    turns = {}
    for split, share in (("DEV", 4), ("TRAIN", 40)):
        number = recipe.tasks[TASK].counts[split] // 40 * 6 * share
        turns[split] = [task._turn(turn) for turn in range(number)]
    for pairs in turns.values():
        kinds, families = (np.array(each) for each in zip(*pairs, strict=True))
        counts = [np.sum(kinds == kind) for kind in KINDS]
        assert max(counts) - min(counts) <= 1
        for kind in KINDS:
            able = NEEDS.get(kind, tuple(FAMILIES))
            shown = [np.sum((kinds == kind) & (families == family)) for family in able]
            assert sum(shown) == np.sum(kinds == kind)
            assert max(shown) - min(shown) <= 1


def test_chunks_and_receivers_go_on_with_the_turns(recipe, task) -> None:
    kinds = []
    for key in scenes.chunk_keys(recipe, TASK, "DEV"):
        if key[2] < 2:
            made = task.made(recipe, TASK, "DEV", key, 5)
            kinds.append(tuple(sorted(np.array(made.kinds)[made.anomalous])))
    assert set(kinds[0]) | set(kinds[1]) == set(KINDS)
    assert kinds[0] != kinds[1]


def test_what_is_on_air_reaches_the_stated_snr_whatever_is_wrong(recipe) -> None:
    for made in observed(recipe, "DEV"):
        shown = made.traffic + made.anomalous[:, None] * made.deviation
        np.testing.assert_allclose(np.mean(np.abs(shown) ** 2, axis=1), 1.0)
        noise = made.noisy[:, 0] - 10 ** (made.snr_db[:, None] / 20) * shown
        assert np.mean(np.abs(noise) ** 2) == pytest.approx(1.0, abs=0.02)


def test_another_transmitter_has_a_level_and_paths_of_its_own(recipe, task) -> None:
    foreign, own = [], []
    for made in observed(recipe, "TRAIN"):
        ratio = 10 * np.log10(np.mean(np.abs(made.deviation) ** 2, axis=1) / np.mean(np.abs(made.traffic) ** 2, axis=1))
        other = np.isin(made.kinds, FOREIGN)
        foreign.append(ratio[other])
        own.append(made.deviation[np.array(made.kinds) == "dropped"] + made.traffic[np.array(made.kinds) == "dropped"])
    foreign = np.concatenate(foreign)
    assert task.level_db[0] - 1e-6 < foreign.min() and foreign.max() < task.level_db[1] + 1e-6
    assert foreign.mean() == pytest.approx(np.mean(task.level_db), abs=4 * 15 / np.sqrt(12 * len(foreign)))
    # Over the traffic's own paths what was dropped is gone, to the last echo.
    quiet = np.min([np.abs(row).reshape(64, 64).max(axis=1).min() for rows in own for row in rows])
    assert quiet < 1e-6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kinds": {}}, "kinds: expected at least one"),
        ({"anomalous_share": 0.01}, "anomalous_share: expected both labels in a chunk of 40"),
        ({"anomalous_share": 1.0}, "anomalous_share: expected both labels in a chunk of 40"),
        ({"sample_rate_hz": 1e7}, "sample_rate_hz: expected 20000000.0"),
        ({"receivers": ["F1", "F1"]}, "receivers: expected at least two different held-out values"),
    ],
)
def test_a_recipe_that_makes_no_task_is_refused(mapping, change: dict, message: str) -> None:
    data = mapping("v1.0")
    data["tasks"][TASK] |= change
    with pytest.raises(ValueError, match=message):
        Recipe.from_mapping(data)


@pytest.mark.parametrize(
    ("families", "message"),
    [
        (["nr-ofdm"], "families: expected at least two different held-out values"),
        (["zigbee-oqpsk", "gsm-gmsk"], "kinds.regrowth: expected one of the families wifi-frames, nr-ofdm"),
    ],
)
def test_families_that_cannot_show_a_kind_are_refused(mapping, families: list[str], message: str) -> None:
    data = mapping("v1.0")
    block = data["tasks"][TASK]
    block["families"] = {name: block["families"][name] for name in families}
    with pytest.raises(ValueError, match=message):
        Recipe.from_mapping(data)
