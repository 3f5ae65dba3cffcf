"""Normal traffic of E-SC-ANOM: families at 20 MS/s that leave the edges of the band free, and what they open with.

The waveforms are those of `rfgen.waveforms.primaries`, `emitters` and `drones`; frames and hops are as long as a
window can tell.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pydantic import ConfigDict
from typing_extensions import TypedDict

from rfgen.physics.fields import Model
from rfgen.physics.types import Complexes
from rfgen.waveforms import drones, emitters, ofdm, primaries
from rfgen.waveforms.bursts import RATE

__all__ = ["FAMILIES", "RATE", "Families", "Traffic"]

_OPENING = 640


@dataclass(frozen=True)
class Traffic:
    """A signal centred at 0 Hz, complex128 `[samples]`, how far it reaches to either side, and what it opens with.

    `opening` is a preamble where the family has one, and else the signal's first 32 microseconds.
    """

    signal: Complexes
    half_width_hz: float
    preamble: Complexes | None = None

    @property
    def opening(self) -> Complexes:
        """What a recorder would send again."""
        return self.signal[:_OPENING] if self.preamble is None else self.preamble


class Oqpsk(Model):
    """802.15.4-like O-QPSK has no numbers."""


Families = TypedDict(
    "Families",
    {
        "wifi-frames": drones.NarrowWifi,
        "nr-ofdm": primaries.NewRadio,
        "satellite-psk": primaries.Satellite,
        "zigbee-oqpsk": Oqpsk,
        "bluetooth-gfsk": emitters.Bluetooth,
        "gsm-gmsk": primaries.Gmsk,
    },
    total=False,
)
# Pydantic reads it from the type; the stubs of TypedDict do not know the attribute.
Families.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]


def wifi_frames(rng: np.random.Generator, samples: int, p: drones.NarrowWifi) -> Traffic:
    """802.11 frames with a divided clock and the gaps between them."""
    clock = int(rng.choice(p.clock))
    signal, _ = drones.drone_wifi(rng, samples, p.model_copy(update={"clock": (clock,)}))
    return Traffic(signal, 26.5 * RATE / (ofdm.WIFI_SIZE * clock), ofdm.wifi_preamble(clock))


def oqpsk(rng: np.random.Generator, samples: int, p: Oqpsk) -> Traffic:
    """802.15.4-like O-QPSK of 2 Mchip/s; its main lobe reaches 1.5 MHz to either side."""
    signal, _ = emitters.oqpsk(rng, samples, emitters.Zigbee(channels_hz=(0.0,)))
    return Traffic(signal, 1.5e6)


def bluetooth(rng: np.random.Generator, samples: int, p: emitters.Bluetooth) -> Traffic:
    """Bluetooth-like GFSK on hop channels."""
    signal, _ = emitters.bluetooth(rng, samples, p)
    return Traffic(signal, p.hops.width_hz + p.baud / 2)


def _steady(family: str) -> Callable[..., Traffic]:
    """A family of the primary users, on from end to end."""

    def made(rng: np.random.Generator, samples: int, p: Model) -> Traffic:
        return Traffic(*primaries.FAMILIES[family](rng, samples, p))

    return made


FAMILIES: dict[str, Callable[..., Traffic]] = {
    "wifi-frames": wifi_frames,
    "nr-ofdm": _steady("nr-ofdm"),
    "satellite-psk": _steady("satellite-psk"),
    "zigbee-oqpsk": oqpsk,
    "bluetooth-gfsk": bluetooth,
    "gsm-gmsk": _steady("gsm-gmsk"),
}
