"""Transmitter impairments of an OFDM frame of IEEE 802.11 at 20 MS/s, estimated one by one, as an expert would.

The known preamble gives timing, carrier offset and channel; decisions on the symbols after it give a reference of the
whole frame; what the reference and the channel leave over is put down to the front end.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emma.backbones.base import IQ, Complex, Embeddings, Floats

_RATE_HZ, _SIZE, _PREFIX, _TINY = 20e6, 64, 16, 1e-9
_SYMBOL = _SIZE + _PREFIX
#: Samples of short and long training; samples that FFT windows start early, so that no echo comes before them.
_SHORT, _LONG, _EARLY = 160, 160, 4
#: Greatest start of a frame, and the taps of the channel, from the early ones on.
_LATEST, _TAPS = 64, 20
#: Segments of the turn-on, in samples; the last one is the settled level that the others stand against.
_SEGMENTS = (0, 6, 12, 20, 32, 56, 160)
_TIMES_US = np.geomspace(0.2, 3.0, 13)
#: Samples of a block whose phase is told, and the lags of its structure function, in symbols.
_BLOCK, _LAGS = 20, (1, 4)
_ITERATIONS = 3


def _training() -> tuple[Complex, Complex, NDArray[np.intp]]:
    """Short training ``[160]`` in time, long training ``[52]`` by carrier, and the carriers' bins, negative ones first.

    Reference: IEEE 802.11-2020, equations (17-6) and (17-8).
    """
    bins = np.concatenate([np.arange(-26, 0), np.arange(1, 27)])
    signs = "++--++-+-++++++--++-+-+++++--++-+-+-----++--+-+-++++"
    long = np.array([1.0 if sign == "+" else -1.0 for sign in signs], complex)
    grid = np.zeros(_SIZE, complex)
    for carrier, sign in zip(range(-24, 25, 4), (1, -1, 1, -1, -1, 1, 0, -1, -1, 1, 1, 1, 1), strict=True):
        grid[carrier] = sign * (1 + 1j)
    short = np.tile(np.fft.ifft(grid) * (_SIZE / np.sqrt(24)), 3)[:_SHORT]
    return short, long, bins


_STF, _LTF, _BINS = _training()
_MIRROR = np.arange(len(_BINS))[::-1]
#: Response of each tap at each of the 64 bins, and the least-squares map of 52 carriers to taps.
_DELAYS = np.arange(_TAPS)
_TO_BINS = np.exp(-2j * np.pi * np.fft.fftfreq(_SIZE)[:, None] * _DELAYS)
_OF_CARRIERS = _TO_BINS[_BINS]
_TO_TAPS = np.linalg.solve(_OF_CARRIERS.conj().T @ _OF_CARRIERS + 0.05 * np.eye(_TAPS), _OF_CARRIERS.conj().T)


@dataclass(frozen=True)
class _Frame:
    """Frames found and turned back by their carrier offset.

    ``x`` ``[B, T]`` begins at the frame; ``offset`` ``[B]`` in radians a sample; ``symbols`` ``[B, S, 64]`` are FFTs of
    two long training symbols, the header and the payload, in units of a carrier of unit power.
    """

    x: Complex
    offset: Floats
    symbols: Complex


class Impairments:
    """Embeds a one-antenna scene as 23 numbers of the transmitter that sent its frame.

    Carrier offset in ppm; I/Q image (nu / mu, real and imaginary: half the gain and phase imbalance); DC offset; two
    orders of AM/AM and AM/PM, as orthogonal polynomials of the amplitude; phase noise at two lags; the turn-on's gain
    in five segments against the settled level, and the exponential that fits it. All but the carrier offset are told
    from what the channel, which is estimated, does not explain.

    References: Brik et al., "Wireless device identification with radiometric signatures", MobiCom 2008 (the features);
    van de Beek et al., EUSIPCO 1995 (channel by its taps); Raich and Zhou, "Orthogonal polynomials for complex Gaussian
    processes", IEEE TSP 52(10), 2004 (the nonlinear terms).
    """

    name = "impairments"
    embedding_dim = 11 + 2 * (len(_SEGMENTS) - 2) + 2

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Float32 ``[B, 23]`` of complex64 ``[B, A, T]``; the first antenna is used.

        ValueError where the rate is not 20 MS/s, or T holds no frame of four symbols after its training.
        """
        if sample_rate_hz != _RATE_HZ:
            raise ValueError(f"{sample_rate_hz:g} samples a second, expected {_RATE_HZ:g}")
        if iq.shape[2] < _LATEST + _SHORT + _LONG + 4 * _SYMBOL:
            raise ValueError(f"{iq.shape[2]} samples, expected a frame with four symbols after its training")
        x = iq[:, 0].astype(np.complex128)
        x /= np.sqrt(np.mean(np.abs(x) ** 2, axis=1, keepdims=True) + _TINY)
        frame = _found(x)
        sent, phases, response = _decided(frame)
        image, curves, phases, response = _front_end(frame, sent, phases, response)
        gain = np.exp(1j * phases)[..., None] * response[:, None]
        level = np.sum(frame.symbols[:, :, 0] * gain[:, :, 0].conj(), axis=1)
        strength = np.mean(np.abs(gain) ** 2, axis=(1, 2)) * gain.shape[1]
        # Where the channel fades at zero frequency, the estimate shrinks rather than bursts.
        direct = level / (np.sum(np.abs(gain[:, :, 0]) ** 2, axis=1) + 0.1 * strength + _TINY) / np.sqrt(len(_BINS))
        slope = _slope(phases)
        offset = (frame.offset + slope) * sample_rate_hz / (2 * np.pi) / center_frequency_hz * 1e6
        features = [offset, image.real, image.imag, direct.real, direct.imag]
        features += [part for curve in curves for part in (curve.real, curve.imag)]
        features += [*_phase_noise(frame, sent, response), *_turn_on(frame, response, slope)]
        return np.stack(features, axis=1).astype(np.float32)


