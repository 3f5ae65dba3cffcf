"""What every task shares: the setting of a release, the classes that tasks inherit from, chunks, noise and level."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import model_validator

from common.errors import advice
from common.streams import Seed, complex_normal
from rfgen.physics.arrays import Array
from rfgen.physics.environment import Environment, Profiles
from rfgen.physics.fields import Count, Model, Names, NonNegative, Positive, Range
from rfgen.physics.propagation import Links
from rfgen.physics.site import Site, Sites, draw_site, through_front_end
from rfgen.physics.types import Bools, Complexes, Floats, Ints, Samples

Split = Literal["TRAIN", "DEV", "HOLDOUT", "PRETRAIN"]
SPLITS: tuple[Split, ...] = ("TRAIN", "DEV", "HOLDOUT", "PRETRAIN")
SCORED_SPLITS = SPLITS[:3]
#: The split of the unlabelled pool.
POOL: Literal["PRETRAIN"] = "PRETRAIN"

#: What a scene says of how it was acquired, one value per scene.
COLUMNS = (
    "task",
    "split",
    "environment",
    "device",
    "session",
    "receiver",
    "waveform",
    "frequency_band",
    "snr_regime",
    "snr_db",
    "sample_rate_hz",
    "center_frequency_hz",
    "link_id",
)
#: Sample at which the known symbol's body starts; of scenes that carry one.
REFERENCE_START = "reference_start"

Column = Sequence[str | None] | Sequence[float] | Floats | Ints | Sequence[list[str]]
#: Label columns and the types of their values; a list: numbers, `[n, K]` in a chunk, or texts.
LabelColumns = Mapping[str, type[str] | type[float] | type[list[float]]]
#: What a chunk is, and its number: (environment, session or regime, band, number).
ChunkKey = tuple[str | int, str, int]


@dataclass(frozen=True)
class Chunk:
    """Scenes made together.

    `iq` is complex64 `[n, antennas, samples]`; `metadata` maps each of `COLUMNS` to n values; `labels` maps the label
    columns of the task to n values, and is empty in the unlabelled pool. `reference` is what a receiver knows of the
    symbol that starts at `REFERENCE_START` (`SceneTask.known_symbol`), if the scenes carry one.
    """

    key: tuple[str | int, ...]
    iq: Samples
    metadata: dict[str, Column]
    labels: dict[str, Column]
    reference: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self.iq)


class Pretrain(Model):
    """The unlabelled pool: its own channels, band, regime, units and receivers, none of them a held-out value."""

    name: str
    environment: Profiles
    band: str
    snr_db: Range
    units: Names
    receivers: Names


class Setting(Model):
    """What the tasks of a recipe share, seeds and tasks apart.

    Echoes later than `longest_delay_s` are left out of the ray tables: no scene has any, and signals are made from
    that long before the window on.
    """

    spec_version: Literal["16.1", "19.2"]
    hardware_seed: int
    longest_delay_s: Positive
    sites: Sites
    link_chunk: Count
    gain_db: Range
    bands_hz: dict[str, Positive]
    snr_regimes_db: dict[str, Range]
    environments: dict[str, Environment]
    pretrain: Pretrain

    def snr_regime(self, snr_db: Floats) -> list[str]:
        """Names of the regimes that SNRs [dB] fall in, each `low <= snr < high` (the last one closed)."""
        names = sorted(self.snr_regimes_db, key=lambda name: self.snr_regimes_db[name])
        starts = [self.snr_regimes_db[name][0] for name in names]
        return [names[i] for i in np.clip(np.searchsorted(starts, snr_db, side="right") - 1, 0, None)]

    def regimes_between(self, low: float, high: float) -> tuple[str, ...]:
        """Names of the regimes that SNRs from `low` to `high` [dB] can fall in."""
        return tuple(name for name, (start, stop) in self.snr_regimes_db.items() if start <= high and low < stop)


_TASKS: "dict[str, type[SceneTask]]" = {}


class SceneTask(Model, ABC):
    """A task: its block of the recipe, and the generator of its scenes.

    A subclass that sets `names` is registered under each of them (`rfgen.scenes.TASKS`). `label_columns` names the
    columns of its labels and their types; `counts_key` is the field that counts its scenes by split.
    """

    names: ClassVar[tuple[str, ...]]
    label_columns: ClassVar[LabelColumns]
    needs_links: ClassVar[bool] = False
    counts_key: ClassVar[str] = "scenes"

    bands: Names
    samples: Count
    sample_rate_hz: Positive
    chunk: Count
    cfo_ppm: NonNegative

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in cls.__dict__.get("names", ()):
            if name in _TASKS:
                raise TypeError(f"{cls.__qualname__}: task {name} is {_TASKS[name].__qualname__}'s already")
            _TASKS[name] = cls

    @model_validator(mode="after")
    def _check_counts(self) -> "SceneTask":
        for split in SCORED_SPLITS:
            if self.counts.get(split, 0) <= 0:
                raise ValueError(f"{self.counts_key}.{split}: expected at least one scene")
        for split, count in self.counts.items():
            if count < 0 or count % self.chunk:
                raise ValueError(
                    f"{self.counts_key}.{split}: expected a multiple of the chunk size {self.chunk}, got {count}"
                )
        return self

    @property
    @abstractmethod
    def counts(self) -> Mapping[Split, int]:
        """Scenes by split: per environment, session or regime, and band (of E-ID-FP captures per unit)."""

    @property
    @abstractmethod
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scored splits."""

    @property
    def antennas(self) -> int:
        """Receiving antennas of a scene."""
        return 1

    def positions(self, setting: Setting, band: str) -> Floats:
        """Places of the antennas `[antennas, 2]` in wavelengths of a band's carrier."""
        del setting, band
        return np.zeros((1, 2))

    def known_symbol(self) -> dict[str, Any] | None:
        """What a receiver knows of the reference symbol that every scene carries; None where none does.

        Size of the FFT, samples of the cyclic prefix, numbers of the carriers in order of frequency, and their values
        as pairs of real and imaginary part; lists and numbers alone.
        """
        return None

    @property
    def class_names(self) -> tuple[str, ...]:
        """Class names in the order of the label's numbers; empty where the label is no class."""
        return ()

    def bands_in(self, setting: Setting, split: Split) -> tuple[str, ...]:
        """Bands of the scenes in a split."""
        return (setting.pretrain.band,) if split == POOL else self.bands

    def snr_limits_in(self, setting: Setting, split: Split) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scenes in a split."""
        return setting.pretrain.snr_db if split == POOL else self.snr_limits_db

    def environments_in(self, setting: Setting, split: Split) -> Mapping[str, Environment | Profiles]:
        """Environments of the scenes in a split, by name; empty for a task without links."""
        del setting, split
        return {}

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return {
            "environment": (),
            "device": (),
            "receiver": (),
            "waveform": (),
            "frequency_band": self.bands,
            "snr_regime": setting.regimes_between(*self.snr_limits_db),
        }

    def check(self, setting: Setting, name: str) -> None:
        """Check the block called `name` against what the tasks share; ValueError that names the recipe's key."""
        for band in self.bands:
            if band not in setting.bands_hz:
                raise ValueError(
                    f"tasks.{name}.bands: {band!r} has no frequency in bands_hz, {advice(band, setting.bands_hz)}"
                )

    @abstractmethod
    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """What chunks are made by, beside the band: environments, sessions or SNR regimes."""

    def chunk_keys(self, setting: Setting, split: Split) -> list[ChunkKey]:
        """Keys of the chunks in a split, in the order that they are made: (group, band, number)."""
        numbers = range(self.counts.get(split, 0) // self.chunk)
        bands = self.bands_in(setting, split)
        return [(group, band, number) for group in self.groups(setting, split) for band in bands for number in numbers]

    @abstractmethod
    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """The chunk `key` of the task called `name`, by random streams that (seed, name, split, key) name.

        `links` are those of the chunk's scenes, which a task with `needs_links` takes and the others ignore.
        """

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """Features of the true parameters of the chunk's scenes, float64 `[n, D]` in the chunk's order.

        An oracle's embedding, on which a readout is fit as on any other; it changes none of the chunk's draws.
        NotImplementedError for a task that states none.
        """
        raise NotImplementedError(f"{name}: no truth is stated for this task")

    def assemble(
        self,
        setting: Setting,
        name: str,
        split: Split,
        key: ChunkKey,
        iq: Samples,
        snr_db: Floats,
        labels: dict[str, Column],
        **metadata: Column,
    ) -> Chunk:
        """A chunk of `iq` `[n, antennas, samples]` with all metadata columns; those not given are null.

        Scenes of the unlabelled pool get no labels, whatever is given.
        """
        n, band = len(snr_db), key[1]
        known: dict[str, Column] = {
            "task": [name] * n,
            "split": [split] * n,
            "frequency_band": [band] * n,
            "snr_regime": setting.snr_regime(snr_db),
            "snr_db": np.asarray(snr_db, float),
            "sample_rate_hz": np.full(n, self.sample_rate_hz),
            "center_frequency_hz": np.full(n, setting.bands_hz[band]),
            **metadata,
        }
        columns: dict[str, Column] = {column: known.get(column, [None] * n) for column in COLUMNS}
        if REFERENCE_START in metadata:
            columns[REFERENCE_START] = metadata[REFERENCE_START]
        return Chunk(key, iq, columns, {} if split == POOL else labels, self.known_symbol())


class CountedTask(SceneTask):
    """A task whose `scenes` count by split, per group and band."""

    scenes: dict[Split, int]

    @property
    def counts(self) -> Mapping[Split, int]:
        """Scenes by split, per group and band."""
        return self.scenes


class LinkTask(CountedTask):
    """A task whose scenes are links of environments, one link per scene."""

    needs_links = True

    environments: Names
    snr_db: Range

    @model_validator(mode="after")
    def _check_environments(self) -> "LinkTask":
        if len(set(self.environments)) < 2:
            raise ValueError("environments: expected at least two different held-out values")
        return self

    @property
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scored splits."""
        return self.snr_db

    @property
    def aerial_share(self) -> float:
        """Share of emitters that are high: the recipe's `high_share`, where a task has one."""
        return 0.0

    def environments_in(self, setting: Setting, split: Split) -> Mapping[str, Environment | Profiles]:
        """Environments of the scenes in a split, by name."""
        if split == POOL:
            return {setting.pretrain.name: setting.pretrain.environment}
        return {name: setting.environments[name] for name in self.environments}

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"environment": self.environments}

    def check(self, setting: Setting, name: str) -> None:
        """Check also that every environment is defined, and has a place for high emitters where there are any."""
        super().check(setting, name)
        for environment in self.environments:
            if environment not in setting.environments:
                told = advice(environment, setting.environments)
                raise ValueError(f"tasks.{name}.environments: {environment!r} is not defined in environments, {told}")
        if self.aerial_share == 0:
            return
        # The pool's profiles have no high emitters: it carries no label, so that no score rests on their share.
        for environment in self.environments:
            if setting.environments[environment].aerial is None:
                raise ValueError(
                    f"tasks.{name}.high_share: {environment} has no aerial block, expected one for high emitters"
                )

    def array_in(self, band: str) -> Array | None:
        """The array of a band; None for a single antenna."""
        del band
        return None

    def site_of(self, environment: str, band: str) -> str:
        """Name of the hardware that receives a band at an environment."""
        del band
        return environment

    def site(self, setting: Setting, name: str, array: Array | None) -> Site:
        """The hardware of the site called `name`."""
        return draw_site(setting.hardware_seed, name, setting.sites, array)

    def hardware(self, setting: Setting, split: Split, key: ChunkKey, n: int) -> list[Site]:
        """Sites that the n scenes of a chunk are received at: the environment's, or in the pool those of the pool."""
        environment, band, number = key
        array, name = self.array_in(band), self.site_of(str(environment), band)
        if split != POOL:
            return [self.site(setting, name, array)] * n
        count = setting.sites.pretrain_sites
        places = [(number * self.chunk + scene) % count for scene in range(n)]
        drawn = {place: self.site(setting, f"{name} {place}", array) for place in set(places)}
        return [drawn[place] for place in places]

    def receive(self, setting: Setting, split: Split, key: ChunkKey, signal: Complexes) -> Complexes:
        """Samples `[n, antennas, samples]` of a chunk, noise included, behind the front ends of its sites."""
        sites = self.hardware(setting, split, key, len(signal))
        return through_front_end(sites, signal, setting.bands_hz[key[1]], self.sample_rate_hz)

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The environments of a split."""
        return self.environments_in(setting, split)

    def make(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Chunk:
        """The chunk `key` of the task called `name`, one scene per link; ValueError without links."""
        if links is None:
            raise ValueError(f"links: expected those of chunk {key!r} of {name} in {split}, got none")
        return self.make_on(setting, name, split, key, seed, links)

    @abstractmethod
    def make_on(self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links) -> Chunk:
        """The chunk `key` of the task called `name` on the links given, in their order."""


class SceneRecipe(Setting):
    """A setting and the tasks in it, by name; `rfgen.recipe.Recipe` reads and checks one."""

    tasks: dict[str, SceneTask]


def add_awgn(signal: Complexes, snr_db: Floats, rng: np.random.Generator, active: Bools | None = None) -> Complexes:
    """`signal` `[n, antennas, samples]` scaled to its SNR [dB] in the whole sampled band, plus unit white noise.

    Signal power is the mean over antennas and, with a boolean `active` `[n, samples]`, over the samples where the
    emitter is on. A silent signal stays silent.
    """
    power = np.abs(signal) ** 2
    if active is None:
        mean = power.mean(axis=(1, 2))
    else:
        mean = np.sum(power.mean(axis=1) * active, axis=1) / np.maximum(active.sum(axis=1), 1)
    scale = np.sqrt(10 ** (np.asarray(snr_db) / 10) / np.where(mean > 0, mean, 1.0))
    received: Complexes = signal * scale[:, None, None] + complex_normal(rng, signal.shape)
    return received


def normalise_power(signal: Complexes, gain_db: tuple[float, float], rng: np.random.Generator) -> Samples:
    """Scenes of unit mean power, then a random gain in `gain_db` [dB], so that power carries no information."""
    rms = np.sqrt(np.mean(np.abs(signal) ** 2, axis=(1, 2)))
    gain = 10 ** (rng.uniform(*gain_db, len(signal)) / 20)
    scaled: Samples = (signal * (gain / rms)[:, None, None]).astype(np.complex64)
    return scaled


def frequency_shift(signal: Complexes | Floats, frequency: Floats) -> Complexes:
    """`signal` `[n, antennas, samples]` shifted by `frequency` `[n]` cycles per sample."""
    shifted: Complexes = signal * np.exp(2j * np.pi * frequency[:, None] * np.arange(signal.shape[-1]))[:, None]
    return shifted
