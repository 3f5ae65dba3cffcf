"""Outputs put in place together: every byte is ready before the first file appears, and none appears half-written."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from floor_events.protocol import FloorEventError


def write_files(files: Mapping[Path, bytes]) -> None:
    """Write every file under a temporary name beside it, then rename all; makes missing folders.

    Raises FloorEventError where a folder or file cannot be written; no file has then appeared under its own name.
    """
    for path in files:
        if path.is_dir():
            raise FloorEventError(f"{path}: a folder; expected a file name to write")
    staged: list[tuple[Path, Path]] = []
    try:
        for path, content in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{path.name}.{os.getpid()}.partial")
            staged.append((temporary, path))
            temporary.write_bytes(content)
        for temporary, path in staged:
            temporary.replace(path)
    except OSError as error:
        raise FloorEventError(f"{path}: cannot be written ({error.strerror}); expected a writable path") from None
    finally:
        for temporary, _ in staged:
            temporary.unlink(missing_ok=True)


def npy_bytes(array: np.ndarray) -> bytes:
    """The `.npy` file of an array, in C order."""
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()
