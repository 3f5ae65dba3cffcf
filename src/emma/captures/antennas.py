"""How an array stood and how its angles were measured, and captured scenes in the canonical frame.

Canonical: azimuth in degrees counter-clockwise from the array's +x axis, the direction that the wave comes from.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator

from common.errors import InputError
from emma.tasks import Strict

if TYPE_CHECKING:
    from emma.captures.adapters import Scenes

_Metres = Annotated[float, Field(gt=0, le=1e4)]
_Degrees = Annotated[float, Field(ge=-360, le=360)]
_Coordinate = Annotated[float, Field(ge=-1e4, le=1e4)]
_Elements = Annotated[int, Field(ge=1, le=4096, description="number of elements, in the order of the channels")]

#: Places [m] that differ by no more are the same: what a ruler and rounding leave.
PLACE_TOLERANCE_M = 1e-3


def bearing(label: float | str, where: str) -> float:
    """A label in degrees; InputError, which names ``where`` it is, for one that is none."""
    try:
        degrees = float(label)
    except ValueError:
        degrees = math.nan
    if not abs(degrees) <= 360:
        raise InputError(f"{where}: label {label!r}, expected degrees from -360 to 360")
    return degrees


def on_circle(degrees: float) -> float:
    """An angle in [0, 360)."""
    # The remainder of a negative number close to zero rounds up to 360 itself.
    return degrees % 360.0 % 360.0


class _Stated(Strict):
    """How an array stood. A bearing b becomes azimuth ``b - orientation_deg``, or ``orientation_deg - b`` (compass)."""

    orientation_deg: Annotated[
        _Degrees, Field(description="where the array's +x axis points, in degrees as the labels are measured")
    ]
    frame: Annotated[
        Literal["counter-clockwise", "compass"],
        Field(
            description="how labels and orientation are measured: `counter-clockwise` from a fixed axis, or `compass` "
            "bearings, clockwise from north"
        ),
    ]

    def azimuth(self, label_deg: float) -> float:
        """A label in degrees as canonical azimuth, in [0, 360)."""
        turned = label_deg - self.orientation_deg
        return on_circle(turned if self.frame == "counter-clockwise" else -turned)


class CircularArray(_Stated):
    """Elements at equal steps on a circle about the origin."""

    kind: Annotated[Literal["circular"], Field(description="elements on a circle")]
    elements: _Elements
    radius_m: Annotated[_Metres, Field(description="radius of the circle, in metres")]
    first_deg: Annotated[
        _Degrees, Field(description="where the first element is, in degrees counter-clockwise from the array's +x axis")
    ] = 0.0
    order: Annotated[
        Literal["counter-clockwise", "clockwise"],
        Field(description="the way round of the elements, seen from above, in the order of the channels"),
    ] = "counter-clockwise"

    def places(self) -> NDArray[np.float64]:
        """Element positions [m], float64 ``[elements, 2]``."""
        turn = 360.0 if self.order == "counter-clockwise" else -360.0
        angle = np.radians(self.first_deg + turn * np.arange(self.elements) / self.elements)
        places: NDArray[np.float64] = self.radius_m * np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        return places


class LinearArray(_Stated):
    """Elements at equal steps on a line, centred on the origin."""

    kind: Annotated[Literal["linear"], Field(description="elements on a line")]
    elements: _Elements
    spacing_m: Annotated[_Metres, Field(description="distance of neighbours, in metres")]
    axis_deg: Annotated[
        _Degrees,
        Field(
            description="direction from the first element to the last, in degrees counter-clockwise from the array's "
            "+x axis"
        ),
    ] = 0.0

    def places(self) -> NDArray[np.float64]:
        """Element positions [m], float64 ``[elements, 2]``."""
        along = (np.arange(self.elements) - (self.elements - 1) / 2) * self.spacing_m
        axis = np.radians(self.axis_deg)
        places: NDArray[np.float64] = along[:, None] * np.array([np.cos(axis), np.sin(axis)])
        return places


class PlacedArray(_Stated):
    """Elements anywhere in the plane."""

    kind: Annotated[Literal["positions"], Field(description="elements anywhere")]
    positions_m: Annotated[
        tuple[tuple[_Coordinate, _Coordinate], ...],
        Field(
            min_length=1, max_length=4096, description="x and y of each element in metres, in the order of the channels"
        ),
    ]

    @field_validator("positions_m")
    @classmethod
    def _apart(cls, value: tuple[tuple[float, float], ...]) -> tuple[tuple[float, float], ...]:
        if any(one == other for one, other in pairwise(sorted(value))):
            raise ValueError("two elements at one place, expected each at its own")
        return value

    @property
    def elements(self) -> int:
        """Number of elements."""
        return len(self.positions_m)

    def places(self) -> NDArray[np.float64]:
        """Element positions [m], float64 ``[elements, 2]``."""
        return np.array(self.positions_m, float)


#: The array of a capture set: ``scene.array`` in its YAML.
StatedArray = Annotated[CircularArray | LinearArray | PlacedArray, Field(discriminator="kind")]


@dataclass(frozen=True)
class Fitted:
    """The scenes that a set's readout is fit on.

    Attributes:
        what: their name in a message.
        antennas: channels of a scene.
        samples: samples of a scene.
        sample_rate_hz: their rate.
        carriers_hz: carriers that a stated array may have been used at, each with the tolerance that follows.
        tolerance: relative, of a carrier.
        order: the set's channels in the order of the scenes' own elements; None where it is the same.
        sector_deg: from where to where bearings lie in the canonical frame; None for the whole circle.
    """

    what: str
    antennas: int
    samples: int
    sample_rate_hz: float
    carriers_hz: tuple[float, ...] = ()
    tolerance: float = 0.01
    order: tuple[int, ...] | None = None
    sector_deg: tuple[float, float] | None = None


def same_order(places: NDArray[np.float64], others: NDArray[np.float64], tolerance: float) -> tuple[int, ...] | None:
    """Which of ``places`` ``[n, 2]`` lies at each of ``others`` ``[n, 2]``, about their centroids; None where one does
    not within ``tolerance``, in the same unit.
    """
    if places.shape != others.shape:
        return None
    places, others = places - places.mean(axis=0), others - others.mean(axis=0)
    apart = np.linalg.norm(others[:, None] - places[None], axis=-1)
    order = apart.argmin(axis=1)
    if len(set(order.tolist())) < len(order) or apart.min(axis=1).max(initial=0.0) > tolerance:
        return None
    return tuple(order.tolist())


def check_given(root: Path, array: StatedArray | None, given_m: Sequence[Sequence[float]] | None) -> None:
    """InputError unless the stated array is the one whose positions [m] the set itself holds, where it does."""
    if array is None or given_m is None:
        return
    places = np.asarray(given_m, float)
    if same_order(array.places(), places, 2 * PLACE_TOLERANCE_M) != tuple(range(len(places))):
        raise InputError(
            f"{root}: scene.array: {array.elements} elements, expected the {len(places)} places that the set itself "
            f"gives, within {2e3 * PLACE_TOLERANCE_M:.0f} mm"
        )


def canonical(
    root: Path, scenes: Scenes, rate_hz: float, array: StatedArray | None, fitted: Fitted | None, *, angles: bool
) -> Scenes:
    """Scenes as their readout takes them: of its shape, channels in its order, bearings in the canonical frame.

    Args:
        root: the set, for messages.
        scenes: as an adapter read them.
        rate_hz: their sample rate.
        array: the stated array.
        fitted: what the readout is fit on; None leaves shape and carrier unchecked.
        angles: whether labels are degrees.

    Raises:
        InputError: another shape, number of elements or carrier, or a bearing out of the sector.
    """
    antennas, samples = scenes.iq.shape[1:]
    if fitted is not None and (antennas, samples, rate_hz) != (fitted.antennas, fitted.samples, fitted.sample_rate_hz):
        raise InputError(
            f"{root}: scenes of {_shape(antennas, samples, rate_hz)}, but its readout is fit on {fitted.what}: "
            f"{_shape(fitted.antennas, fitted.samples, fitted.sample_rate_hz)}"
        )
    if array is None:
        return scenes
    if array.elements != antennas:
        raise InputError(
            f"{root}: scenes of {_count(antennas, 'antenna')}, but scene.array has {_count(array.elements, 'element')}"
        )
    if fitted is not None:
        _check_carriers(root, scenes.center_frequency_hz, fitted)
        if fitted.order is not None:
            scenes = dataclasses.replace(scenes, iq=scenes.iq[:, list(fitted.order)])
    if not angles:
        return scenes
    label = [array.azimuth(float(value)) for value in scenes.label]
    if fitted is not None and fitted.sector_deg is not None:
        low, high = fitted.sector_deg
        for stated, azimuth in zip(scenes.label, label, strict=True):
            if (azimuth - low + 1e-6) % 360.0 > high - low + 2e-6:
                raise InputError(
                    f"{root}: label {stated}: azimuth {azimuth:.6g} from the array's +x axis, but its readout is fit "
                    f"on bearings from {low:g} to {high:g}"
                )
    return dataclasses.replace(scenes, label=label)


def told(array: StatedArray | None, fitted: Fitted | None, *, angles: bool) -> dict[str, str]:
    """What ``canonical`` did, for the record of a conversion; nothing without a stated array."""
    done = {}
    if array is not None and angles:
        done["bearings"] = "labels turned into azimuths, counter-clockwise from the array's +x axis"
    if array is not None and fitted is not None and fitted.order is not None:
        done["order"] = f"channels {', '.join(map(str, fitted.order))}, as the elements of {fitted.what} follow"
    return done


def _check_carriers(root: Path, carriers_hz: Sequence[float], fitted: Fitted) -> None:
    known = np.array(fitted.carriers_hz, float)
    for carrier in sorted(set(map(float, carriers_hz))):
        if not (np.abs(carrier / known - 1) <= fitted.tolerance).any():
            wanted = " or ".join(f"{value:g} Hz" for value in known)
            raise InputError(
                f"{root}: carrier {f'{carrier:g} Hz' if carrier else 'unknown'}, expected {wanted} within "
                f"{100 * fitted.tolerance:g} %, as {fitted.what} has: it turns the array's metres into wavelengths"
            )


def _shape(antennas: int, samples: int, rate_hz: float) -> str:
    return f"{_count(antennas, 'antenna')} and {_count(samples, 'sample')} at {rate_hz:g} Hz"


def _count(number: int, name: str) -> str:
    return f"{number} {name}{'' if number == 1 else 's'}"
