"""Parquet files from elsewhere: bounds by the footer before anything is decoded, and bounded memory where it lies."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from common.doors import bounded_memory, require_regular
from common.errors import InputError
from emma.data.tables import check_schema

#: Bounds of a table from elsewhere: rows, values in a column, bytes of a column, and columns; pieces are column chunks.
_MOST_ROWS, _MOST_VALUES, _MOST_BYTES, _MOST_COLUMNS, _MOST_PIECES = 500_000, 2**25, 2**29, 256, 2**18
#: Bytes of the footer, of one text: a name, or one of a list, and of all texts of a column.
_LARGEST_FOOTER, _LONGEST_NAME, _LONGEST_TEXT, _MOST_TEXT = 2**24, 256, 2048, 2**28
#: Rows that are decoded at a time where texts are looked at.
_ROWS = 256


def foreign_schema(path: str | Path) -> pa.Schema:
    """The columns of a table from elsewhere; raises what ``inspect_parquet`` raises, before any value is decoded."""
    with _opened(path) as file:
        found: pa.Schema = file.schema_arrow
    return found


def read_untrusted(path: str | Path, schema: pa.Schema, ignored: pa.Schema | None = None) -> pa.Table:
    """Read a table from elsewhere in memory that is bounded whatever the file declares.

    Equal logical types are cast to those of ``schema``: long texts and dictionaries of texts, lists of any kind,
    numbers of another width.

    Args:
        path: the file.
        schema: its columns.
        ignored: further columns that may be there; they are not read.

    Raises:
        InputError: broken file, another schema, more rows or values than bounded, a longer text, or a null.
    """
    with _opened(path) as file:
        found = file.schema_arrow
        further = set() if ignored is None else {*ignored.names} - {*schema.names}
        named = [field for field in found if field.name not in further]
        check_schema(path, pa.schema([_as_expected(field, schema) for field in named]), schema)
        _inspect_texts(path, file, set(schema.names))
        table = file.read(columns=schema.names, use_threads=False)
        columns = [_cast(path, table[field.name], field) for field in schema]
    for field, column in zip(schema, columns, strict=True):
        if not field.nullable and column.null_count:
            raise InputError(f"{path}: {field.name}: null, expected a value in every row")
        if pa.types.is_list(field.type) and any(chunk.flatten().null_count for chunk in column.chunks):
            raise InputError(f"{path}: {field.name}: null in a list, expected a value")
    return pa.Table.from_arrays(columns, schema=schema)


def inspect_parquet(path: str | Path) -> None:
    """Raise InputError where a Parquet file from elsewhere holds more than a table of ours can: rows, values, texts.

    Also where it is broken, or holds text that is not UTF-8.
    """
    with _opened(path) as file:
        _inspect_texts(path, file, set(file.schema_arrow.names))


def leaf(kind: pa.DataType) -> pa.DataType:
    """What lists, however deep, and dictionaries hold."""
    while (entry := _entry(kind)) is not None:
        kind = entry
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is that of texts."""
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_kind(kind) for is_kind in kinds)


@contextlib.contextmanager
def _opened(path: str | Path) -> Iterator[pq.ParquetFile]:
    """An open file whose footer is within bounds; what is decoded of it takes bounded memory.

    Memory comes from the system's allocator: another one may hold a gigabyte before it asks for any.
    """
    _check_footer(path)
    pool, limits = pa.default_memory_pool(), dict.fromkeys(("string", "container"), _LARGEST_FOOTER)
    with bounded_memory(path):
        pa.set_memory_pool(pa.system_memory_pool())
        try:
            with pq.ParquetFile(path, **{f"thrift_{name}_size_limit": most for name, most in limits.items()}) as file:
                check_extent(path, file.metadata)
                yield file
        except (InputError, MemoryError):
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{path}: expected a complete Parquet file ({reason})") from None
        finally:
            pa.set_memory_pool(pool)


