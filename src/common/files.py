"""Files at the door: read with one-line errors, written under a temporary name and renamed."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import math
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import pydantic
import yaml

from common.errors import InputError

M = TypeVar("M", bound=pydantic.BaseModel)


@contextlib.contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside ``path``; rename it to ``path`` on success, remove it on any failure.

    The name is ``.tmp-``, that of ``path``, and eight characters of chance, in the same folder, so that the rename
    never crosses a file system. A writer that was killed leaves its file behind: the next writer of ``path`` removes
    it. Should the former still live, its rename fails, and no half-written file takes the final name.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".tmp-{path.name}-"
    for left_behind in path.parent.glob(glob.escape(prefix) + "?" * 8):
        left_behind.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=prefix, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    temporary.chmod(0o644)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def hold_alone(path: str | Path) -> bool:
    """Hold ``path`` until this process ends; True if no other living process holds it at this moment.

    A shared lock that the system drops with the process, however that ends. False where files cannot be locked.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = True
        except BlockingIOError:
            alone = False
        fcntl.flock(handle, fcntl.LOCK_SH)
    except OSError:
        return False
    return alone


def write_text(path: str | Path, text: str) -> None:
    """Write ``text`` as UTF-8, all of it or nothing."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | Path, value: Any) -> None:
    """Write ``value`` as indented JSON in its own key order; ValueError on NaN and infinity."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: str | Path) -> Any:
    """Read a JSON file; InputError if it cannot be read, is not JSON, or has a key twice, NaN or infinity."""
    text = _read_text(path)
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected JSON ({error})") from None


def _read_text(path: str | Path) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text ({error})") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"key {next(key for key in keys if keys.count(key) > 1)!r} written twice")
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping with the safe loader; InputError if it is missing, unreadable or not a mapping."""
    text = _read_text(path)
    try:
        value = yaml.load(text, Loader=_StrictLoader)
        extent = _extent(value, {})
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: expected YAML ({' '.join(str(error).split())})") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a mapping of keys to values")
    if extent > _MOST_VALUES:
        raise InputError(f"{path}: aliases stand for {extent:.1e} values, expected at most {_MOST_VALUES}")
    return value


#: Most values that a YAML file may stand for, once its aliases are written out.
_MOST_VALUES = 1_000_000


def _extent(value: Any, seen: dict[int, int | None]) -> int:
    """How many values ``value`` stands for with its aliases written out; ValueError where that is without end."""
    if not isinstance(value, dict | list):
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

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
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


def parse(model: type[M], value: Any, source: str | Path) -> M:
    """Validate ``value`` by a pydantic model; InputError names ``source``, the first bad key and the expectation.

    Types are those of JSON, strictly: neither ``"64"`` nor ``true`` is a number.
    """
    try:
        text = json.dumps(value, default=str, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: expected finite numbers, text, lists and mappings ({error})") from None
    try:
        return model.model_validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first, *others = error.errors(include_url=False)
        key = ".".join(str(part) for part in first["loc"]) or "(top level)"
        message = "unknown key" if first["type"] == "extra_forbidden" else first["msg"].removeprefix("Value error, ")
        more = f" (and {len(others)} more)" if others else ""
        raise InputError(f"{source}: {key}: {message}{more}") from None
