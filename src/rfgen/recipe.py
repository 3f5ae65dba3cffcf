"""The recipe of a release: every number of its scenes, checked once, frozen afterwards."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from pydantic import ConfigDict, ValidationError, model_validator
from typing_extensions import TypedDict

from rfgen.fields import Count, Model, Names, NonNegative, Positive, Range, Share
from rfgen.waveforms.emitters import RATE, Families

SPLITS = ("TRAIN", "DEV", "HOLDOUT", "PRETRAIN")
SCORED_SPLITS = SPLITS[:3]
LOCALISATION = ("E-LOC-AOA", "E-LOC-LOS")
WITH_LINKS = (*LOCALISATION, "E-ID-DRONE")
TASKS = (*WITH_LINKS, "E-ID-FP", "E-ID-AMC")
MODULATIONS = ("OOK", "2FSK", "GFSK", "BPSK", "QPSK", "8PSK", "16QAM", "64QAM", "4PAM", "AM-DSB", "FM")

Scenario = Literal["UMa", "RMa", "UMi", "InH"]
Split = Literal["TRAIN", "DEV", "HOLDOUT", "PRETRAIN"]


class Aerial(Model):
    """Where high emitters are: heights and 2-D distances [m], drawn uniformly."""

    height_m: Range
    distance_m: Range


class Environment(Model):
    """A TR 38.901 scenario with the topology drawn in it; distances [m] are 2-D and uniform."""

    scenario: Scenario
    base_height_m: Positive
    terminal_height_m: Positive
    distance_m: Range
    aerial: Aerial | None = None


class Array(Model):
    """An antenna array; `circular` puts neighbours `spacing_wavelengths` apart on a circle, `linear` on a line."""

    kind: Literal["circular", "linear"]
    elements: Count
    spacing_wavelengths: Positive


class _Task(Model):
    """What every task states: bands, samples a scene, sample rate [Hz], SNR range [dB] and the chunk's size."""

    bands: Names
    samples: Count
    sample_rate_hz: Positive
    chunk: Count
    cfo_ppm: NonNegative


class _LinkTask(_Task):
    environments: Names
    snr_db: Range
    scenes: dict[Split, int]

    @model_validator(mode="after")
    def _check(self) -> "_LinkTask":
        _check_scenes(self.scenes, self.chunk)
        if len(set(self.environments)) < 2:
            raise ValueError("environments: expected at least two different held-out values")
        return self


class Localisation(_LinkTask):
    """E-LOC-AOA and E-LOC-LOS: an OFDM terminal seen by an array at the base station."""

    array: Array
    subcarriers: Count
    active_subcarriers: Count
    cyclic_prefix: Count
    constellation: Literal["BPSK", "QPSK", "16QAM", "64QAM"]


class Drone(_LinkTask):
    """E-ID-DRONE: an emitter of one of the families (`present` are drones), ground or high, seen by one antenna.

    `families` holds the numbers of each family (`rfgen.waveforms.emitters`, made at 20 MS/s).
    """

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


class UnitPopulation(Model):
    """Spread of the units of one model, standard deviations about the model's mean, and of their drift by session."""

    cfo_ppm: NonNegative
    gain_imbalance_db: NonNegative
    phase_imbalance_deg: NonNegative
    dc_offset: NonNegative
    amplifier_saturation_db: Range
    amplifier_smoothness: Range
    am_pm_deg: Range
    phase_noise_hz: Range
    transient_depth: Range
    transient_us: Range
    transient_phase_deg: NonNegative


class Drift(Model):
    """How far a unit moves from session to session: a share of each population spread, and its own CFO in ppm."""

    cfo_ppm: NonNegative
    share: NonNegative


class ReceiverPopulation(Model):
    """Spread of the receiver chains, standard deviations."""

    cfo_ppm: NonNegative
    gain_imbalance_db: NonNegative
    phase_imbalance_deg: NonNegative
    dc_offset: NonNegative
    ripple: NonNegative


