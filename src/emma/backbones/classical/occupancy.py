"""What an energy detector says of a band: in which of its parts there are emitters, how wide, strong and steady.

The spectrogram of an antenna is cut into parts of equal width, of which each is searched for the box of frequencies
whose excess over the noise is least likely noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Embeddings, Floats

#: Points and step of the spectrogram's windows.
_POINTS, _STEP = 256, 128
#: Forward consecutive mean excision: share of bins that is noise to start with, and the factor at which noise ends.
_START, _FACTOR = 0.1, 1.4
#: Bins that the spectrum is smoothed over before the noise is told.
_SMOOTH = 5
#: Standard deviations from which on an excess is an emitter.
_THRESHOLD = 5.5
#: Share of the mean excess that the quiet quarter of frames has at least, if an emitter is steady.
_STEADY = 0.3
#: How far below the strongest an emitter counts as strong, dB.
_STRONG_DB = 3.5
_TINY = 1e-12


class Found(NamedTuple):
    """The box found in each part of the band ``[B, parts]``: its excess in standard deviations of noise, its width and
    centre in bins, the excess power while on, and the share of it in the quiet quarter of frames.
    """

    excess: Floats
    width: Floats
    centre: Floats
    power: Floats
    quiet: Floats


def spectrogram(iq: NDArray[Any]) -> Floats:
    """Powers ``[B, frames, bins]`` of complex ``[B, T]``, frequencies from the lowest on, in Hann windows."""
    frames = np.lib.stride_tricks.sliding_window_view(iq, _POINTS, axis=1)[:, ::_STEP]
    powers: Floats = np.abs(np.fft.fftshift(np.fft.fft(frames * np.hanning(_POINTS)), axes=2)) ** 2
    return powers


def noise_level(spectrum: Floats) -> Floats:
    """Mean power ``[B]`` of the bins ``[B, bins]`` that are noise, by forward consecutive mean excision.

    Reference: Lehtomaki, Vartiainen, Juntti and Saarnisaari, "CFAR outlier detection with forward methods", IEEE
    Transactions on Signal Processing 55(9), 2007.
    """
    padded = np.pad(spectrum, ((0, 0), (_SMOOTH // 2, _SMOOTH // 2)), mode="wrap")
    smooth = np.lib.stride_tricks.sliding_window_view(padded, _SMOOTH, axis=1).mean(axis=2)
    ordered = np.sort(smooth, axis=1)
    means = np.cumsum(ordered, axis=1) / np.arange(1, ordered.shape[1] + 1)
    first = int(_START * ordered.shape[1])
    ends = ordered[:, first + 1 :] > _FACTOR * means[:, first:-1]
    last = np.where(ends.any(axis=1), first + ends.argmax(axis=1), ordered.shape[1] - 1)
    level: Floats = means[np.arange(len(means)), last]
    return level


def boxes(powers: Floats, parts: int) -> Found:
    """The likeliest emitter in each part of a spectrogram ``[B, frames, bins]``: a box of one level over the noise.

    The root of twice the log likelihood ratio, of Gaussian noise of two levels to one, counts as standard deviations.
    """
    batch, frames, bins = powers.shape
    spectrum = powers.mean(axis=1)
    noise = noise_level(spectrum)[:, None, None] + _TINY
    # Windows of half overlap: as good as so many independent ones (Welch, 1967).
    independent = frames * 18 / 22
    edges = np.round(np.linspace(0, bins, parts + 1)).astype(int)
    columns = []
    for low, high in pairwise(edges):
        own = powers[:, :, low:high] / noise - 1
        sums = np.pad(np.cumsum(own.mean(axis=1), axis=1), ((0, 0), (1, 0)))
        best = np.full((3, batch), -np.inf)
        for width in range(2, high - low + 1):
            level = np.maximum(sums[:, width:] - sums[:, :-width], 0.0) / width
            found = np.sqrt(2 * independent * width * (level - np.log1p(level)))
            start = found.argmax(axis=1)
            top = found[np.arange(batch), start]
            best = np.where(top > best[0], [top, np.full(batch, width), start], best)
        width, start = best[1].astype(int), best[2].astype(int)
        inside = (np.arange(high - low) >= start[:, None]) & (np.arange(high - low) < (start + width)[:, None])
        energy = np.sort(np.einsum("bfn,bn->bf", own, inside.astype(float)), axis=1)
        quarter = frames // 4
        mean = np.maximum(energy.mean(axis=1), _TINY)
        quiet = energy[:, :quarter].mean(axis=1) / mean
        on = energy[:, -quarter:].mean(axis=1)
        columns.append([best[0], width, low + start + width / 2, np.where(quiet < _STEADY, on, mean), quiet])
    return Found(*np.array(columns).transpose(1, 2, 0))


class BandDetector:
    """Embeds a scene as the words for what an energy detector finds in each part of the band, as zeros and ones.

    How many emitters there are; by part whether there is one, its class of width, whether it is steady and, where
    there are several, strong. The kind of signal is nothing that energy tells.
    """

    name = "band_detector"

    def __init__(self, parts: int, widths_hz: tuple[float, ...]) -> None:
        self._parts, self._widths = parts, widths_hz
        self.embedding_dim = parts + 1 + parts * (len(widths_hz) + 6)

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of complex64 ``[B, A, T]``, of which the first antenna counts."""
        del center_frequency_hz
        found = boxes(spectrogram(iq[:, 0].astype(np.complex128)), self._parts)
        there = found.excess > _THRESHOLD
        count = there.sum(axis=1)
        kind = np.searchsorted(self._widths, found.width * sample_rate_hz / _POINTS)
        strongest = np.where(there, found.power, 0.0).max(axis=1, keepdims=True)
        strong = found.power >= 10 ** (-_STRONG_DB / 10) * strongest
        steady, several = found.quiet >= _STEADY, (count > 1)[:, None]
        words = [np.ones_like(there), *(kind == k for k in range(len(self._widths) + 1))]
        words += [steady, ~steady, strong & several, ~strong & several]
        by_part = (np.stack(words, axis=2) & there[:, :, None]).reshape(len(iq), -1)
        return np.concatenate([np.eye(self._parts + 1)[count], by_part], axis=1).astype(np.float32)


def band_detector(
    weights: Mapping[str, NDArray[Any]] | None = None, parts: int = 3, widths_hz: str = "950000,2600000"
) -> BandDetector:
    """Build the detector for a number of parts of the band; ``widths_hz``: where classes of width meet, increasing."""
    del weights
    return BandDetector(parts, tuple(float(width) for width in widths_hz.split(",")))
