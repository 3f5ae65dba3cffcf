"""OFDM: symbols with cyclic prefix on any carrier mask, and the standard sequences that the frames here carry."""

from collections.abc import Sequence

import numpy as np

from rfgen.physics.types import Complexes, Ints
from rfgen.waveforms.linear import constellation


def carriers(active: int, size: int) -> Ints:
    """Indices of `active` carriers about an empty DC carrier in an FFT of `size`, negative ones first, int64."""
    half = active // 2
    return np.concatenate([np.arange(-half, 0), np.arange(1, active - half + 1)]) % size


def modulate(values: Complexes, active: Ints, size: int, prefix: Sequence[int] | int) -> Complexes:
    """Serial samples of OFDM symbols, complex128 `[..., total]`, unit power for unit-power carrier values.

    `values` is `[..., symbols, carriers]`; `prefix` is one length or one per symbol.
    """
    grid = np.zeros((*values.shape[:-1], size), complex)
    grid[..., active] = values
    time = np.fft.ifft(grid) * (size / np.sqrt(len(active)))
    lengths = np.broadcast_to(prefix, values.shape[-2])
    parts = [time[..., s, np.arange(-length, size) % size] for s, length in enumerate(lengths)]
    return np.concatenate(parts, axis=-1)


def random_values(rng: np.random.Generator, shape: tuple[int, ...], name: str) -> Complexes:
    """Random points of a constellation, complex128 of `shape`."""
    points = constellation(name)
    return points[rng.integers(len(points), size=shape)]


def zadoff_chu(root: int, length: int) -> Complexes:
    """Zadoff-Chu sequence of odd length, unit modulus (3GPP TS 36.211, 5.5.1.1)."""
    n = np.arange(length)
    sequence: Complexes = np.exp(-1j * np.pi * root * n * (n + 1) / length)
    return sequence


def punctured_zadoff_chu(root: int, active: int) -> Complexes:
    """Zadoff-Chu sequence of length `active + 1` on an even number of carriers, its middle left out for the empty DC.

    Complex128 `[active]` of unit modulus in the order of `carriers`, as LTE's primary synchronisation signal is made
    (3GPP TS 36.211, 6.11.1).
    """
    return np.delete(zadoff_chu(root, active + 1), active // 2)


# Long training sequence of IEEE 802.11-2020, equation (17-8), carriers -26..26 without DC.
LONG_TRAINING = np.array(
    [1 if sign == "+" else -1 for sign in "++--++-+-++++++--++-+-+++++--++-+-+-----++--+-+-++++"], complex
)
# Short training sequence, equation (17-6): every fourth carrier, in units of (1 + j).
_SHORT = {-24: 1, -20: -1, -16: 1, -12: -1, -8: -1, -4: 1, 4: -1, 8: -1, 12: 1, 16: 1, 20: 1, 24: 1}
WIFI_SIZE, WIFI_PREFIX = 64, 16


def wifi_preamble(clock: int = 1) -> Complexes:
    """Short and long training of the OFDM PHY at 20 MS/s, 320 `clock` samples, unit power (IEEE 802.11-2020, 17.3.3).

    `clock` divides the PHY's: 1 fills a channel of 20 MHz, 2 one of 10 MHz, 4 one of 5 MHz.
    """
    size = WIFI_SIZE * clock
    grid = np.zeros(size, complex)
    for carrier, sign in _SHORT.items():
        grid[carrier % size] = sign * (1 + 1j)
    short = np.fft.ifft(grid) * (size / np.sqrt(24))
    long = modulate(LONG_TRAINING[None], carriers(52, size), size, 0)
    return np.concatenate([np.tile(short, 3)[: 160 * clock], long[-32 * clock :], long, long])


def wifi_frame(
    rng: np.random.Generator, samples: int, name: str, header: Complexes | None = None, clock: int = 1
) -> Complexes:
    """Preamble, a BPSK header symbol (drawn, or the 52 values given) and random payload symbols; `samples` long."""
    head = random_values(rng, (1, 52), "BPSK") if header is None else header[None]
    symbols = max(-(-(samples - 400 * clock) // (80 * clock)), 0)
    payload = random_values(rng, (symbols, 52), name)
    size, prefix = WIFI_SIZE * clock, WIFI_PREFIX * clock
    body = modulate(np.concatenate([head, payload]), carriers(52, size), size, prefix)
    return np.concatenate([wifi_preamble(clock), body])[:samples]
