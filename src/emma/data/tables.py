"""Parquet tables, validated against an Arrow schema on the way in and written whole or not at all."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from common.doors import require_regular
from common.errors import InputError
from common.files import atomic

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset


def without_pandas() -> None:
    """Keep pyarrow from importing pandas, for a program that has no use for it.

    pyarrow imports pandas, where it is installed, at its first conversion of a Python or numpy value: half a second
    that a job of one second pays for nothing. It tries once; here it tries while there is no pandas to be found. Call
    this in a program, before any conversion, never in a library.
    """
    if "pandas" in sys.modules:
        return
    sys.modules["pandas"] = None  # type: ignore[assignment]  # the import system reads None as "not there"
    with contextlib.suppress(AttributeError, ImportError):
        pa.scalar(0)
    # The first try fails half-way; the second is where pyarrow takes note.
    with contextlib.suppress(AttributeError, ImportError):
        pc.greater(pa.array([1]), 1)
    del sys.modules["pandas"]


def open_parquet(path: str | Path) -> pq.ParquetFile:
    """Open a Parquet file; InputError if it is missing, truncated or no Parquet file."""
    require_regular(path)
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: expected a complete Parquet file ({error})") from None


def open_dataset(path: str | Path) -> Dataset:
    """A Parquet file of which a few row groups are read at a time; InputError as from ``open_parquet``."""
    from pyarrow.dataset import dataset

    open_parquet(path).close()
    return dataset(path, format="parquet")


def check_schema(path: str | Path, found: pa.Schema, expected: pa.Schema) -> None:
    """Raise InputError at the first column that is missing, of another type, not expected, or there twice."""
    types: dict[str, pa.DataType] = {}
    for field in found:
        if field.name in types:
            raise InputError(f"{path}: {field.name}: column occurs twice")
        types[field.name] = field.type
    for field in expected:
        if field.name not in types:
            raise InputError(f"{path}: {field.name}: column missing, expected {field.type}")
        if types[field.name] != field.type:
            raise InputError(f"{path}: {field.name}: expected {field.type}, found {types[field.name]}")
    extra = sorted(types.keys() - set(expected.names))
    if extra:
        raise InputError(f"{path}: {extra[0]}: column not expected")


def read_table(path: str | Path, schema: pa.Schema) -> pa.Table:
    """Read a whole table with exactly the columns of ``schema``; InputError on a null where it allows none, or NaN."""
    with open_parquet(path) as file:
        check_schema(path, file.schema_arrow, schema)
        try:
            table = file.read(use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: expected a complete Parquet file ({error})") from None
    check_values(path, table, schema)
    return table.select(schema.names).replace_schema_metadata(table.schema.metadata)


def row_groups(path: str | Path, file: pq.ParquetFile, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """An open file's rows, or some columns of them, a row group at a time; InputError where the file is broken."""
    # Not iter_batches, which holds the bytes of every group that it has passed.
    for group in range(file.num_row_groups):
        try:
            rows = file.read_row_group(group, columns=columns, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: expected a complete Parquet file ({error})") from None
        yield rows


def check_values(path: str | Path, table: pa.Table, schema: pa.Schema) -> None:
    """Raise InputError at a null where ``schema`` allows none, NaN or infinity among numbers, text not in UTF-8."""
    for field in schema:
        column = table[field.name]
        kind = field.type.value_type if pa.types.is_list(field.type) else field.type
        if pa.types.is_string(kind):
            try:
                column.validate(full=True)
            except pa.ArrowInvalid:
                raise InputError(f"{path}: {field.name}: expected text in UTF-8") from None
        if not field.nullable and column.null_count:
            raise InputError(f"{path}: {field.name}: null, expected a value in every row")
        if pa.types.is_floating(field.type) and not pc.all(pc.is_finite(column), min_count=0).as_py():
            raise InputError(f"{path}: {field.name}: NaN or infinity, expected finite numbers")


def check_entries(path: str | Path, name: str, column: pa.ChunkedArray) -> None:
    """Raise InputError for a null, or a number that is not finite, in a column or in its lists, however deep."""
    while pa.types.is_list(column.type) and not column.null_count:
        column = pc.list_flatten(column)
    numbers = pa.types.is_floating(column.type)
    if column.null_count or (numbers and not pc.all(pc.is_finite(column), min_count=0).as_py()):
        raise InputError(f"{path}: {name}: NaN, infinity or null, expected finite numbers")


def write_table(path: str | Path, table: pa.Table, metadata: Mapping[str, str] | None = None) -> None:
    """Write a table, with ``metadata`` in its schema, under a temporary name and rename it."""
    if metadata is not None:
        table = table.replace_schema_metadata(dict(metadata))
    with atomic(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def metadata_of(table: pa.Table) -> dict[str, str]:
    """The schema metadata of a table as text."""
    return {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}


def unique_ids(path: str | Path, ids: pa.ChunkedArray) -> None:
    """Raise InputError that names a scene id which occurs twice."""
    counts = pc.value_counts(ids).flatten()
    repeated = counts[0].filter(pc.greater(counts[1], 1))
    if len(repeated):
        raise InputError(f"{path}: scene_id: {repeated[0]} occurs twice, expected unique ids")


def rows_of(ids: pa.Array | pa.ChunkedArray, wanted: pa.Array | pa.ChunkedArray, path: str | Path) -> np.ndarray:
    """Row numbers of the ``wanted`` ids among ``ids``; InputError that names one that is missing."""
    if isinstance(ids, pa.ChunkedArray):
        ids = ids.combine_chunks()
    rows = pc.index_in(wanted, value_set=ids)
    if isinstance(rows, pa.ChunkedArray):
        rows = rows.combine_chunks()
    if rows.null_count:
        missing = pc.filter(wanted, pc.is_null(rows))[0]
        raise InputError(f"{path}: scene_id: {missing} is missing")
    return np.asarray(rows.to_numpy())
