"""Release files that extend others: a release is the lines in which it differs from its base."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from common.errors import InputError, advice
from common.files import read_yaml

_KEY = "extends"

#: The key that belongs to one release and is never taken over: its name.
_OWN = "release"


def read_extended(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping, merged into the file of the same folder that its key ``extends`` names, and so on.

    Mappings merge key by key; lists, numbers and texts replace; ``null`` removes a key of the base. ``extends`` itself,
    and ``release`` of a base, are no part of the result.

    Args:
        path: the file; ``extends: base`` names ``base.yaml`` beside it.

    Raises:
        InputError: a file is missing or no mapping, names no file, extends itself, or removes what its base lacks.
    """
    return _read(Path(path), ())


def _read(path: Path, above: tuple[Path, ...]) -> dict[str, Any]:
    own = read_yaml(path)
    name = own.pop(_KEY, None)
    if name is None:
        return own
    if not isinstance(name, str) or Path(name).name != name:
        raise InputError(f"{path}: {_KEY}: {name}, expected the name of a file beside it, without .yaml")
    base_path = path.with_name(f"{name}.yaml")
    if not base_path.is_file():
        known = sorted(other.stem for other in path.parent.glob("*.yaml") if other != path)
        raise InputError(f"{path}: {_KEY}: no file {base_path.name} beside it, {advice(name, known)}")
    chain = (*above, path)
    if base_path in chain:
        circle = " extends ".join(file.stem for file in (*chain[chain.index(base_path) :], base_path))
        raise InputError(f"{path}: {_KEY}: {circle}, expected no circle")
    base = _read(base_path, chain)
    return _merged({key: value for key, value in base.items() if key != _OWN}, own, path)


def _merged(base: Mapping[str, Any], own: Mapping[str, Any], path: Path, field: str = "") -> dict[str, Any]:
    merged = dict(base)
    for key, value in own.items():
        where = f"{field}{key}"
        if value is None:
            if key not in base:
                raise InputError(f"{path}: {where}: null, expected a key of the base to remove")
            del merged[key]
        elif isinstance(value, dict) and isinstance(base.get(key), dict):
            merged[key] = _merged(base[key], value, path, f"{where}.")
        else:
            merged[key] = value
    return merged
