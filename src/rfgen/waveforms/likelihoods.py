"""Log likelihoods of received signals under each kind of modulation, its nuisances known: what an oracle goes by.

Every function takes `received`, complex128 `[n, samples]`: a signal of `amplitude` `[n]` without carrier offset and
phase, in circular white noise of unit variance. It gives log p(received) less its value for noise alone, `[n]`.
`symbol` is the samples of a symbol and `start` the place in a symbol at sample 0, as the waveforms take them.
"""

import itertools

import numpy as np

from rfgen.physics.types import Complexes, Floats, Ints
from rfgen.waveforms.angular import gaussian_step_integral
from rfgen.waveforms.linear import root_raised_cosine

# Symbols over which a keyed phase is followed; between such blocks it counts as unknown.
_BLOCK = 5
# Frequencies and slopes that a piece of FM is compared with, in standard deviations, and pieces in a symbol.
_FREQUENCIES, _SLOPES, _PIECES = np.linspace(-2.6, 2.6, 13), np.linspace(-1.4, 1.4, 3), (1, 2)


class _Bins:
    """Sums over neighbouring samples: `place` `[n, samples]` says which of `count` bins each sample falls into."""

    def __init__(self, place: Ints, count: int) -> None:
        n = len(place)
        flat = (place + count * np.arange(n)[:, None]).ravel()
        self.sizes = np.bincount(flat, minlength=n * count).reshape(n, count)
        self._ends = np.cumsum(self.sizes, axis=1)

    def sums(self, values: Complexes) -> Complexes:
        """Sums `[n, count]` of values `[n, samples]`."""
        running = np.cumsum(values, axis=1)
        # Bins before a row's first sample end at 0.
        until = np.take_along_axis(running, np.maximum(self._ends - 1, 0), axis=1) * (self._ends > 0)
        each: Complexes = np.diff(until, axis=1, prepend=0)
        return each


def _log_mean(exponents: Floats, weights: Floats | None = None) -> Floats:
    """Log of the mean of exponentials over the last axis, weighted or not."""
    top = exponents.max(axis=-1, keepdims=True)
    raised = np.exp(exponents - top)
    mean = raised.mean(axis=-1) if weights is None else raised @ (weights / weights.sum())
    total: Floats = np.log(mean) + top[..., 0]
    return total


def _log_bessel(x: Floats) -> Floats:
    """Log of the modified Bessel function of order 0, to 2e-7 (Abramowitz and Stegun 9.8.1 and 9.8.2).

    ``scipy.special.i0e`` would win a tenth of an oracle's time, and make every scene stale with each version of scipy.
    """
    small, large = (np.minimum(x, 3.75) / 3.75) ** 2, 3.75 / np.maximum(x, 3.75)
    near = np.polyval([0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0], small)
    far = np.polyval(
        [0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228],
        large,
    )
    value: Floats = np.where(x < 3.75, np.log(near), x + np.log(far) - 0.5 * np.log(np.maximum(x, 3.75)))
    return value


def matched_filter(
    received: Complexes, symbol: Floats, start: Floats, rolloff: Floats, *, span: int = 6
) -> tuple[Complexes, Floats]:
    """Outputs of the filters matched to a scene's root-raised-cosine pulses and their energies, `[n, symbols]` each."""
    u = np.arange(received.shape[1]) / symbol[:, None] + start[:, None] + span
    nearest = np.floor(u).astype(np.int64)
    count = int(nearest.max()) + span + 2
    bins = _Bins(nearest, count)
    matched, energy = np.zeros((2, len(received), count), complex)
    for k in range(-span + 1, span + 1):
        pulse = root_raised_cosine(u - nearest - k, rolloff[:, None])
        # Bin m holds the samples whose nearest symbol is m: of them this pulse is symbol m + k's.
        to, of = slice(max(k, 0), count + min(k, 0)), slice(max(-k, 0), count - max(k, 0))
        matched[:, to] += bins.sums(received * pulse)[:, of]
        energy[:, to] += bins.sums((pulse**2).astype(complex))[:, of]
    return matched, energy.real


def linear(matched: Complexes, energy: Floats, amplitude: Floats, points: Complexes) -> Floats:
    """Independent symbols of a constellation, given `matched_filter`'s outputs: a mixture over each symbol's points.

    The outputs hold all that the signal tells; what the cut pulses leak from symbol to symbol counts as noise.
    """
    level = amplitude[:, None, None]
    exponents = 2 * level * (matched[..., None] * points.conj()).real
    exponents -= level**2 * np.abs(points) ** 2 * energy[..., None]
    likelihood: Floats = _log_mean(exponents).sum(axis=1)
    return likelihood


