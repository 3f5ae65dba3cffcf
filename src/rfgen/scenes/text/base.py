"""Scenes of up to three emitters side by side in one band, and what can be said of them."""

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np
from pydantic import model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.physics.fields import Model, Names, NonNegative, Range
from rfgen.physics.propagation import Links
from rfgen.physics.types import Complexes, Floats, Samples
from rfgen.scenes.base import Chunk, ChunkKey, Column, Setting, Split, normalise_power
from rfgen.scenes.regimes import RegimeTask
from rfgen.scenes.text import attributes
from rfgen.scenes.text.attributes import ACTIVITIES, BANDWIDTHS, MOST, PLACES, POWERS, Attributes, Emitter
from rfgen.waveforms.shaped import FAMILIES, RATE

# A burst rises and falls in 1.6 us, half a raised cosine each.
_RAMP = 32
# 99 % of a signal lie within so much of its nominal width, whatever its family.
_REACH = 1.2


class Bursts(Model):
    """Time on and time between of a bursty emitter."""

    on_us: Range
    off_us: Range

    def gate(self, rng: np.random.Generator, samples: int) -> Floats:
        """Amplitude `[samples]` of bursts in turn with pauses from a random place on, from 0 to 1."""
        longest = int((self.on_us[1] + self.off_us[1]) * 1e-6 * RATE)
        on, place = np.zeros(samples + 2 * longest), -int(rng.integers(longest))
        while place < len(on):
            length = int(rng.uniform(*self.on_us) * 1e-6 * RATE)
            on[max(place, 0) : max(place + length, 0)] = 1.0
            place += length + int(rng.uniform(*self.off_us) * 1e-6 * RATE)
        ramp = np.hanning(_RAMP + 2)[1:-1]
        smooth: Floats = np.convolve(on, ramp / ramp.sum(), "same")[longest : longest + samples]
        return smooth


@dataclass(frozen=True)
class Described:
    """A chunk's scenes: what can be said of each, the stated SNR, and `iq`, complex64 `[n, 1, samples]`."""

    attributes: list[Attributes]
    snr_db: Floats
    iq: Samples


