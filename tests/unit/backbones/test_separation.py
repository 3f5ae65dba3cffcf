"""Gains of a window's lines, against spectra that are known."""

from pathlib import Path

import numpy as np
import pytest

from emma.backbones.classical import separation
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.data.extends import read_extended
from emma.tasks import TaskID
from rfgen.waveforms import linear

CONFIG = Path(__file__).parents[3] / "config"
SHIPPED = ("wiener_mask", "line_excision")
RATE, BAUD, ROLLOFF, LINES = 2e7, 5e6, 0.35, 256


def qpsk(n: int, samples: int = LINES) -> np.ndarray:
    """Signals of interest ``[n, samples]`` at random phases and timings."""
    rng = np.random.default_rng(0)
    step = RATE / BAUD
    symbols = np.exp(0.5j * np.pi * rng.integers(4, size=(n, int(samples / step) + 16)))
    return linear.pulse_shape(symbols, samples, np.full(n, step), np.full(n, ROLLOFF), rng.random(n))


def powers(signal: np.ndarray) -> np.ndarray:
    taper = np.sin(np.pi * (np.arange(LINES) + 0.5) / LINES)
    return np.abs(np.fft.fft(signal * taper)) ** 2


@pytest.mark.parametrize("name", SHIPPED)
def test_configs_are_references_of_the_task(name: str) -> None:
    config = load_model_config(CONFIG / "models" / f"{name}.yaml")
    backbone, provenance = load_backbone(config)
    assert (config.kind, config.tasks) == ("reference", (TaskID.E_SC_SEP,))
    assert backbone.name == provenance.name == name
    release = read_extended(CONFIG / "releases" / "v1.0.yaml")
    pulse, readout = release["rfgen"]["tasks"]["E-SC-SEP"]["pulse"], release["tasks"]["E-SC-SEP"]["readout"]
    assert config.options == pulse | {"lines": readout["window"]}
    with pytest.raises(ValueError, match="64 samples, expected windows of 256"):
        backbone.embed(np.ones((1, 1, 64), np.complex64), RATE, 2.4e9)


def test_the_pulse_s_spectrum_is_that_of_its_signals() -> None:
    shape = separation.pulse_spectrum(BAUD, ROLLOFF, RATE, LINES)
    assert shape[0] == shape.max() == 1
    # A raised cosine is half way at half the symbol rate, and ends at (1 + roll-off) of that.
    assert shape[32] == pytest.approx(0.5)
    assert shape[44:-43].max() == pytest.approx(0.0, abs=1e-3)
    found = powers(qpsk(2000)).mean(axis=0)
    # The taper spreads lines over their neighbours.
    np.testing.assert_allclose(found / found[:20].mean(), shape, atol=0.06)


def test_the_level_is_that_of_the_signal_under_a_narrow_interferer() -> None:
    shape, signal = separation.pulse_spectrum(BAUD, ROLLOFF, RATE, LINES), qpsk(400)
    alone = separation.signal_level(powers(signal), shape)
    tone = 3 * np.exp(2j * np.pi * 0.05 * np.arange(LINES))
    under = separation.signal_level(powers(signal + tone), shape)
    assert np.median(under / alone) == pytest.approx(1.0, abs=0.15)
    assert np.median(alone) == pytest.approx(powers(signal).mean(axis=0)[:20].mean(), rel=0.15)


def test_wiener_gains_are_the_shares_of_power() -> None:
    """Against spectra known exactly: S / (S + N), and 1 at most."""
    signal = np.ones((1, 64))
    np.testing.assert_allclose(separation.wiener(signal * 4, signal), 0.25)
    np.testing.assert_allclose(separation.wiener(signal / 4, signal), 1.0)
    assert (separation.wiener(signal * 4, signal * 0) == 0).all()


def test_strong_lines_and_those_beside_the_pulse_are_cut_out() -> None:
    signal = np.r_[np.ones(10), np.zeros(10)][None]
    power = np.where(np.arange(20) == 3, 5.0, 3.9)[None]
    passed = separation.excision(power, signal)[0]
    assert passed.tolist() == [1.0, 1, 1, 0, 1, 1, 1, 1, 1, 1] + 10 * [0.0]


@pytest.mark.parametrize("name", SHIPPED)
def test_silence_and_level(name: str) -> None:
    backbone, signal = getattr(separation, name)(), qpsk(3)[:, None].astype(np.complex64)
    found = backbone.embed(signal, RATE, 2.4e9)
    assert found.shape == (3, LINES)
    assert ((found >= 0) & (found <= 1)).all()
    np.testing.assert_allclose(backbone.embed(100 * signal, RATE, 2.4e9), found, rtol=1e-3, atol=1e-5)
    assert np.isfinite(backbone.embed(np.zeros((1, 1, LINES), np.complex64), RATE, 2.4e9)).all()
