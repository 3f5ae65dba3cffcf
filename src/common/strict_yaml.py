"""YAML at the door: the safe loader, which also refuses keys written twice and aliases without end."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml

from common.errors import InputError

#: Most values that a YAML file may stand for, once its aliases and merge keys are written out.
_MOST_VALUES = 1_000_000


def load_mapping(text: str, source: str | Path) -> dict[str, Any]:
    """The mapping that a YAML ``text`` holds; InputError names ``source`` if it is no YAML or no mapping."""
    try:
        value = yaml.load(text, Loader=_StrictLoader)
        extent = _extent(value, {})
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{source}: expected YAML ({' '.join(str(error).split())})") from None
    if not isinstance(value, dict):
        raise InputError(f"{source}: expected a mapping of keys to values")
    if extent > _MOST_VALUES:
        raise InputError(f"{source}: aliases stand for {extent:.1e} values, expected at most {_MOST_VALUES}")
    return value


def _extent(value: Any, seen: dict[int, int | None]) -> int:
    """How many values ``value`` stands for with its aliases written out; ValueError where that is without end."""
    if not isinstance(value, dict | list | tuple):
        return 1
    known = seen.get(id(value), -1)
    if known is None:
        raise ValueError("aliases that hold themselves")
    if known < 0:
        seen[id(value)] = None
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        known = seen[id(value)] = 1 + sum(_extent(part, seen) for part in parts)
    return known


class _StrictLoader(yaml.SafeLoader):
    """The safe loader, which also refuses a key written twice (YAML 1.2, section 3.2.1.3)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} is not text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key!r} written twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Take the keys of merged mappings in, as many as a file may stand for: each merge repeats all before it."""
        super().flatten_mapping(node)
        self._keys = getattr(self, "_keys", 0) + len(node.value)
        if self._keys > _MOST_VALUES:
            raise yaml.constructor.ConstructorError(None, None, "merge keys without end", node.start_mark)
