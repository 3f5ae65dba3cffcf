"""Emitter families of E-ID-DRONE: `family(name)` gives a function of (rng, samples) at 20 MS/s, SNR set by the caller.

Each function returns `(signal, on)`: complex128 `[samples]`, unit power where the boolean `on` is set, zero elsewhere,
centred at 0 Hz apart from hops; frame and symbol phases are random, as a receiver that is not synchronised sees them.
"""

from collections.abc import Callable

import numpy as np

from rfgen.waveforms import angular, ofdm

RATE = 20e6
# OFDM of 15 kHz spacing is made at 30.72 MS/s, 2048 points a symbol, and resampled.
_FINE, _SIZE = 30.72e6, 2048

Emitter = Callable[[np.random.Generator, int], tuple[np.ndarray, np.ndarray]]


def _resampled(signal: np.ndarray, samples: int) -> np.ndarray:
    """Band-limited change of the number of samples over the same time, circular."""
    spectrum = np.fft.fftshift(np.fft.fft(signal))
    cut = (len(signal) - samples) // 2
    return np.fft.ifft(np.fft.ifftshift(spectrum[cut : cut + samples])) * (samples / len(signal))


def _fine_length(samples: int) -> int:
    return 2 * round(samples * _FINE / RATE / 2)


def _window(stream: np.ndarray, rng: np.random.Generator, length: int) -> np.ndarray:
    start = int(rng.integers(len(stream) - length + 1))
    return stream[start : start + length]


def _from_fine(stream: np.ndarray, on: np.ndarray, rng: np.random.Generator, samples: int) -> tuple:
    length = _fine_length(samples)
    start = int(rng.integers(len(stream) - length + 1))
    signal = _resampled(stream[start : start + length], samples)
    index = np.minimum((np.arange(samples) * (length / samples)).astype(np.int64), length - 1)
    on = on[start : start + length][index]
    return signal * on, on


