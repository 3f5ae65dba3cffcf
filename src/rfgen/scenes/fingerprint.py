"""E-ID-FP: the same standard frame from many units of one model, in sessions that change everything but the unit."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.physics import hardware
from rfgen.physics.delays import delay_line
from rfgen.physics.fields import Count, Model, Names, Range, Share
from rfgen.physics.hardware import Drift, ReceiverPopulation, Transmitter, UnitPopulation
from rfgen.physics.propagation import Links
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
    """A session's short Rician tapped delay line; a capture exchanges the share `change` of its scattered power."""

    taps: Count
    delay_spread_s: Range
    k_factor_db: Range
    change: Share

    def draw(self, rng: np.random.Generator) -> tuple[Complexes, Complexes, Floats, Floats]:
        """The session's direct and scattered gains, deviations of the latter and delays [s], all `[taps]`.

        The profile is exponential, and the first tap Rician; direct and scattered power sum to 1 on average.
        """
        spread, k = rng.uniform(*self.delay_spread_s), 10 ** (rng.uniform(*self.k_factor_db) / 10)
        delays = np.concatenate([[0.0], np.sort(rng.exponential(spread, self.taps - 1))])
        power = np.exp(-delays / spread)
        power /= power.sum() * (1 + k)
        scattered = np.sqrt(power) * complex_normal(rng, (self.taps,))
        direct = np.zeros(self.taps, complex)
        direct[0] = np.sqrt(k / (1 + k)) * np.exp(2j * np.pi * rng.random())
        return direct, scattered, np.sqrt(power), delays

    def gains(
        self, direct: Complexes, scattered: Complexes, deviation: Floats, n: int, rng: np.random.Generator
    ) -> Complexes:
        """Gains `[n, taps]` of a session's captures: the direct path stays, scattered power is exchanged."""
        new = deviation * complex_normal(rng, (n, self.taps))
        mixed: Complexes = direct + np.sqrt(1 - self.change) * scattered + np.sqrt(self.change) * new
        return mixed


