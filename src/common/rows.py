"""Rows of numbers too many for memory: on disk in a file without a name, read a block at a time."""

from __future__ import annotations

import copy
import math
import os
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

#: Most numbers that are worked on as one array: 16 MiB in double precision.
WHOLE = 2**21

#: Numbers in a block of rows: in double precision it fits into a processor's cache, or nearly.
_BLOCK = 2**20
#: Rows that a block has at least, so that a matrix product of it is worth its call.
_LEAST = 256


#: Times as many rows as are wanted that are read in one piece.
_SPARSE = 4


class RowFile:
    """Rows ``[N, ...]`` of one shape and type in a file that ends with the process; rows are read, never mapped.

    Mapped pages count as a process's memory, those of a file that is read do not.

    Args:
        shape: of one row.
        dtype: of its numbers.
    """

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._row, self.dtype, self._count = tuple(shape), np.dtype(dtype), 0
        self._size = int(np.prod(self._row, dtype=np.int64)) * self.dtype.itemsize
        try:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 (it is closed when nobody holds it)
        except OSError as error:
            raise InputError(f"{tempfile.gettempdir()}: {error.strerror}, expected room for rows on disk") from None

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, then the shape of one."""
        return (self._count, *self._row)

    def __len__(self) -> int:
        return self._count

    def append(self, rows: NDArray[Any]) -> None:
        """Add rows ``[n, ...]``; InputError where the disk has no room."""
        raw = memoryview(np.ascontiguousarray(rows, self.dtype).tobytes())
        done = 0
        try:
            while done < len(raw):
                done += os.pwrite(self.fileno(), raw[done:], self._count * self._size + done)
        except OSError as error:
            reason = f"{error.strerror}, expected room for {self._size} bytes more per row"
            raise InputError(f"{tempfile.gettempdir()}: {reason}") from None
        self._count += len(rows)

    def split(self, parts: int) -> RowFile:
        """The same file with each row cut into so many; nothing is to be added to it."""
        made = copy.copy(self)
        made._row, made._count, made._size = (self._row[0] // parts,), self._count * parts, self._size // parts
        return made

    def __getitem__(self, rows: NDArray[np.integer[Any]] | slice) -> NDArray[Any]:
        """Rows by their numbers, in that order, as an array; what lies near in the file is read at once."""
        rows = np.arange(self._count)[rows]
        if not len(rows):
            return np.empty((0, *self._row), self.dtype)
        first, stop = int(rows.min()), int(rows.max()) + 1
        if stop - first <= _SPARSE * len(rows):
            return self._read(first, stop)[rows - first]
        return np.concatenate([self._read(row, row + 1) for row in rows.tolist()])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Everything at once."""
        del copy
        return np.asarray(self[:], dtype)

    def fileno(self) -> int:
        """The number of the open file, which a process that is to read it must keep."""
        return self._file.fileno()

    def _read(self, first: int, stop: int) -> NDArray[Any]:
        """Rows from one to another."""
        made: NDArray[Any] = np.empty((stop - first, *self._row), self.dtype)
        whole, place = memoryview(made.reshape(-1).data).cast("B"), 0
        while place < len(whole):
            read = os.preadv(self.fileno(), [whole[place:]], first * self._size + place)
            if not read:
                raise InputError(f"{tempfile.gettempdir()}: rows on disk end early, expected {self._count}")
            place += read
        return made


class Rows:
    """Rows ``[N, ...]`` of an array or a file, by number, each block worked out when it is asked for.

    ``rows[a:b]`` is an array; ``rows[mask]`` and ``rows[numbers]`` are Rows, which hold no numbers.

    Args:
        source: an array or a RowFile.
        numbers: which of its rows, in order; all by default.
        worked: what is done to each block, row by row.
    """

    def __init__(
        self,
        source: NDArray[Any] | RowFile,
        numbers: NDArray[np.int64] | None = None,
        worked: Callable[[NDArray[Any]], NDArray[Any]] | None = None,
    ) -> None:
        self.source, self.worked = source, worked
        self.numbers = np.arange(len(source)) if numbers is None else numbers

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of rows, then the shape of one in the source."""
        return (len(self.numbers), *self.source.shape[1:])

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: Any) -> Any:
        own = self.numbers[chosen]
        if not isinstance(chosen, slice):
            return Rows(self.source, own, self.worked)
        made = self.source[own]
        return made if self.worked is None else self.worked(made)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Everything at once."""
        del copy
        return np.asarray(self[:], dtype)

    def split(self, parts: int) -> Rows:
        """Each row cut into so many, side by side before, one after another now."""
        assert self.worked is None, "what is done to rows is done to whole ones"
        numbers = (self.numbers[:, None] * parts + np.arange(parts)).ravel()
        if isinstance(self.source, RowFile):
            return Rows(self.source.split(parts), numbers)
        return Rows(self.source.reshape(len(self.source) * parts, -1), numbers)

    def then(self, worked: Callable[[NDArray[Any]], NDArray[Any]]) -> Rows:
        """The same rows, with this done to each block."""
        assert self.worked is None, "one thing is done to rows"
        return Rows(self.source, self.numbers, worked)

    @property
    def step(self) -> int:
        """Rows of a block."""
        return max(_LEAST, _BLOCK // max(int(np.prod(self.source.shape[1:], dtype=np.int64)), 1))


def held(rows: NDArray[Any] | Rows) -> NDArray[Any] | Rows:
    """Rows as one array where they are at most ``WHOLE`` numbers, else to be taken in blocks, wherever they lie."""
    if math.prod(rows.shape) <= WHOLE:
        return np.asarray(rows)
    return rows if isinstance(rows, Rows) else Rows(rows)


def blocks(rows: NDArray[Any] | Rows) -> Iterator[tuple[slice, NDArray[Any]]]:
    """Rows a block at a time, with their places; an array is one block."""
    if not isinstance(rows, Rows):
        yield slice(0, len(rows)), rows
        return
    for start in range(0, len(rows), rows.step):
        place = slice(start, min(start + rows.step, len(rows)))
        yield place, rows[place]
