"""E-ID-AMC: eleven modulations with random symbol rate, pulse, carrier offset, phase and timing."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
from pydantic import model_validator

from common.streams import Seed, stream
from rfgen.physics.fields import Names, Positive, Range
from rfgen.physics.propagation import Links
from rfgen.physics.types import Complexes
from rfgen.scenes.base import (
    POOL,
    Chunk,
    ChunkKey,
    LabelColumns,
    SceneTask,
    Setting,
    Split,
    add_awgn,
    frequency_shift,
    normalise_power,
)
from rfgen.waveforms import angular, linear

MODULATIONS = ("OOK", "2FSK", "GFSK", "BPSK", "QPSK", "8PSK", "16QAM", "64QAM", "4PAM", "AM-DSB", "FM")
ANALOGUE, FSK = ("AM-DSB", "FM"), ("2FSK", "GFSK")


class Modulation(SceneTask):
    """Modulations at three SNR regimes; `scenes` counts per regime and band, balanced over the classes."""

    names = ("E-ID-AMC",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}

    classes: Names
    regimes_db: dict[str, Range]
    scenes: dict[Split, int]
    samples_per_symbol: Range
    rolloff: Range
    fsk_index: Range
    gfsk_index: Positive
    gfsk_bt: Range
    am_index: Range
    fm_deviation_symbols: Range

    @model_validator(mode="after")
    def _check_classes(self) -> "Modulation":
        for name in self.classes:
            if name not in MODULATIONS:
                raise ValueError(f"classes: unknown modulation {name!r}, expected {', '.join(MODULATIONS)}")
        if self.chunk % len(self.classes):
            raise ValueError(f"chunk: expected a multiple of the {len(self.classes)} classes, so that they balance")
        if len(self.regimes_db) < 2:
            raise ValueError("regimes_db: expected at least two held-out values")
        return self

    @property
    def counts(self) -> Mapping[Split, int]:
        """Scenes by split, per regime and band."""
        return self.scenes

    @property
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scored splits."""
        lows, highs = zip(*self.regimes_db.values(), strict=True)
        return min(lows), max(highs)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The modulations."""
        return self.classes

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"snr_regime": tuple(self.regimes_db)}

    def regimes_in(self, setting: Setting, split: Split) -> Mapping[str, tuple[float, float]]:
        """SNR limits [dB] by regime in a split."""
        if split == POOL:
            limits = setting.pretrain.snr_db
            return {setting.snr_regime(np.array(limits[:1]))[0]: limits}
        return self.regimes_db

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The SNR regimes of a split."""
        return self.regimes_in(setting, split)

    def signals(self, modulation: str, n: int, rng: np.random.Generator) -> Complexes:
        """`n` noise-free signals of one modulation, complex128 `[n, samples]`, about unit power."""
        samples = self.samples
        sps, start = rng.uniform(*self.samples_per_symbol, n), rng.random(n)
        if modulation in ANALOGUE:
            message = angular.band_limited_noise(rng, n, samples, 0.5 / sps)
            if modulation == "FM":
                deviation = rng.uniform(*self.fm_deviation_symbols, (n, 1))
                return angular.frequency_modulate(message * deviation / sps[:, None])
            depth = rng.uniform(*self.am_index, (n, 1))
            peak = np.abs(message).max(axis=1, keepdims=True)
            envelope: Complexes = (1 + depth * message / peak).astype(complex)
            return envelope
        symbols = int(samples / self.samples_per_symbol[0]) + 16
        if modulation in FSK:
            bits = 2 * rng.integers(2, size=(n, symbols)) - 1
            bt = rng.uniform(*self.gfsk_bt, n) if modulation == "GFSK" else None
            index = rng.uniform(*self.fsk_index, (n, 1)) if modulation == "2FSK" else np.full((n, 1), self.gfsk_index)
            frequency = angular.fsk_frequency(bits, samples, sps, start, bt)
            return angular.frequency_modulate(frequency * index / 2 / sps[:, None])
        points = linear.constellation(modulation)
        sent = points[rng.integers(len(points), size=(n, symbols))]
        return linear.pulse_shape(sent, samples, sps, rng.uniform(*self.rolloff, n), start)

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """The same number of scenes of every modulation, in random order."""
        del links
        regime, band, number = key
        rng = stream(seed, name, split, regime, band, number)
        n, each = self.chunk, self.chunk // len(self.classes)
        signal = np.concatenate([self.signals(modulation, each, rng) for modulation in self.classes])
        order = rng.permutation(n)
        classes = [self.classes[i // each] for i in order]
        signal = signal[order][:, None] * np.exp(2j * np.pi * rng.random(n))[:, None, None]
        cfo = rng.uniform(-self.cfo_ppm, self.cfo_ppm, n) * 1e-6 * setting.bands_hz[band] / self.sample_rate_hz
        snr_db = rng.uniform(*self.regimes_in(setting, split)[str(regime)], n)
        iq = normalise_power(add_awgn(frequency_shift(signal, cfo), snr_db, rng), setting.gain_db, rng)
        return self.assemble(setting, name, split, key, iq, snr_db, {"class": classes, "detail": classes})
