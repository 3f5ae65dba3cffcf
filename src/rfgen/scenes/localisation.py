"""E-LOC-AOA and E-LOC-LOS: an OFDM terminal, received over its multipath channel by an array at the base station."""

from abc import abstractmethod
from typing import ClassVar, Literal

import numpy as np

from common.streams import Seed, stream
from rfgen.physics.arrays import Array
from rfgen.physics.fields import Count
from rfgen.physics.propagation import Links, apply_channel, path_gains
from rfgen.physics.types import Bools, Complexes, Floats
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
from rfgen.waveforms import ofdm


class Localisation(LinkTask):
    """What both tasks share: the array, the OFDM uplink and the scenes; they differ in their labels."""

    array: Array
    subcarriers: Count
    active_subcarriers: Count
    cyclic_prefix: Count
    constellation: Literal["BPSK", "QPSK", "16QAM", "64QAM"]

    @property
    def antennas(self) -> int:
        """Elements of the array."""
        return self.array.elements

    @abstractmethod
    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """Labels of n links, by label column.

        Line-of-sight states, bearings in degrees, and lengths on the ground in metres are all `[n]`.
        """

    def uplink(self, n: int, length: int, rng: np.random.Generator) -> Complexes:
        """Random OFDM data `[n, length]` that start at a random sample of a symbol."""
        active = ofdm.carriers(self.active_subcarriers, self.subcarriers)
        symbol = self.subcarriers + self.cyclic_prefix
        values = ofdm.random_values(rng, (n, length // symbol + 2, len(active)), self.constellation)
        data = ofdm.modulate(values, active, self.subcarriers, self.cyclic_prefix)
        start = rng.integers(symbol, size=n)
        return np.take_along_axis(data, start[:, None] + np.arange(length), axis=1)

    def make_on(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Chunk:
        """One scene per link."""
        environment, band, number = key
        rng = stream(seed, name, split, environment, band, number)
        n = len(links.link_id)
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        # As much again in front as the scene is long: echoes of what was sent before the window reach into it.
        signal = self.uplink(n, 2 * self.samples, rng)
        gains, delays = path_gains(links, self.array.positions(), rng)
        timing = rng.random(n) / self.sample_rate_hz
        received = apply_channel(signal, gains, delays + timing[:, None], self.sample_rate_hz)[..., self.samples :]
        cfo = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band] / self.sample_rate_hz
        iq = normalise_power(add_awgn(frequency_shift(received, cfo), snr_db, rng), setting.gain_db, rng)
        columns: dict[str, Column] = {"environment": [str(environment)] * n, "link_id": links.link_id}
        labels = self.link_labels(links.los, links.bearing_deg, links.distance_2d_m)
        return self.assemble(setting, name, split, key, iq, snr_db, labels, **columns)


class AngleOfArrival(Localisation):
    """E-LOC-AOA: the azimuth of the direct path, degrees in [0, 360)."""

    names = ("E-LOC-AOA",)
    label_columns: ClassVar[LabelColumns] = {"azimuth_deg": float, "detail": str}

    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """The bearing, and in `detail` whether the link is in sight."""
        del distance_m
        return {"azimuth_deg": bearing_deg, "detail": _states(los)}


class LineOfSight(Localisation):
    """E-LOC-LOS: whether the direct path is there."""

    names = ("E-LOC-LOS",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}

    @property
    def class_names(self) -> tuple[str, ...]:
        """NLOS and LOS."""
        return ("NLOS", "LOS")

    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """The line-of-sight state."""
        del bearing_deg, distance_m
        return {"class": _states(los), "detail": _states(los)}


def _states(los: Bools) -> list[str]:
    return ["LOS" if x else "NLOS" for x in los]
