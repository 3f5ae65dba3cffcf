"""Random features: seeded, of any number of antennas, and functions of second-order statistics alone."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from emma.backbones.random_features import random_features


@pytest.mark.parametrize("antennas", [1, 2, 8])
def test_a_row_is_its_scenes_own_and_blind_to_phase_and_level(antennas: int) -> None:
    iq = complex_normal(stream(0, "scenes"), (4, antennas, 300)).astype(np.complex64)
    backbone = random_features(width=100)
    found = backbone.embed(iq, 1.0, 1.0)
    assert found.shape == (4, 100)
    assert found.dtype == np.float32
    assert (found >= 0).all()
    np.testing.assert_allclose(backbone.embed(iq[2:3], 2.0, 3.0), found[2:3], atol=1e-5)
    np.testing.assert_allclose(backbone.embed(iq * np.complex64(3j), 1.0, 1.0), found, atol=1e-4)
    assert np.isfinite(backbone.embed(np.zeros_like(iq), 1.0, 1.0)).all()
    other = random_features(width=100, seed=1).embed(iq, 1.0, 1.0)
    assert np.abs(other - found).max() > 0.1


def test_the_phases_between_antennas_count() -> None:
    iq = complex_normal(stream(0, "scenes"), (1, 2, 256)).astype(np.complex64)
    iq[:, 1] = iq[:, 0]
    turned = iq * np.array([1, 1j], np.complex64)[:, None]
    assert np.abs(np.subtract(*(random_features().embed(x, 1.0, 1.0) for x in (iq, turned)))).max() > 0.5


def test_it_needs_a_band_per_sample() -> None:
    with pytest.raises(ValueError, match="63 samples, expected 64 or more"):
        random_features().embed(np.ones((1, 1, 63), np.complex64), 1.0, 1.0)
