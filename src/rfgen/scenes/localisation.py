"""E-LOC-AOA and E-LOC-LOS: an OFDM terminal, received over its multipath channel by an array at the base station."""

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field, model_validator

from common.streams import Seed, stream
from rfgen.physics.arrays import Array
from rfgen.physics.fields import Count, Model
from rfgen.physics.propagation import GUARD, Links, apply_channel, lead_samples, path_gains
from rfgen.physics.site import at_array, combined
from rfgen.physics.types import Bools, Complexes, Floats, Ints, Samples
from rfgen.scenes.base import (
    REFERENCE_START,
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


class Reference(Model):
    """The known symbol of a scene, one of its OFDM symbols: a Zadoff-Chu sequence of a root on the active carriers."""

    sequence: Literal["zadoff-chu"]
    root: Count


@dataclass(frozen=True)
class Received:
    """What an array receives of n scenes, and over what: samples `[n, outputs, samples]`, SNR [dB] `[n]`, columns.

    `gains` `[n, elements, P]` are those of the paths at the array, `delays_s` `[n, P]` and `timing_s` `[n]` theirs.
    `offset` `[n]` is what is left of the carrier, in cycles per sample.
    """

    iq: Samples
    snr_db: Floats
    columns: dict[str, Column]
    gains: Complexes
    delays_s: Floats
    timing_s: Floats
    offset: Floats


class Localisation(LinkTask):
    """What both tasks share: the array, the OFDM uplink and the scenes; they differ in their labels.

    One `array` serves every band, so that its spacing in wavelengths changes with the band; `band_arrays` names the
    bands that have an array of their own, with hardware of its own. With a `reference`, one symbol of every scene is
    known to the receiver; without, all are random data.
    """

    array: Array
    band_arrays: dict[str, Array] = Field(default_factory=dict)
    subcarriers: Count
    active_subcarriers: Count
    cyclic_prefix: Count
    constellation: Literal["BPSK", "QPSK", "16QAM", "64QAM"]
    reference: Reference | None = None

    @property
    def antennas(self) -> int:
        """Elements of the array."""
        return self.array.elements

    @model_validator(mode="after")
    def _check_arrays(self) -> "Localisation":
        for band, array in self.band_arrays.items():
            if band not in self.bands or array.elements != self.array.elements:
                raise ValueError(f"band_arrays.{band}: expected a band of the task, and {self.array.elements} elements")
        return self

    @model_validator(mode="after")
    def _check_reference(self) -> "Localisation":
        if self.reference is None:
            return self
        if self.samples < 2 * self.symbol:
            raise ValueError(f"samples: expected {2 * self.symbol} or more, so that a whole symbol is in every window")
        if self.active_subcarriers % 2 or math.gcd(self.reference.root, self.active_subcarriers + 1) > 1:
            raise ValueError("reference.root: expected no divisor in common with active_subcarriers + 1, which is odd")
        return self

    @property
    def symbol(self) -> int:
        """Samples of an OFDM symbol with its prefix."""
        return self.subcarriers + self.cyclic_prefix

    def array_in(self, band: str) -> Array:
        """The array that receives a band."""
        return self.band_arrays.get(band, self.array)

    def positions(self, setting: Setting, band: str) -> Floats:
        """Places of the array's elements `[elements, 2]` in wavelengths of a band's carrier."""
        return self.array_in(band).positions(setting.bands_hz[band])

    def site_of(self, environment: str, band: str) -> str:
        """The environment's name, with the band's where it has an array of its own."""
        return f"{environment} {band}" if band in self.band_arrays else environment

    @abstractmethod
    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """Labels of n links, by label column.

        Line-of-sight states, bearings in degrees, and lengths on the ground in metres are all `[n]`.
        """

    def path_labels(self, links: Links, gains: Complexes, delays: Floats) -> dict[str, Column]:
        """Labels of n links with gains `[n, elements, P]` and delays [s] `[n, P]` of their paths, by label column."""
        del gains, delays
        return self.link_labels(links.los, links.bearing_deg, links.distance_2d_m)

    def scene_labels(self, links: Links, made: Received) -> dict[str, Column]:
        """Labels of n links and of what was received over them, by label column."""
        return self.path_labels(links, made.gains, made.delays_s)

    def uplink(self, n: int, length: int, rng: np.random.Generator) -> Complexes:
        """Random OFDM data `[n, length]` that start at a random sample of a symbol, without a reference."""
        return self._sent(*self._drawn(n, length, rng), length)

    def _drawn(self, n: int, length: int, rng: np.random.Generator) -> tuple[Complexes, Ints]:
        """Random carrier values `[n, symbols, carriers]`, and the sample `[n]` of the first symbol to start with."""
        shape = (n, length // self.symbol + 2, self.active_subcarriers)
        return ofdm.random_values(rng, shape, self.constellation), rng.integers(self.symbol, size=n)

    def _sent(self, values: Complexes, start: Ints, length: int) -> Complexes:
        """Samples `[n, length]` of OFDM symbols from sample `start` of the first on."""
        active = ofdm.carriers(self.active_subcarriers, self.subcarriers)
        data = ofdm.modulate(values, active, self.subcarriers, self.cyclic_prefix)
        return np.take_along_axis(data, start[:, None] + np.arange(length), axis=1)

    def _place_reference(
        self, root: int, values: Complexes, start: Ints, window: slice, rng: np.random.Generator
    ) -> tuple[Complexes, Ints]:
        """Values with one symbol of each scene known, and the sample `[n]` of the window at which its body starts.

        Any of the symbols that lie in the window with their prefix, and a sample more for the timing: drawn, so that no
        part of the window is more often known than another.
        """
        before = start + window.start
        first = -(-before // self.symbol)
        last = (before + self.samples - 1) // self.symbol - 1
        chosen = rng.integers(first, last + 1)
        values[np.arange(len(values)), chosen] = ofdm.punctured_zadoff_chu(root, self.active_subcarriers)
        return values, chosen * self.symbol + self.cyclic_prefix - before

    def known_symbol(self) -> dict[str, Any] | None:
        """The reference's numerology and values, if there is one."""
        if self.reference is None:
            return None
        half = self.active_subcarriers // 2
        values = ofdm.punctured_zadoff_chu(self.reference.root, self.active_subcarriers)
        return {
            "size": self.subcarriers,
            "prefix": self.cyclic_prefix,
            "carriers": [*range(-half, 0), *range(1, half + 1)],
            # To twelve digits, so that every machine writes the same.
            "values": [[round(value.real, 12), round(value.imag, 12)] for value in values.tolist()],
        }

    def make_on(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Chunk:
        """One scene per link."""
        made = self.received(setting, name, split, key, seed, links)
        labels = self.scene_labels(links, made)
        return self.assemble(setting, name, split, key, made.iq, made.snr_db, labels, **made.columns)

    def received(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Received:
        """What is received over n links, and over which paths."""
        environment, band, number = key
        rng = stream(seed, name, split, environment, band, number)
        n = len(links.link_id)
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        # Echoes of what was sent before the window reach into it.
        lead = lead_samples(setting.longest_delay_s, self.sample_rate_hz)
        window = slice(lead, lead + self.samples)
        own = stream(seed, name, split, environment, band, number, "reference")
        signal, columns = self.transmitted(n, window, rng, own)
        gains, delays = path_gains(links, self.positions(setting, band), rng)
        sites = self.hardware(setting, split, key, n)
        gains = at_array(sites, gains)
        timing = rng.random(n) / self.sample_rate_hz
        outputs = combined(sites, gains)
        heard = apply_channel(signal, outputs, delays + timing[:, None], self.sample_rate_hz, window)
        cfo = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band] / self.sample_rate_hz
        noisy = add_awgn(frequency_shift(heard, cfo), snr_db, rng)
        iq = normalise_power(self.receive(setting, split, key, noisy), setting.gain_db, rng)
        columns = {"environment": [str(environment)] * n, "link_id": links.link_id} | columns
        clock = np.array([site.chains[0].cfo_ppm for site in sites]) * 1e-6 * setting.bands_hz[band]
        return Received(iq, snr_db, columns, gains, delays, timing, cfo - clock / self.sample_rate_hz)

    def transmitted(
        self, n: int, window: slice, rng: np.random.Generator, own: np.random.Generator
    ) -> tuple[Complexes, dict[str, Column]]:
        """What n terminals send until `GUARD` samples after the window, `[n, length]`, and its columns.

        The known symbol is placed by a stream of its `own`: all else of the scenes is as without a reference.
        """
        length = window.stop + GUARD
        values, start = self._drawn(n, length, rng)
        columns: dict[str, Column] = {}
        if self.reference is not None:
            values, columns[REFERENCE_START] = self._place_reference(self.reference.root, values, start, window, own)
        return self._sent(values, start, length), columns

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """What the true paths say, float64 `[n, D]`; ValueError without links."""
        del setting, seed
        if links is None:
            raise ValueError(f"links: expected those of chunk {key!r} of {name} in {split}, got none")
        return self.link_truth(links)

    def link_truth(self, links: Links) -> Floats:
        """Features `[n, D]` of the paths of n links, without labels; NotImplementedError where there are none."""
        raise NotImplementedError(f"{self.names[0]}: no truth is stated for this task's {len(links.link_id)} links")


class AngleOfArrival(Localisation):
    """E-LOC-AOA: the azimuth of the direct path, degrees in [0, 360)."""

    names = ("E-LOC-AOA",)
    label_columns: ClassVar[LabelColumns] = {"azimuth_deg": float, "detail": str}

    def link_labels(self, los: Bools, bearing_deg: Floats, distance_m: Floats) -> dict[str, Column]:
        """The bearing, and in `detail` whether the link is in sight."""
        del distance_m
        return {"azimuth_deg": bearing_deg, "detail": sight_states(los)}

    def link_truth(self, links: Links) -> Floats:
        """Cosine and sine of the mean direction of all rays by their power, the direct path's among them."""
        mean = resultant(links)
        mean /= np.maximum(np.abs(mean), 1e-12)
        return np.stack([mean.real, mean.imag], axis=1)


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
        return {"class": sight_states(los), "detail": sight_states(los)}

    def link_truth(self, links: Links) -> Floats:
        """Logarithms of what a channel sounder would read off the paths, as moments of power over delay and azimuth.

        Share of the power that comes first and share of the strongest path in percent against the rest, RMS delay
        spread [s], circular azimuth spread.
        """
        delay, power = path_powers(links)
        first = np.sum(power * (delay <= 5e-9), axis=1)
        strongest = power.max(axis=1)
        mean = np.sum(power * delay, axis=1)
        spread = np.sqrt(np.maximum(np.sum(power * (delay - mean[:, None]) ** 2, axis=1), 0.0))
        shares = [np.log((share + 1e-3) / (1.0 - share + 1e-3)) for share in (first, strongest)]
        return np.stack([*shares, np.log(spread + 1e-9), np.log(1.0 - np.abs(resultant(links)) + 1e-3)], axis=1)


def path_powers(links: Links) -> tuple[Floats, Floats]:
    """Excess delays [s] and powers of each link's direct path and clusters, both `[n, 1 + C]`; powers sum to one."""
    direct = (links.k_linear / (1 + links.k_linear))[:, None]
    power = np.hstack([direct, links.power / links.power.sum(axis=1, keepdims=True) * (1 - direct)])
    delay = np.hstack([np.zeros_like(direct), links.delay_s])
    earliest = np.where(power > 0, delay, np.inf).min(axis=1, keepdims=True)
    return np.where(power > 0, delay - earliest, 0.0), power


def resultant(links: Links) -> Complexes:
    """Mean of exp(j azimuth) over all rays and the direct path by their power, complex128 `[n]`."""
    _, power = path_powers(links)
    rays = np.exp(1j * np.radians(links.azimuth_deg)).mean(axis=2)
    direct = np.exp(1j * np.radians(links.bearing_deg))
    mean: Complexes = power[:, 0] * direct + np.sum(power[:, 1:] * rays, axis=1)
    return mean


def sight_states(los: Bools) -> list[str]:
    """LOS or NLOS of n links, by their line-of-sight states `[n]`."""
    return ["LOS" if x else "NLOS" for x in los]
