"""What every matched synthetic set states, and how the scenes of links are labelled."""

from abc import ABC, abstractmethod
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from rfgen.captures.limits import Angles, Decibels, Hertz, Portion, Samples, Scenes
from rfgen.captures.multipath import AnyMultipath, Paths, draw, numbers_of
from rfgen.physics.fields import Model
from rfgen.physics.types import Complexes
from rfgen.scenes import TASKS
from rfgen.scenes.base import Column

TwinSplit = Literal["TRAIN", "DEV"]
TWIN_SPLITS: tuple[TwinSplit, ...] = ("TRAIN", "DEV")
Labels = dict[str, Column]


class MatchedSet(Model, ABC):
    """What every matched synthetic set states, and how its scenes are made."""

    task: Annotated[Literal["E-LOC-AOA", "E-LOC-LOS", "E-ID-AMC"], Field(description="task of the capture set")]
    frequency_hz: Annotated[Hertz, Field(description="carrier, in Hz")]
    sample_rate_hz: Annotated[Hertz, Field(description="sample rate, in Hz")]
    samples: Annotated[Samples, Field(description="samples per scene")]
    snr_db: Annotated[Decibels, Field(description="lowest and highest signal-to-noise ratio, uniform in dB")]
    chunk: Annotated[int, Field(ge=1, le=10_000, description="scenes that are made together")]
    scenes: Annotated[
        dict[TwinSplit, Scenes], Field(description="number of scenes in `TRAIN` and in `DEV`, multiples of `chunk`")
    ]

    @model_validator(mode="after")
    def _whole(self) -> "MatchedSet":
        for split in TWIN_SPLITS:
            if self.scenes.get(split, 0) % self.chunk or split not in self.scenes:
                raise ValueError(f"scenes.{split}: expected a multiple of the chunk size {self.chunk}")
        return self

    @property
    def antennas(self) -> int:
        """Antennas of a scene."""
        return 1

    @property
    @abstractmethod
    def classes(self) -> tuple[str, ...]:
        """Classes of its scenes; none for an angle."""

    @abstractmethod
    def make(self, rng: np.random.Generator) -> tuple[Complexes, Labels]:
        """Scenes of one chunk, `[chunk, antennas, samples]` of any power, and their labels."""


class LinkSet(MatchedSet):
    """A matched set whose scenes are links of a multipath channel, a share of them in line of sight."""

    task: Annotated[Literal["E-LOC-AOA", "E-LOC-LOS"], Field(description="task of the capture set")]
    los_share: Annotated[Portion, Field(description="share of the links that are in line of sight")]
    bearing_deg: Annotated[
        Angles,
        Field(
            description="bearings of the links are uniform from the first to the second, in degrees counter-clockwise "
            "from the array's +x axis"
        ),
    ] = (0.0, 360.0)
    multipath: Annotated[
        AnyMultipath,
        Field(
            description="channel in line of sight and out of it: `office` (Spencer et al. 2000), `residential` (IEEE "
            "802.15.4a), or numbers"
        ),
    ]

    @model_validator(mode="after")
    def _once_round(self) -> "LinkSet":
        low, high = self.bearing_deg
        if not 0 < high - low <= 360:
            raise ValueError("bearing_deg: expected two bearings of one turn, the lower first")
        return self

    @property
    def classes(self) -> tuple[str, ...]:
        """NLOS and LOS; none for an angle."""
        return () if "azimuth_deg" in TASKS[self.task].label_columns else ("NLOS", "LOS")

    def draw_links(self, rng: np.random.Generator) -> tuple[Paths, Labels]:
        """Paths and labels of a chunk's links; the states are balanced to the declared share in every chunk."""
        los = rng.permutation(self.chunk) < round(self.los_share * self.chunk)
        bearing = rng.uniform(*self.bearing_deg, self.chunk)
        known: Labels = {
            "azimuth_deg": (bearing % 360.0 % 360.0).tolist(),
            "class": ["LOS" if x else "NLOS" for x in los],
        }
        labels = {column: known[column] for column in TASKS[self.task].label_columns if column in known}
        return draw(numbers_of(self.multipath), los, bearing, rng), labels
