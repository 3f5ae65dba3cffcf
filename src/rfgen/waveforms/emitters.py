"""Emitter families of E-ID-DRONE, functions of (rng, samples, numbers of the family) at 20 MS/s.

Each returns `(signal, on)`: complex128 `[samples]`, unit power where the boolean `on` is set, zero elsewhere, centred
at 0 Hz apart from hops; frame and symbol phases are random, as a receiver that is not synchronised sees them.
"""

from collections.abc import Callable

import numpy as np
from pydantic import ConfigDict
from typing_extensions import TypedDict

from rfgen.physics.fields import Counts, Model, Offsets, Positive, Range, Rates, Share
from rfgen.physics.types import Bools, Complexes, Ints
from rfgen.waveforms import angular, ofdm

RATE = 20e6
# OFDM of 15 kHz spacing is made at 30.72 MS/s, 2048 points per symbol, and resampled.
_FINE, _SIZE = 30.72e6, 2048

Emission = tuple[Complexes, Bools]


class Video(Model):
    """OFDM video downlink: carriers to choose from and the pause between bursts."""

    carriers: Counts
    gap_us: Range


class Hops(Model):
    """Bursts on random channels within +-`width_hz`: time on and time between."""

    dwell_us: Range
    gap_us: Range
    width_hz: Positive


class Control(Model):
    """Hopping control link: a share sends chirps, the others slow GFSK."""

    chirp_share: Share
    chirp_bandwidth_hz: Positive
    spreading: Counts
    fsk_baud: Rates
    fsk_index: Range
    fsk_bt: Positive
    hops: Hops


class AnalogueVideo(Model):
    """FM video: bandwidth of the picture, deviation from blank to white, mean brightness."""

    picture_hz: Range
    deviation_hz: Range
    brightness: Range


class Wifi(Model):
    """Wi-Fi-like frames and the gaps between them."""

    frame_us: Range
    gap_us: Range


class Bluetooth(Model):
    """Bluetooth-like GFSK."""

    baud: Positive
    index: Range
    bt: Positive
    hops: Hops


class Zigbee(Model):
    """802.15.4-like O-QPSK: channels to choose from."""

    channels_hz: Offsets


class Lte(Model):
    """LTE-like downlink: carriers to choose from, shares of busy resource blocks and of synchronised slots."""

    carriers: Counts
    load: Range
    sync_share: Share


class Noise(Model):
    """Noise alone has no numbers."""


Families = TypedDict(
    "Families",
    {
        "drone-video-ofdm": Video,
        "drone-control-hops": Control,
        "drone-video-fm": AnalogueVideo,
        "wifi-ofdm": Wifi,
        "bluetooth-gfsk": Bluetooth,
        "zigbee-oqpsk": Zigbee,
        "lte-ofdm": Lte,
        "noise": Noise,
    },
    total=False,
)
# Pydantic reads it from the type; the stubs of TypedDict do not know the attribute.
Families.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]


def _resample(signal: Complexes, samples: int) -> Complexes:
    """Band-limited change of the number of samples over the same time, circular."""
    spectrum = np.fft.fftshift(np.fft.fft(signal))
    cut = (len(signal) - samples) // 2
    return np.fft.ifft(np.fft.ifftshift(spectrum[cut : cut + samples])) * (samples / len(signal))


def _fine_length(samples: int) -> int:
    return 2 * round(samples * _FINE / RATE / 2)


def _window(stream: Complexes, rng: np.random.Generator, length: int) -> Complexes:
    start = int(rng.integers(len(stream) - length + 1))
    return stream[start : start + length]


def _from_fine(stream: Complexes, on: Bools, rng: np.random.Generator, samples: int) -> Emission:
    length = _fine_length(samples)
    start = int(rng.integers(len(stream) - length + 1))
    signal = _resample(stream[start : start + length], samples)
    index = np.minimum((np.arange(samples) * (length / samples)).astype(np.int64), length - 1)
    on = on[start : start + length][index]
    return signal * on, on


