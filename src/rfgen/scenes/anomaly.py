"""E-SC-ANOM: normal traffic behind receivers that are not alike, and what is no normal traffic."""

from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from pydantic import model_validator

from common.streams import Seed, stream
from rfgen.physics.delays import delay_line
from rfgen.physics.fields import Model, Range, Share
from rfgen.physics.propagation import Links
from rfgen.physics.types import Bools, Complexes, Floats, Samples
from rfgen.scenes.base import (
    POOL,
    Chunk,
    ChunkKey,
    Column,
    LabelColumns,
    Setting,
    Split,
    add_awgn,
    frequency_shift,
    normalise_power,
)
from rfgen.scenes.receiving import LEAD, TAIL, ReceivedTask
from rfgen.waveforms.intrusions import FOREIGN, KINDS, NEEDS, Kinds, OnAir
from rfgen.waveforms.traffic import FAMILIES, RATE, Families

#: What `detail` says of a scene without an anomaly.
NORMAL = "normal"

# Chunks between the turns at which two receivers start.
_CHUNKS = 16


@dataclass(frozen=True)
class Observed:
    """A chunk's scenes: families and kinds, both nominal where nothing is wrong, which are `anomalous`, and SNR.

    `traffic` and `deviation` `[n, samples]` are what the antenna receives of both, of unit power together where a
    scene is anomalous, and the traffic alone where it is not; `noisy` is the scene at its SNR with noise of unit
    power, `[n, 1, samples]`, and `iq` that behind the receiver.
    """

    families: list[str]
    kinds: list[str]
    anomalous: Bools
    snr_db: Floats
    traffic: Complexes
    deviation: Complexes
    noisy: Complexes
    iq: Samples


