"""E-ID-FP: the same standard frame from many units of one model, in sessions that change everything but the unit."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
from pydantic import model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.physics import hardware
from rfgen.physics.fields import Count, Model, Names, Range, Share
from rfgen.physics.hardware import Drift, ReceiverPopulation, UnitPopulation
from rfgen.physics.propagation import Links, frequency_response
from rfgen.physics.types import Complexes, Floats, Samples
from rfgen.scenes.base import (
    POOL,
    SPLITS,
    Chunk,
    ChunkKey,
    Column,
    LabelColumns,
    SceneTask,
    Setting,
    Split,
    add_awgn,
    normalise_power,
)
from rfgen.waveforms import ofdm

# Samples after the window, so that nothing ends inside it.
TAIL = 64


class SessionChannel(Model):
    """A session's short Rician tapped delay line and how much of it changes from capture to capture."""

    taps: Count
    delay_spread_s: Range
    k_factor_db: Range
    change: Share

    def draw(self, rng: np.random.Generator) -> tuple[Complexes, Floats, Floats]:
        """Gains, delays [s] and standard deviations of the taps: exponential profile, the first one Rician."""
        spread, k = rng.uniform(*self.delay_spread_s), 10 ** (rng.uniform(*self.k_factor_db) / 10)
        delays = np.concatenate([[0.0], np.sort(rng.exponential(spread, self.taps - 1))])
        power = np.exp(-delays / spread)
        power /= power.sum() * (1 + k)
        gains = np.sqrt(power) * complex_normal(rng, (self.taps,))
        gains[0] += np.sqrt(k / (1 + k)) * np.exp(2j * np.pi * rng.random())
        return gains, delays, np.sqrt(power)


class Fingerprint(SceneTask):
    """Units of one model, sessions on different days, receivers crossed with units."""

    names = ("E-ID-FP",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}
    counts_key = "captures"

    units: Names
    receivers: Names
    sessions: Count
    snr_db: Range
    captures: dict[Split, int]
    lead_in: Range
    population: UnitPopulation
    drift: Drift
    receiver: ReceiverPopulation
    channel: SessionChannel

    @model_validator(mode="after")
    def _check_sessions(self) -> "Fingerprint":
        if len(set(self.units)) < 2:
            raise ValueError("units: expected at least two different held-out values")
        if self.sessions < 2:
            raise ValueError("sessions: expected at least two, one to enrol and one to query")
        if len(set(self.receivers)) < self.sessions:
            raise ValueError(f"receivers: expected at least {self.sessions}, one for each session of a unit")
        return self

    @property
    def counts(self) -> Mapping[Split, int]:
        """Captures by split, per unit, session and band."""
        return self.captures

    @property
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scored splits."""
        return self.snr_db

    @property
    def class_names(self) -> tuple[str, ...]:
        """The units."""
        return self.units

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"device": self.units}

    def check(self, setting: Setting, name: str) -> None:
        """Check also that the pool has a receiver for each session of a unit."""
        super().check(setting, name)
        if len(set(setting.pretrain.receivers)) < self.sessions:
            raise ValueError(f"pretrain.receivers: expected at least as many as sessions of {name}")

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The sessions, from 0 on; a chunk holds every unit."""
        del setting, split
        return range(self.sessions)

    def units_and_receivers(self, setting: Setting, split: Split) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Units and receivers of a split."""
        source = setting.pretrain if split == POOL else self
        return source.units, source.receivers

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """`chunk` captures of every unit in one session, in random order.

        In session s unit u meets receiver (u + s + shift) mod R: within a unit and split every session has another
        receiver, at every session number the units are spread over the receivers, and the shift (a third of R for each
        split) gives a unit other receivers in DEV and HOLDOUT than in TRAIN, where there are enough of them.
        """
        del links
        session, band, number = int(key[0]), *key[1:]
        units, receivers = self.units_and_receivers(setting, split)
        shift = SPLITS.index(split) * (len(receivers) // 3)
        met = [receivers[(u + session + shift) % len(receivers)] for u in range(len(units))]
        made = [
            self._captures(setting, name, split, key, unit, receiver, seed)
            for unit, receiver in zip(units, met, strict=True)
        ]
        order = stream(seed, name, split, "order", session, band, number).permutation(len(units) * self.chunk)

        def each(values: Iterable[str]) -> list[str]:
            listed = list(values)
            return [listed[i // self.chunk] for i in order]

        iq = np.concatenate([samples for samples, _ in made])[order]
        snr_db = np.concatenate([snr for _, snr in made])[order]
        sessions = each(f"{split}-{unit}-S{session}" for unit in units)
        columns: dict[str, Column] = {
            "device": each(units),
            "session": sessions,
            "receiver": each(met),
            "link_id": [f"{split}/{name}/{label}" for label in sessions],
        }
        labels: dict[str, Column] = {"class": each(units), "detail": [f"S{session}"] * len(order)}
        return self.assemble(setting, name, split, key, iq, snr_db, labels, **columns)

    def _captures(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, unit: str, receiver: str, seed: Seed
    ) -> tuple[Samples, Floats]:
        """A unit's captures of one chunk, and their SNR."""
        session, band, number = key
        carrier, rate = setting.bands_hz[band], self.sample_rate_hz
        day = stream(seed, name, split, unit, "session", session, band)
        nominal = hardware.transmitter(setting.hardware_seed, unit, self.population)
        tx = hardware.apply_drift(nominal, self.population, self.drift, day)
        rx = hardware.receiver(setting.hardware_seed, receiver, self.receiver)
        taps, delays, deviation = self.channel.draw(day)
        rng = stream(seed, name, split, unit, session, band, number)
        n, length = self.chunk, self.samples + TAIL
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        frames = np.stack([ofdm.wifi_frame(rng, length, "QPSK", header()) for _ in range(n)])
        sent = hardware.transmit(frames, tx, carrier, rate, rng)
        lead = rng.integers(int(self.lead_in[0]), int(self.lead_in[1]) + 1, n)
        place = np.arange(length) - lead[:, None]
        on = place >= 0
        sent = np.where(on, np.take_along_axis(sent, np.maximum(place, 0), axis=1), 0.0)
        change = complex_normal(rng, (n, len(taps)))
        gains = taps + np.sqrt(self.channel.change) * deviation * change
        response = frequency_response(gains[:, None], np.broadcast_to(delays, gains.shape), length, rate)
        received = np.fft.ifft(np.fft.fft(sent)[:, None] * response)[..., : self.samples]
        noisy = add_awgn(received, snr_db, rng, on[:, : self.samples])[:, 0]
        heard = hardware.receive(noisy, rx, carrier, rate)
        return normalise_power(heard[:, None], setting.gain_db, rng), snr_db


def header() -> Complexes:
    """The 52 carrier values of the frame's fixed header symbol."""
    return ofdm.random_values(stream(0, "header"), (52,), "BPSK")
