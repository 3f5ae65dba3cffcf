"""NPY and NPZ files from elsewhere: headers are compared with the bytes that are there before any array is made."""

from __future__ import annotations

import io
import math
import struct
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.zips import opened_zip

#: Bytes of all arrays of an NPZ file, as they are unpacked, and number of its arrays.
LARGEST_NPZ, _MOST_ARRAYS = 2**29, 1000

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# What zipfile, zlib, numpy and the literals of a header raise where a file is broken.
_BROKEN = (
    *(ValueError, OSError, EOFError, KeyError, TypeError, SyntaxError, RecursionError, NotImplementedError),
    *(RuntimeError, OverflowError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, MemoryError),
)


def read_npy(data: bytes, source: object) -> NDArray[Any]:
    """The array of an NPY file's content, not pickled; InputError names ``source`` where it is no such file."""
    try:
        _check(io.BytesIO(data), len(data), source)
        array: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    except InputError:
        raise
    except _BROKEN as error:
        raise InputError(f"{source}: expected a complete NPY file ({_reason(error)})") from None
    return array


def read_npz(data: bytes, source: object) -> dict[str, NDArray[Any]]:
    """Arrays of an NPZ file's content by name, none of them pickled; InputError names ``source`` where it is none."""
    try:
        with opened_zip(data, source, _MOST_ARRAYS) as archive:
            for member in _few(archive.infolist(), source):
                with archive.open(member) as stream:
                    _check(stream, member.file_size, f"{source}: {member.filename[:80]!r}")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except InputError:
        raise
    except _BROKEN as error:
        raise InputError(f"{source}: expected a complete NPZ file ({_reason(error)})") from None


def _few(members: list[zipfile.ZipInfo], source: object) -> list[zipfile.ZipInfo]:
    """The same members; InputError for more bytes than they may hold once they are unpacked."""
    if sum(member.file_size for member in members) > LARGEST_NPZ:
        raise InputError(f"{source}: expected arrays of at most {LARGEST_NPZ} bytes in all")
    return members


def _check(stream: IO[bytes], size: int, source: object) -> None:
    """InputError unless a header, of ``size`` bytes with what follows it, declares the array that follows."""
    version = np.lib.format.read_magic(stream)
    if version not in _HEADERS:
        raise InputError(f"{source}: NPY of version {version}, expected 1.0 or 2.0")
    shape, _, dtype = _HEADERS[version](stream)
    if dtype.hasobject or not dtype.itemsize:
        raise InputError(f"{source}: {dtype}, expected numbers or texts, nothing pickled")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != size - stream.tell():
        raise InputError(f"{source}: {dtype} {list(shape)} is declared, {size - stream.tell()} bytes are there")


def _reason(error: BaseException) -> str:
    return (" ".join(str(error).split()) or type(error).__name__)[:120]
