"""Parquet files by hand, whose footer and page headers say whatever they are told to say."""

import struct

#: Thrift's compact protocol: types of fields.
I32, I64, BINARY, LIST, STRUCT = 5, 6, 8, 9, 12


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def zigzag(value):
    return varint(value << 1 if value >= 0 else (-value << 1) - 1)


def encode(kind, value):
    if kind in {I32, I64}:
        return zigzag(value)
    if kind == BINARY:
        return varint(len(value)) + value
    if kind == STRUCT:
        return value if isinstance(value, bytes) else structure(value)
    of, items = value
    head = bytes([len(items) << 4 | of]) if len(items) < 15 else bytes([0xF0 | of]) + varint(len(items))
    return head + b"".join(encode(of, item) for item in items)


def structure(fields):
    """Fields ``{id: (type, value)}`` as a struct."""
    out, last = b"", 0
    for number, (kind, value) in sorted(fields.items()):
        out += bytes([(number - last) << 4 | kind]) + encode(kind, value)
        last = number
    return out + b"\0"


def lists(values=10, *, told=10, rows=1, told_rows=1, size=None, groups=1, names=("scores",)):
    """A file of columns of lists of doubles, one page with ``values`` zeros each, which the footer calls ``told``.

    Args:
        values: entries of the page, all of one list.
        told: entries by the footer.
        rows: rows of the row group.
        told_rows: rows by the footer.
        size: bytes of the chunk by the footer, uncompressed.
        groups: how often the footer names the one row group.
        names: the columns, which share the page.
    """
    # One run each: repetition 0 then 1, definition 3, and index 0 of a dictionary that holds 0.
    repetition = varint(1 << 1) + b"\0" + varint(values - 1 << 1) + b"\1"
    definition = varint(values << 1) + b"\3"
    levels = b"".join(struct.pack("<I", len(part)) + part for part in (repetition, definition))
    data = levels + b"\1" + varint(values << 1) + b"\0"
    words = struct.pack("<d", 0.0)
    dictionary = structure(
        {1: (I32, 2), 2: (I32, len(words)), 3: (I32, len(words)), 7: (STRUCT, {1: (I32, 1), 2: (I32, 0)})}
    )
    page = structure(
        {
            1: (I32, 0),
            2: (I32, len(data)),
            3: (I32, len(data)),
            5: (STRUCT, {1: (I32, values), 2: (I32, 8), 3: (I32, 3), 4: (I32, 3)}),
        }
    )
    body = dictionary + words + page + data
    chunks, schema = [], [{4: (BINARY, b"schema"), 5: (I32, len(names))}]
    for name in names:
        meta = {
            1: (I32, 5),
            2: (LIST, (I32, [0, 3, 8])),
            3: (LIST, (BINARY, [name.encode(), b"list", b"element"])),
            4: (I32, 0),
            5: (I64, told),
            6: (I64, len(body) if size is None else size),
            7: (I64, len(body)),
            9: (I64, 4 + len(dictionary) + len(words)),
            11: (I64, 4),
        }
        chunks.append({2: (I64, 4), 3: (STRUCT, meta)})
        schema += [
            {3: (I32, 1), 4: (BINARY, name.encode()), 5: (I32, 1), 6: (I32, 3)},
            {3: (I32, 2), 4: (BINARY, b"list"), 5: (I32, 1)},
            {1: (I32, 5), 3: (I32, 1), 4: (BINARY, b"element")},
        ]
    group = structure({1: (LIST, (STRUCT, chunks)), 2: (I64, len(body)), 3: (I64, rows)})
    footer = structure(
        {1: (I32, 1), 2: (LIST, (STRUCT, schema)), 3: (I64, told_rows), 4: (LIST, (STRUCT, [group] * groups))}
    )
    return b"PAR1" + body + footer + struct.pack("<I", len(footer)) + b"PAR1"
