"""A bank of detectors for the emitters of the 2.4 and 5.8 GHz bands, one statistic or a few for each waveform."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_Signal = TypeVar("_Signal", Complex, Floats)

_TINY = 1e-9
#: Carrier spacing [Hz] and prefix [s] of LTE-like OFDM (TS 36.211, 6.12), which drone video downlinks share.
_SPACING_HZ, _PREFIX_S = 15e3, 144 / 30.72e6
#: Zadoff-Chu root and length of the DroneID broadcast's synchronisation symbol, and its numbers of carriers.
_ROOT, _LENGTH, _CARRIERS = 600, 601, (600, 1200)
#: Chirp spread spectrum of control links: bandwidth [Hz] and spreading factors.
_CHIRP_HZ, _SPREADING = 812.5e3, (5, 6, 7)
_LINE_S = 64e-6
_FRACTIONS = (0.0, 0.25, 0.5, 0.75)


def _moving(x: _Signal, width: int) -> _Signal:
    """Mean over ``width`` neighbours along the last axis; ``[..., T - width + 1]``."""
    sums = np.cumsum(np.pad(x, [*[(0, 0)] * (x.ndim - 1), (1, 0)]), axis=-1)
    mean: _Signal = (sums[..., width:] - sums[..., :-width]) / width
    return mean


def _delayed(x: Complex, samples: float) -> Complex:
    """The signal ``[B, T]`` as it is ``samples`` later, band-limited and circular."""
    return np.fft.ifft(np.fft.fft(x, axis=1) * np.exp(2j * np.pi * np.fft.fftfreq(x.shape[1]) * samples), axis=1)


def prefix_statistic(x: Complex, useful: float, prefix: int) -> Floats:
    """Greatest correlation coefficient ``[B]`` of a stretch of ``prefix`` samples with that ``useful`` samples later.

    Reference: van de Beek, Sandell and Borjesson, IEEE Transactions on Signal Processing 45(7), 1997.
    """
    keep = x.shape[1] - int(np.ceil(useful)) - 8
    early, late = x[:, :keep], _delayed(x, useful)[:, :keep]
    energy = 0.5 * (_moving(np.abs(early) ** 2, prefix) + _moving(np.abs(late) ** 2, prefix))
    # A tenth of the scene's power keeps the silence between bursts from correlating.
    energy += 0.1 * np.mean(np.abs(x) ** 2, axis=1, keepdims=True) + _TINY
    best: Floats = np.max(np.abs(_moving(late * early.conj(), prefix)) / energy, axis=1)
    return best


def zadoff_chu_symbol(root: int, length: int, carriers: int, rate_hz: float, shift: float = 0.0) -> Complex:
    """One symbol of OFDM at 15 kHz spacing with a Zadoff-Chu sequence about an empty DC, moved by ``shift`` carriers.

    The middle element is left out; wider signals repeat the sequence. Complex ``[rate / 15 kHz]``, unit energy.
    """
    n = np.arange(length)
    sequence = np.delete(np.exp(-1j * np.pi * root * n * (n + 1) / length), length // 2)
    values = np.resize(sequence, carriers)
    index = np.concatenate([np.arange(-(carriers // 2), 0), np.arange(1, carriers - carriers // 2 + 1)]) + shift
    time = np.arange(int(rate_hz / _SPACING_HZ)) / rate_hz
    symbol: Complex = np.exp(2j * np.pi * _SPACING_HZ * time[:, None] * index) @ values
    symbol /= np.linalg.norm(symbol)
    return symbol


def matched(x: Complex, templates: Complex) -> Floats:
    """Greatest normalised output ``[B]`` of filters matched to ``templates`` ``[K, L]`` over all delays."""
    length = templates.shape[1]
    size = x.shape[1] + length
    spectrum = np.fft.fft(x, size, axis=1)
    power = np.abs(x) ** 2
    energy = np.sqrt(length * (_moving(power, length) + 0.1 * power.mean(axis=1, keepdims=True) + _TINY))
    best = np.zeros(len(x))
    for template in templates:
        output = np.fft.ifft(spectrum * np.fft.fft(template, size).conj(), axis=1)[:, : energy.shape[1]]
        best = np.maximum(best, np.max(np.abs(output) / energy, axis=1))
    return best


class WaveformBank:
    """Embeds a one-antenna scene as the statistics of its detectors, most of them logarithms of ratios.

    Drones: prefix correlation at 15 kHz spacing, synchronisation symbols, dechirped and tone-like hops, periodic lines
    and constant envelope of FM video. Others: LTE's load, Wi-Fi's prefix and short training, Bluetooth's bit rate, the
    clock of 802.15.4. General: envelope, occupancy in time and frequency.
    """

    name = "waveform_bank"

    def __init__(self) -> None:
        self._templates: dict[float, list[Complex]] = {}
        probe = np.random.default_rng(0).standard_normal((1, 1, 4096)).astype(np.complex64)
        self.embedding_dim = self.embed(probe, 20e6, 2.4e9).shape[1]

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, D]`` of complex64 ``[B, A, T]``; the first antenna is used.

        ValueError where T is shorter than two symbols of 15 kHz spacing, 2,800 samples at 20 MS/s.
        """
        del center_frequency_hz
        if iq.shape[2] < 2.1 * sample_rate_hz / _SPACING_HZ:
            raise ValueError(f"{iq.shape[2]} samples, expected two symbols of 15 kHz spacing")
        x = iq[:, 0].astype(np.complex128)
        x /= np.sqrt(np.mean(np.abs(x) ** 2, axis=1, keepdims=True) + _TINY)
        parts = [
            self._wide(x, sample_rate_hz),
            _wifi(x),
            _hops(x, sample_rate_hz),
            _video(x, sample_rate_hz),
            _clock(x, sample_rate_hz),
            _occupancy(x),
        ]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _wide(self, x: Complex, rate: float) -> Floats:
        """OFDM of 15 kHz spacing: its prefix, and the synchronisation symbol of the DroneID broadcast at two widths.

        A whole-carrier offset of a sequence of root -1 is a small delay: the search needs fractions of a carrier alone.
        """
        if rate not in self._templates:
            self._templates[rate] = [
                np.stack([zadoff_chu_symbol(_ROOT, _LENGTH, carriers, rate, shift) for shift in _FRACTIONS])
                for carriers in _CARRIERS
            ]
        statistics = [prefix_statistic(x, rate / _SPACING_HZ, round(_PREFIX_S * rate))]
        statistics += [matched(x, templates) for templates in self._templates[rate]]
        return np.log(np.stack(statistics, axis=1) + 1e-3)


