"""The torch modules within a backbone, wherever it keeps them, and other objects of a kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from torch import nn

Kind = TypeVar("Kind")

#: How deep objects within objects are looked into.
_DEPTH = 4


def modules_of(backbone: object) -> list[nn.Module]:
    """Outermost torch modules among a backbone's attributes and what these hold, each once, in order of attributes."""
    if "torch" not in sys.modules:
        # What never imported torch holds no module of it.
        return []
    from torch import nn

    return held_by(backbone, nn.Module)


def held_by(backbone: object, kind: type[Kind]) -> list[Kind]:
    """Outermost objects of a kind among a backbone's attributes and what these hold, each once, in order."""
    return list({id(item): item for item in _walk(backbone, kind, _DEPTH)}.values())


def _walk(value: Any, kind: type[Kind], depth: int) -> Iterator[Kind]:
    if isinstance(value, kind):
        yield value
    elif depth:
        parts: list[Any] = []
        if isinstance(value, Mapping):
            parts = list(value.values())
        elif isinstance(value, list | tuple):
            parts = list(value)
        elif hasattr(value, "__dict__") and not isinstance(value, type):
            parts = list(vars(value).values())
        for part in parts:
            yield from _walk(part, kind, depth - 1)