def drone_video(rng: np.random.Generator, samples: int, p: Video) -> Emission:
    """OFDM video downlink: 15 kHz spacing, bursts of nine symbols of which two are Zadoff-Chu."""
    active = ofdm.carriers(int(rng.choice(p.carriers)), _SIZE)
    symbols = 9
    stream: list[Complexes] = []
    on: list[Bools] = []
    for _ in range(2 + _fine_length(samples) // 20000):
        values = ofdm.random_values(rng, (symbols, len(active)), "QPSK")
        for place, root in ((3, 600), (5, 147)):
            values[place] = _sync(root, len(active))
        burst = ofdm.modulate(values, active, _SIZE, [160, 144, 144, 144, 144, 144, 144, 144, 160])
        gap = int(rng.uniform(*p.gap_us) * 1e-6 * _FINE)
        stream += [burst, np.zeros(gap, complex)]
        on += [np.ones(len(burst), bool), np.zeros(gap, bool)]
    return _from_fine(np.concatenate(stream), np.concatenate(on), rng, samples)


def _sync(root: int, length: int) -> Complexes:
    sequence = ofdm.zadoff_chu(root, 601)
    # The middle element falls on DC and is dropped; wider signals repeat the sequence.
    return np.resize(np.delete(sequence, 300), length)


def lte_downlink(rng: np.random.Generator, samples: int, p: Lte) -> Emission:
    """LTE-like downlink: 15 kHz spacing, pilots on every sixth carrier of symbols 0 and 4."""
    active = ofdm.carriers(int(rng.choice(p.carriers)), _SIZE)
    values = ofdm.random_values(rng, (14, len(active)), str(rng.choice(["QPSK", "16QAM", "64QAM"])))
    # Load: resource blocks that carry no data in this slot pair are silent but for pilots.
    load = rng.uniform(*p.load)
    busy = np.repeat(rng.random((14 // 7, len(active) // 12)) < load, 12, axis=1)
    values *= np.repeat(busy, 7, axis=0)
    cell = int(rng.integers(6))
    for symbol in (0, 4, 7, 11):
        pilots = np.arange((cell + (3 if symbol % 7 else 0)) % 6, len(active), 6)
        values[symbol, pilots] = ofdm.random_values(rng, pilots.shape, "QPSK")
    if rng.random() < p.sync_share:
        centre = len(active) // 2
        values[6, centre - 31 : centre + 31] = np.delete(ofdm.zadoff_chu(int(rng.choice([25, 29, 34])), 63), 31)
    stream = ofdm.modulate(values, active, _SIZE, [160, 144, 144, 144, 144, 144, 144] * 2)
    stream = np.tile(stream, 1 + _fine_length(samples) // len(stream))
    stream /= np.sqrt(np.mean(np.abs(stream) ** 2))
    return _from_fine(stream, np.ones(len(stream), bool), rng, samples)


def wifi(rng: np.random.Generator, samples: int, p: Wifi) -> Emission:
    """Wi-Fi-like OFDM frames with gaps between them."""
    parts: list[Complexes] = []
    while sum(map(len, parts)) < 2 * samples:
        length = int(rng.uniform(*p.frame_us) * 1e-6 * RATE)
        parts += [ofdm.wifi_frame(rng, length, str(rng.choice(["BPSK", "QPSK", "16QAM", "64QAM"])))]
        parts += [np.zeros(int(rng.uniform(*p.gap_us) * 1e-6 * RATE), complex)]
    stream = _window(np.concatenate(parts), rng, samples)
    return stream, stream != 0


def _hops(rng: np.random.Generator, samples: int, burst: Callable[[int], Complexes], p: Hops) -> Emission:
    total = samples + int(p.dwell_us[1] * 1e-6 * RATE)
    stream, on = np.zeros(total, complex), np.zeros(total, bool)
    position = 0
    while position < total:
        length = min(int(rng.uniform(*p.dwell_us) * 1e-6 * RATE), total - position)
        frequency = rng.uniform(-p.width_hz, p.width_hz) / RATE
        channel = np.exp(2j * np.pi * (frequency * np.arange(length) + rng.random()))
        stream[position : position + length] = burst(length) * channel
        on[position : position + length] = True
        position += length + int(rng.uniform(*p.gap_us) * 1e-6 * RATE)
    start = int(rng.integers(total - samples + 1))
    return stream[start : start + samples], on[start : start + samples]


def _gfsk(rng: np.random.Generator, length: int, baud: float, index: float, bt: float) -> Complexes:
    sps = np.array([RATE / baud])
    bits = 2 * rng.integers(2, size=(1, int(length / sps[0]) + 8)) - 1
    frequency = angular.fsk_frequency(bits, length, sps, rng.random(1), np.array([bt]))
    signal: Complexes = angular.frequency_modulate(frequency * index / 2 / sps[0])[0]
    return signal


def control_hops(rng: np.random.Generator, samples: int, p: Control) -> Emission:
    """Frequency-hopping control link: chirp spread spectrum or slow wide-deviation GFSK."""
    if rng.random() < p.chirp_share:
        spreading, bandwidth = int(rng.choice(p.spreading)), p.chirp_bandwidth_hz / RATE

        def burst(length: int) -> Complexes:
            symbols = rng.integers(2**spreading, size=int(length * bandwidth / 2**spreading) + 3)
            return angular.chirps(symbols, length, bandwidth, spreading, rng.random())
    else:
        baud, index = float(rng.choice(p.fsk_baud)), rng.uniform(*p.fsk_index)

        def burst(length: int) -> Complexes:
            return _gfsk(rng, length, baud, index, p.fsk_bt)

    return _hops(rng, samples, burst, p.hops)


def bluetooth(rng: np.random.Generator, samples: int, p: Bluetooth) -> Emission:
    """Bluetooth-like GFSK hops."""
    index = rng.uniform(*p.index)
    return _hops(rng, samples, lambda length: _gfsk(rng, length, p.baud, index, p.bt), p.hops)


def fm_video(rng: np.random.Generator, samples: int, p: AnalogueVideo) -> Emission:
    """Analogue FM video: 625-line luminance with line syncs every 64 us."""
    time = np.arange(samples) / RATE + rng.uniform(0, 64e-6)
    in_line, line = time % 64e-6, (time // 64e-6).astype(np.int64)
    picture = angular.band_limited_noise(rng, 1, samples, np.array([rng.uniform(*p.picture_hz) / RATE]))[0]
    brightness = rng.uniform(*p.brightness) + 0.15 * rng.standard_normal(line[-1] + 1)[line]
    luminance = np.clip(brightness + 0.18 * picture, 0.3, 1.0)
    video = np.where(in_line < 4.7e-6, 0.0, np.where(in_line < 12e-6, 0.3, luminance))
    # The video amplifier rounds the steps: 4 MHz wide.
    frequency = np.fft.rfftfreq(samples, 1 / RATE)
    video = np.fft.irfft(np.fft.rfft(video) * np.exp(-((frequency / 4e6) ** 2)), samples)
    deviation = rng.uniform(*p.deviation_hz) * (video - 0.45)
    return angular.frequency_modulate(deviation[None] / RATE)[0], np.ones(samples, bool)


# Chips of data symbol 0 of IEEE 802.15.4-2020, table 12-1 (2450 MHz O-QPSK); the others are rotations and conjugates.
_CHIPS = np.array([int(c) for c in "11011001110000110101001000101110"]) * 2 - 1


def _chip_table() -> Ints:
    first = np.stack([np.roll(_CHIPS, 4 * k) for k in range(8)])
    return np.concatenate([first, first * np.where(np.arange(32) % 2, -1, 1)])


def oqpsk(rng: np.random.Generator, samples: int, p: Zigbee) -> Emission:
    """802.15.4-like O-QPSK: 2 Mchip/s, sixteen 32-chip symbols."""
    chips = _chip_table()[rng.integers(16, size=samples // 320 + 4)].ravel()
    signal = angular.oqpsk_half_sine(chips, samples, RATE / 2e6, rng.uniform(0, 32))
    channel = rng.choice(p.channels_hz) / RATE
    return signal * np.exp(2j * np.pi * channel * np.arange(samples)), np.ones(samples, bool)


def noise(rng: np.random.Generator, samples: int, p: Noise) -> Emission:
    """No emitter."""
    return np.zeros(samples, complex), np.zeros(samples, bool)


FAMILIES: dict[str, Callable[..., Emission]] = {
    "drone-video-ofdm": drone_video,
    "drone-control-hops": control_hops,
    "drone-video-fm": fm_video,
    "wifi-ofdm": wifi,
    "bluetooth-gfsk": bluetooth,
    "zigbee-oqpsk": oqpsk,
    "lte-ofdm": lte_downlink,
    "noise": noise,
}
