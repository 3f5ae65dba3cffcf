"""E-SC-SEP: a QPSK signal of known pulse and rate under one interferer, of which the signal alone is asked."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from pydantic import model_validator

from common.masks import count_windows, ideal_mask, spectra
from common.streams import Seed, complex_normal, stream
from rfgen.physics.fields import Count, Model, Positive, Range
from rfgen.physics.propagation import Links
from rfgen.physics.types import Complexes, Floats, Samples
from rfgen.scenes.base import POOL, Chunk, ChunkKey, Column, CountedTask, LabelColumns, Setting, Split, frequency_shift
from rfgen.waveforms import linear, ofdm
from rfgen.waveforms.interferers import FAMILIES, RATE, Interferers


class Pulse(Model):
    """The signal of interest: QPSK in root-raised-cosine pulses of this symbol rate and roll-off."""

    baud: Positive
    rolloff: Positive


class Masked(Model):
    """Windows of the mask that the oracle states: their samples, and from one to the next."""

    window: Count
    hop: Count


@dataclass(frozen=True)
class Mixed:
    """A chunk's mixtures, their sources, complex64 `[n, samples]`, and the SINR of each."""

    mixture: Samples
    source: Samples
    sinr_db: Floats


class Separation(CountedTask):
    """A signal of interest, one interferer of a family and noise; `scenes` count per family.

    The SINR, in the column `snr_db`, is that of the window: the signal's power over that of interferer and noise. It is
    uniform over `sinr_db`, and evenly over a chunk, so that families compare. Noise lies `noise_db` below the signal.
    Signal and interferer have a random phase and timing, and carriers of their own: the signal's within `cfo_ppm`, the
    interferer's within `offset_hz` of the centre.
    """

    names = ("E-SC-SEP",)
    label_columns: ClassVar[LabelColumns] = {"mixture_and_source": list}

    sinr_db: Range
    noise_db: Positive
    pulse: Pulse
    offset_hz: Positive
    families: Interferers
    mask: Masked

    @model_validator(mode="after")
    def _check(self) -> "Separation":
        if len(self.families) < 2:
            raise ValueError("families: expected at least two different held-out values")
        if self.sample_rate_hz != RATE:
            raise ValueError(f"sample_rate_hz: expected {RATE}, the rate that the families are made at")
        if not self.noise_db > self.sinr_db[1]:
            raise ValueError("noise_db: expected less noise than the highest SINR leaves")
        if not self.pulse.rolloff <= 1 or not self.pulse.baud * (1 + self.pulse.rolloff) < self.sample_rate_hz:
            raise ValueError("pulse: expected a roll-off of at most 1, and a signal within the band")
        try:
            count_windows(self.samples, self.mask.window, self.mask.hop)
        except ValueError as error:
            raise ValueError(f"mask: {error}") from None
        return self

    @property
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SINR [dB] of the scored splits."""
        return self.sinr_db

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"waveform": tuple(self.families)}

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The families of interferers."""
        return tuple(self.families)

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """Mixtures, with the mixture and the source as labels: real and imaginary parts in turn, `[n, 4 samples]`."""
        del links
        made = self.mixed(setting, name, split, key, seed)
        both = np.concatenate([made.mixture, made.source], axis=1)
        labels: dict[str, Column] = {"mixture_and_source": both.view(np.float32).astype(float)}
        columns: dict[str, Column] = {} if split == POOL else {"waveform": [str(key[0])] * len(both)}
        return self.assemble(setting, name, split, key, made.mixture[:, None], made.sinr_db, labels, **columns)

    def mixed(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed) -> Mixed:
        """The mixtures of a chunk and what is asked of them, at one level."""
        rng = stream(seed, name, split, *key)
        n, shape = self.chunk, (self.chunk, self.samples)
        low, high = self.snr_limits_in(setting, split)
        sinr_db = low + (high - low) * (rng.permutation(n) + rng.random(n)) / n
        source = unit_power(self._signal(setting, key[1], rng))
        numbers = cast("Mapping[str, Model]", self.families)[str(key[0])]
        family = FAMILIES[str(key[0])]
        other = np.stack([family(rng, self.samples, numbers) for _ in range(n)])[:, None]
        offset = rng.uniform(-self.offset_hz, self.offset_hz, n) / self.sample_rate_hz
        other = unit_power(frequency_shift(other, offset)[:, 0] * np.exp(2j * np.pi * rng.random((n, 1))))
        noise = 10 ** (-self.noise_db / 10)
        rest = other * np.sqrt(10 ** (-sinr_db / 10) - noise)[:, None] + complex_normal(rng, shape) * np.sqrt(noise)
        rest = unit_power(rest) * 10 ** (-sinr_db / 20)[:, None]
        mixture = source + rest
        level = 10 ** (rng.uniform(*setting.gain_db, n) / 20) / np.sqrt(np.mean(np.abs(mixture) ** 2, axis=1))
        mixture, source = ((signal * level[:, None]).astype(np.complex64) for signal in (mixture, source))
        return Mixed(mixture, source, sinr_db)

    def _signal(self, setting: Setting, band: str, rng: np.random.Generator) -> Complexes:
        """Signals of interest `[n, samples]`."""
        n, pulse = self.chunk, self.pulse
        step = self.sample_rate_hz / pulse.baud
        sent = ofdm.random_values(rng, (n, int(self.samples / step) + 16), "QPSK")
        each = np.full(n, step), np.full(n, pulse.rolloff), rng.random(n)
        signal = linear.pulse_shape(sent, self.samples, *each) * np.exp(2j * np.pi * rng.random((n, 1)))
        offset = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band] / self.sample_rate_hz
        return frequency_shift(signal[:, None], offset)[:, 0]

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """Complex ideal masks of all windows, cut at 1, real and imaginary parts in turn `[n, 2 windows window]`."""
        del links
        made = self.mixed(setting, name, split, key, seed)
        source, mixture = (spectra(signal, self.mask.window, self.mask.hop) for signal in (made.source, made.mixture))
        return ideal_mask(source, mixture).view(float).reshape(len(source), -1)


def unit_power(signal: Complexes) -> Complexes:
    """Waveforms `[n, samples]` of mean power 1."""
    made: Complexes = signal / np.sqrt(np.mean(np.abs(signal) ** 2, axis=1, keepdims=True))
    return made
