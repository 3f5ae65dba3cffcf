"""Emitter families of E-ID-DRONE, functions of (rng, samples, numbers of the family) at 20 MS/s.

Each returns `(signal, on)`: complex128 `[samples]`, unit power where the boolean `on` is set, zero elsewhere, centred
at 0 Hz apart from hops; frame and symbol phases are random, as a receiver that is not synchronised sees them.
"""

from collections.abc import Callable

import numpy as np
from pydantic import ConfigDict
from typing_extensions import TypedDict

from rfgen.physics.fields import Counts, Model, Offsets, Positive, Range, Share
from rfgen.physics.types import Complexes, Ints
from rfgen.waveforms import angular, drones, ofdm
from rfgen.waveforms.bursts import (
    RATE,
    SIZE,
    SLOT_PREFIX,
    Emission,
    Hops,
    fine_length,
    from_fine,
    gfsk,
    hops,
    random_window,
)

__all__ = ["FAMILIES", "RATE", "Emission", "Families"]


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
        "drone-id-ofdm": drones.DroneId,
        "drone-video-ofdm": drones.Video,
        "drone-video-cofdm": drones.Cofdm,
        "drone-video-wifi": drones.NarrowWifi,
        "drone-video-fm": drones.AnalogueVideo,
        "drone-control-hops": drones.Control,
        "drone-control-chirps": drones.Chirps,
        "drone-control-gfsk": drones.Keying,
        "drone-control-spread": drones.Spread,
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


def lte_downlink(rng: np.random.Generator, samples: int, p: Lte) -> Emission:
    """LTE-like downlink: 15 kHz spacing, pilots on every sixth carrier of symbols 0 and 4."""
    active = ofdm.carriers(int(rng.choice(p.carriers)), SIZE)
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
    stream = ofdm.modulate(values, active, SIZE, SLOT_PREFIX * 2)
    stream = np.tile(stream, 1 + fine_length(samples) // len(stream))
    stream /= np.sqrt(np.mean(np.abs(stream) ** 2))
    return from_fine(stream, np.ones(len(stream), bool), rng, samples)


def wifi(rng: np.random.Generator, samples: int, p: Wifi) -> Emission:
    """Wi-Fi-like OFDM frames with gaps between them."""
    parts: list[Complexes] = []
    while sum(map(len, parts)) < 2 * samples:
        length = int(rng.uniform(*p.frame_us) * 1e-6 * RATE)
        parts += [ofdm.wifi_frame(rng, length, str(rng.choice(["BPSK", "QPSK", "16QAM", "64QAM"])))]
        parts += [np.zeros(int(rng.uniform(*p.gap_us) * 1e-6 * RATE), complex)]
    stream = random_window(np.concatenate(parts), rng, samples)
    return stream, stream != 0


def bluetooth(rng: np.random.Generator, samples: int, p: Bluetooth) -> Emission:
    """Bluetooth-like GFSK hops."""
    index = rng.uniform(*p.index)
    return hops(rng, samples, lambda length: gfsk(rng, length, p.baud, index, p.bt), p.hops)


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
    "drone-id-ofdm": drones.drone_id,
    "drone-video-ofdm": drones.drone_video,
    "drone-video-cofdm": drones.drone_cofdm,
    "drone-video-wifi": drones.drone_wifi,
    "drone-video-fm": drones.fm_video,
    "drone-control-hops": drones.control_hops,
    "drone-control-chirps": drones.control_chirps,
    "drone-control-gfsk": drones.control_gfsk,
    "drone-control-spread": drones.control_spread,
    "wifi-ofdm": wifi,
    "bluetooth-gfsk": bluetooth,
    "zigbee-oqpsk": oqpsk,
    "lte-ofdm": lte_downlink,
    "noise": noise,
}
