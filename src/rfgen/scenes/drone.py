"""E-ID-DRONE: emitters, half of them drones, over channels that do not depend on which they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from pydantic import model_validator

from common.streams import Seed, stream
from rfgen.physics.fields import Model, Names, NonNegative, Share
from rfgen.physics.propagation import Links, apply_channel, path_gains
from rfgen.physics.types import Bools, Complexes, Floats, Samples
from rfgen.scenes.base import (
    POOL,
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
    least `occupied_share` of the window. Every scored scene has a nominal drone family, in its column `waveform`: its
    own where a drone is present, else one in turn, of which its samples hold nothing, so that leaving out a family
    leaves both labels on either side.
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

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"waveform": self.present}

    def make_on(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Chunk:
        """One scene per link; half of them present, families in turn, in random order."""
        scenes = self._scenes(setting, name, split, key, seed, links)
        n, families = len(scenes.families), scenes.families
        columns: dict[str, Column] = {"environment": [str(key[0])] * n, "link_id": links.link_id}
        if split != POOL:
            columns["waveform"] = scenes.waveforms
        labels: dict[str, Column] = {
            "class": ["present" if family in self.present else "absent" for family in families],
            "detail": families,
        }
        return self.assemble(setting, name, split, key, scenes.iq, scenes.snr_db, labels, **columns)

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """What filters matched to the true waveform hear: share of power and its level in dB, float64 `[n, 2]`.

        The share is the squared normalised correlation of a scene with the noiseless signal of its nominal family
        over its own paths; where no drone is, with what one would have sent in its place, by a stream of its own.
        """
        if links is None:
            raise ValueError(f"links: expected those of chunk {key!r} of {name} in {split}, got none")
        scenes = self._scenes(setting, name, split, key, seed, links)
        other = stream(seed, name, split, "truth", *key)
        absent = [row for row, family in enumerate(scenes.families) if family not in self.present]
        sent = np.stack([self.emit(scenes.waveforms[row], other)[0] for row in absent])
        sent = self._off_centre(setting, sent, key[1], other)
        expected = scenes.noiseless.copy()
        expected[absent] = self._through(sent, scenes.gains[absent], scenes.delays_s[absent])[:, 0]
        expected = self.receive(setting, split, key, expected[:, None])[:, 0]
        heard = scenes.iq[:, 0].astype(complex)
        energy = np.sum(np.abs(heard) ** 2, axis=1) * np.sum(np.abs(expected) ** 2, axis=1)
        share = np.abs(np.sum(heard * expected.conj(), axis=1)) ** 2 / np.where(energy > 0, energy, 1.0)
        return np.column_stack([share, 10 * np.log10(share + 1e-6)])

    def _scenes(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> "_Scenes":
        """The scenes of a chunk with what they are made of."""
        environment, band, number = key
        rng = stream(seed, name, split, environment, band, number)
        n = len(links.link_id)
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        half = n // 2
        turn = number * half
        drones = [self.present[(turn + i) % len(self.present)] for i in range(max(half, n - half))]
        families = drones[:half] + [self.absent[(turn + i) % len(self.absent)] for i in range(n - half)]
        order = rng.permutation(n)
        families = [families[i] for i in order]
        waveforms = [(drones[:half] + drones[: n - half])[i] for i in order]
        emissions = [self.emit(family, rng) for family in families]
        signal, on = np.stack([e[0] for e in emissions]), np.stack([e[1] for e in emissions])
        signal = self._off_centre(setting, signal, band, rng)
        gains, delays = path_gains(links, np.zeros((1, 2)), rng)
        received = self._through(signal, gains, delays)
        noisy = add_awgn(received, snr_db, rng, on[:, LEAD : LEAD + self.samples])
        iq = normalise_power(self.receive(setting, split, key, noisy), setting.gain_db, rng)
        return _Scenes(families, waveforms, received[:, 0], gains, delays, snr_db, iq)

    def _off_centre(self, setting: Setting, signal: Complexes, band: str, rng: np.random.Generator) -> Complexes:
        """Signals `[n, samples]` off the receiver's centre by channel and clock, with a random phase."""
        n = len(signal)
        offset_hz = rng.uniform(-self.offset_hz, self.offset_hz, n)
        cfo_hz = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band]
        shifted = frequency_shift(signal[:, None], (offset_hz + cfo_hz) / self.sample_rate_hz)[:, 0]
        turned: Complexes = shifted * np.exp(2j * np.pi * rng.random(n))[:, None]
        return turned

    def _through(self, signal: Complexes, gains: Complexes, delays_s: Floats) -> Complexes:
        """The window of signals `[n, LEAD + samples + TAIL]` over their paths, `[n, 1, samples]`."""
        return apply_channel(signal, gains, delays_s, self.sample_rate_hz, slice(LEAD, LEAD + self.samples))


@dataclass(frozen=True)
class _Scenes:
    """A chunk's scenes: family and nominal drone family, noiseless signal `[n, samples]`, paths, SNR and samples."""

    families: list[str]
    waveforms: list[str]
    noiseless: Complexes
    gains: Complexes
    delays_s: Floats
    snr_db: Floats
    iq: Samples
