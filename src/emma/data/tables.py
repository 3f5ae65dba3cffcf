"""Parquet tables, validated against an Arrow schema on the way in and written whole or not at all."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from common.errors import InputError
from common.files import atomic


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
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: expected a complete Parquet file ({error})") from None


def check_schema(path: str | Path, found: pa.Schema, expected: pa.Schema) -> None:
    """Raise InputError at the first column that is missing, of another type, not expected, or there twice."""
    repeated = [name for name in found.names if found.names.count(name) > 1]
    if repeated:
        raise InputError(f"{path}: {repeated[0]}: column occurs twice")
    for field in expected:
        if field.name not in found.names:
            raise InputError(f"{path}: {field.name}: column missing, expected {field.type}")
        if found.field(field.name).type != field.type:
            raise InputError(f"{path}: {field.name}: expected {field.type}, found {found.field(field.name).type}")
    extra = sorted(set(found.names) - set(expected.names))
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
    """Raise InputError at a null where ``schema`` allows none, or a number column with NaN or infinity."""
    for field in schema:
        column = table[field.name]
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


#: Bounds of a table from elsewhere: rows, values in a column, and bytes of one text: a name, or one of a list.
_MOST_ROWS, _MOST_VALUES, _LONGEST_NAME, _LONGEST_TEXT = 500_000, 2**25, 256, 2048


def read_untrusted(path: str | Path, schema: pa.Schema, ignored: pa.Schema | None = None) -> pa.Table:
    """Read a table from elsewhere in memory that is bounded whatever the file declares.

    Args:
        path: the file.
        schema: its columns.
        ignored: further columns that may be there; they are not read.

    Raises:
        InputError: broken file, another schema, more rows or values than bounded, a longer text, or a null.
    """
    with open_parquet(path) as file:
        found = file.schema_arrow
        if ignored is not None:
            extra = [name for name in ignored.names if name in found.names and name not in schema.names]
            found = pa.schema([field for field in found if field.name not in extra])
        check_schema(path, found, schema)
    inspect_parquet(path)
    with open_parquet(path) as file:
        try:
            table = file.read(columns=schema.names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path}: expected a complete Parquet file ({str(error)[:200]})") from None
    for field in schema:
        column = table[field.name]
        if not field.nullable and column.null_count:
            raise InputError(f"{path}: {field.name}: null, expected a value in every row")
        if pa.types.is_list(field.type) and any(chunk.flatten().null_count for chunk in column.chunks):
            raise InputError(f"{path}: {field.name}: null in a list, expected a value")
    return pa.Table.from_arrays(table.select(schema.names).columns, schema=schema)


def inspect_parquet(path: str | Path) -> None:
    """Raise InputError where a Parquet file from elsewhere holds more than a table of ours can: rows, values, texts."""
    with open_parquet(path) as file:
        check_extent(path, file.metadata)
        longest_of = {
            field.name: _LONGEST_TEXT if pa.types.is_list(field.type) else _LONGEST_NAME
            for field in file.schema_arrow
            if pa.types.is_string(field.type.value_type if pa.types.is_list(field.type) else field.type)
        }
        leaves = [column.path for column in file.schema if column.path.partition(".")[0] in longest_of]
    # Texts are read as dictionaries: a text that stands a million times takes its length once.
    with pq.ParquetFile(path, read_dictionary=leaves) as file:
        for name, most in longest_of.items():
            try:
                column = file.read(columns=[name], use_threads=False)[name]
            except (pa.ArrowException, OSError) as error:
                raise InputError(f"{path}: expected a complete Parquet file ({str(error)[:200]})") from None
            for chunk in column.chunks:
                flat = chunk.flatten() if pa.types.is_list(chunk.type) else chunk
                values = flat.dictionary if pa.types.is_dictionary(flat.type) else flat
                longest = pc.max(pc.binary_length(values)).as_py() or 0
                if longest > most:
                    raise InputError(f"{path}: {name}: {longest} bytes, expected at most {most}")


def check_extent(path: str | Path, metadata: pq.FileMetaData) -> None:
    """Raise InputError where a Parquet file declares more rows or values than a table of ours can have."""
    if metadata.num_rows > _MOST_ROWS:
        raise InputError(f"{path}: {metadata.num_rows} rows, expected at most {_MOST_ROWS}")
    values: dict[str, int] = {}
    for group in range(metadata.num_row_groups):
        for number in range(metadata.num_columns):
            column = metadata.row_group(group).column(number)
            name = column.path_in_schema
            values[name] = values.get(name, 0) + column.num_values
            if values[name] > _MOST_VALUES or column.total_uncompressed_size > 16 * _MOST_VALUES:
                raise InputError(f"{path}: {name}: more values than a table of {_MOST_VALUES} holds")


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
