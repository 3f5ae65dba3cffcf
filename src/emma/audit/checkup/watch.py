"""What a model opens beyond the samples that it is given, as Python's audit hook reports it."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator
from pathlib import Path

_LISTENERS: list[tuple[list[str], Path | None]] = []
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")


def _record(event: str, arguments: tuple[object, ...]) -> None:
    """Python's audit hook: note what code within ``watched`` opens beyond its samples."""
    if not _LISTENERS:
        return
    reached, private = _LISTENERS[-1]
    if event == "open" and isinstance(arguments[0], str | bytes | Path):
        path = Path(arguments[0].decode(errors="replace") if isinstance(arguments[0], bytes) else arguments[0])
        inside = (
            private is not None
            and path.absolute().is_relative_to(private)
            and not path.absolute().is_relative_to(private / "weights")
        )
        if inside or path.suffix in {".parquet", ".arrow", ".feather"}:
            reached.append(f"the file {path}")
    elif event == "socket.connect":
        reached.append(f"the network {arguments[1]!r}")
    elif event in _PROCESSES:
        reached.append(f"a process ({event})")


@functools.cache
def _install() -> None:
    """Once per process: Python removes no audit hook."""
    sys.addaudithook(_record)


@contextlib.contextmanager
def watched(reached: list[str], private: Path | None) -> Iterator[None]:
    """While this lasts, note in ``reached`` every table or result below ``private``, connection and process opened.

    Weights below ``private`` are no result.
    """
    _install()
    _LISTENERS.append((reached, None if private is None else private.absolute()))
    try:
        yield
    finally:
        _LISTENERS.pop()