def impairments(weights: Mapping[str, NDArray[Any]] | None = None) -> Impairments:
    """Build the estimators, which have no weights."""
    del weights
    return Impairments()


def _found(x: Complex) -> _Frame:
    """Find each frame of ``[B, T]`` by its training, and turn back its carrier offset."""
    samples = x.shape[1]
    time = np.arange(samples)
    # Coarse offset: the short training repeats every 16 samples.
    again = np.cumsum(np.pad(x[:, 16 : _LATEST + _SHORT] * x[:, : _LATEST + _SHORT - 16].conj(), ((0, 0), (1, 0))), 1)
    windows = again[:, 112:] - again[:, :-112]
    place = np.abs(windows).argmax(axis=1)
    coarse = np.angle(windows[np.arange(len(x)), place]) / 16
    x = x * np.exp(-1j * coarse[:, None] * time)
    grid = np.zeros(_SIZE, complex)
    grid[_BINS] = _LTF
    template = np.fft.ifft(grid)
    spectrum = np.fft.fft(x, samples + _SIZE, axis=1)
    match = np.abs(np.fft.ifft(spectrum * np.fft.fft(template, samples + _SIZE).conj(), axis=1)[:, :samples]) ** 2
    # Two long training symbols follow each other; the frame starts 192 samples before the first.
    first = match[:, _SHORT + 32 : _SHORT + 32 + _LATEST + 1]
    second = match[:, _SHORT + 32 + _SIZE : _SHORT + 32 + _SIZE + _LATEST + 1]
    start = (first + second).argmax(axis=1)
    x = np.take_along_axis(x, np.minimum(start[:, None] + time[: samples - _LATEST], samples - 1), axis=1)
    long = x[:, _SHORT + 20 : _SHORT + 32 + 2 * _SIZE - _EARLY]
    fine = np.angle(np.sum(long[:, _SIZE:] * long[:, :-_SIZE].conj(), axis=1)) / _SIZE
    x = x * np.exp(-1j * fine[:, None] * time[: x.shape[1]])
    count = (x.shape[1] - _SHORT - _LONG) // _SYMBOL
    starts = np.concatenate([_SHORT + 32 + _SIZE * np.arange(2), _SHORT + _LONG + _PREFIX + _SYMBOL * np.arange(count)])
    windows_of = x[:, (starts - _EARLY)[:, None] + np.arange(_SIZE)]
    return _Frame(x, coarse + fine, np.fft.fft(windows_of, axis=2) * (np.sqrt(len(_BINS)) / _SIZE))


