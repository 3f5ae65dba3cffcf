"""Columns of equally long lists, as matrices and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError


def lists_to_matrix(column: pa.ChunkedArray, width: int, path: str | Path) -> Any:
    """A column of equally long lists as a matrix ``[rows, width]``, of objects where they hold texts.

    InputError for any other length, or a null.
    """
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    entries = "texts" if pa.types.is_string(column.type.value_type) else "numbers"
    expected = f"expected lists of {width} {entries} in every row"
    if array.null_count or array.flatten().null_count:
        raise InputError(f"{path}: null, {expected}")
    if len(array) and not pc.all(pc.equal(pc.list_value_length(array), width)).as_py():
        raise InputError(f"{path}: {expected}")
    return np.asarray(array.flatten()).reshape(len(array), width)


def matrix_to_lists(matrix: np.ndarray, kind: pa.DataType | None = None) -> pa.ListArray:
    """A matrix ``[rows, width]`` as a column of lists, of ``kind`` where given; ``width`` may be zero."""
    rows, width = matrix.shape
    offsets = pa.array(np.arange(rows + 1, dtype=np.int64) * width, pa.int32())
    values = pa.array(np.ascontiguousarray(matrix).reshape(-1), None if kind is None else kind.value_type)
    lists = pa.ListArray.from_arrays(offsets, values)
    return lists if kind is None else lists.cast(kind)
