"""Environments: a scenario of TR 38.901 with the topology drawn in it, and the profiles of the unlabelled pool."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from rfgen.physics import laws
from rfgen.physics.fields import Model, Positive, Range
from rfgen.physics.types import Floats

Scenario = Literal["UMa", "RMa", "UMi", "InH", "InF"]
Sides = Annotated[
    tuple[Positive, Positive, Positive], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)
]


class Aerial(Model):
    """Where high emitters are: heights and 2-D distances [m], drawn uniformly."""

    height_m: Range
    distance_m: Range


class Factory(Model):
    """A hall of dense clutter below high base stations (InF-DH): its length, width and height [m], and the clutter.

    The hall's volume over its surface sets the delay spread (TR 38.901 Table 7.5-6), the share of the floor that the
    clutter takes, its size and its height [m] set the line of sight (Table 7.4.2-1).
    """

    hall_m: Sides
    clutter_density: Annotated[float, Field(gt=0, lt=1)]
    clutter_size_m: Positive
    clutter_height_m: Positive


class Environment(Model):
    """A TR 38.901 scenario with the topology drawn in it; distances [m] are 2-D and uniform."""

    scenario: Scenario
    base_height_m: Positive
    terminal_height_m: Positive
    distance_m: Range
    aerial: Aerial | None = None
    factory: Factory | None = None

    @model_validator(mode="after")
    def _check(self) -> "Environment":
        if (self.scenario == "InF") != (self.factory is not None):
            raise ValueError("factory: expected the hall and its clutter for InF, and for InF alone")
        if self.factory and not self.terminal_height_m < self.factory.clutter_height_m < self.base_height_m:
            raise ValueError("factory.clutter_height_m: expected it above the terminals and below the base station")
        return self

    def los_probability(self, distance_2d_m: Floats, height_m: Floats | float) -> Floats:
        """Probability of line of sight at 2-D distances and terminal heights [m] (`rfgen.physics.laws`)."""
        hall, decay = self.factory, None
        if hall:
            heights = (hall.clutter_height_m, self.base_height_m, self.terminal_height_m)
            decay = laws.factory_decay_m(hall.clutter_density, hall.clutter_size_m, *heights)
        return laws.los_probability(self.scenario, distance_2d_m, height_m, decay_m=decay)


class Profiles(Model):
    """The clustered delay line profiles A to E of TR 38.901 7.7.1, one a link in turn, turned to a random bearing.

    Their delays are scaled to a spread that is uniform in its logarithm. No environment is one of them, so that a pool
    of them has met none.
    """

    scenario: Literal["CDL"]
    delay_spread_s: Range
