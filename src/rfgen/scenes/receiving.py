"""What the tasks of spectrum sensing share: receivers that are not alike, and the channel before them."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from pydantic import model_validator

from common.streams import complex_normal
from rfgen.physics import hardware
from rfgen.physics.delays import HALF
from rfgen.physics.fields import Count, Model, Names, NonNegative, Range
from rfgen.physics.hardware import Receiver, ReceiverPopulation
from rfgen.physics.spurs import SpurPopulation, Spurs, draw_spurs, spur_lines
from rfgen.physics.types import Complexes, Floats
from rfgen.scenes.base import POOL, ChunkKey, CountedTask, Setting, Split

#: Samples made before and after the window; echoes are at most so late that they begin inside.
LEAD, TAIL = 160, HALF
_LONGEST = LEAD - 2 * HALF


class ScatteredChannel(Model):
    """Taps of exponential power that fade by Rayleigh's law, by themselves at each antenna; delays of one spread."""

    taps: Count
    delay_spread_s: Range

    def draw(self, n: int, antennas: int, rate_hz: float, rng: np.random.Generator) -> tuple[Complexes, Floats]:
        """Gains `[n, antennas, taps]` of unit mean power, and delays `[n, taps]` in seconds."""
        spread = rng.uniform(*self.delay_spread_s, n)[:, None]
        delays = np.minimum(spread * rng.exponential(1.0, (n, self.taps)), _LONGEST / rate_hz)
        delays[:, 0] = 0.0
        power = np.exp(-delays / spread)
        power /= power.sum(axis=1, keepdims=True)
        gains: Complexes = np.sqrt(power)[:, None] * complex_normal(rng, (n, antennas, self.taps))
        return gains, delays


@dataclass(frozen=True)
class FrontEnd:
    """One receiver: a chain for each antenna, and the lines of its own."""

    chains: tuple[Receiver, ...]
    spurs: Spurs


class ReceivedTask(CountedTask):
    """A task whose held-out values are receivers; `scenes` count per receiver and band.

    Receivers come from the recipe's `hardware_seed` and are the same in every split; the pool's are met in turn.
    """

    receivers: Names
    snr_db: Range
    channel: ScatteredChannel
    receiver: ReceiverPopulation
    spurs: SpurPopulation
    band_hz: NonNegative

    @model_validator(mode="after")
    def _check_receivers(self) -> "ReceivedTask":
        if len(set(self.receivers)) < 2:
            raise ValueError("receivers: expected at least two different held-out values")
        return self

    @property
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scored splits."""
        return self.snr_db

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"receiver": self.receivers}

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The receivers; the pool's are met in turn."""
        return (setting.pretrain.name,) if split == POOL else self.receivers

    def front_end(self, setting: Setting, name: str) -> FrontEnd:
        """The receiver called `name`: its chains share a clock, and nothing else."""
        first, *others = [
            hardware.receiver(setting.hardware_seed, f"{name}/{element}", self.receiver)
            for element in range(self.antennas)
        ]
        chains = (first, *(replace(chain, cfo_ppm=first.cfo_ppm) for chain in others))
        return FrontEnd(chains, draw_spurs(setting.hardware_seed, name, self.spurs, self.antennas))

    def through_receiver(
        self, setting: Setting, split: Split, key: ChunkKey, noisy: Complexes, rng: np.random.Generator
    ) -> Complexes:
        """Antenna samples `[n, antennas, samples]` behind the receiver of a chunk, or those of the pool in turn.

        Noise at the antennas is of unit power, which the lines are measured against.
        """
        n, rate = len(noisy), self.sample_rate_hz
        group, band, number = key
        pool = setting.pretrain.receivers
        met = [pool[(number * n + i) % len(pool)] for i in range(n)] if split == POOL else [str(group)] * n
        received = np.empty_like(noisy)
        for name in dict.fromkeys(met):
            rows = [row for row, other in enumerate(met) if other == name]
            own = self.front_end(setting, name)
            mixed = noisy[rows] + spur_lines(own.spurs, self.spurs, len(rows), self.samples, rate, rng)
            for element, chain in enumerate(own.chains):
                received[rows, element] = hardware.receive(mixed[:, element], chain, setting.bands_hz[band], rate)
        return received
