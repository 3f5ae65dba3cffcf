"""Windows, spectra and masks: what is cut is put together again, to the first and last sample."""

import numpy as np
import pytest

from common.masks import clipped, count_windows, ideal_mask, spectra, tapers, waveform


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


@pytest.mark.parametrize(("samples", "window", "hop"), [(1024, 256, 64), (96, 32, 16), (64, 64, 32), (80, 32, 8)])
def test_spectra_of_a_waveform_give_it_back(samples: int, window: int, hop: int) -> None:
    signal = noise(3, samples)
    lines = spectra(signal, window, hop)
    assert lines.shape == (3, count_windows(samples, window, hop), window)
    np.testing.assert_allclose(waveform(lines, hop), signal, atol=1e-12)
    np.testing.assert_allclose(waveform(0.5j * lines, hop), 0.5j * signal, atol=1e-12)


def test_no_sample_rests_on_a_taper_near_zero() -> None:
    """At the ends one window alone stands, and it is flat: errors of a mask are nowhere blown up."""
    taper, weight = tapers(13, 256), np.zeros(1024)
    for number in range(13):
        weight[64 * number : 64 * number + 256] += taper[number] ** 2
    assert weight.min() >= 1.0
    assert (taper[0, :128] == 1).all()
    assert (taper[-1, 128:] == 1).all()
    np.testing.assert_allclose(weight[192:-192], 2.0)
    # One window is flat from end to end.
    assert (tapers(1, 16) == 1).all()


def test_every_window_has_its_own_spectrum() -> None:
    signal = noise(200)
    lines, taper = spectra(signal, 80, 40), tapers(4, 80)
    for number in range(4):
        np.testing.assert_allclose(lines[number], np.fft.fft(taper[number] * signal[40 * number : 40 * number + 80]))


@pytest.mark.parametrize(
    ("samples", "window", "hop"), [(1000, 256, 64), (1024, 256, 129), (100, 256, 64), (1023, 255, 64), (64, 32, 0)]
)
def test_windows_that_leave_samples_out_are_refused(samples: int, window: int, hop: int) -> None:
    with pytest.raises(ValueError, match=f"window, hop: {window}, {hop}, expected"):
        count_windows(samples, window, hop)


def test_the_ideal_mask_gives_the_source_where_it_need_not_be_cut() -> None:
    source, other = noise(5, 64), 0.1 * noise(5, 64, seed=1)
    mixture = source + other
    mask = ideal_mask(source, mixture)
    assert np.abs(mask).max() <= 1 + 1e-12
    whole = np.abs(source) <= np.abs(mixture)
    np.testing.assert_allclose((mask * mixture)[whole], source[whole])
    np.testing.assert_allclose(np.abs(mask[~whole]), 1.0)
    np.testing.assert_allclose(np.angle(mask * mixture), np.angle(source), atol=1e-12)
    assert (ideal_mask(source, np.zeros_like(source)) == 0).all()


def test_clipping_keeps_the_phase() -> None:
    mask = np.array([0.5j, -3.0, 1 + 1j, 0.0])
    np.testing.assert_allclose(clipped(mask), [0.5j, -1.0, (1 + 1j) / np.sqrt(2), 0.0])
