"""Environments: a scenario of TR 38.901 with the topology that is drawn in it."""

from typing import Literal

from rfgen.physics.fields import Model, Positive, Range

Scenario = Literal["UMa", "RMa", "UMi", "InH"]


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
