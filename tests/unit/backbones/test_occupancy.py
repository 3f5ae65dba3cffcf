"""The detector of energy by parts of a band, on signals of known width, place and power in known noise."""

from pathlib import Path

import numpy as np
import pytest

from emma.backbones.classical import occupancy
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.data.extends import read_extended
from emma.tasks import TaskID

CONFIG = Path(__file__).parents[3] / "config"
RATE, SAMPLES, PARTS = 20e6, 4096, 3


def noise(rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.standard_normal((n, SAMPLES)) + 1j * rng.standard_normal((n, SAMPLES))) / np.sqrt(2)


def band(rng: np.random.Generator, n: int, centre_hz: float, width_hz: float, snr_db: float) -> np.ndarray:
    """Noise of one level in a band, ``snr_db`` over the noise of the whole band."""
    spectrum = np.fft.fft(noise(rng, n))
    spectrum[:, np.abs(np.fft.fftfreq(SAMPLES) * RATE - centre_hz) > width_hz / 2] = 0
    signal = np.fft.ifft(spectrum)
    return 10 ** (snr_db / 20) * signal / np.sqrt(np.mean(np.abs(signal) ** 2, axis=1, keepdims=True))


def found(signal: np.ndarray) -> occupancy.Found:
    return occupancy.boxes(occupancy.spectrogram(signal), PARTS)


def test_the_config_is_a_reference_of_the_task_and_knows_its_classes() -> None:
    config = load_model_config(CONFIG / "models" / "band_detector.yaml")
    backbone, provenance = load_backbone(config)
    assert config.kind == "reference"
    assert TaskID.E_S2T_CAP in config.tasks
    assert backbone.name == provenance.name == "band_detector"
    widths = read_extended(CONFIG / "releases" / "v1.0.yaml")["rfgen"]["tasks"]["E-S2T-CAP"]["bandwidths_hz"]
    limits = [float(width) for width in str(config.options["widths_hz"]).split(",")]
    classes = list(widths.values())
    for limit, below, above in zip(limits, classes[:-1], classes[1:], strict=True):
        assert 1.2 * below[1] < limit < 0.8 * above[0]


@pytest.mark.parametrize("width", [0.5e6, 1.6e6, 4e6])
@pytest.mark.parametrize("snr_db", [-4.0, 6.0, 16.0])
def test_width_and_place_of_a_known_band(width: float, snr_db: float) -> None:
    """The box is the band in bins of 78 kHz, at high SNR wider by up to the four bins of the Hann main lobe."""
    rng = np.random.default_rng(0)
    off = {0: -7e6, 1: 0.4e6, 2: 6.6e6}
    for part, centre in off.items():
        box = found(noise(rng, 40) + band(rng, 40, centre, width, snr_db))
        hz = RATE / 256
        assert (box.excess[:, part] > 8).all()
        assert -1.5 * hz < np.median(box.width[:, part]) * hz - width < 4.0 * hz
        # Bin 128 is 0 Hz; a box from bin 128 on, one bin wide, has its centre at 128.5.
        assert np.abs(np.median(box.centre[:, part] - 128.5) * hz - centre) < 1.5 * hz
        others = [other for other in off if other != part]
        assert np.mean(box.excess[:, others] > 5.5) < 0.05


@pytest.mark.parametrize("snr_db", [0.0, 10.0])
def test_power_of_a_known_band(snr_db: float) -> None:
    """Excess over the noise of a bin, summed over bins: the SNR in the whole band, times its bins."""
    rng = np.random.default_rng(1)
    box = found(noise(rng, 60) + band(rng, 60, 0.0, 2e6, snr_db))
    expected = 10 ** (snr_db / 10) * 256
    assert np.median(box.power[:, 1]) == pytest.approx(expected, rel=0.15)


def test_noise_alone_is_empty_whatever_its_level() -> None:
    signal = noise(np.random.default_rng(2), 400)
    level = occupancy.noise_level(occupancy.spectrogram(signal).mean(axis=1))
    true = np.sum(np.hanning(256) ** 2)
    assert np.median(level) == pytest.approx(true, rel=0.05)
    detector = occupancy.band_detector()
    first, again = (detector.embed((scale * signal)[:, None], RATE, 2.4e9) for scale in (1.0, 300.0))
    assert np.mean(first[:, 0]) > 0.97
    assert np.array_equal(first, again)


def test_bursts_pause() -> None:
    rng = np.random.default_rng(3)
    signal = band(rng, 100, 0.0, 2e6, 6.0)
    gate = (np.arange(SAMPLES) // 800 % 2).astype(float)
    assert (found(noise(rng, 100) + signal).quiet[:, 1] > 0.3).all()
    assert (found(noise(rng, 100) + signal * gate).quiet[:, 1] < 0.3).all()
    # On for half of the time, twice as strong while on.
    box = found(noise(rng, 100) + np.sqrt(2) * signal * gate)
    assert np.median(box.power[:, 1]) == pytest.approx(2 * 10**0.6 * 256, rel=0.25)


def test_the_words_of_a_scene() -> None:
    """Strong and steady in the low third, weak and bursty in the high one."""
    rng = np.random.default_rng(4)
    gate = (np.arange(SAMPLES) // 800 % 2).astype(float)
    scene = noise(rng, 50) + band(rng, 50, -6.5e6, 0.5e6, 10.0) + gate * band(rng, 50, 6.5e6, 4e6, 3.5)
    words = occupancy.band_detector().embed(scene[:, None].astype(np.complex64), RATE, 2.4e9)
    assert words.shape == (50, 4 + 3 * 8)
    assert words.dtype == np.float32
    count, low, centre, high = words[:, :4], words[:, 4:12], words[:, 12:20], words[:, 20:]
    assert np.mean(count[:, 2]) > 0.95
    # There, narrow, medium, wide, steady, bursty, strong, weak.
    assert np.mean((low == [1, 1, 0, 0, 1, 0, 1, 0]).all(axis=1)) > 0.95
    assert np.mean((centre == 0).all(axis=1)) > 0.95
    assert np.mean((high == [1, 0, 0, 1, 0, 1, 0, 1]).all(axis=1)) > 0.95


def test_silence_is_finite() -> None:
    assert np.isfinite(occupancy.band_detector().embed(np.zeros((2, 1, SAMPLES), np.complex64), RATE, 2.4e9)).all()
