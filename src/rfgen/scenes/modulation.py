"""E-ID-AMC: eleven modulations with random symbol rate, pulse, carrier offset, phase and timing, and fading."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.physics.delays import HALF, delay_line
from rfgen.physics.fields import Model, Names, Positive, Range
from rfgen.physics.propagation import Links
from rfgen.physics.types import Complexes, Floats, Samples
from rfgen.scenes.base import (
    Chunk,
    ChunkKey,
    Column,
    LabelColumns,
    Setting,
    Split,
    frequency_shift,
    normalise_power,
)
from rfgen.scenes.regimes import RegimeTask
from rfgen.waveforms import angular, likelihoods, linear

MODULATIONS = ("OOK", "2FSK", "GFSK", "BPSK", "QPSK", "8PSK", "16QAM", "64QAM", "4PAM", "AM-DSB", "FM")
ANALOGUE, FSK = ("AM-DSB", "FM"), ("2FSK", "GFSK")


Kind = Literal["none", "flat", "two-path"]


class Fading(Model):
    """What lies between transmitter and receiver; `kinds` take turns within every class.

    `flat`: one Rayleigh gain for a scene. `two-path`: a direct path and an echo `power_db` below or above it,
    `delay_symbols` later, with a phase each. Gains have unit mean power: the stated SNR is the mean over the fading.
    """

    kinds: Annotated[
        tuple[Kind, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v), Field(min_length=1)
    ] = ("none",)
    delay_symbols: Range = (0.0, 0.0)
    power_db: Range = (0.0, 0.0)

    @model_validator(mode="after")
    def _check_delay(self) -> "Fading":
        if self.delay_symbols[0] < 0:
            raise ValueError("delay_symbols: expected none below 0")
        return self

    def draw(self, kind: Kind, symbol: float, rng: np.random.Generator) -> tuple[Complexes, Floats]:
        """Gains and delays, in samples, of the two paths of a scene whose symbols last `symbol` samples."""
        delays = np.zeros(2)
        if kind == "flat":
            return np.array([complex_normal(rng, (1,))[0], 0j]), delays
        if kind == "none":
            return np.array([1 + 0j, 0j]), delays
        echo = 10 ** (rng.uniform(*self.power_db) / 10)
        delays[1] = rng.uniform(*self.delay_symbols) * symbol
        phases = np.exp(2j * np.pi * rng.random(2))
        return np.sqrt(np.array([1.0, echo]) / (1 + echo)) * phases, delays


@dataclass(frozen=True)
class Sent:
    """Noise-free signals `[n, samples]` of one modulation, and the numbers that they were made by, `[n]` each.

    `symbol` is the samples of a symbol and `start` the place in a symbol at sample 0; the others are NaN where the
    modulation has none: `rolloff`, FSK `index`, Gaussian `bt`, AM depth over the message's peak, FM `deviation` in
    units of the symbol rate.
    """

    signal: Complexes
    symbol: Floats
    start: Floats
    rolloff: Floats
    index: Floats
    bt: Floats
    depth: Floats
    deviation: Floats


@dataclass(frozen=True)
class Made:
    """A chunk's scenes with the numbers they were made by, `[n]` each; `gains` and `delays` `[n, 2]` are the paths'.

    `received` is what `iq` is the scaled form of: `sent` times `amplitude` over the paths, turned by `phase` cycles and
    `offset` cycles per sample, in noise of unit power.
    """

    iq: Samples
    received: Complexes
    classes: list[str]
    sent: Sent
    kinds: list[Kind]
    gains: Complexes
    delays: Floats
    phase: Floats
    offset: Floats
    snr_db: Floats
    amplitude: Floats


class Modulation(RegimeTask):
    """Modulations at three SNR regimes; `scenes` counts per regime and band, balanced over the classes."""

    names = ("E-ID-AMC",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}

    classes: Names
    samples_per_symbol: Range
    rolloff: Range
    fsk_index: Range
    gfsk_index: Positive
    gfsk_bt: Range
    am_index: Range
    fm_deviation_symbols: Range
    fading: Fading = Fading()

    @model_validator(mode="after")
    def _check_classes(self) -> "Modulation":
        for name in self.classes:
            if name not in MODULATIONS:
                raise ValueError(f"classes: unknown modulation {name!r}, expected {', '.join(MODULATIONS)}")
        if self.chunk % len(self.classes):
            raise ValueError(f"chunk: expected a multiple of the {len(self.classes)} classes, so that they balance")
        return self

    @property
    def class_names(self) -> tuple[str, ...]:
        """The modulations."""
        return self.classes

    def signals(self, modulation: str, n: int, rng: np.random.Generator, samples: int | None = None) -> Complexes:
        """`n` noise-free signals of one modulation, complex128 `[n, samples]`, about unit power."""
        return self.draw(modulation, n, rng, samples or self.samples).signal

    def draw(self, modulation: str, n: int, rng: np.random.Generator, samples: int) -> Sent:
        """`n` noise-free signals of one modulation and what they were made by."""
        sps, start = rng.uniform(*self.samples_per_symbol, n), rng.random(n)
        numbers = {name: np.full(n, np.nan) for name in ("rolloff", "index", "bt", "depth", "deviation")}
        if modulation in ANALOGUE:
            message = angular.band_limited_noise(rng, n, samples, 0.5 / sps)
            if modulation == "FM":
                numbers["deviation"] = rng.uniform(*self.fm_deviation_symbols, n)
                signal = angular.frequency_modulate(message * (numbers["deviation"] / sps)[:, None])
            else:
                numbers["depth"] = rng.uniform(*self.am_index, n) / np.abs(message).max(axis=1)
                signal = (1 + numbers["depth"][:, None] * message).astype(complex)
            return Sent(signal, sps, start, **numbers)
        symbols = int(samples / self.samples_per_symbol[0]) + 16
        if modulation in FSK:
            bits = 2 * rng.integers(2, size=(n, symbols)) - 1
            if modulation == "GFSK":
                numbers |= {"bt": rng.uniform(*self.gfsk_bt, n), "index": np.full(n, self.gfsk_index)}
            else:
                numbers["index"] = rng.uniform(*self.fsk_index, n)
            bt = numbers["bt"] if modulation == "GFSK" else None
            frequency = angular.fsk_frequency(bits, samples, sps, start, bt)
            signal = angular.frequency_modulate(frequency * (numbers["index"] / 2 / sps)[:, None])
            return Sent(signal, sps, start, **numbers)
        points = linear.constellation(modulation)
        sent = points[rng.integers(len(points), size=(n, symbols))]
        numbers["rolloff"] = rng.uniform(*self.rolloff, n)
        return Sent(linear.pulse_shape(sent, samples, sps, numbers["rolloff"], start), sps, start, **numbers)

    def made(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed) -> Made:
        """The scenes of a chunk and the numbers that they were made by: the same number of every modulation."""
        regime, band, number = key
        rng = stream(seed, name, split, regime, band, number)
        n, each = self.chunk, self.chunk // len(self.classes)
        # The stretch begins early enough for the longest echo, and ends late enough for what rings ahead of it.
        lead = int(np.ceil(self.fading.delay_symbols[1] * self.samples_per_symbol[1])) + HALF
        faded = self.fading.kinds != ("none",)
        lead, tail = (lead, HALF) if faded else (0, 0)
        parts = [self.draw(modulation, each, rng, lead + self.samples + tail) for modulation in self.classes]
        order = rng.permutation(n)
        sent = Sent(**{f: np.concatenate([getattr(part, f) for part in parts])[order] for f in Sent.__annotations__})
        classes = [self.classes[i // each] for i in order]
        phase = rng.random(n)
        kinds = [self.fading.kinds[(number * each + i % each) % len(self.fading.kinds)] for i in order]
        paths = [self.fading.draw(kind, symbol, rng) for kind, symbol in zip(kinds, sent.symbol, strict=True)]
        gains, delays = (np.stack(values) for values in zip(*paths, strict=True))
        heard = delay_line(sent.signal, gains, delays, 1.0) if faded else sent.signal
        window = slice(lead, lead + self.samples)
        power = np.mean(np.abs(sent.signal[:, window]) ** 2, axis=1)
        offset = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band] / self.sample_rate_hz
        snr_db = rng.uniform(*self.regimes_in(setting, split)[str(regime)], n)
        amplitude = np.sqrt(10 ** (snr_db / 10) / power)
        turned = heard[:, window] * (amplitude * np.exp(2j * np.pi * phase))[:, None]
        received = frequency_shift(turned[:, None], offset) + complex_normal(rng, (n, 1, self.samples))
        iq = normalise_power(received, setting.gain_db, rng)
        # From here on the numbers are those of the window.
        begun = (sent.start + lead / sent.symbol) % 1.0
        known = Sent(**{f: getattr(sent, f) for f in Sent.__annotations__} | {"start": begun})
        return Made(iq, received[:, 0], classes, known, kinds, gains, delays, phase, offset, snr_db, amplitude)

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """The same number of scenes of every modulation, in random order."""
        del links
        made = self.made(setting, name, split, key, seed)
        labels: dict[str, Column] = {"class": made.classes, "detail": list(made.classes)}
        if self.fading.kinds != ("none",):
            labels["detail"] = [f"{c}/{kind}" for c, kind in zip(made.classes, made.kinds, strict=True)]
        return self.assemble(setting, name, split, key, made.iq, made.snr_db, labels)

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """Log posteriors of the classes with every nuisance known, float64 `[n, classes]`, not below -10.

        Symbol rate, timing, phase, carrier offset, amplitude, pulse, index, depth and deviation are the scene's own;
        those that its modulation does not have are drawn for the classes that do, by a stream of its own. A flat gain
        is known; two paths are equalised to least squares, and what is left of the echo counts as noise.
        Reference for the likelihoods: `rfgen.waveforms.likelihoods`.
        """
        del links
        made = self.made(setting, name, split, key, seed)
        rng = stream(seed, name, split, "truth", *key)
        n, sent = len(made.classes), made.sent

        def known(values: Floats, limits: tuple[float, float]) -> Floats:
            return np.where(np.isnan(values), rng.uniform(*limits, n), values)

        rolloff, deviation = known(sent.rolloff, self.rolloff), known(sent.deviation, self.fm_deviation_symbols)
        # A Gaussian message of a scene's length peaks at about three standard deviations.
        depth = known(sent.depth, (self.am_index[0] / 3, self.am_index[1] / 3))
        hard, bt = rng.uniform(*self.fsk_index, n), known(sent.bt, self.gfsk_bt)
        index = np.where(np.array(made.classes) == "2FSK", sent.index, hard)
        soft = np.full(n, self.gfsk_index)
        heard, amplitude = self._undone(made)
        place = (sent.symbol, sent.start)
        matched = likelihoods.matched_filter(heard, *place, rolloff)
        scores = []
        for modulation in self.classes:
            if modulation == "FM":
                score = likelihoods.frequency_modulated(heard, amplitude, sent.symbol, deviation)
            elif modulation == "AM-DSB":
                score = likelihoods.amplitude_modulated(heard, amplitude, sent.symbol, depth)
            elif modulation in FSK:
                numbers = (soft, bt) if modulation == "GFSK" else (index, None)
                score = likelihoods.keyed(heard, amplitude, *place, *numbers)
            else:
                score = likelihoods.linear(*matched, amplitude, linear.constellation(modulation))
            scores.append(score)
        posterior = np.stack(scores, axis=1)
        posterior -= posterior.max(axis=1, keepdims=True)
        posterior -= np.log(np.exp(posterior).sum(axis=1, keepdims=True))
        return np.maximum(posterior, -10.0)

    def _undone(self, made: Made) -> tuple[Complexes, Floats]:
        """Received signals without carrier offset, phase and paths, and their amplitude over noise of unit power."""
        time = np.arange(self.samples)
        turn = np.exp(-2j * np.pi * (made.phase[:, None] + made.offset[:, None] * time))
        heard, amplitude = made.received * turn, made.amplitude.copy()
        frequency = np.fft.fftfreq(self.samples)
        for row, kind in enumerate(made.kinds):
            if kind == "flat":
                gain = made.gains[row, 0]
                heard[row] *= np.exp(-1j * np.angle(gain))
                amplitude[row] *= np.abs(gain)
            elif kind == "two-path":
                response = made.gains[row] @ np.exp(-2j * np.pi * made.delays[row][:, None] * frequency)
                inverse = response.conj() / (np.abs(response) ** 2 + amplitude[row] ** -2)
                heard[row] = np.fft.ifft(np.fft.fft(heard[row]) * inverse)
                # Noise of unit power again, in the band that the signal has.
                inside = np.abs(frequency) <= 0.5 / made.sent.symbol[row]
                noise = np.sqrt(np.mean(np.abs(inverse[inside]) ** 2))
                heard[row] /= noise
                amplitude[row] *= np.mean((inverse * response)[inside].real) / noise
        return heard, amplitude
