"""Files of strangers: regular ones alone, within a bound that holds before they are read, and in bounded memory."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Iterator
from pathlib import Path

from common.errors import InputError

#: Memory that reading one file of a stranger may take, bytes.
MOST_MEMORY = 3 * 2**28
#: Folders within one another, and files and folders in all, of a tree from elsewhere.
_DEEPEST, _MOST_ENTRIES = 32, 200_000

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def require_regular(path: str | Path) -> int:
    """The size of a regular file in bytes; a link to one counts.

    Looked at before anything is opened: a named pipe would wait for its writer without end.

    Raises:
        InputError: no such file, no regular one, or a path that no file can have.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 (a path may be text)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"{shown(path)}: cannot be read ({error})") from None
    for is_kind, name in _KINDS:
        if is_kind(found.st_mode):
            raise InputError(f"{path}: cannot be read ({name}, expected a regular file)")
    return found.st_size


def read_bytes(path: str | Path, most: int | None = None) -> bytes:
    """The content of a regular file; InputError where it cannot be read, or holds more than ``most`` bytes."""
    size = require_regular(path)
    if most is not None and size > most:
        raise InputError(f"{path}: {size} bytes, expected at most {most}")
    try:
        with Path(path).open("rb") as file:
            # One more than the bound, for a file that grows.
            data = file.read() if most is None else file.read(most + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except MemoryError:
        raise InputError(f"{path}: {size} bytes, more than fit into memory") from None
    if most is not None and len(data) > most:
        raise InputError(f"{path}: more than the {most} bytes that are read at most")
    return data


def shown(path: str | Path) -> str:
    """A path as an error shows it: the first 80 characters, those that cannot be printed escaped."""
    text = str(path)
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= 160 else f"{plain[:80]}..."


def files_below(root: str | Path) -> list[Path]:
    """Every regular file below a folder, links to files among them, sorted; folders behind links are not entered.

    Raises:
        InputError: folders nested without sense, too many entries, a name that is not UTF-8, or a folder that cannot be
            read.
    """
    found: list[Path] = []
    waiting, seen = [(Path(root), 0)], 0
    while waiting:
        folder, depth = waiting.pop()
        if depth > _DEEPEST:
            raise InputError(f"{root}: folders nested more than {_DEEPEST} deep, expected fewer")
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > _MOST_ENTRIES:
                        raise InputError(f"{root}: more than {_MOST_ENTRIES} files and folders, expected fewer")
                    if not _is_utf8(entry.name):
                        raise InputError(f"{folder}: {entry.name!a}: expected file names in UTF-8")
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((Path(entry.path), depth + 1))
                    elif entry.is_file():
                        found.append(Path(entry.path))
        except OSError as error:
            raise InputError(f"{shown(folder)}: cannot be read ({error.strerror})") from None
    return sorted(found)


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


@contextlib.contextmanager
def bounded_memory(source: str | Path, most: int = MOST_MEMORY) -> Iterator[None]:
    """Within, this process takes at most ``most`` bytes more than it has; where a library asks for more, InputError.

    For libraries that believe what a file declares. The limit is that of the system on private writable memory
    (RLIMIT_DATA, Linux 4.7), lowered and set back; where the system does not say what is taken, nothing is limited.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    taken = _taken()
    if taken is None:
        yield
        return
    limit = taken + most
    resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    except MemoryError:
        raise InputError(f"{source}: takes more than {most >> 20} MB to read, expected less") from None
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _taken() -> int | None:
    """Private writable memory of this process in bytes; None where the system does not say."""
    try:
        status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    sizes = (line.split()[1] for line in status.splitlines() if line.startswith("VmData:"))
    return next((int(size) * 1024 for size in sizes), None)
