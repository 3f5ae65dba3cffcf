"""The torch modules within a backbone, wherever it keeps them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

#: How deep objects within objects are looked into.
_DEPTH = 4


def modules_of(backbone: object) -> list[nn.Module]:
    """Outermost torch modules among a backbone's attributes and what these hold, each once, in order of attributes."""
    if "torch" not in sys.modules:
        # What never imported torch holds no module of it.
        return []
    return list({id(module): module for module in _walk(backbone, _DEPTH)}.values())


def _walk(value: Any, depth: int) -> Iterator[nn.Module]:
    from torch import nn

    if isinstance(value, nn.Module):
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
            yield from _walk(part, depth - 1)