def drone_video(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """OFDM video downlink: 15 kHz spacing, 600 or 1200 carriers, bursts of nine symbols of which two are Zadoff-Chu."""
    active = ofdm.carriers(int(rng.choice([600, 1200], p=[0.7, 0.3])), _SIZE)
    symbols = 9
    stream, on = [], []
    for _ in range(2 + _fine_length(samples) // 20000):
        values = ofdm.random_values(rng, (symbols, len(active)), "QPSK")
        for place, root in ((3, 600), (5, 147)):
            values[place] = _sync(root, len(active))
        burst = ofdm.modulate(values, active, _SIZE, [160, 144, 144, 144, 144, 144, 144, 144, 160])
        gap = int(rng.uniform(10e-6, 60e-6) * _FINE)
        stream += [burst, np.zeros(gap, complex)]
        on += [np.ones(len(burst), bool), np.zeros(gap, bool)]
    return _from_fine(np.concatenate(stream), np.concatenate(on), rng, samples)


def _sync(root: int, length: int) -> np.ndarray:
    sequence = ofdm.zadoff_chu(root, 601)
    # The middle element falls on DC and is dropped; wider signals repeat the sequence.
    return np.resize(np.delete(sequence, 300), length)


def lte_downlink(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """LTE-like downlink: 15 kHz spacing, 300 to 1200 carriers, pilots on every sixth carrier of symbols 0 and 4."""
    active = ofdm.carriers(int(rng.choice([300, 600, 900, 1200])), _SIZE)
    values = ofdm.random_values(rng, (14, len(active)), str(rng.choice(["QPSK", "16QAM", "64QAM"])))
    # Load: resource blocks that carry no data in this slot pair are silent but for pilots.
    load = rng.uniform(0.4, 1.0)
    busy = np.repeat(rng.random((14 // 7, len(active) // 12)) < load, 12, axis=1)
    values *= np.repeat(busy, 7, axis=0)
    cell = int(rng.integers(6))
    for symbol in (0, 4, 7, 11):
        pilots = np.arange((cell + (3 if symbol % 7 else 0)) % 6, len(active), 6)
        values[symbol, pilots] = ofdm.random_values(rng, pilots.shape, "QPSK")
    if rng.random() < 0.2:  # the subframes with synchronisation, two of ten
        centre = len(active) // 2
        values[6, centre - 31 : centre + 31] = np.delete(ofdm.zadoff_chu(int(rng.choice([25, 29, 34])), 63), 31)
    stream = ofdm.modulate(values, active, _SIZE, [160, 144, 144, 144, 144, 144, 144] * 2)
    stream = np.tile(stream, 1 + _fine_length(samples) // len(stream))
    stream /= np.sqrt(np.mean(np.abs(stream) ** 2))
    return _from_fine(stream, np.ones(len(stream), bool), rng, samples)


def wifi(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Wi-Fi-like OFDM frames of 30 to 300 us with interframe gaps of 16 to 80 us."""
    parts = []
    while sum(map(len, parts)) < 2 * samples:
        length = int(rng.uniform(30e-6, 300e-6) * RATE)
        parts += [ofdm.wifi_frame(rng, length, str(rng.choice(["BPSK", "QPSK", "16QAM", "64QAM"])))]
        parts += [np.zeros(int(rng.uniform(16e-6, 80e-6) * RATE), complex)]
    stream = _window(np.concatenate(parts), rng, samples)
    return stream, stream != 0


def _hops(
    rng: np.random.Generator, samples: int, burst: Callable, *, dwell: tuple, gap: tuple, width: float = 8e6
) -> tuple:
    """Bursts on random channels: `burst(length)` is on for `dwell` us, off for `gap` us, within +-`width` Hz."""
    total = samples + int(dwell[1] * 1e-6 * RATE)
    stream, on = np.zeros(total, complex), np.zeros(total, bool)
    position = 0
    while position < total:
        length = min(int(rng.uniform(*dwell) * 1e-6 * RATE), total - position)
        channel = np.exp(2j * np.pi * (rng.uniform(-width, width) / RATE * np.arange(length) + rng.random()))
        stream[position : position + length] = burst(length) * channel
        on[position : position + length] = True
        position += length + int(rng.uniform(*gap) * 1e-6 * RATE)
    start = int(rng.integers(total - samples + 1))
    return stream[start : start + samples], on[start : start + samples]


def _gfsk(rng: np.random.Generator, length: int, rate: float, index: float, bt: float) -> np.ndarray:
    sps = np.array([RATE / rate])
    bits = 2 * rng.integers(2, size=(1, int(length / sps[0]) + 8)) - 1
    frequency = angular.fsk_frequency(bits, length, sps, rng.random(1), np.array([bt]))
    return angular.frequency_modulated(frequency * index / 2 / sps[0])[0]


def control_hops(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Frequency-hopping control link: chirp spread spectrum of 812.5 kHz or slow wide-deviation GFSK."""
    if rng.random() < 0.5:
        spreading = int(rng.choice([5, 6, 7]))
        bandwidth = 812.5e3 / RATE

        def burst(length: int) -> np.ndarray:
            symbols = rng.integers(2**spreading, size=int(length * bandwidth / 2**spreading) + 3)
            return angular.chirps(symbols, length, bandwidth, spreading, rng.random())
    else:
        rate, index = float(rng.choice([125e3, 250e3])), rng.uniform(1.0, 2.0)

        def burst(length: int) -> np.ndarray:
            return _gfsk(rng, length, rate, index, 1.0)

    return _hops(rng, samples, burst, dwell=(100.0, 300.0), gap=(5.0, 30.0))


def bluetooth(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Bluetooth-like GFSK hops: 1 MBd, index 0.28 to 0.35, BT 0.5, on 1 MHz channels."""
    index = rng.uniform(0.28, 0.35)

    def burst(length: int) -> np.ndarray:
        return _gfsk(rng, length, 1e6, index, 0.5)

    return _hops(rng, samples, burst, dwell=(70.0, 366.0), gap=(20.0, 150.0))


def fm_video(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Analogue FM video: 625-line luminance with line syncs every 64 us, 2 to 4 MHz of peak-to-peak deviation."""
    time = np.arange(samples) / RATE + rng.uniform(0, 64e-6)
    in_line, line = time % 64e-6, (time // 64e-6).astype(np.int64)
    picture = angular.smooth_noise(rng, 1, samples, np.array([rng.uniform(0.5e6, 3e6) / RATE]))[0]
    brightness = rng.uniform(0.35, 0.8) + 0.15 * rng.standard_normal(line[-1] + 1)[line]
    luminance = np.clip(brightness + 0.18 * picture, 0.3, 1.0)
    video = np.where(in_line < 4.7e-6, 0.0, np.where(in_line < 12e-6, 0.3, luminance))
    # The video amplifier rounds the steps: 4 MHz wide.
    frequency = np.fft.rfftfreq(samples, 1 / RATE)
    video = np.fft.irfft(np.fft.rfft(video) * np.exp(-((frequency / 4e6) ** 2)), samples)
    deviation = rng.uniform(4e6, 7e6) * (video - 0.45)
    return angular.frequency_modulated(deviation[None] / RATE)[0], np.ones(samples, bool)


# Chips of data symbol 0 of IEEE 802.15.4-2020, table 12-1 (2450 MHz O-QPSK); the others are rotations and conjugates.
_CHIPS = np.array([int(c) for c in "11011001110000110101001000101110"]) * 2 - 1


def _chip_table() -> np.ndarray:
    first = np.stack([np.roll(_CHIPS, 4 * k) for k in range(8)])
    return np.concatenate([first, first * np.where(np.arange(32) % 2, -1, 1)])


def oqpsk(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """802.15.4-like O-QPSK: 2 Mchip/s, sixteen 32-chip symbols, on a channel of a 5 MHz raster."""
    chips = _chip_table()[rng.integers(16, size=samples // 320 + 4)].ravel()
    signal = angular.oqpsk_half_sine(chips, samples, RATE / 2e6, rng.uniform(0, 32))
    channel = rng.choice([-5e6, 0.0, 5e6]) / RATE
    return signal * np.exp(2j * np.pi * channel * np.arange(samples)), np.ones(samples, bool)


def noise(rng: np.random.Generator, samples: int) -> tuple[np.ndarray, np.ndarray]:
    """No emitter."""
    return np.zeros(samples, complex), np.zeros(samples, bool)


FAMILIES: dict[str, Emitter] = {
    "drone-video-ofdm": drone_video,
    "drone-control-hops": control_hops,
    "drone-video-fm": fm_video,
    "wifi-ofdm": wifi,
    "bluetooth-gfsk": bluetooth,
    "zigbee-oqpsk": oqpsk,
    "lte-ofdm": lte_downlink,
    "noise": noise,
}
