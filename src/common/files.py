"""Files at the door: read with one-line errors, written under a temporary name and renamed.

pydantic and PyYAML are loaded by the functions that need them: the floor-event programs run with numpy alone.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from common.doors import read_bytes
from common.errors import InputError, near

if TYPE_CHECKING:
    import pydantic

M = TypeVar("M", bound="pydantic.BaseModel")

#: Largest text that is read, and largest YAML file, whose reader takes 25 us a byte; bytes.
LARGEST_TEXT, LARGEST_YAML = 2**26, 2**18
#: Most values of a JSON file, which take up to 100 bytes each: a board of 200 models and 12 tasks has a million.
MOST_VALUES = 3_000_000


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


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write several files whole, all of them or none: every byte is on disk before the first takes its name.

    Missing folders are made. InputError where a folder or file cannot be written; where that is a file's content or
    folder, none has appeared under its own name.
    """
    for path in files:
        if path.is_dir():
            raise InputError(f"{path}: a folder; expected a file name to write")
    try:
        with contextlib.ExitStack() as staged:
            for path, content in files.items():
                staged.enter_context(atomic(path)).write_bytes(content)
    except OSError as error:
        # A rename that failed names its two files, of which the second is the one asked for.
        place = error.filename2 or path
        raise InputError(f"{place}: cannot be written ({error.strerror}); expected a writable path") from None


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
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """``value`` as ``write_json`` writes it; ValueError on NaN and infinity."""
    return json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(path: str | Path) -> Any:
    """Read a JSON file; InputError if it cannot be read, is not JSON, or has a key twice, NaN or infinity.

    Also where it is larger than LARGEST_TEXT, or may hold more than MOST_VALUES values.
    """
    return parse_json(read_text(path), path)


def parse_json(text: str | bytes, source: str | Path) -> Any:
    """JSON of a file ``source`` that was read before; the same errors as ``read_json``."""
    marks = "{[,:"
    values = sum(text.count(mark) if isinstance(text, str) else text.count(mark.encode()) for mark in marks)
    if values > MOST_VALUES:
        raise InputError(f"{source}: {values} brackets, commas and colons, expected at most {MOST_VALUES}")
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: expected JSON ({error})") from None


def read_text(path: str | Path, most: int = LARGEST_TEXT) -> str:
    """Read a regular file of at most ``most`` bytes as UTF-8; InputError if it cannot be read or is other text."""
    try:
        return read_bytes(path, most).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected UTF-8 text ({error})") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for key, part in pairs:
        if key in value:
            raise ValueError(f"key {key[:80]!r} written twice")
        value[key] = part
    return value


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def read_yaml(path: str | Path) -> dict[str, Any]:
    """Read a YAML mapping with the safe loader; InputError if it is missing, unreadable or not a mapping.

    Also where it is larger than LARGEST_YAML.
    """
    from common.strict_yaml import load_mapping

    return load_mapping(read_text(path, LARGEST_YAML), path)


def parse(model: type[M], value: Any, source: str | Path) -> M:
    """Validate ``value`` by a pydantic model; InputError names ``source``, the first bad key and the expectation.

    Types are those of JSON, strictly: neither ``"64"`` nor ``true`` is a number.
    """
    import pydantic

    try:
        text = json.dumps(value, default=str, allow_nan=False)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{source}: expected finite numbers, text, lists and mappings ({error})") from None
    try:
        return model.model_validate_json(text, strict=True)
    except pydantic.ValidationError as error:
        first, *others = error.errors(include_url=False)
        key = ".".join(str(part) for part in first["loc"]) or "(top level)"
        more = f" (and {len(others)} more)" if others else ""
        raise InputError(f"{source}: {key}: {_message(model, first)}{more}") from None


def _message(model: type[pydantic.BaseModel], error: Mapping[str, Any]) -> str:
    """What pydantic found wrong, and the key or word that may have been meant."""
    unknown = error["type"] == "extra_forbidden"
    if unknown:
        known = _keys_at(model, error["loc"][:-1])
    else:
        # Written 'a', 'b' or 'c'.
        known = re.findall(r"'([^']*)'", str(error.get("ctx", {}).get("expected", "")))
    value = error["loc"][-1] if unknown else error["input"]
    meant = near(value, known) if isinstance(value, str) else None
    message = "unknown key" if unknown else error["msg"].removeprefix("Value error, ")
    return f"{message}, did you mean {meant}?" if meant else message


def _keys_at(model: type[pydantic.BaseModel], place: Iterable[str | int]) -> list[str]:
    """Keys of the records that a place in a document can hold; list positions and tags of unions lead nowhere else."""
    import pydantic

    def records(kind: Any) -> Iterator[type[pydantic.BaseModel]]:
        if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
            yield kind
        for part in get_args(kind):
            yield from records(part)

    found = [model]
    for part in place:
        kinds = [record.model_fields[part].annotation for record in found if part in record.model_fields]
        found = [record for kind in kinds for record in records(kind)] if kinds else found
    return list(dict.fromkeys(name for record in found for name in record.model_fields))
