"""The recipe of a capture set's own matched synthetic set, with what the rest of the set's file states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from common.errors import InputError
from common.files import parse
from emma.captures.antennas import PLACE_TOLERANCE_M, same_order
from emma.captures.settings import CaptureSet
from rfgen.captures.base import MatchedSet
from rfgen.captures.twins import Sounding, TwinRecipe

#: Keys of a recipe that its file states elsewhere: the set's own, which nobody writes twice.
TAKEN = ("task", "positions_m")
#: Keys that the scene states too; where the recipe has them, they agree.
SHARED = ("samples", "sample_rate_hz")


def matched_set(declared: CaptureSet, source: str | Path) -> MatchedSet:
    """The recipe of a set's own matched synthetic set.

    Raises:
        InputError: the set has none of its own, a key is wrong, or it contradicts the rest of the file.
    """
    if not isinstance(declared.twin, dict):
        raise InputError(f"{source}: twin: {declared.twin}, expected a recipe")
    stated: dict[str, Any] = dict(declared.twin)
    given: dict[str, Any] = {"task": declared.task.value}
    if declared.scene is not None:
        given |= {name: getattr(declared.scene, name) for name in SHARED}
    array = declared.array
    for name in TAKEN:
        if name in stated:
            raise InputError(f"{source}: twin.{name}: unknown key")
    for name in SHARED:
        if name in stated and name in given and stated[name] != given[name]:
            raise InputError(f"{source}: twin.{name}: {stated[name]}, expected {given[name]} as in scene")
    if stated.get("kind") == "array":
        if array is None:
            raise InputError(f"{source}: scene.array: expected with a matched synthetic set of kind array")
        given["positions_m"] = array.places().tolist()
    made = parse(TwinRecipe, {"twin": {**given, **stated}}, source).twin
    if set(declared.classes) != set(made.classes) and (made.classes or declared.classes):
        raise InputError(f"{source}: classes: {[*declared.classes]}, expected those of the twin, {[*made.classes]}")
    if isinstance(made, Sounding) and array is not None:
        order = same_order(array.places(), made.places_m, 2 * PLACE_TOLERANCE_M)
        if order != tuple(range(made.arc.elements)):
            raise InputError(f"{source}: scene.array: expected the places of twin.arc, or a twin of kind array")
    return made
