"""E-SC-SEP's block of the recipe, its interferers, scenes and truth."""

from pathlib import Path

import numpy as np
import pytest

from common.masks import ideal_mask, spectra, waveform
from common.streams import stream
from emma.data.extends import read_extended
from rfgen import scenes
from rfgen.recipe import Recipe
from rfgen.waveforms import interferers

CONFIG = Path(__file__).parents[3] / "config" / "releases"
TASK = "E-SC-SEP"
KEY = ("gfsk", "2.4GHz", 0)


def mapping(release: str = "tiny", **changes) -> dict:
    data = read_extended(CONFIG / f"{release}.yaml")["rfgen"]
    data["tasks"] = {TASK: data["tasks"][TASK] | changes}
    data["environments"] = {}
    return data


def recipe(release: str = "tiny", **changes) -> Recipe:
    return Recipe.from_mapping(mapping(release, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"families": {"gfsk": {"baud": [5e5, 2e6], "index": [0.3, 0.7], "bt": [0.3, 0.5]}}}, "families: expected"),
        ({"families": {"noise": {}}}, "families.noise"),
        ({"noise_db": 10.0}, "noise_db: expected less noise than the highest SINR leaves"),
        ({"sample_rate_hz": 1e7}, "sample_rate_hz: expected 20000000.0"),
        ({"pulse": {"baud": 2e7, "rolloff": 0.35}}, "pulse: expected a roll-off"),
        ({"mask": {"window": 256, "hop": 100}}, "mask: window, hop: 256, 100"),
        ({"scenes": {"TRAIN": 7, "DEV": 8, "HOLDOUT": 8}}, "scenes.TRAIN"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipe(**changes)


def test_the_label_holds_the_scene_and_its_source() -> None:
    made = recipe()
    chunk = made.tasks[TASK].make(made, TASK, "DEV", KEY, 3)
    assert chunk.iq.shape == (8, 1, 1024)
    assert chunk.metadata["waveform"] == ["gfsk"] * 8
    label = np.asarray(chunk.labels["mixture_and_source"], np.float32).view(np.complex64).reshape(8, 2, 1024)
    np.testing.assert_array_equal(label[:, 0], chunk.iq[:, 0])
    rest = label[:, 0].astype(complex) - label[:, 1]
    power = [np.mean(np.abs(part) ** 2, axis=1) for part in (label[:, 1], rest)]
    np.testing.assert_allclose(10 * np.log10(power[0] / power[1]), chunk.metadata["snr_db"], atol=1e-4)
    again = made.tasks[TASK].make(made, TASK, "DEV", KEY, 3)
    np.testing.assert_array_equal(again.iq, chunk.iq)
    assert not np.array_equal(made.tasks[TASK].make(made, TASK, "DEV", KEY, 4).iq, chunk.iq)


def test_the_truth_is_the_ideal_mask_of_the_readout_s_windows() -> None:
    made = recipe()
    truth = made.tasks[TASK].truth(made, TASK, "DEV", KEY, 3)
    mixed = made.tasks[TASK].mixed(made, TASK, "DEV", KEY, 3)
    assert truth.shape == (8, 13 * 512)
    mask = truth.view(complex).reshape(8, 13, 256)
    lines = [spectra(signal, 256, 64) for signal in (mixed.source, mixed.mixture)]
    np.testing.assert_array_equal(mask, ideal_mask(*lines))
    error = waveform(mask * lines[1], 64) - mixed.source
    assert np.mean(np.abs(error) ** 2) < 0.05 * np.mean(np.abs(mixed.source) ** 2)


@pytest.mark.parametrize("release", ["tiny", "v1.0"])
def test_recipe_and_readout_state_the_same_windows(release: str) -> None:
    data = read_extended(CONFIG / f"{release}.yaml")
    spec, block = data["tasks"][TASK], data["rfgen"]["tasks"][TASK]
    assert block["mask"] == {key: spec["readout"][key] for key in ("window", "hop")}
    assert [block["samples"]] == spec["shape"]
    assert spec["held_out"] == list(block["families"])


def test_the_signal_of_interest_fills_the_band_that_its_pulse_says() -> None:
    made = recipe(chunk=80, scenes={"TRAIN": 80, "DEV": 80, "HOLDOUT": 80}, cfo_ppm=0.0)
    source = made.tasks[TASK].mixed(made, TASK, "DEV", KEY, 3).source
    power = np.abs(np.fft.fft(source * np.hanning(1024))) ** 2
    power /= power.sum(axis=1, keepdims=True)
    frequency = np.abs(np.fft.fftfreq(1024) * 20e6)
    assert power[:, frequency < 2.5e6].sum(axis=1).mean() == pytest.approx(0.94, abs=0.03)
    assert power[:, frequency > 3.4e6].sum() / len(power) < 1e-3


@pytest.mark.parametrize("family", interferers.FAMILIES)
def test_interferers_have_unit_power_and_lie_where_their_numbers_say(family: str) -> None:
    numbers = recipe("v1.0").tasks[TASK].families[family]
    rng, widths = stream(0, "interferers", family), []
    for _ in range(40):
        signal = interferers.FAMILIES[family](rng, 1024, numbers)
        assert signal.shape == (1024,)
        assert np.mean(np.abs(signal) ** 2) == pytest.approx(1.0, rel=0.6)
        power = np.sort(np.abs(np.fft.fft(signal * np.hanning(1024))) ** 2)[::-1].cumsum()
        widths.append(np.count_nonzero(power < 0.9 * power[-1]) / 1024 * 20e6)
    low, high = {
        "nr-ofdm": (2e6, 13e6),
        "gfsk": (0.1e6, 3e6),
        "fm": (0.2e6, 6e6),
        "chirp": (1e6, 13e6),
        "multi-tone": (0.05e6, 0.5e6),
    }[family]
    assert low < min(widths) < max(widths) < high


def test_families_are_as_many_chunks() -> None:
    made = recipe()
    keys = scenes.chunk_keys(made, TASK, "TRAIN")
    assert keys == [(family, "2.4GHz", n) for family in ("nr-ofdm", "gfsk", "multi-tone") for n in range(3)]