class SessionChannel(Model):
    """A session's short Rician tapped delay line and how much of it changes from capture to capture."""

    taps: Count
    delay_spread_s: Range
    k_factor_db: Range
    change: Share


class Fingerprint(_Task):
    """E-ID-FP: units of one model, sessions on different days, receivers crossed with units."""

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
    def _check(self) -> "Fingerprint":
        _check_scenes(self.captures, self.chunk, "captures")
        if len(set(self.units)) < 2:
            raise ValueError("units: expected at least two different held-out values")
        if self.sessions < 2:
            raise ValueError("sessions: expected at least two, one to enrol and one to query")
        if len(set(self.receivers)) < self.sessions:
            raise ValueError(f"receivers: expected at least {self.sessions}, one for each session of a unit")
        return self


class Modulation(_Task):
    """E-ID-AMC: modulations at three SNR regimes; `scenes` counts per regime and band, balanced over the classes."""

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
    def _check(self) -> "Modulation":
        _check_scenes(self.scenes, self.chunk)
        for name in self.classes:
            if name not in MODULATIONS:
                raise ValueError(f"classes: unknown modulation {name!r}, expected {', '.join(MODULATIONS)}")
        if self.chunk % len(self.classes):
            raise ValueError(f"chunk: expected a multiple of the {len(self.classes)} classes, so that they balance")
        if len(self.regimes_db) < 2:
            raise ValueError("regimes_db: expected at least two held-out values")
        return self


Tasks = TypedDict(
    "Tasks",
    {
        "E-LOC-AOA": Localisation,
        "E-LOC-LOS": Localisation,
        "E-ID-DRONE": Drone,
        "E-ID-FP": Fingerprint,
        "E-ID-AMC": Modulation,
    },
    total=False,
)
Tasks.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)


class Pretrain(Model):
    """The unlabelled pool: its own environment, band, regime, units and receivers, none of them a held-out value."""

    name: str
    environment: Environment
    band: str
    snr_db: Range
    units: Names
    receivers: Names