def _smooth(carriers: Complex) -> Complex:
    """Responses ``[B, 64]`` at every bin of a channel of few taps, from those ``[B, 52]`` at the carriers."""
    smooth: Complex = carriers @ _TO_TAPS.T @ _TO_BINS.T
    return smooth


def _decided(frame: _Frame) -> tuple[Complex, Floats, Complex]:
    """Carrier values sent ``[B, S, 52]``, phases ``[B, S]`` of the symbols, and the channel ``[B, 64]``."""
    received = frame.symbols[:, :, _BINS]
    response = _smooth(received[:, :2].mean(axis=1) * _LTF)
    weight = response[:, _BINS].conj()
    sent, phases = np.empty_like(received), np.zeros(received.shape[:2])
    sent[:, :2] = _LTF
    phase = np.zeros(len(received))
    for symbol in range(2, received.shape[1]):
        turned = received[:, symbol] * weight * np.exp(-1j * phase)[:, None]
        # A header symbol of BPSK, then QPSK; decided and followed in turn.
        real, imaginary = np.where(turned.real < 0, -1.0, 1.0), np.where(turned.imag < 0, -1.0, 1.0)
        sent[:, symbol] = real if symbol == 2 else (real + 1j * imaginary) / np.sqrt(2)
        phase = phase + np.angle(np.sum(turned * sent[:, symbol].conj(), axis=1))
        phases[:, symbol] = phase
    return sent, phases, response


def _front_end(
    frame: _Frame, sent: Complex, phases: Floats, response: Complex
) -> tuple[Complex, tuple[Complex, Complex], Floats, Complex]:
    """I/Q image, the two nonlinear terms (all ``[B]``), and phases and channel that go with them.

    Alternates between the terms, which are common to carriers and symbols, and the channel, which is a carrier's own.
    """
    received = frame.symbols[:, :, _BINS]
    grid = np.zeros((*sent.shape[:2], _SIZE), complex)
    grid[:, :, _BINS] = sent
    wave = np.fft.ifft(grid, axis=2) * (_SIZE / np.sqrt(len(_BINS)))
    power = np.abs(wave) ** 2
    # Orthogonal to the signal, and to each other, where it is Gaussian of unit power.
    curved = [wave * (power - 2) / np.sqrt(2), wave * (power**2 - 6 * power + 6) / np.sqrt(12)]
    terms = np.stack(
        [
            sent[:, :, _MIRROR].conj(),
            *(np.fft.fft(c, axis=2)[:, :, _BINS] * (np.sqrt(len(_BINS)) / _SIZE) for c in curved),
        ],
        axis=3,
    )
    found = np.zeros((len(sent), terms.shape[3]), complex)
    for _ in range(_ITERATIONS):
        gain = np.exp(1j * phases)[..., None] * response[:, None, _BINS]
        columns = (gain[..., None] * terms).reshape(len(sent), -1, terms.shape[3])
        rest = (received - gain * sent).reshape(len(sent), -1, 1)
        gram = columns.conj().transpose(0, 2, 1) @ columns
        ridge = 1e-3 * np.trace(gram, axis1=1, axis2=2).real[:, None, None] + _TINY
        found = np.linalg.solve(gram + ridge * np.eye(terms.shape[3]), columns.conj().transpose(0, 2, 1) @ rest)[..., 0]
        whole = sent + (terms @ found[:, None, :, None])[..., 0]
        phases = phases + np.angle(np.sum(received * (gain * whole).conj(), axis=2))
        phases = phases - phases[:, :2].mean(axis=1, keepdims=True)
        turned = received * np.exp(-1j * phases)[..., None]
        energy = np.sum(np.abs(whole) ** 2, axis=1) + _TINY
        response = _smooth(np.sum(turned * whole.conj(), axis=1) / energy)
    return found[:, 0], (found[:, 1], found[:, 2]), phases, response


