"""Content hashes: SHA-256 over canonical content; over file bytes where a config pins a file of others (`file_sha256`).

JSON values are hashed in the canonical form of RFC 8785; Arrow tables by schema, shape and column values in the order
of their key column. Nothing hashed holds a time, a path or a host name.
"""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES |= {chr(code): f"\\u{code:04x}" for code in range(32) if chr(code) not in _ESCAPES}
_ESCAPE_TABLE = str.maketrans(_ESCAPES)


def sha256(data: bytes | bytearray | memoryview) -> str:
    """SHA-256 of bytes, as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: str | Path) -> str:
    """SHA-256 of a file's bytes, in lower-case hexadecimal, read a part at a time; OSError where it cannot be."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def canonical_json(value: Any) -> bytes:
    r"""Serialise a JSON value canonically (RFC 8785): keys by UTF-16 code units, shortest numbers, no white space.

    Numpy scalars are taken as their Python values. Whole numbers keep all their digits, also beyond 2**53, so that no
    two seeds are one. ValueError on NaN, infinity, non-string keys and other types.

    >>> canonical_json({"b": 1.0, "a": [1e-7, None, "é"]})
    b'{"a":[1e-7,null,"\xc3\xa9"],"b":1}'
    """
    return _canonical(value).encode("utf-8")


def _canonical(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPE_TABLE)}"'
    if value is None or isinstance(value, bool | np.bool_):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, int | np.integer):
        return str(int(value))
    if isinstance(value, float | np.floating):
        return _number(float(value))
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ValueError("canonical JSON: keys must be strings")
        return "{" + ",".join(f"{_canonical(key)}:{_canonical(value[key])}" for key in _in_order(value)) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return "[" + ",".join(map(_canonical, value)) + "]"
    raise ValueError(f"canonical JSON: {type(value).__name__} is not a JSON type")


def _number(value: float) -> str:
    """Shortest decimal form of a float as ECMAScript writes it (RFC 8785, section 3.2.2.3)."""
    if not math.isfinite(value):
        raise ValueError("canonical JSON: numbers must be finite")
    mantissa, _, exponent = repr(value).partition("e")
    if not exponent:
        return "0" if value == 0 else mantissa.removesuffix(".0")
    # Python turns to an exponent below 1e-4 and from 1e16, ECMAScript below 1e-6 and from 1e21.
    power = int(exponent)
    if 0 < power < 21:
        whole, _, fraction = mantissa.partition(".")
        return whole + fraction.ljust(power, "0")
    if -7 < power < 0:
        sign, digits = ("-", mantissa[1:]) if mantissa.startswith("-") else ("", mantissa)
        return f"{sign}0.{'0' * (-power - 1)}{digits.replace('.', '')}"
    return f"{mantissa}e{power:+d}"


def canonical_records(
    columns: Mapping[str, Sequence[Any]], around: Mapping[str, Any], name: str, own: Mapping[str, Sequence[str]]
) -> list[bytes]:
    """Canonical JSON of a record per row: ``around``, under ``name`` the row of ``columns``, and its texts of ``own``.

    The same bytes as ``canonical_json`` of each, at a fraction of the time: a value that comes again is written once.
    """
    written = {}
    for key, values in columns.items():
        texts = {value: _number(value) if type(value) is float else _canonical(value) for value in set(values)}
        written[key] = [texts[value] for value in values]
    inner = "{" + ",".join(f"{_canonical(key).replace('%', '%%')}:%s" for key in _in_order(columns)) + "}"
    outer = {key: _canonical(value).replace("%", "%%") for key, value in around.items()}
    outer |= dict.fromkeys(own, '"%s"') | {name: inner}
    template = "{" + ",".join(f"{_canonical(key).replace('%', '%%')}:{outer[key]}" for key in _in_order(outer)) + "}"
    slots = []
    for key in _in_order(outer):
        slots += [written[column] for column in _in_order(columns)] if key == name else []
        slots += [[text.translate(_ESCAPE_TABLE) for text in own[key]]] if key in own else []
    return [(template % row).encode() for row in zip(*slots, strict=True)]


def _in_order(keys: Iterable[str]) -> list[str]:
    return sorted(keys, key=lambda key: key.encode("utf-16-be"))


def content_hash(value: Any) -> str:
    """SHA-256 of a JSON value's canonical form."""
    return sha256(canonical_json(value))