class Recipe(Model):
    """Everything that decides a release's scenes, apart from its seed: the `rfgen:` mapping of a release's YAML.

    Build it with `Recipe.from_mapping`, whose errors are one line that names the key and what was expected.
    """

    spec_version: Literal["16.1", "19.2"]
    hardware_seed: int
    link_chunk: Count
    gain_db: Range
    bands_hz: dict[str, Positive]
    snr_regimes_db: dict[str, Range]
    environments: dict[str, Environment]
    tasks: Tasks
    pretrain: Pretrain

    @classmethod
    def from_mapping(cls, mapping: Any, where: str = "rfgen") -> "Recipe":
        """The recipe in `mapping`; ValueError of one line `where.key: expectation` when it is not one."""
        try:
            return cls.model_validate(mapping)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join([where, *map(str, first["loc"])])
            raise ValueError(f"{key}: {first['msg'].removeprefix('Value error, ')}") from None

    @model_validator(mode="after")
    def _check(self) -> "Recipe":
        used = set()
        for name, task in self.tasks.items():
            for band in task.bands:
                if band not in self.bands_hz:
                    raise ValueError(f"tasks.{name}.bands: {band!r} has no frequency in bands_hz")
            for environment in getattr(task, "environments", ()):
                if environment not in self.environments:
                    raise ValueError(f"tasks.{name}.environments: {environment!r} is not defined in environments")
                used.add(environment)
        for environment in self.environments:
            if environment not in used:
                raise ValueError(
                    f"environments.{environment}: environment without scenes, expected a task that uses it"
                )
        if self.pretrain.band not in self.bands_hz:
            raise ValueError(f"pretrain.band: {self.pretrain.band!r} has no frequency in bands_hz")
        self._check_pretrain()
        return self

    def _check_pretrain(self) -> None:
        """The pool meets no held-out value."""
        ceiling = max(self._highest_snr(task) for task in self.tasks.values())
        if self.pretrain.snr_db[0] < ceiling:
            raise ValueError(f"pretrain.snr_db: expected SNRs from {ceiling} dB on, above those of every task")
        if "E-ID-FP" in self.tasks and len(set(self.pretrain.receivers)) < self.tasks["E-ID-FP"].sessions:
            raise ValueError("pretrain.receivers: expected at least as many as sessions of E-ID-FP")
        pool, scored = self.pretrain, {band for task in self.tasks.values() for band in task.bands}
        units = set(self.tasks["E-ID-FP"].units) if "E-ID-FP" in self.tasks else set()
        for key, value, taken in (
            ("name", pool.name, set(self.environments)),
            ("environment.scenario", pool.environment.scenario, {e.scenario for e in self.environments.values()}),
            ("band", pool.band, scored),
            *(("units", unit, units) for unit in pool.units),
        ):
            if value in taken:
                raise ValueError(f"pretrain.{key}: {value!r} is a held-out value, expected one that no task scores")

    @staticmethod
    def _highest_snr(task: _Task) -> float:
        ranges = task.regimes_db.values() if isinstance(task, Modulation) else (task.snr_db,)
        return max(high for _, high in ranges)

    @property
    def splits(self) -> tuple[str, ...]:
        """TRAIN, DEV, HOLDOUT and PRETRAIN."""
        return SPLITS

    def tasks_in(self, split: str) -> tuple[str, ...]:
        """Tasks that have scenes in a split, in the recipe's order."""
        return tuple(name for name, task in self.tasks.items() if counts(task).get(split, 0))

    def environments_in(self, task: str, split: str) -> dict[str, Environment]:
        """Environments of a task's scenes in a split, by name; empty for a task without links."""
        if task not in WITH_LINKS:
            return {}
        if split == "PRETRAIN":
            return {self.pretrain.name: self.pretrain.environment}
        return {name: self.environments[name] for name in self.tasks[task].environments}

    def bands_in(self, task: str, split: str) -> tuple[str, ...]:
        """Bands of a task's scenes in a split."""
        return (self.pretrain.band,) if split == "PRETRAIN" else self.tasks[task].bands

    def values_of(self, task: str) -> dict[str, tuple[str, ...]]:
        """Values that a task's TRAIN, DEV and HOLDOUT scenes can have, by the scene column of each axis."""
        own = self.tasks[task]
        if isinstance(own, Modulation):
            regimes = tuple(own.regimes_db)
        else:
            low, high = own.snr_db
            regimes = tuple(name for name, (start, stop) in self.snr_regimes_db.items() if start <= high and low < stop)
        return {
            "environment": tuple(getattr(own, "environments", ())),
            "device": tuple(getattr(own, "units", ())),
            "frequency_band": own.bands,
            "snr_regime": regimes,
        }

    def snr_regime(self, snr_db: np.ndarray) -> list[str]:
        """Names of the regimes that SNRs [dB] fall in, each `low <= snr < high` (the last one closed)."""
        names = sorted(self.snr_regimes_db, key=lambda name: self.snr_regimes_db[name])
        starts = [self.snr_regimes_db[name][0] for name in names]
        return [names[i] for i in np.clip(np.searchsorted(starts, snr_db, side="right") - 1, 0, None)]


def counts(task: _Task) -> Mapping[str, int]:
    """Scenes (for E-ID-FP captures) by split of a task of a recipe."""
    return task.captures if isinstance(task, Fingerprint) else task.scenes


def _check_scenes(scenes: Mapping[str, int], chunk: int, key: str = "scenes") -> None:
    for split in SCORED_SPLITS:
        if scenes.get(split, 0) <= 0:
            raise ValueError(f"{key}.{split}: expected at least one scene")
    for split, count in scenes.items():
        if count < 0 or count % chunk:
            raise ValueError(f"{key}.{split}: expected a multiple of the chunk size {chunk}, got {count}")
