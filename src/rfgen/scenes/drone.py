"""E-ID-DRONE: emitters, half of them drones, over channels that do not depend on which they are."""

from collections.abc import Mapping
from typing import ClassVar, cast

import numpy as np
from pydantic import model_validator

from common.streams import Seed, stream
from rfgen.physics.fields import Model, Names, NonNegative, Share
from rfgen.physics.propagation import Links, apply_channel, path_gains
from rfgen.physics.types import Bools, Complexes
from rfgen.scenes.base import (
    Chunk,
    ChunkKey,
    Column,
    LabelColumns,
    LinkTask,
    Setting,
    Split,
    add_awgn,
    frequency_shift,
    normalise_power,
)
from rfgen.waveforms.emitters import FAMILIES, RATE, Families

# Samples made on either side of the window, so that neither echoes nor resampling end inside it.
LEAD, TAIL = 640, 264


class Drone(LinkTask):
    """An emitter of one of the families (`present` are drones), ground or high, seen by one antenna.

    `families` holds the numbers of each family (`rfgen.waveforms.emitters`, made at 20 MS/s); an emitter is on for at
    least `occupied_share` of the window.
    """

    names = ("E-ID-DRONE",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}

    present: Names
    absent: Names
    families: Families
    high_share: Share
    offset_hz: NonNegative
    occupied_share: Share

    @model_validator(mode="after")
    def _check_families(self) -> "Drone":
        for key in ("present", "absent"):
            for family in getattr(self, key):
                if family not in self.families:
                    raise ValueError(f"{key}: {family!r} is not among the families")
        if set(self.present) & set(self.absent):
            raise ValueError("absent: a family is also in present, expected each on one side")
        if self.sample_rate_hz != RATE:
            raise ValueError(f"sample_rate_hz: expected {RATE}, the rate that the families are made at")
        return self

    @property
    def aerial_share(self) -> float:
        """Share of emitters of either label that are high."""
        return self.high_share

    @property
    def class_names(self) -> tuple[str, ...]:
        """Absent and present."""
        return ("absent", "present")

    def emit(self, family: str, rng: np.random.Generator) -> tuple[Complexes, Bools]:
        """Signal of a family, `LEAD + samples + TAIL` long and on for its share of the window, and where it is on."""
        numbers = cast("Mapping[str, Model]", self.families)[family]
        while True:
            signal, on = FAMILIES[family](rng, LEAD + self.samples + TAIL, numbers)
            if family == "noise" or on[LEAD : LEAD + self.samples].mean() >= self.occupied_share:
                return signal, on

    def make_on(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Chunk:
        """One scene per link; half of them present, families in turn, in random order."""
        environment, band, number = key
        rng = stream(seed, name, split, environment, band, number)
        n = len(links.link_id)
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        half = n // 2
        turn = number * half
        families = [self.present[(turn + i) % len(self.present)] for i in range(half)]
        families += [self.absent[(turn + i) % len(self.absent)] for i in range(n - half)]
        families = [families[i] for i in rng.permutation(n)]
        emissions = [self.emit(family, rng) for family in families]
        signal, on = np.stack([e[0] for e in emissions]), np.stack([e[1] for e in emissions])
        offset_hz = rng.uniform(-self.offset_hz, self.offset_hz, n)
        cfo_hz = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band]
        signal = frequency_shift(signal[:, None], (offset_hz + cfo_hz) / self.sample_rate_hz)[:, 0]
        signal = signal * np.exp(2j * np.pi * rng.random(n))[:, None]
        gains, delays = path_gains(links, np.zeros((1, 2)), rng)
        window = slice(LEAD, LEAD + self.samples)
        received = apply_channel(signal, gains, delays, self.sample_rate_hz)[..., window]
        iq = normalise_power(add_awgn(received, snr_db, rng, on[:, window]), setting.gain_db, rng)
        columns: dict[str, Column] = {"environment": [str(environment)] * n, "link_id": links.link_id}
        labels: dict[str, Column] = {
            "class": ["present" if family in self.present else "absent" for family in families],
            "detail": families,
        }
        return self.assemble(setting, name, split, key, iq, snr_db, labels, **columns)