def _check_footer(path: str | Path) -> None:
    """InputError for a footer that is too large to be read."""
    size = require_regular(path)
    if size < 12:
        raise InputError(f"{path}: expected a complete Parquet file (it has {size} bytes)")
    with contextlib.suppress(OSError), Path(path).open("rb") as file:
        file.seek(-8, os.SEEK_END)
        footer = int.from_bytes(file.read(4), "little")
        # A footer longer than the file is no footer, which the library says.
        if _LARGEST_FOOTER < footer < size:
            raise InputError(f"{path}: a footer of {footer} bytes, expected at most {_LARGEST_FOOTER}")


def check_extent(path: str | Path, metadata: pq.FileMetaData) -> None:
    """Raise InputError where a Parquet file declares more columns, rows or values than a table of ours can have."""
    for what, found, most in (
        ("rows", metadata.num_rows, _MOST_ROWS),
        ("columns", metadata.num_columns, _MOST_COLUMNS),
        ("pieces", metadata.num_row_groups * metadata.num_columns, _MOST_PIECES),
    ):
        if not 0 <= found <= most:
            raise InputError(f"{path}: {found} {what}, expected at most {most}")
    values: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for group in map(metadata.row_group, range(metadata.num_row_groups)):
        for column in map(group.column, range(metadata.num_columns)):
            name = column.path_in_schema
            values[name] += column.num_values
            sizes[name] += column.total_uncompressed_size
            if column.num_values < 0 or values[name] > _MOST_VALUES or sizes[name] > _MOST_BYTES:
                raise InputError(f"{path}: {name}: more values than a table of {_MOST_VALUES} holds")


def _inspect_texts(path: str | Path, file: pq.ParquetFile, names: set[str]) -> None:
    """InputError for a text that is too long or not UTF-8, or too many of them, a few rows at a time."""
    for field in (field for field in file.schema_arrow if field.name in names and is_text(leaf(field.type))):
        most, total = _LONGEST_TEXT if _entry(field.type) is not None else _LONGEST_NAME, 0
        for group in range(file.num_row_groups):
            batches = file.iter_batches(_ROWS, row_groups=[group], columns=[field.name], use_threads=False)
            for batch in batches:
                batch.validate(full=True)
                lengths = _lengths(batch.column(0))
                longest = pc.max(lengths).as_py() or 0
                if longest > most:
                    raise InputError(f"{path}: {field.name}: {longest} bytes, expected at most {most}")
                total += pc.sum(lengths).as_py() or 0
                if total > _MOST_TEXT:
                    raise InputError(f"{path}: {field.name}: texts of more than {_MOST_TEXT} bytes, expected fewer")


def _lengths(column: pa.Array) -> pa.Array:
    """Bytes of every text of a column, or of its lists, however deep."""
    while _entry(column.type) is not None:
        column = column.flatten()
    if pa.types.is_dictionary(column.type):
        return pc.take(pc.binary_length(column.dictionary), column.indices)
    return pc.binary_length(column.cast(pa.large_string()) if pa.types.is_string_view(column.type) else column)


def _entry(kind: pa.DataType) -> pa.DataType | None:
    """The type of the entries of a list; None for another type."""
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return kind.value_type if any(is_list(kind) for is_list in lists) else None


def _equal(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are the same logically: texts, numbers of one kind, lists of equal entries."""
    entries: list[Any] = [_entry(kind) for kind in (one, other)]
    if None not in entries:
        return _equal(*entries)
    leaves = [kind.value_type if pa.types.is_dictionary(kind) else kind for kind in (one, other)]
    kinds = (is_text, pa.types.is_floating, pa.types.is_integer)
    return one == other or any(all(map(is_kind, leaves)) for is_kind in kinds)


def _as_expected(field: pa.Field, schema: pa.Schema) -> pa.Field:
    """The same field, of the type that ``schema`` has it in where both are the same logically."""
    place = schema.get_field_index(field.name)
    equal = place >= 0 and _equal(field.type, schema.field(place).type)
    return field.with_type(schema.field(place).type) if equal else field


def _cast(path: str | Path, column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column as ``field`` has it; InputError for a number that does not fit."""
    if column.type == field.type:
        return column
    try:
        return column.cast(field.type)
    except MemoryError:
        raise
    except pa.ArrowException as error:
        reason = " ".join(str(error).split())[:80]
        raise InputError(f"{path}: {field.name}: expected {field.type}, found {column.type} ({reason})") from None
