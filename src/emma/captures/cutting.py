"""From a recording to scenes: windows that are exact to the fraction of a sample, resampling, unit power."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.captures.formats import Format, Iq
from emma.captures.settings import SceneShape

#: Greatest number in the ratio of two sample rates: the anti-alias filter has 64 times as many taps.
GREATEST = 100_000
#: Sample rates of receivers, from the lowest to the highest.
RATES_HZ = 1.0, 1e12
#: Up to this ratio a higher rate is no matter of declaration.
FAR = Fraction(5, 4)
# scipy's own filter of resample_poly leaves images of -54 dB (Kaiser, beta 5). Beta 9 over 32 samples of the lower
# rate on either side leaves -90 dB beyond 1.09 of the band's edge (Kaiser's design rule).
_BETA, _SIDE = 9.0, 32


@dataclass(frozen=True)
class Span:
    """Samples ``start`` to ``stop`` of a recording that carry ``label``.

    ``low`` to ``high`` around them are one stream at one carrier, and serve as margin. ``carrier_hz`` is None where
    nobody states it.
    """

    start: int
    stop: int
    low: int
    high: int
    label: str
    carrier_hz: float | None


@dataclass(frozen=True)
class Recording:
    """One recording as it is stored: ``pairs`` ``[samples, channels, 2]`` in ``format``, and what is known of it."""

    name: str
    pairs: NDArray[Any]
    format: Format
    rate_hz: float
    spans: Sequence[Span]
    session: str
    device: str | None = None
    snr_db: float = 0.0
    detail: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """InputError for a rate that no receiver has."""
        check_rate(self.rate_hz, self.name)

    def iq(self, start: int, stop: int) -> Iq:
        """Complex samples ``[channels, stop - start]``."""
        return self.format.iq(self.pairs[start:stop])


def windows(recording: Recording, span: Span, shape: SceneShape) -> Iterator[tuple[str, Iq]]:
    """Cut a span into scenes ``[channels, shape.samples]`` at the wanted rate, each with its name.

    Windows are spread evenly from ``shape.start`` to the end of the span, and share no sample unless ``shape.overlap``
    says so. Each is resampled with the recording's own samples as margin, and is the signal at its own times to within
    -85 dB over 0.9 of the lower rate's band; beyond a recording's end, a retune or a gap the margin is zero, and the
    filter rings there for 32 samples of the lower rate.

    Raises:
        InputError: the span is too short; a window is silent; rates do not fit.
    """
    source = recording.name
    step = ratio(recording.rate_hz, shape, source)
    need = math.ceil(shape.samples / step)
    first, last = span.start + shape.start, span.stop - shape.trailer_samples
    apart = 1 if shape.overlap else shape.windows
    if last - first < need * apart:
        found = f"{source}: {span.stop - span.start} samples, expected at least"
        many = f" for {apart} windows that do not overlap (or overlap: true)" if apart > 1 else ""
        raise InputError(f"{found} {shape.start + need * apart + shape.trailer_samples}{many}")
    for number in range(shape.windows):
        start = first + number * (last - first - need) // max(shape.windows - 1, 1)
        name = f"{source}, window {number} (samples {start} to {start + need})"
        own = recording.iq(start, start + need)
        if max(np.abs(own.real).max(), np.abs(own.imag).max()) <= recording.format.rest:
            raise InputError(f"{name}: silent, expected a signal where there is a label")
        yield name, own if step == 1 else _resampled(recording, span, start, step, shape.samples)


def ratio(rate_hz: float, shape: SceneShape, source: str) -> Fraction:
    """Samples of a scene per sample of a recording, exact for rates as they are written.

    Raises:
        InputError: no rate of a receiver, a ratio of large numbers, or a far higher rate that is not declared.
    """
    wanted = shape.sample_rate_hz
    check_rate(rate_hz, source)
    found = Fraction(str(wanted)) / Fraction(str(rate_hz))
    if max(found.numerator, found.denominator) > GREATEST:
        raise InputError(
            f"{source}: {rate_hz:.12g} to {wanted:.12g} Hz is {found}, expected a ratio of numbers up to {GREATEST}"
        )
    if found > FAR and not shape.upsample:
        raise InputError(
            f"{source}: {rate_hz:.12g} Hz taken up to {wanted:.12g} leaves most of a scene's band empty, which alone "
            "tells recordings apart: expected scene.upsample: true, or a lower scene.sample_rate_hz"
        )
    return found


def check_rate(rate_hz: float, source: object) -> None:
    """InputError for a sample rate that no receiver has."""
    low, high = RATES_HZ
    if not low <= rate_hz <= high:
        raise InputError(f"{source}: sample rate {rate_hz}, expected a positive one in hertz, from {low:g} to {high:g}")


def unit_power(iq: NDArray[Any], names: Sequence[str]) -> NDArray[np.complex64]:
    """Scenes ``[n, antennas, samples]`` at mean power 1, worked out in float64; InputError names a silent one."""
    peak = np.abs(iq.astype(np.complex128)).max(axis=(1, 2), keepdims=True)
    if silent := [name for name, value in zip(names, peak.ravel(), strict=True) if not value > 0]:
        raise InputError(f"{silent[0]}: silent, expected a signal where there is a label")
    scaled = iq / peak
    power = np.mean(np.abs(scaled) ** 2, axis=(1, 2), keepdims=True)
    unit: NDArray[np.complex64] = (scaled / np.sqrt(power)).astype(np.complex64)
    return unit


def resample(iq: NDArray[Any], step: Fraction) -> NDArray[Any]:
    """Change the sample rate of ``[..., samples]`` by ``step``, with zeros beyond both ends."""
    from scipy.signal import resample_poly

    made: NDArray[Any] = resample_poly(iq, step.numerator, step.denominator, axis=-1, window=_taps(step))
    return made


@functools.lru_cache(maxsize=8)
def _taps(step: Fraction) -> NDArray[np.float64]:
    from scipy.signal import firwin

    greatest = max(step.numerator, step.denominator)
    taps: NDArray[np.float64] = firwin(2 * _SIDE * greatest + 1, 1 / greatest, window=("kaiser", _BETA))
    return taps


def _resampled(recording: Recording, span: Span, start: int, step: Fraction, samples: int) -> Iq:
    """A scene that starts at sample ``start``, from the samples about it."""
    reach = _SIDE * max(step.numerator, step.denominator) // step.numerator + 1
    # The margin before is a whole number of periods of the ratio, so that a sample of the result falls on the start.
    lead = math.ceil(reach / step.denominator)
    first = start - lead * step.denominator
    last = start + math.ceil(samples / step) + reach
    low, high = max(first, span.low), min(last, span.high)
    around = np.zeros((recording.pairs.shape[1], last - first), np.complex128)
    around[:, low - first : high - first] = recording.iq(low, high)
    return resample(around, step)[:, lead * step.numerator :][:, :samples]


def require_complex(recording: Recording) -> None:
    """InputError where I or Q stands still while the other moves: such a signal is real, and its band is a mirror.

    Over the whole recording, since 8 bits leave little of a weak part.
    """
    moves = [bool(part.max() > part.min()) for part in np.moveaxis(recording.pairs, -1, 0)]
    if moves[0] != moves[1]:
        still = "I" if moves[1] else "Q"
        raise InputError(
            f"{recording.name}: {still} is constant throughout: a real-valued signal, expected I and Q (its analytic "
            "signal at half the band, say)"
        )
