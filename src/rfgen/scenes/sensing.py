"""E-SC-SENSE: is a primary user on air, by four antennas behind receivers that are not alike."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, cast

import numpy as np
from pydantic import model_validator

from common.streams import Seed, stream
from rfgen.physics.delays import delay_line
from rfgen.physics.fields import Count, Model, NonNegative
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
from rfgen.waveforms.primaries import FAMILIES, RATE, Primaries

# The emitted spectrum that the likelihood knows is resolved to so many lines of the window's.
_RESOLUTION = 17
# SNRs that the likelihood is averaged over.
_LEVELS = 21


@dataclass(frozen=True)
class Sensed:
    """A chunk's scenes: nominal families, who is on air, SNR, `emitted` `[n, samples]` and its paths.

    `emitted` is the user's, on air or not, and reaches the stated SNR over its paths; `noisy` is what the antennas
    receive, with noise of unit power, `[n, antennas, samples]`, and `iq` that behind the receiver.
    """

    families: list[str]
    present: Bools
    snr_db: Floats
    emitted: Complexes
    gains: Complexes
    delays_s: Floats
    noisy: Complexes
    iq: Samples


class Sensing(ReceivedTask):
    """A primary user of one of the `families`, on air or not, at `elements` antennas; `scenes` count per receiver.

    A scene without a user is drawn as one with a user is, whose signal is then left out: family, channel and stated SNR
    are nominal there, and its samples hold nothing of them. Antennas differ by up to `gain_error_db` in every scene,
    noise included. Receivers come from the recipe's `hardware_seed` and are the same in every split.
    """

    names = ("E-SC-SENSE",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}

    elements: Count
    families: Primaries
    gain_error_db: NonNegative

    @model_validator(mode="after")
    def _check(self) -> "Sensing":
        if len(self.families) < 2:
            raise ValueError("families: expected at least two different held-out values")
        if self.chunk % (2 * len(self.families)):
            raise ValueError(f"chunk: expected a multiple of {2 * len(self.families)}, each family on air and not")
        if self.sample_rate_hz != RATE:
            raise ValueError(f"sample_rate_hz: expected {RATE}, the rate that the families are made at")
        return self

    @property
    def antennas(self) -> int:
        """Receiving antennas of a scene."""
        return self.elements

    @property
    def class_names(self) -> tuple[str, ...]:
        """Absent and present."""
        return ("absent", "present")

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"waveform": tuple(self.families)}

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """Half of the scenes with a user on air, families in turn on either side, in random order."""
        del links
        made = self.made(setting, name, split, key, seed)
        present = ["present" if on else "absent" for on in made.present]
        families = made.families
        labels: dict[str, Column] = {
            "class": present,
            "detail": [family if on else "noise" for family, on in zip(families, made.present, strict=True)],
        }
        columns: dict[str, Column] = {}
        if split != POOL:
            columns = {"receiver": [str(key[0])] * len(present), "waveform": families}
        return self.assemble(setting, name, split, key, made.iq, made.snr_db, labels, **columns)

    def made(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed) -> Sensed:
        """The scenes of a chunk with what they are made of."""
        rng = stream(seed, name, split, *key)
        n, names = self.chunk, list(self.families)
        order = rng.permutation(n)
        families = [names[i // 2 % len(names)] for i in order]
        present = order % 2 == 1
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        emitted = self._emit(setting, families, key[1], rng)
        gains, delays = self.channel.draw(n, self.elements, self.sample_rate_hz, rng)
        window = slice(LEAD, LEAD + self.samples)
        paths = gains.reshape(n * self.elements, -1), np.repeat(delays, self.elements, axis=0)
        heard = delay_line(np.repeat(emitted, self.elements, axis=0), *paths, self.sample_rate_hz)
        heard = heard.reshape(n, self.elements, -1)[:, :, window]
        level = np.sqrt(10 ** (snr_db / 10) / np.mean(np.abs(heard) ** 2, axis=(1, 2)))
        noisy = add_awgn(heard * present[:, None, None], snr_db, rng)
        gain = 10 ** (rng.uniform(-self.gain_error_db, self.gain_error_db, (n, self.elements, 1)) / 20)
        received = self.through_receiver(setting, split, key, noisy * gain, rng)
        return Sensed(
            families=families,
            present=present,
            snr_db=snr_db,
            emitted=emitted[:, window] * level[:, None],
            gains=gains,
            delays_s=delays,
            noisy=noisy,
            iq=normalise_power(received, setting.gain_db, rng),
        )

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """Log likelihood ratio of the antennas' samples for the true covariance, float64 `[n, 1]`.

        The user is Gaussian noise of its emitted spectrum, resolved to 17 lines (0.3 MHz), over its own paths; the
        front end is known and undone. Where no user is on air, the one that would have been. Its level is not known,
        or an empty scene were told by the strong user that it does not hold: the ratio is the mean over the law of
        the SNR.
        """
        del links
        made = self.made(setting, name, split, key, seed)
        frequency = np.fft.fftfreq(self.samples) * self.sample_rate_hz
        turn = np.exp(-2j * np.pi * made.delays_s[:, None, :, None] * frequency)
        response = np.einsum("nap,nxpf->naf", made.gains, turn)
        spectrum = np.abs(np.fft.fft(made.emitted)) ** 2 / self.samples
        reach = np.arange(_RESOLUTION) - _RESOLUTION // 2
        spectrum = np.mean([np.roll(spectrum, step, axis=1) for step in reach], axis=0)
        heard = np.fft.fft(made.noisy) / np.sqrt(self.samples)
        low, high = self.snr_limits_in(setting, split)
        levels = np.linspace(low, high, _LEVELS) - made.snr_db[:, None]
        ratios = [likelihood_ratio(heard, response, spectrum * 10 ** (level[:, None] / 10)) for level in levels.T]
        top = np.max(ratios, axis=0)
        mean: Floats = top + np.log(np.mean(np.exp(ratios - top), axis=0))
        return mean[:, None]

    def _emit(self, setting: Setting, families: list[str], band: str, rng: np.random.Generator) -> Complexes:
        """Signals `[n, lead + samples + tail]` off the centre, as far as the band allows, with a random phase."""
        numbers = cast("Mapping[str, Model]", self.families)
        made = [FAMILIES[family](rng, LEAD + self.samples + TAIL, numbers[family]) for family in families]
        room = np.maximum(self.band_hz / 2 - np.array([width for _, width in made]), 0.0)
        n, carrier = len(families), setting.bands_hz[band]
        offset_hz = room * rng.uniform(-1, 1, n) + rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * carrier
        signal = np.stack([signal for signal, _ in made]) * np.exp(2j * np.pi * rng.random(n))[:, None]
        return frequency_shift(signal[:, None], offset_hz / self.sample_rate_hz)[:, 0]


def likelihood_ratio(heard: Complexes, response: Complexes, spectrum: Floats) -> Floats:
    """Log likelihood ratio `[n]` of a Gaussian signal in white noise of unit power against noise alone.

    `heard` and `response` are `[n, antennas, lines]`, `spectrum` `[n, lines]` is the emitted power: line by line the
    covariance is `spectrum response response^H + 1`. Reference: S. M. Kay, Fundamentals of Statistical Signal
    Processing II, 5.3 and 13.6.
    """
    energy = np.sum(np.abs(response) ** 2, axis=1)
    strength = spectrum * energy
    matched = np.abs(np.sum(response.conj() * heard, axis=1)) ** 2 / np.where(energy > 0, energy, 1.0)
    ratio: Floats = np.sum(matched * strength / (1 + strength) - np.log1p(strength), axis=1)
    return ratio
