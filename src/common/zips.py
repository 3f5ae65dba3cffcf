"""Zip files from elsewhere: what the directory at their end says is bounded before, and compared after, it is read."""

from __future__ import annotations

import contextlib
import io
import unicodedata
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common.errors import InputError

#: Most bytes of the directory of a zip, whose reader takes 8 us and 400 bytes for a member of 47 bytes.
_LARGEST_DIRECTORY = 2**23

#: How members may be packed; LZMA reserves as much memory as a member asks for.
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


class _Bounded(io.BufferedReader):
    """A file of which no more is read at a time than the directory of a zip may hold; the directory is read at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes; InputError where more of them are asked for."""
        if size is not None and size > _LARGEST_DIRECTORY:
            raise InputError(f"a directory of {size} bytes, expected at most {_LARGEST_DIRECTORY}")
        return super().read(size)


@contextlib.contextmanager
def opened_zip(data: str | Path | bytes, source: object, most: int) -> Iterator[zipfile.ZipFile]:
    """Open a zip from elsewhere.

    Args:
        data: its path or content.
        source: what errors name.
        most: members that it may have.

    Raises:
        InputError: a directory, or more members, than bounded; names that are equal, also where a file system tells
            neither case nor composition of letters apart; a packing other than deflate. What ``zipfile`` raises for a
            broken zip is let pass.
    """
    with contextlib.ExitStack() as opened:
        raw: Any = io.BytesIO(data) if isinstance(data, bytes) else io.FileIO(data)
        file = opened.enter_context(_Bounded(opened.enter_context(raw)))
        try:
            archive = opened.enter_context(zipfile.ZipFile(file))
        except InputError as error:
            raise InputError(f"{source}: {error}") from None
        _check(archive.infolist(), source, most)
        yield archive


def _check(members: list[zipfile.ZipInfo], source: object, most: int) -> None:
    if len(members) > most:
        raise InputError(f"{source}: {len(members)} members, expected at most {most}")
    seen: dict[str, str] = {}
    for member in members:
        name = member.filename
        folded = unicodedata.normalize("NFC", name).casefold()
        if (other := seen.get(folded)) is not None:
            told = "occurs twice" if other == name else f"beside {other[:80]!r}, which some file systems take for equal"
            raise InputError(f"{source}: {name[:80]!r}: {told}")
        seen[folded] = name
        if member.compress_type not in _METHODS:
            raise InputError(f"{source}: {name[:80]!r}: packed by method {member.compress_type}, expected deflate")
