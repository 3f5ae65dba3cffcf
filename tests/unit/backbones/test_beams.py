"""Estimators of the best narrow beam from wide ones, against waves whose direction is known."""

from pathlib import Path

import numpy as np
import pytest

from emma.backbones.classical import beams
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.data.extends import read_extended
from emma.tasks import TaskID

CONFIG = Path(__file__).parents[3] / "config"
PROBES, NARROW = 8, 64
SHIPPED = ("strongest_probe", "probe_music", "probe_capon")


def rows_of(frequency: np.ndarray, snr_db: float = 20.0, samples: int = 256) -> np.ndarray:
    """What the wide beams receive ``[B, 8, T]`` of noise-like waves, each beam a plain sum over its elements."""
    rng = np.random.default_rng(3)
    wave = rng.standard_normal((len(frequency), 1, samples)) + 1j * rng.standard_normal((len(frequency), 1, samples))
    received = np.exp(2j * np.pi * frequency[:, None, None] * np.arange(PROBES)[:, None]) * wave
    look = (np.arange(PROBES) - PROBES // 2) / PROBES
    weights = np.exp(-2j * np.pi * look[:, None] * np.arange(PROBES)) / np.sqrt(PROBES)
    noise = rng.standard_normal(received.shape) + 1j * rng.standard_normal(received.shape)
    return (weights @ received + 10 ** (-snr_db / 20) * noise).astype(np.complex64)


@pytest.mark.parametrize("name", SHIPPED)
def test_configs_are_references_of_the_task(name: str) -> None:
    config = load_model_config(CONFIG / "models" / f"{name}.yaml")
    backbone, provenance = load_backbone(config)
    assert (config.kind, config.tasks) == ("reference", (TaskID.E_CH_BEAM,))
    assert backbone.name == provenance.name == name
    recipe = read_extended(CONFIG / "releases" / "v1.0.yaml")["rfgen"]["tasks"]["E-CH-BEAM"]
    assert config.options == {"probes": recipe["probes"], "beams": recipe["array"]["elements"]}
    with pytest.raises(ValueError, match="2 rows, expected those of 8 probe beams"):
        backbone.embed(np.ones((1, 2, 64), np.complex64), 2e7, 28e9)


@pytest.mark.parametrize("make", [beams.probe_music, beams.probe_capon])
def test_the_highest_feature_is_the_beam_that_looks_there(make) -> None:
    frequency = np.random.default_rng(1).uniform(-0.5, 0.5, 200)
    found = make().embed(rows_of(frequency), 2e7, 28e9).argmax(axis=1)
    wanted = np.round((frequency + 0.5) * NARROW).astype(int) % NARROW
    off = (found - wanted + NARROW // 2) % NARROW - NARROW // 2
    assert np.abs(off).max() <= 1
    assert np.mean(off == 0) > 0.8


def test_the_strongest_wide_beam_is_the_one_that_looks_there() -> None:
    frequency = np.random.default_rng(1).uniform(-0.5, 0.5, 200)
    found = beams.strongest_probe().embed(rows_of(frequency, 40.0), 2e7, 28e9)
    assert np.array_equal(found.argmax(axis=1), np.round((frequency + 0.5) * PROBES).astype(int) % PROBES)
    assert np.array_equal(np.unique(found), [0.0, 1.0])


def test_powers_of_the_codebook_are_those_of_a_plain_sum() -> None:
    frequency = np.array([-0.5, -0.3, 0.0, 1 / 128, 0.123, 0.499])
    waves = np.exp(2j * np.pi * frequency[:, None] * np.arange(NARROW))
    look = np.exp(2j * np.pi * beams.directions(NARROW)[:, None] * np.arange(NARROW)) / NARROW
    np.testing.assert_allclose(beams.narrow_powers(frequency, NARROW), np.abs(waves @ look.conj().T) ** 2, atol=1e-12)
    np.testing.assert_allclose(beams.narrow_powers(frequency, NARROW).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", SHIPPED)
def test_silence_and_level(name: str) -> None:
    backbone = getattr(beams, name)()
    given = rows_of(np.array([0.1, -0.2]))
    np.testing.assert_allclose(
        backbone.embed(given, 2e7, 28e9), backbone.embed(100 * given, 2e7, 28e9), rtol=1e-4, atol=1e-5
    )
    assert np.isfinite(backbone.embed(np.zeros((1, 8, 64), np.complex64), 2e7, 28e9)).all()
