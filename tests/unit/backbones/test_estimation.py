"""Channel estimates from pilots, against channels whose statistics are known."""

from pathlib import Path

import numpy as np
import pytest

from emma.backbones.classical import estimation
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.data.extends import read_extended
from emma.tasks import TaskID

CONFIG = Path(__file__).parents[3] / "config"
SHIPPED = ("least_squares", "lmmse_exponential")
NUMBERS = np.array([k for k in range(-32, 33) if k])
SPACING = 250e3  # what a model of this view gets as its sample rate


def complex_normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)


def covariance(delay: float) -> np.ndarray:
    """Of carriers 250 kHz apart under an exponential profile."""
    return 1 / (1 + 2j * np.pi * (NUMBERS[:, None] - NUMBERS) * SPACING * delay)


def drawn(delay: float, snr_db: float, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Channels ``[n, 8, 64]`` of independent antennas, and what is heard of them."""
    rng = np.random.default_rng(2)
    values, vectors = np.linalg.eigh(covariance(delay))
    channel = complex_normal(rng, n, 8, 64) * np.sqrt(np.maximum(values, 0)) @ vectors.T
    return channel, channel + 10 ** (-snr_db / 20) * complex_normal(rng, n, 8, 64)


def embedded(backbone, heard: np.ndarray) -> np.ndarray:
    rows = backbone.embed(heard.astype(np.complex64), SPACING, 5e9)
    assert rows.shape == (len(heard), backbone.embedding_dim)
    return rows.astype(float).view(complex).reshape(heard.shape)


@pytest.mark.parametrize("name", SHIPPED)
def test_configs_are_references_of_the_task(name: str) -> None:
    config = load_model_config(CONFIG / "models" / f"{name}.yaml")
    backbone, provenance = load_backbone(config)
    assert (config.kind, config.view, config.tasks) == ("reference", "csi", (TaskID.E_CH_CSI,))
    assert backbone.name == provenance.name == name
    recipe = read_extended(CONFIG / "releases" / "v1.0.yaml")["rfgen"]["tasks"]["E-CH-CSI"]
    numerology = {"antennas": recipe["array"]["elements"], "carriers": recipe["active_subcarriers"]}
    assert config.options == numerology
    assert recipe["sample_rate_hz"] / recipe["subcarriers"] == SPACING
    with pytest.raises(ValueError, match="estimates of 2 x 64 antennas and carriers, expected 8 x 64"):
        backbone.embed(np.ones((1, 2, 64), np.complex64), SPACING, 5e9)


def test_least_squares_is_what_was_heard_in_the_label_s_scale_and_phase() -> None:
    heard = drawn(1e-7, 10.0)[1][:5]
    found = embedded(estimation.least_squares(), heard)
    for one, other in zip(found, heard, strict=True):
        scaled = other / np.sqrt(np.mean(np.abs(other) ** 2))
        np.testing.assert_allclose(one, scaled * np.exp(-1j * np.angle(other[0].mean())), atol=1e-5)


@pytest.mark.parametrize("delay", [2e-8, 1e-7, 5e-7])
@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_the_linear_estimate_is_nearly_as_good_as_with_known_statistics(delay: float, snr_db: float) -> None:
    """Its error is the closed form's for the true profile and noise, N0 tr(R (R + N0 I)^-1), within a tenth."""
    channel, heard = drawn(delay, snr_db)
    noise = 10 ** (-snr_db / 10)
    own = embedded(estimation.lmmse_exponential(), heard)
    # Level and phase are the label's affair, not the estimate's.
    turn = np.sum(own.conj() * channel, axis=(1, 2), keepdims=True) / np.sum(
        np.abs(own) ** 2, axis=(1, 2), keepdims=True
    )
    error = np.mean(np.abs(turn * own - channel) ** 2)
    R = covariance(delay)
    bound = noise * np.trace(R @ np.linalg.inv(R + noise * np.eye(64))).real / 64
    assert 0.9 * bound < error < 1.1 * bound
    assert error < noise


@pytest.mark.parametrize("name", SHIPPED)
def test_silence_and_level(name: str) -> None:
    backbone = getattr(estimation, name)()
    given = drawn(1e-7, 10.0)[1][:3].astype(np.complex64)
    np.testing.assert_allclose(
        backbone.embed(given, SPACING, 5e9), backbone.embed(100 * given, SPACING, 5e9), rtol=1e-4, atol=1e-5
    )
    assert np.isfinite(backbone.embed(np.zeros((1, 8, 64), np.complex64), SPACING, 5e9)).all()