def table_hash(table: pa.Table, key: str = "scene_id") -> str:
    """SHA-256 of an Arrow table's content: schema, shape and column values, rows in the order of ``key``.

    File metadata, chunking, dictionary encoding, names of list items and row order do not count, nor does the sign of
    zero or the payload of NaN; nulls are told from zeros and from NaN. Columns are numbers, booleans, strings or lists
    of these. ValueError on any other type, or if a key is null or occurs twice.
    """
    import pyarrow as pa

    order = _key_order(table[key], key)
    digest = hashlib.sha256()
    schema = [[field.name, _type_name(field.type)] for field in table.schema]
    digest.update(canonical_json({"rows": table.num_rows, "schema": schema}))
    for column in table.columns:
        array = _whole(column)
        if (matrix := _as_matrix(array)) is not None:
            # The head of a list column without nulls, then its rows in order, without a copy of the column.
            rows, width = matrix.shape
            for part in (np.packbits(np.ones(rows, bool)), np.full(rows, width, "<i8"), _all_valid(rows * width)):
                _absorb(digest, part)
            digest.update(matrix.nbytes.to_bytes(8, "little"))
            step = max(1, _BLOCK // max(1, width))
            block = np.empty((min(step, rows), width), matrix.dtype)
            for start in range(0, rows, step):
                picked = order[start : start + step]
                values = block[: len(picked)]
                # An order is in range: clipping spares numpy a copy of the block.
                np.take(matrix, picked, axis=0, out=values, mode="clip")
                _absorb_values(digest, values.reshape(-1), scratch=values.reshape(-1))
            continue
        for part in _column_parts(array.take(pa.array(order))):
            _absorb(digest, part)
    return digest.hexdigest()


def _key_order(column: pa.ChunkedArray, key: str) -> np.ndarray:
    """Row numbers in the order of the keys; ValueError if one is null or occurs twice."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if column.null_count:
        raise ValueError(f"column {key}: keys must be present and unique")
    if pa.types.is_string(column.type):
        # Bytes of UTF-8 sort as the code points do.
        order = np.asarray(pc.sort_indices(column), np.int64)
    else:
        keys = column.to_pylist()
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
    ranked = _whole(column).take(pa.array(order))
    if pc.any(pc.equal(ranked[1:], ranked[:-1])).as_py():
        raise ValueError(f"column {key}: keys must be present and unique")
    return order


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array, without a copy where it is one."""
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    chunks = column.unify_dictionaries().chunks
    return pa.concat_arrays(chunks) if chunks else pa.array([], column.type)


#: Values hashed at a time: few enough to stay in a processor's cache.
_BLOCK = 2**15


def _as_matrix(array: pa.Array) -> np.ndarray | None:
    """A column of equally long float lists without nulls as a view ``[rows, width]``; None for any other."""
    import pyarrow as pa

    kind = array.type
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    if not is_list or array.null_count or not pa.types.is_floating(kind.value_type):
        return None
    values, lengths = array.flatten(), np.asarray(array.value_lengths())
    if values.null_count or not len(lengths) or (lengths != lengths[0]).any():
        return None
    return np.asarray(values).reshape(len(lengths), lengths[0])


@functools.lru_cache(maxsize=8)
def _all_valid(count: int) -> bytes:
    return np.packbits(np.ones(count, bool)).tobytes()


def _absorb(digest: hashlib._Hash, part: np.ndarray | bytes) -> None:
    """Hash the length in bytes of one part of a column, then the part."""
    if isinstance(part, bytes):
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
        return
    digest.update(part.nbytes.to_bytes(8, "little"))
    for start in range(0, len(part), _BLOCK):
        _absorb_values(digest, part[start : start + _BLOCK])


def _absorb_values(digest: hashlib._Hash, values: np.ndarray, scratch: np.ndarray | None = None) -> None:
    """Hash little-endian values; one zero and one NaN stand for all, written to ``scratch`` if that is given."""
    if values.dtype.kind == "f":
        values = np.add(values, values.dtype.type(0), out=scratch)
        # The least value is NaN where any is.
        if values.size and np.isnan(values.min()):
            values[np.isnan(values)] = np.nan
    if values.size:
        digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(np.uint8).data)


def _type_name(kind: pa.DataType) -> str:
    """A column type without what a Parquet writer may change: dictionary encoding and the names of list items."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _type_name(kind.value_type)
    if pa.types.is_fixed_size_list(kind):
        return f"fixed_size_list<element: {_type_name(kind.value_type)}>[{kind.list_size}]"
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return f"{'large_' * pa.types.is_large_list(kind)}list<element: {_type_name(kind.value_type)}>"
    plain = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_string)
    if not any(is_kind(kind) for is_kind in (*plain, pa.types.is_large_string)):
        raise ValueError(f"table hash: columns of {kind} have no canonical form")
    return str(kind)


def _column_parts(array: pa.Array) -> list[np.ndarray | bytes]:
    """The content of one column in parts: validity, offsets (where there are any), values with nulls zeroed."""
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    head = np.packbits(np.asarray(array.is_valid())) if array.null_count else _all_valid(len(array))
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.asarray(array.value_lengths().fill_null(0)).astype("<i8")
        return [head, lengths, *_column_parts(array.flatten())]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        array = array.cast(pa.large_string()).fill_null("")
        offsets = np.frombuffer(array.buffers()[1], "<i8")[array.offset : array.offset + len(array) + 1]
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        data = array.buffers()[2]
        texts = np.frombuffer(data, np.uint8)[first:last] if data is not None and last > first else b""
        return [head, np.diff(offsets), texts]
    if pa.types.is_boolean(kind):
        return [head, np.packbits(np.asarray(array.fill_null(False)))]
    return [head, np.ascontiguousarray(np.asarray(array.fill_null(0) if array.null_count else array))]
