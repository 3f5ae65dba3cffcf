"""What a model reaches for beyond the samples that it is given, overheard by Python's audit hook."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

_LISTENERS: list[tuple[list[str], Path | None]] = []
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork")


def _overhear(event: str, arguments: tuple) -> None:
    """Python's audit hook: what runs within ``watched`` and reaches beyond its samples is written down."""
    if not _LISTENERS:
        return
    reached, private = _LISTENERS[-1]
    if event == "open" and isinstance(arguments[0], str | bytes | Path):
        path = Path(arguments[0].decode(errors="replace") if isinstance(arguments[0], bytes) else arguments[0])
        inside = private is not None and path.absolute().is_relative_to(private.absolute() / "scenes")
        if inside or path.suffix in {".parquet", ".arrow", ".feather"}:
            reached.append(f"the file {path}")
    elif event == "socket.connect":
        reached.append(f"the network {arguments[1]!r}")
    elif event in _PROCESSES:
        reached.append(f"a process ({event})")


@contextlib.contextmanager
def watched(reached: list[str], private: Path | None) -> Iterator[None]:
    """While this lasts, note in ``reached`` every table or result below ``private``, connection and process opened."""
    if not hasattr(_overhear, "installed"):
        sys.addaudithook(_overhear)
        _overhear.installed = True
    _LISTENERS.append((reached, private))
    try:
        yield
    finally:
        _LISTENERS.pop()
