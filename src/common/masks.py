"""Masks of short-time spectra: a scene's windows, their spectra, the ideal ratio mask, and back to a waveform.

Generator and benchmark share it: what an oracle knows of a window is what a dense readout is fit to. Windows lie in the
scene, and their taper is flat towards its ends, where no other window takes over: `scipy.signal.ShortTimeFFT` lets
windows hang over instead.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]


def count_windows(samples: int, window: int, hop: int) -> int:
    """Windows of a scene; ValueError unless they cover it from the first sample to the last, overlapping by half."""
    if not 0 < 2 * hop <= window <= samples or (samples - window) % hop or window % 2:
        raise ValueError(
            f"window, hop: {window}, {hop}, expected an even window with a hop of at most half of it, which together "
            f"cover {samples} samples"
        )
    return 1 + (samples - window) // hop


def tapers(windows: int, window: int) -> Floats:
    """Tapers `[windows, window]`: half a sine, but 1 up to the middle of the first and from that of the last one on."""
    taper = np.tile(np.sin(np.pi * (np.arange(window) + 0.5) / window), (windows, 1))
    taper[0, : window // 2] = 1.0
    taper[-1, window // 2 :] = 1.0
    return taper


def spectra(signal: NDArray[np.complexfloating], window: int, hop: int) -> Complexes:
    """Spectra `[..., windows, window]` of tapered windows of waveforms `[..., T]`, DC first."""
    count = count_windows(signal.shape[-1], window, hop)
    cut = np.lib.stride_tricks.sliding_window_view(signal, window, axis=-1)[..., ::hop, :]
    made: Complexes = np.fft.fft(cut * tapers(count, window))
    return made


def waveform(lines: Complexes, hop: int) -> Complexes:
    """The waveforms `[..., T]` that spectra `[..., windows, window]` come from: by overlap and add, tapered again.

    The windows' squared tapers are divided out, so that spectra of a waveform give that waveform. Reference: Griffin
    and Lim, IEEE Transactions on Acoustics, Speech, and Signal Processing 32(2), 1984, equation 6.
    """
    count, window = lines.shape[-2:]
    taper = tapers(count, window)
    pieces = np.fft.ifft(lines) * taper
    made = np.zeros((*lines.shape[:-2], (count - 1) * hop + window), complex)
    weight = np.zeros(made.shape[-1])
    for number in range(count):
        place = slice(number * hop, number * hop + window)
        made[..., place] += pieces[..., number, :]
        weight[place] += taper[number] ** 2
    made /= weight
    return made


def clipped(mask: Complexes) -> Complexes:
    """A mask whose magnitude is cut at 1, its phase kept."""
    cut: Complexes = mask / np.maximum(np.abs(mask), 1.0)
    return cut


def ideal_mask(source: Complexes, mixture: Complexes) -> Complexes:
    """The complex ratio of a source's spectrum to its mixture's, cut at magnitude 1; 0 where the mixture is silent.

    Reference: Williamson, Wang and Wang, IEEE/ACM Transactions on Audio, Speech, and Language Processing 24(3), 2016.
    """
    return clipped(np.divide(source, mixture, out=np.zeros_like(source), where=mixture != 0))
