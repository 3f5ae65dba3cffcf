"""Where a capture set meets the generator: its recipes, and what its readout is fit on, before a job runs."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from common.errors import InputError
from common.files import parse
from emma.captures.antennas import PLACE_TOLERANCE_M, Fitted, same_order
from emma.captures.settings import CaptureSet
from rfgen.captures.array import AnyArray
from rfgen.captures.base import LinkSet
from rfgen.captures.surrogate import Surrogate
from rfgen.captures.twins import Sounding
from rfgen.physics.arrays import SPEED_OF_LIGHT
from rfgen.recipe import Recipe
from rfgen.scenes.localisation import Localisation
from workflow_support.matched import matched_set


def surrogate_set(declared: CaptureSet, recipe: Recipe, source: str | Path) -> Surrogate:
    """The recipe of a set that the generator writes; InputError where a key is wrong or the release lacks its band."""
    content = {**(declared.surrogate or {})}
    if "task" in content:
        raise InputError(f"{source}: surrogate.task: unknown key")
    made = parse(Surrogate, {**content, "task": declared.task.value}, f"{source}: surrogate")
    task = recipe.tasks.get(declared.task.value)
    if task is None or made.band not in task.bands:
        raise InputError(f"{source}: surrogate.band: no {declared.task} in {made.band} in the release's recipe")
    return made


def fitted_scenes(declared: CaptureSet, recipe: Recipe, release: str, source: str | Path) -> Fitted | None:
    """The scenes that a set's readout is fit on; what the file states of the set's own is checked against them.

    Args:
        declared: the set.
        recipe: the release's.
        release: the release's name.
        source: the set's file, for messages.

    Returns:
        None for a set without a synthetic side.

    Raises:
        InputError: a wrong recipe, or a scene or array that the readout is not fit on.
    """
    if declared.twin == "none":
        return None
    fitted = _release(declared, recipe, release, source) if declared.twin == "release" else _own(declared, source)
    scene = declared.scene
    if scene is None:
        return fitted
    if (scene.samples, scene.sample_rate_hz) != (fitted.samples, fitted.sample_rate_hz):
        raise InputError(
            f"{source}: scene: {scene.samples} samples at {scene.sample_rate_hz:g} Hz, but its readout is fit on "
            f"{fitted.what}: {fitted.samples} samples at {fitted.sample_rate_hz:g} Hz"
        )
    if declared.array is not None and declared.array.elements != fitted.antennas:
        raise InputError(
            f"{source}: scene.array: {declared.array.elements} elements, but its readout is fit on {fitted.what}: "
            f"{fitted.antennas} antennas"
        )
    return fitted


def _own(declared: CaptureSet, source: str | Path) -> Fitted:
    made = matched_set(declared, source)
    sector = None
    if isinstance(made, LinkSet) and not made.classes and made.bearing_deg[1] - made.bearing_deg[0] < 360:
        sector = made.bearing_deg
    place = "scenes of its matched synthetic set"
    carriers = (made.frequency_hz,) if isinstance(made, AnyArray | Sounding) else ()
    return Fitted(place, made.antennas, made.samples, made.sample_rate_hz, carriers, sector_deg=sector)


def _release(declared: CaptureSet, recipe: Recipe, release: str, source: str | Path) -> Fitted:
    task = recipe.tasks.get(declared.task.value)
    if task is None:
        raise InputError(f"{source}: task: release {release} has no {declared.task}")
    shape = (f"{declared.task} scenes of release {release}", task.antennas, task.samples, task.sample_rate_hz)
    array = declared.array
    if array is None or not isinstance(task, Localisation):
        return Fitted(*shape)
    # Antennas may come in another order, as long as they stand where the release's do.
    found: dict[str, tuple[int, ...]] = {}
    for band in task.bands:
        own = task.positions(recipe, band) * SPEED_OF_LIGHT / recipe.bands_hz[band]
        order = same_order(array.places(), own, PLACE_TOLERANCE_M)
        if order is not None:
            found[band] = order
    if not found:
        own = task.array.positions(1.0) * SPEED_OF_LIGHT
        radius = float(np.linalg.norm(own, axis=1).max())
        raise InputError(
            f"{source}: scene.array: expected the array of release {release} within {1e3 * PLACE_TOLERANCE_M:.0f} mm "
            f"({task.array.kind}, {task.antennas} elements, the first at {radius:.5f} m on its +x axis), or a twin of "
            "kind array"
        )
    order = found[min(found)]
    carriers = tuple(recipe.bands_hz[band] for band in sorted(found) if found[band] == order)
    plain = tuple(range(len(order)))
    return Fitted(*shape, carriers, tolerance=0.05, order=None if order == plain else order)


def check_captures(sets: Iterable[CaptureSet], recipe: Recipe, release: str) -> None:
    """InputError for the first set whose recipes or scenes cannot be made, or whose readout is fit on other scenes."""
    for declared in sets:
        source = f"config/captures/{declared.name}.yaml"
        fitted_scenes(declared, recipe, release, source)
        if declared.surrogate is not None:
            surrogate_set(declared, recipe, source)