def _wifi(x: Complex) -> Floats:
    """Wi-Fi at 20 MS/s: prefix of 16 before 64 samples folded by symbols of 80, and short training at lag 16."""
    products = x[:, 64:] * x[:, :-64].conj()
    windows = _moving(products, 16)
    whole = windows.shape[1] // 80 * 80
    folded = np.abs(windows[:, :whole].reshape(len(x), -1, 80).mean(axis=1))
    power = _moving(np.abs(x) ** 2, 96)
    short = np.abs(_moving(x[:, 16:] * x[:, :-16].conj(), 96))[:, : power.shape[1]]
    power = power[:, : short.shape[1]]
    training = np.max(short / (power + 0.3), axis=1)
    contrast = folded.max(axis=1) / (np.median(folded, axis=1) + 1e-3)
    return np.stack([np.log(folded.max(axis=1) + 1e-3), np.log(contrast + _TINY), np.log(training + 1e-3)], axis=1)


def _hops(x: Complex, rate: float) -> Floats:
    """Narrow bursts: concentration of short blocks after each dechirp, and how long their frequency stays."""
    block = 256
    blocks = x[:, : x.shape[1] // block * block].reshape(len(x), -1, block)
    energy = np.sum(np.abs(blocks) ** 2, axis=2)
    time = np.arange(block) / rate
    slopes = [_CHIRP_HZ**2 / 2**spreading for spreading in _SPREADING]
    tops = []
    for slope in (0.0, *slopes, -slopes[0], -slopes[1]):
        spectrum = np.abs(np.fft.fft(blocks * np.exp(-1j * np.pi * slope * time**2), 2 * block, axis=2)) ** 2
        tops.append(np.sort(spectrum.max(axis=2) / (block * energy + _TINY), axis=1))
    # The median of blocks and their upper quartile: bursts may fill only a part of the window.
    features = [top[:, [top.shape[1] // 2, 3 * top.shape[1] // 4]] for top in tops]
    # A chirp is sharper by its own slope than by the opposite one; nothing else knows the difference.
    strongest = [np.log(top[:, -4:].mean(axis=1) + _TINY) for top in tops]
    features.append(np.stack([strongest[1] - strongest[4], strongest[2] - strongest[5]], axis=1))
    # Where a block's strongest line is, and how the frequency within a channel about it keeps its sign.
    spectrum = np.abs(np.fft.fft(blocks, axis=2))
    centre = spectrum.argmax(axis=2)
    moved = blocks * np.exp(-2j * np.pi * centre[:, :, None] * np.arange(block) / block)
    kernel = np.hanning(17)[1:-1] / np.hanning(17).sum()
    narrow = np.fft.ifft(np.fft.fft(moved, axis=2) * np.fft.fft(kernel, block), axis=2)
    steps = np.angle(narrow[..., 1:] * narrow[..., :-1].conj())
    steps = steps - steps.mean(axis=2, keepdims=True)
    spread = np.mean(steps**2, axis=2) + _TINY
    features += [
        np.median(np.mean(steps[..., lag:] * steps[..., :-lag], axis=2) / spread, axis=1)[:, None]
        for lag in (10, 20, 40, 80, 120)
    ]
    features.append(np.log(np.median(spread, axis=1))[:, None])
    distance = np.abs((np.diff(centre, axis=1) + block // 2) % block - block // 2)
    features.append(np.stack([np.mean(distance > 12, axis=1), np.mean(distance <= 4, axis=1)], axis=1))
    return np.concatenate(features, axis=1)


def _video(x: Complex, rate: float) -> Floats:
    """FM video: frequency that comes back after a line of 64 us, and the dip of the line's synchronisation pulse."""
    line, pulse = round(_LINE_S * rate), round(4.7e-6 * rate)
    steps = x[:, 1:] * x[:, :-1].conj()
    frequency = np.angle(_moving(steps, 8))
    smooth = np.angle(_moving(steps, pulse))
    centred = frequency - frequency.mean(axis=1, keepdims=True)
    spread = np.mean(centred**2, axis=1) + _TINY
    again = np.mean(centred[:, line:] * centred[:, :-line], axis=1) / spread
    beside = np.mean(centred[:, line - 200 :] * centred[:, : -line + 200], axis=1) / spread
    lines = smooth.shape[1] // line
    folded = np.mean(smooth[:, : lines * line].reshape(len(x), lines, line), axis=1)
    dip = (folded.mean(axis=1) - folded.min(axis=1)) / (folded.std(axis=1) + 1e-3)
    depth = folded.mean(axis=1) - folded.min(axis=1)
    coherence = np.abs(_moving(steps, 8)).mean(axis=1)
    return np.stack([again, again - beside, dip, depth, np.log(spread), np.log(coherence + 1e-3)], axis=1)


def _clock(x: Complex, rate: float) -> Floats:
    """802.15.4: the square of an MSK-like signal has two lines 2 MHz apart; strength of the weaker of a pair."""
    spectrum = np.abs(np.fft.fft(x**2, axis=1)) / x.shape[1]
    apart = round(2e6 / rate * x.shape[1])
    pair = np.sqrt(spectrum * np.roll(spectrum, -apart, axis=1)).max(axis=1)
    return np.log(np.stack([pair, spectrum.max(axis=1)], axis=1) + 1e-3)


def _occupancy(x: Complex) -> Floats:
    """Envelope moments, and how power fills time and frequency: 180 kHz blocks identify a partly loaded LTE carrier."""
    power = np.abs(x) ** 2
    kurtosis = (np.mean(power**2, axis=1) + _TINY) / (np.mean(power, axis=1) ** 2 + _TINY)
    slots = np.sort(_moving(power, 64)[:, ::64], axis=1)
    spectrum = np.abs(np.fft.fft(x, axis=1)) ** 2 / x.shape[1]
    blocks = np.sort(spectrum[:, : x.shape[1] // 32 * 32].reshape(len(x), -1, 32).mean(axis=2), axis=1)
    picked = [int(share * (blocks.shape[1] - 1)) for share in (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)]
    times = [int(share * (slots.shape[1] - 1)) for share in (0.05, 0.25, 0.5, 0.75, 0.95)]
    parts = [np.log(kurtosis)[:, None], np.log(slots[:, times] + 1e-3), np.log(blocks[:, picked] + 1e-3)]
    return np.concatenate(parts, axis=1)


def waveform_bank(weights: Mapping[str, NDArray[Any]] | None = None) -> WaveformBank:
    """Build the bank, which has no weights."""
    del weights
    return WaveformBank()
