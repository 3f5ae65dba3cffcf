"""Primary users of E-SC-SENSE against what their standards say, and the recipe's limits."""

import numpy as np
import pytest

from common.streams import stream
from rfgen.physics.spurs import SpurPopulation, draw_spurs, spur_lines
from rfgen.recipe import Recipe
from rfgen.scenes.receiving import ScatteredChannel
from rfgen.waveforms.primaries import FAMILIES, RATE

TASK, SAMPLES = "E-SC-SENSE", 4096


@pytest.fixture(scope="module")
def families(mapping) -> dict:
    return Recipe.from_mapping(mapping("v1.0")).tasks[TASK].families


def signals(families: dict, name: str, n: int = 40) -> tuple[np.ndarray, np.ndarray]:
    rng = stream(0, "primaries", name)
    made = [FAMILIES[name](rng, SAMPLES, families[name]) for _ in range(n)]
    return np.stack([signal for signal, _ in made]), np.array([width for _, width in made])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_user_is_on_from_end_to_end_and_within_its_width(families, name: str) -> None:
    signal, width = signals(families, name)
    assert set(families) == set(FAMILIES)
    assert np.mean(np.abs(signal) ** 2) == pytest.approx(1.0, abs=0.1)
    for part in np.split(signal, 8, axis=1):
        assert np.mean(np.abs(part) ** 2) == pytest.approx(1.0, abs=0.2)
    spectrum = np.abs(np.fft.fft(signal * np.hanning(SAMPLES))) ** 2
    inside = np.abs(np.fft.fftfreq(SAMPLES, 1 / RATE)) <= width[:, None] + 3 * RATE / SAMPLES
    assert np.all(np.sum(spectrum * inside, axis=1) > 0.95 * spectrum.sum(axis=1))


@pytest.mark.parametrize(("name", "lags", "share"), [("wlan-ofdm", [64], 16 / 80), ("nr-ofdm", [333, 667], 9 / 137)])
def test_ofdm_repeats_its_prefix(families, name: str, lags: list[int], share: float) -> None:
    """The correlation at the useful length is the prefix's share of a symbol; scenes have one of the lengths."""
    signal, _ = signals(families, name)

    def correlation(lag: int) -> np.ndarray:
        return np.abs(np.mean(signal[:, lag:] * signal[:, :-lag].conj(), axis=1))

    best = np.max([correlation(lag) for lag in lags], axis=0)
    assert best.mean() == pytest.approx(share, abs=0.025)
    assert correlation(lags[0] + 20).mean() < share / 2


@pytest.mark.parametrize("name", ["gsm-gmsk", "microphone-fm", "radar-chirp"])
def test_constant_envelopes(families, name: str) -> None:
    np.testing.assert_allclose(np.abs(signals(families, name)[0]), 1.0, atol=1e-9)


def test_gmsk_turns_by_a_quarter_a_bit_and_a_microphone_by_its_deviation(families) -> None:
    frequency = {}
    for name in ("gsm-gmsk", "microphone-fm"):
        signal, _ = signals(families, name)
        frequency[name] = np.angle(signal[:, 1:] * signal[:, :-1].conj()) / (2 * np.pi) * RATE
    # Modulation index 1/2: peaks at a quarter of the bit rate.
    assert np.abs(frequency["gsm-gmsk"]).max() == pytest.approx(270833.33 / 4, rel=0.01)
    peaks = np.abs(frequency["microphone-fm"]).max(axis=1)
    for deviation in families["microphone-fm"].deviation_hz:
        assert np.any(np.abs(peaks / deviation - 1) < 0.01)


def test_a_chirp_sweeps_its_width_in_its_pulse(families) -> None:
    signal, width = signals(families, "radar-chirp")
    phase = np.unwrap(np.angle(signal[:, :1024]))
    slope = np.abs(np.polyfit(np.arange(1024) / RATE, phase.T, 2)[0]) / np.pi
    length = 2 * width / slope
    assert length.min() > 70e-6 * 0.99 and length.max() < max(100e-6, SAMPLES / RATE) * 1.01


def test_taps_have_unit_power_and_each_antenna_its_own() -> None:
    channel = ScatteredChannel(taps=6, delay_spread_s=(2e-8, 3e-7))
    gains, delays = channel.draw(4000, 4, RATE, stream(0, "taps"))
    assert gains.shape == (4000, 4, 6) and delays.shape == (4000, 6)
    power = np.sum(np.abs(gains) ** 2, axis=2)
    assert power.mean(axis=0) == pytest.approx(np.ones(4), abs=0.06)
    assert np.abs(np.corrcoef(power.T) - np.eye(4)).max() < 0.07
    assert delays.min() == 0.0


def test_lines_have_their_level_and_frequency() -> None:
    population = SpurPopulation(count=3, level_db=(-20.0, -10.0), swing_db=0.0, reach_hz=8e6)
    spurs = draw_spurs(0, "F1", population, 4)
    lines = spur_lines(spurs, population, 200, 1024, RATE, stream(0, "lines"))
    assert lines.shape == (200, 4, 1024)
    assert np.mean(np.abs(lines) ** 2) == pytest.approx(np.sum(10 ** (spurs.level_db / 10)), rel=0.1)
    time = np.arange(1024) / RATE
    for frequency, level in zip(spurs.frequency_hz, spurs.level_db, strict=True):
        amplitude = np.abs(np.mean(lines * np.exp(-2j * np.pi * frequency * time), axis=2))
        assert 20 * np.log10(np.median(amplitude)) == pytest.approx(level, abs=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"receivers": ["F1", "F1"]}, "receivers: expected at least two different held-out values"),
        ({"families": {"wlan-ofdm": {}}}, "families: expected at least two different held-out values"),
        ({"families": {"tv": {}, "wlan-ofdm": {}}}, "families.tv: Extra inputs"),
        ({"chunk": 4}, "chunk: expected a multiple of 6, each family on air and not"),
        ({"sample_rate_hz": 1e7}, "sample_rate_hz: expected 20000000.0"),
        ({"spurs": {"count": 0}}, "spurs.count"),
        ({"elements": 0}, "elements"),
    ],
)
def test_a_block_that_is_wrong_is_refused(mapping, change: dict, message: str) -> None:
    data = mapping("tiny")
    data["tasks"][TASK] = dict(data["tasks"][TASK]) | change
    with pytest.raises(ValueError, match=message):
        Recipe.from_mapping(data)