class Anomaly(ReceivedTask):
    """Traffic of one of the `families`, and in `anomalous_share` of the scored scenes an anomaly of one of the `kinds`.

    A normal scene is drawn as an anomalous one is, whose deviation is then left out: family, kind, level and paths are
    drawn by the same law. What is on air reaches the stated SNR in the whole window, anomaly included, so that no level
    tells. `level_db` is the power of what another transmitter adds, over the traffic's. TRAIN and the pool are normal.
    """

    names = ("E-SC-ANOM",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}

    families: Families
    kinds: Kinds
    level_db: Range
    anomalous_share: Share

    @model_validator(mode="after")
    def _check(self) -> "Anomaly":
        if len(self.families) < 2:
            raise ValueError("families: expected at least two different held-out values")
        if not self.kinds:
            raise ValueError("kinds: expected at least one")
        for kind in self.kinds:
            if not self._families_of(kind):
                raise ValueError(f"kinds.{kind}: expected one of the families {', '.join(NEEDS[kind])} for it")
        if not 0 < self._anomalous < self.chunk:
            raise ValueError(f"anomalous_share: expected both labels in a chunk of {self.chunk}")
        if self.sample_rate_hz != RATE:
            raise ValueError(f"sample_rate_hz: expected {RATE}, the rate that the families are made at")
        return self

    @property
    def _anomalous(self) -> int:
        """Anomalous scenes of a scored chunk."""
        return round(self.chunk * self.anomalous_share)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Normal and anomalous."""
        return (NORMAL, "anomalous")

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"waveform": tuple(self.families)}

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """Kinds in turn, and for each the families that can show it, on either side, in random order."""
        del links
        made = self.made(setting, name, split, key, seed)
        labels: dict[str, Column] = {
            "class": [self.class_names[int(wrong)] for wrong in made.anomalous],
            "detail": [kind if wrong else NORMAL for kind, wrong in zip(made.kinds, made.anomalous, strict=True)],
        }
        columns: dict[str, Column] = {}
        if split != POOL:
            columns = {"receiver": [str(key[0])] * self.chunk, "waveform": made.families}
        return self.assemble(setting, name, split, key, made.iq, made.snr_db, labels, **columns)

    def made(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed) -> Observed:
        """The scenes of a chunk with what they are made of."""
        rng = stream(seed, name, split, *key)
        n = self.chunk
        wrong = self._anomalous if split in {"DEV", "HOLDOUT"} else 0
        # Chunks go on with the turns of those before; each receiver starts at its own, however many chunks there are.
        before = list(self.groups(setting, split)).index(key[0]) * _CHUNKS + key[2]
        turns = [before * count + i for count in (wrong, n - wrong) for i in range(count)]
        order = rng.permutation(n)
        kinds, families = zip(*(self._turn(turns[i]) for i in order), strict=True)
        anomalous = order < wrong
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        traffic, deviation = self._heard(setting, kinds, families, key[1], rng)
        shown = anomalous[:, None] * deviation
        noisy = add_awgn((traffic + shown)[:, None], snr_db, rng)
        power = np.sqrt(np.mean(np.abs(traffic + shown) ** 2, axis=1, keepdims=True))
        received = self.through_receiver(setting, split, key, noisy, rng)
        return Observed(
            families=list(families),
            kinds=list(kinds),
            anomalous=anomalous,
            snr_db=snr_db,
            traffic=traffic / power,
            deviation=deviation / power,
            noisy=noisy,
            iq=normalise_power(received, setting.gain_db, rng),
        )

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """Output of the filter matched to the true deviation, in standard deviations of the noise, float64 `[n, 1]`.

        The traffic at the antenna is known and taken away, and the front end undone. Normal scenes give a standard
        normal number, of the deviation that was left out; anomalous ones the same about the root of twice the
        deviation's energy over the noise's density. The squared distance from the normal mean is chi-squared.
        """
        del links
        made = self.made(setting, name, split, key, seed)
        level = 10 ** (made.snr_db[:, None] / 20)
        left = made.noisy[:, 0] - level * made.traffic
        energy = np.sum(np.abs(made.deviation) ** 2, axis=1)
        matched: Floats = np.sum(left * made.deviation.conj(), axis=1).real / np.sqrt(np.maximum(energy, 1e-30) / 2)
        return matched[:, None]

    def _families_of(self, kind: str) -> list[str]:
        """Families that can show a kind."""
        return [family for family in self.families if family in NEEDS.get(kind, tuple(self.families))]

    def _turn(self, turn: int) -> tuple[str, str]:
        """Kind and family of a turn: kinds first, and for each its families, every kind another one to begin with."""
        kinds = list(self.kinds)
        again, place = divmod(turn, len(kinds))
        able = self._families_of(kinds[place])
        return kinds[place], able[(again + place) % len(able)]

    def _heard(
        self,
        setting: Setting,
        kinds: tuple[str, ...],
        families: tuple[str, ...],
        band: str,
        rng: np.random.Generator,
    ) -> tuple[Complexes, Complexes]:
        """Traffic and deviation `[n, samples]` at the antenna: each over its own paths, the traffic's own over its."""
        n, carrier = len(kinds), setting.bands_hz[band]
        length, window = LEAD + self.samples + TAIL, slice(LEAD, LEAD + self.samples)
        numbers = cast("dict[str, Model]", self.families)
        made = [FAMILIES[family](rng, length, numbers[family]) for family in families]
        room = np.maximum(self.band_hz / 2 - np.array([each.half_width_hz for each in made]), 0.0)
        offset_hz = room * rng.uniform(-1, 1, n) + rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * carrier
        signal = np.stack([each.signal for each in made]) * np.exp(2j * np.pi * rng.random(n))[:, None]
        signal = frequency_shift(signal[:, None], offset_hz / self.sample_rate_hz)[:, 0]
        on_air = [OnAir(*each, window) for each in zip(signal, offset_hz, [each.opening for each in made], strict=True)]
        laws = cast("dict[str, Model]", self.kinds)
        added = np.stack([KINDS[kind](rng, each, laws[kind]) for kind, each in zip(kinds, on_air, strict=True)])
        foreign = np.array([kind in FOREIGN for kind in kinds])
        gains, delays = self.channel.draw(2 * n, 1, self.sample_rate_hz, rng)
        # What goes wrong with the traffic itself comes over the traffic's own paths.
        own = np.concatenate([np.arange(n), np.where(foreign, np.arange(n, 2 * n), np.arange(n))])
        heard = delay_line(np.concatenate([signal, added]), gains[own, 0], delays[own], self.sample_rate_hz)[:, window]
        traffic, deviation = heard[:n], heard[n:]
        level = 10 ** (rng.uniform(*self.level_db, n) / 20) * _rms(traffic) / np.maximum(_rms(deviation), 1e-15)
        return traffic, deviation * np.where(foreign, level, 1.0)[:, None]


def _rms(signal: Complexes) -> Floats:
    """Root mean square `[n]` of signals `[n, samples]`."""
    rms: Floats = np.sqrt(np.mean(np.abs(signal) ** 2, axis=1))
    return rms