def keyed(
    received: Complexes, amplitude: Floats, symbol: Floats, start: Floats, index: Floats, bt: Floats | None = None
) -> Floats:
    """Two-level FSK of modulation `index` `[n]`, Gaussian where there is a `bt` `[n]`, averaged over its bits.

    The phase is followed over blocks of five symbols, whose bits and neighbours are all tried, and counts as unknown
    between them (M. K. Simon and D. Divsalar, "Maximum-likelihood block detection of noncoherent continuous phase
    modulation", IEEE Trans. Commun. 41(1), 1993).
    """
    n, samples = received.shape
    u = np.arange(samples) / symbol[:, None] + start[:, None]
    number = np.floor(u).astype(np.int64)
    blocks = int(number.max()) // _BLOCK + 1
    bins = _Bins(number, blocks * _BLOCK)
    turn = np.pi * index[:, None]
    if bt is None:
        # The waveform turns by whole samples: one step for each, and as many as fall into a symbol.
        steps = np.arange(samples) - np.take_along_axis(np.cumsum(bins.sizes, axis=1) - bins.sizes, number, axis=1)
        parts = [turn * (steps + 1) / symbol[:, None]]
        whole = bins.sizes / symbol[:, None]
    else:
        # A sample's phase is the sum over frequencies up to its own, half a sample further than the integral.
        place = u - number + 0.5 / symbol[:, None]
        parts = [turn * gaussian_step_integral(place + shift, bt) for shift in (1.0, 0.0, -1.0)]
        whole = np.ones(bins.sizes.shape)
    contexts = np.array(list(itertools.product((-1, 1), repeat=len(parts))))
    matched = np.stack(
        [bins.sums(received * np.exp(-1j * sum(b * part for b, part in zip(c, parts, strict=True)))) for c in contexts],
        axis=-1,
    ).reshape(n, blocks, _BLOCK, len(contexts))
    done = np.exp(-1j * turn * whole).reshape(n, blocks, _BLOCK, 1)
    bits = np.array(list(itertools.product((-1, 1), repeat=_BLOCK + len(parts) - 1)))
    heard, turned = np.zeros((n, blocks, len(bits)), complex), np.ones((n, blocks, len(bits)), complex)
    for s in range(_BLOCK):
        context = (bits[:, s : s + len(parts)] + 1) // 2 @ (2 ** np.arange(len(parts))[::-1])
        heard += matched[:, :, s, context] * turned
        # From the next symbol on, this one's first bit has turned the phase in full.
        turned *= np.where(bits[:, s] > 0, done[:, :, s], done[:, :, s].conj())
    energy = bins.sizes.reshape(n, blocks, _BLOCK).sum(axis=2)
    level = amplitude[:, None]
    likelihood: Floats = (_log_mean(_log_bessel(2 * level[..., None] * np.abs(heard))) - level**2 * energy).sum(axis=1)
    return likelihood


def frequency_modulated(received: Complexes, amplitude: Floats, symbol: Floats, deviation: Floats) -> Floats:
    """FM by a Gaussian message flat to half the symbol rate, of RMS `deviation` `[n]` in units of that rate.

    Over a piece the frequency is taken to run straight, with a level and a slope that are averaged over, and from one
    piece to the next the phase to be unknown; pieces of one symbol and of half a symbol are as likely as one another.
    """
    likelihoods = []
    for pieces in _PIECES:
        u = np.arange(received.shape[1]) * pieces / symbol[:, None]
        number = np.floor(u).astype(np.int64)
        bins = _Bins(number, int(number.max()) + 1)
        place = (u - number - 0.5) / pieces  # symbols from the middle of the piece
        turn = -2j * np.pi * deviation[:, None]
        # The slope of a message that is flat to W has an RMS of 2 pi W / sqrt(3) times its own.
        rises = [np.exp(turn * slope * np.pi / np.sqrt(3) * place**2 / 2) for slope in _SLOPES]
        step = np.exp(turn * (_FREQUENCIES[1] - _FREQUENCIES[0]) * place)
        turned = received * np.exp(turn * _FREQUENCIES[0] * place)
        heard, weights = [], []
        for frequency in _FREQUENCIES:
            heard += [np.abs(bins.sums(turned * rise)) for rise in rises]
            weights += [np.exp(-(frequency**2 + slope**2) / 2) for slope in _SLOPES]
            turned = turned * step
        level = amplitude[:, None]
        exponents = _log_bessel(2 * level[..., None] * np.stack(heard, axis=-1))
        likelihoods.append((_log_mean(exponents, np.array(weights)) - level**2 * bins.sizes).sum(axis=1))
    return _log_mean(np.stack(likelihoods, axis=-1))


def amplitude_modulated(received: Complexes, amplitude: Floats, symbol: Floats, depth: Floats) -> Floats:
    """A carrier with a Gaussian message flat to half the symbol rate, of RMS `depth` `[n]` of the carrier, in phase."""
    samples = received.shape[1]
    real = received.real
    carrier = np.sum(2 * amplitude[:, None] * real - amplitude[:, None] ** 2, axis=1)
    power = np.abs(np.fft.rfft(real - amplitude[:, None])) ** 2
    noise = samples / 2
    whole = noise + samples * (amplitude**2 * depth**2 * symbol)[:, None]
    frequency = np.fft.rfftfreq(samples)
    inside = (frequency > 0) & (frequency <= 0.5 / symbol[:, None])
    sides = np.where(inside, power * (1 / noise - 1 / whole) - np.log(whole / noise), 0.0)
    likelihood: Floats = carrier + sides.sum(axis=1)
    return likelihood
