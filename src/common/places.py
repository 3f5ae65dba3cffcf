"""Places for files to come, looked at before the work that fills them."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from common.errors import InputError

#: What a disk has to have free before a run starts, bytes: more than the blocks that a file's name alone may take.
_ROOM = 2**18


def check_place(path: str | Path) -> Path:
    """The folder, there now, in which a file and its missing folders will be made.

    Raises:
        InputError: that folder is none, or nothing can be made in it.
    """
    folder = Path(path).parent
    while True:
        try:
            mode = folder.stat().st_mode
        except FileNotFoundError:
            if folder.is_symlink():
                raise InputError(f"{folder}: a link that leads nowhere, expected a folder") from None
            folder = folder.parent
        except NotADirectoryError:
            folder = folder.parent
        except OSError as error:
            raise InputError(f"{folder}: cannot be entered ({error.strerror}), expected a folder") from None
        else:
            break
    if not stat.S_ISDIR(mode):
        raise InputError(f"{folder}: a file, expected a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"{folder}: cannot be written, expected a writable folder")
    return folder


def check_places(paths: Iterable[Path]) -> None:
    """Refuse places of files where no file can be made, or a disk of theirs without room.

    A little is written to each disk, without a name: a quota is not seen otherwise.

    Raises:
        InputError: as ``check_place``, or one of the files is a folder, or a disk takes nothing.
    """
    disks: dict[int, Path] = {}
    folders: set[Path] = set()
    for path in sorted(paths):
        if path.parent not in folders:
            folders.add(path.parent)
            there = check_place(path)
            disks.setdefault(there.stat().st_dev, there)
        if path.is_dir():
            raise InputError(f"{path}: a folder, expected a file's name")
    for folder in disks.values():
        try:
            with tempfile.TemporaryFile(dir=folder) as file:
                file.write(bytes(_ROOM))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(
                f"{folder}: cannot be written ({error.strerror}), expected a writable disk with room"
            ) from None