def _centres(count: int) -> Floats:
    """Centres [samples] of the windows of two long training symbols and ``count - 2`` others."""
    return np.concatenate([[0.0, _SIZE], 2 * _SIZE + _PREFIX + _SYMBOL * np.arange(count - 2.0)])


def _slope(phases: Floats) -> Floats:
    """Carrier offset ``[B]`` [radians a sample] that is left in the phases ``[B, S]`` of the symbols."""
    centres = _centres(phases.shape[1])
    centres = centres - centres.mean()
    slope: Floats = np.unwrap(phases, axis=1) @ centres / np.sum(centres**2)
    return slope


def _phase_noise(frame: _Frame, sent: Complex, response: Complex) -> list[Floats]:
    """Logarithms ``[B]`` of the structure function of the phase, over blocks of symbols, at a short and a long lag.

    A Wiener phase grows as the lag; noise adds the same to each.
    """
    grid = np.zeros((*sent.shape[:2], _SIZE), complex)
    grid[:, :, _BINS] = sent * response[:, None, _BINS]
    product = np.fft.ifft(frame.symbols, axis=2) * np.fft.ifft(grid, axis=2).conj()
    blocks = _SIZE // _BLOCK
    product = product[:, 2:, : blocks * _BLOCK].reshape(len(sent), -1, _BLOCK).sum(axis=2)
    features = []
    for lag in _LAGS:
        steps = product[:, lag * blocks :] * product[:, : -lag * blocks].conj()
        steps = steps * np.exp(-1j * np.angle(steps.sum(axis=1, keepdims=True)))
        features.append(np.log(np.mean(np.angle(steps) ** 2, axis=1) + 1e-4))
    return features


def _turn_on(frame: _Frame, response: Complex, slope: Floats) -> list[Floats]:
    """Log gain and phase ``[B]`` of the short training's segments against the settled one, then depth and log time.

    The gain of a turn-on is ``1 - depth exp(-t / time)``; the fit takes the best of a grid of times.
    """
    taps = response[:, _BINS] @ _TO_TAPS.T
    expected = np.stack([np.convolve(_STF, row)[: _SHORT + _TAPS] for row in taps])
    # Taps begin early by as much as the windows do.
    expected = np.pad(expected, ((0, 0), (0, _TAPS)))[:, _EARLY : _EARLY + _SHORT]
    time = np.arange(_SHORT)
    actual = frame.x[:, :_SHORT] * np.exp(-1j * slope[:, None] * time)
    product, energy = actual * expected.conj(), np.abs(expected) ** 2 + _TINY
    gains = np.stack(
        [product[:, a:b].sum(axis=1) / energy[:, a:b].sum(axis=1) for a, b in itertools.pairwise(_SEGMENTS)], axis=1
    )
    settled = gains[:, -1:]
    relative = gains[:, :-1] * settled.conj() / (np.abs(settled) ** 2 + 1e-3)
    sizes, angles = np.log((np.abs(relative) + 0.05) / 1.05), np.angle(relative)
    fits, losses = [], []
    steady = product[:, _SEGMENTS[-2] :].sum(axis=1) / energy[:, _SEGMENTS[-2] :].sum(axis=1)
    whole = expected * steady[:, None]
    rest, weight = actual - whole, np.abs(whole) ** 2
    for time_us in _TIMES_US:
        decay = np.exp(-(time + 0.5) / (time_us * 1e-6 * _RATE_HZ))
        fit = np.sum(rest * whole.conj() * decay, axis=1) / (weight @ decay**2 + _TINY)
        fits.append(fit)
        losses.append(-(np.abs(fit) ** 2) * (weight @ decay**2))
    best = np.stack(losses).argmin(axis=0)
    depth = -np.stack(fits)[best, np.arange(len(best))].real
    return [*sizes.T, *angles.T, np.clip(depth, -1.0, 2.0), np.log(_TIMES_US[best])]