class Fingerprint(SceneTask):
    """Units of one model, sessions on different days, receivers crossed with units.

    `sessions` counts a unit's sessions in each scored split, `pool_sessions` in the pool. With `holdout_units` HOLDOUT
    has units of its own, under these or the same names, whose hardware its secret seed draws; without, the units of the
    other splits.
    """

    names = ("E-ID-FP",)
    label_columns: ClassVar[LabelColumns] = {"class": str, "detail": str}
    counts_key = "captures"

    units: Names
    holdout_units: Names | None = None
    receivers: Names
    sessions: Count
    pool_sessions: Count = 1
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
        if self.holdout_units is not None and len(set(self.holdout_units)) != len(set(self.units)):
            raise ValueError(f"holdout_units: expected {len(set(self.units))}, as many as units")
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
        units = tuple(dict.fromkeys((*self.units, *(self.holdout_units or ()))))
        return super().values_of(setting) | {"device": units, "receiver": self.receivers}

    def check(self, setting: Setting, name: str) -> None:
        """Check also that the pool has a receiver for each session of a unit."""
        super().check(setting, name)
        if len(set(setting.pretrain.receivers)) < self.pool_sessions:
            raise ValueError(f"pretrain.receivers: expected at least as many as pool_sessions of {name}")

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The sessions, from 0 on; a chunk holds every unit."""
        del setting
        return range(self.pool_sessions if split == POOL else self.sessions)

    def units_and_receivers(self, setting: Setting, split: Split) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Units and receivers of a split."""
        if split == POOL:
            return setting.pretrain.units, setting.pretrain.receivers
        own = self.holdout_units if split == "HOLDOUT" else None
        return own or self.units, self.receivers

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """`chunk` captures of every unit in one session, in random order.

        In session s unit u meets receiver (u + s + shift) mod R: within a unit and split every session has another
        receiver, so that whichever session enrols, no query of the unit shares its receiver. At every session number
        the units are spread over the receivers; the shift is a third of R for each split. In the unlabelled pool
        nothing names the unit: its scenes have no device, session or receiver.
        """
        del links
        session = int(key[0])
        units, receivers = self.units_and_receivers(setting, split)
        shift = SPLITS.index(split) * (len(receivers) // 3)
        met = [receivers[(u + session + shift) % len(receivers)] for u in range(len(units))]
        made = [
            self._captures(setting, name, split, key, unit, receiver, seed)
            for unit, receiver in zip(units, met, strict=True)
        ]
        order = self._order(setting, name, split, key, seed)

        def each(values: Iterable[str]) -> list[str]:
            listed = list(values)
            return [listed[i // self.chunk] for i in order]

        iq = np.concatenate([samples for samples, _ in made])[order]
        snr_db = np.concatenate([snr for _, snr in made])[order]
        if split == POOL:
            place = "/".join(map(str, (split, name, *key)))
            return self.assemble(
                setting, name, split, key, iq, snr_db, {}, link_id=[f"{place}/{i}" for i in range(len(iq))]
            )
        sessions = each(f"{split}-{unit}-S{session:02d}" for unit in units)
        columns: dict[str, Column] = {
            "device": each(units),
            "session": sessions,
            "receiver": each(met),
            "link_id": [f"{split}/{name}/{label}" for label in sessions],
        }
        labels: dict[str, Column] = {"class": each(units), "detail": [f"S{session:02d}"] * len(order)}
        return self.assemble(setting, name, split, key, iq, snr_db, labels, **columns)

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """The unit's true parameters in the chunk's session, standardised, float64 `[n, 12]` in the chunk's order."""
        del links
        units = self.units_and_receivers(setting, split)[0]
        rows = []
        for unit in units:
            tx = self._unit(setting, split, unit, self._day(name, split, key, unit, seed), seed)
            rows.append(hardware.standardised(tx, self.population))
        return np.repeat(rows, self.chunk, axis=0)[self._order(setting, name, split, key, seed)]

    def _order(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed) -> NDArray[np.int64]:
        """The random order of a chunk's captures."""
        units = self.units_and_receivers(setting, split)[0]
        return stream(seed, name, split, "order", int(key[0]), *key[1:]).permutation(len(units) * self.chunk)

    @staticmethod
    def _day(name: str, split: Split, key: ChunkKey, unit: str, seed: Seed) -> np.random.Generator:
        """The stream of what a unit's session holds: first the drift, then the channel."""
        session, band, _ = key
        return stream(seed, name, split, unit, "session", session, band)

    def _unit(self, setting: Setting, split: Split, unit: str, day: np.random.Generator, seed: Seed) -> Transmitter:
        """The unit as it is in a session, drawn by the session's stream."""
        own = split == "HOLDOUT" and self.holdout_units is not None
        nominal = hardware.transmitter(seed if own else setting.hardware_seed, unit, self.population)
        return hardware.apply_drift(nominal, self.population, self.drift, day)

    def _captures(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, unit: str, receiver: str, seed: Seed
    ) -> tuple[Samples, Floats]:
        """A unit's captures of one chunk, and their SNR."""
        session, band, number = key
        carrier, rate = setting.bands_hz[band], self.sample_rate_hz
        day = self._day(name, split, key, unit, seed)
        tx = self._unit(setting, split, unit, day, seed)
        rx = hardware.receiver(setting.hardware_seed, receiver, self.receiver)
        direct, scattered, deviation, delays = self.channel.draw(day)
        rng = stream(seed, name, split, unit, session, band, number)
        n, length = self.chunk, self.samples + TAIL
        snr_db = rng.uniform(*self.snr_limits_in(setting, split), n)
        frames = np.stack([ofdm.wifi_frame(rng, length, "QPSK", header()) for _ in range(n)])
        sent = hardware.transmit(frames, tx, carrier, rate, rng)
        lead = rng.integers(int(self.lead_in[0]), int(self.lead_in[1]) + 1, n)
        place = np.arange(length) - lead[:, None]
        on = place >= 0
        sent = np.where(on, np.take_along_axis(sent, np.maximum(place, 0), axis=1), 0.0)
        gains = self.channel.gains(direct, scattered, deviation, n, rng)
        received = delay_line(sent, gains, np.broadcast_to(delays, gains.shape), rate)[:, : self.samples]
        noisy = add_awgn(received[:, None], snr_db, rng, on[:, : self.samples])[:, 0]
        heard = hardware.receive(noisy, rx, carrier, rate)
        return normalise_power(heard[:, None], setting.gain_db, rng), snr_db


def header() -> Complexes:
    """The 52 carrier values of the frame's fixed header symbol."""
    return ofdm.random_values(stream(0, "header"), (52,), "BPSK")
