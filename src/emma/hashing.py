"""Content hashes: SHA-256 over canonical content, never over file bytes.

JSON values are hashed in the canonical form of RFC 8785; Arrow tables by schema, shape and column values in the order
of their key column. Nothing hashed holds a time, a path or a host name.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
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
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return "{" + ",".join(f"{_canonical(key)}:{_canonical(value[key])}" for key in keys) + "}"
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


def content_hash(value: Any) -> str:
    """SHA-256 of a JSON value's canonical form."""
    return sha256(canonical_json(value))


def table_hash(table: pa.Table, key: str = "scene_id") -> str:
    """SHA-256 of an Arrow table's content: schema, shape and column values, rows in the order of ``key``.

    File metadata, chunking, dictionary encoding, names of list items and row order do not count, nor does the sign of
    zero or the payload of NaN; nulls are told from zeros and from NaN. Columns are numbers, booleans, strings or lists
    of these. ValueError on any other type, or if a key is null or stands twice.
    """
    import pyarrow as pa

    keys = table[key].to_pylist()
    if None in keys or len(set(keys)) != len(keys):
        raise ValueError(f"column {key}: keys must be present and unique")
    order = sorted(range(len(keys)), key=keys.__getitem__)
    digest = hashlib.sha256()
    schema = [[field.name, _type_name(field.type)] for field in table.schema]
    digest.update(canonical_json({"rows": table.num_rows, "schema": schema}))
    table = table.take(pa.array(order, pa.int64()))
    for column in table.columns:
        for part in _column_bytes(column):
            digest.update(len(part).to_bytes(8, "little"))
            digest.update(part)
    return digest.hexdigest()


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


def _column_bytes(array: pa.Array | pa.ChunkedArray) -> list[bytes]:
    """The content of one column as byte strings: validity, offsets (where there are any), values with nulls zeroed."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.unify_dictionaries()
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = np.asarray(array.is_valid())
    head = np.packbits(valid).tobytes()
    kind = array.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        lengths = np.asarray(array.value_lengths().fill_null(0)).astype("<i8")
        return [head, lengths.tobytes(), *_column_bytes(array.flatten())]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        texts = [(text or "").encode("utf-8") for text in array.to_pylist()]
        return [head, np.array([len(text) for text in texts], "<i8").tobytes(), b"".join(texts)]
    if pa.types.is_boolean(kind):
        return [head, np.packbits(np.asarray(array.fill_null(False))).tobytes()]
    values = np.ascontiguousarray(np.asarray(array.fill_null(0)))
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), values.dtype.type(np.nan), values + values.dtype.type(0))
    return [head, values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()]