class TextTask(RegimeTask):
    """Up to three emitters, one to a third of the band, in white noise at three SNR regimes; `scenes` count per regime.

    Numbers of emitters are balanced in every chunk. Family, bandwidth and activity of each are drawn uniformly and by
    themselves, so that none tells another. One emitter, at random, has the stated SNR; the others are by chance
    `strong` or `weak`, and so many dB below it. A scene without emitters states a nominal SNR.

    A subclass sets `names` and `label_columns` and gives the labels: scenes of two subclasses with the same numbers
    follow the same law, by streams of their own.
    """

    families: Names
    bandwidths_hz: dict[str, Range]
    below_db: dict[str, Range]
    bursts: Bursts
    guard_hz: NonNegative

    @model_validator(mode="after")
    def _check(self) -> "TextTask":
        if self.chunk % (MOST + 1):
            raise ValueError(f"chunk: expected a multiple of {MOST + 1}, so that numbers of emitters balance")
        if self.sample_rate_hz != RATE:
            raise ValueError(f"sample_rate_hz: expected {RATE}, the rate that the families are made at")
        for name in self.families:
            if name not in FAMILIES:
                raise ValueError(f"families: unknown family {name!r}, expected {', '.join(FAMILIES)}")
        for key, values, known in (
            ("bandwidths_hz", self.bandwidths_hz, BANDWIDTHS),
            ("below_db", self.below_db, POWERS),
        ):
            if set(values) != set(known):
                raise ValueError(f"{key}: expected {', '.join(known)}")
        for name, (_, widest) in self.bandwidths_hz.items():
            if self._room(widest) < 0:
                raise ValueError(f"bandwidths_hz.{name}: {widest} does not fit in a third of the band with its guards")
        return self

    def check(self, setting: Setting, name: str) -> None:
        """Check also that each regime lies inside the one of that name which all tasks share."""
        super().check(setting, name)
        for regime, (low, high) in self.regimes_db.items():
            start, stop = setting.snr_regimes_db.get(regime, (np.inf, -np.inf))
            if low < start or high > stop:
                raise ValueError(f"tasks.{name}.regimes_db.{regime}: expected a range inside snr_regimes_db.{regime}")

    @abstractmethod
    def describe(self, scenes: list[Attributes], rng: np.random.Generator) -> dict[str, Column]:
        """Label columns of the scenes, by a stream of words alone: another wording changes no sample."""

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """As many scenes of each number of emitters, in random order, with what the task says of them."""
        del links
        made = self.made(setting, name, split, key, seed)
        labels = self.describe(made.attributes, stream(seed, name, split, "words", *key))
        return self.assemble(setting, name, split, key, made.iq, made.snr_db, labels)

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """The attributes as zeros and ones, float64 `[n, D]` (`attributes.embedding`)."""
        del links
        return attributes.embedding(self.made(setting, name, split, key, seed).attributes)

    def made(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed) -> Described:
        """The scenes of a chunk with what can be said of them."""
        rng = stream(seed, name, split, *key)
        n, regime = self.chunk, str(key[0])
        counts = rng.permutation(n) % (MOST + 1)
        snr_db = rng.uniform(*self.regimes_in(setting, split)[regime], n)
        scenes = [self._emitters(int(count), snr, rng) for count, snr in zip(counts, snr_db, strict=True)]
        drift_hz = self.cfo_ppm * 1e-6 * setting.bands_hz[key[1]]
        sent = np.stack([self._emit(emitters, drift_hz, rng) for emitters in scenes])
        received = sent + complex_normal(rng, (n, self.samples))
        iq = normalise_power(received[:, None], setting.gain_db, rng)
        return Described([Attributes(emitters, regime) for emitters in scenes], snr_db, iq)

    def _room(self, width_hz: float) -> float:
        """How far a centre may lie from the middle of its third, in Hz."""
        return (self.sample_rate_hz / len(PLACES) - _REACH * width_hz) / 2 - self.guard_hz

    def _emitters(self, count: int, snr_db: float, rng: np.random.Generator) -> tuple[Emitter, ...]:
        """The emitters of a scene whose strongest has an SNR of `snr_db`."""
        places = np.sort(rng.permutation(len(PLACES))[:count])
        strongest = int(rng.integers(max(count, 1)))
        emitters = []
        for rank, place in enumerate(places):
            power = "strong" if rank == strongest else str(rng.choice(POWERS))
            below = 0.0 if rank == strongest else float(rng.uniform(*self.below_db[power]))
            bandwidth = str(rng.choice(BANDWIDTHS))
            width = float(rng.uniform(*self.bandwidths_hz[bandwidth]))
            middle = (place - (len(PLACES) - 1) / 2) * self.sample_rate_hz / len(PLACES)
            emitter = Emitter(
                family=str(rng.choice(self.families)),
                bandwidth=bandwidth,
                place=PLACES[place],
                power=power,
                activity=str(rng.choice(ACTIVITIES)),
                snr_db=float(snr_db - below),
                below_db=below,
                offset_hz=float(middle + self._room(width) * rng.uniform(-1, 1)),
                width_hz=width,
            )
            emitters.append(emitter)
        return tuple(emitters)

    def _emit(self, emitters: tuple[Emitter, ...], drift_hz: float, rng: np.random.Generator) -> Complexes:
        """The sum `[samples]` of the emitters, over noise of unit power, each at its place with a random phase."""
        total = np.zeros(self.samples, complex)
        for emitter in emitters:
            signal = FAMILIES[emitter.family](rng, self.samples, emitter.width_hz)
            signal /= np.sqrt(np.mean(np.abs(signal) ** 2))
            gate = self.bursts.gate(rng, self.samples) if emitter.activity == "bursty" else 1.0
            cycles = (emitter.offset_hz + rng.uniform(-drift_hz, drift_hz)) / self.sample_rate_hz
            turn = np.exp(2j * np.pi * (cycles * np.arange(self.samples) + rng.random()))
            total += 10 ** (emitter.snr_db / 20) * signal * gate * turn
        return total
