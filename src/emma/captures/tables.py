"""``labels.csv`` of a capture set: one row per recording, its path normalised."""

from __future__ import annotations

import csv
import io
import math
import posixpath
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from common.errors import InputError

Row = dict[str, str]

#: Largest table, bytes, its most rows, and its most fields in all.
LARGEST_TABLE, _MOST_ROWS, _MOST_FIELDS = 2**24, 200_000, 2_000_000


def parse_table(data: bytes, path: Path, *needed: str) -> list[Row]:
    """Rows of a table with a header; commas, semicolons or tabs between the fields, with or without a byte order mark.

    Raises:
        InputError: no UTF-8 table, a column missing or named twice, an empty path or session, a path twice.
    """
    lines, fields = data.count(b"\n"), sum(map(data.count, (b",", b";", b"\t")))
    if lines > _MOST_ROWS or fields > _MOST_FIELDS:
        raise InputError(f"{path}: {lines} lines, expected at most {_MOST_ROWS}, and {_MOST_FIELDS} fields")
    try:
        text = data.decode("utf-8-sig")
        head = text.partition("\n")[0]
        reader = csv.reader(io.StringIO(text), delimiter=max(",;\t", key=head.count), strict=True)
        names, *table = ([field.strip() for field in line] for line in reader if line)
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: expected CSV in UTF-8 ({error})") from None
    except ValueError:
        names, table = [], []
    if not table:
        raise InputError(f"{path}: expected a header and at least one row")
    counts = Counter(names)
    for name in ("path", *needed, *names):
        if counts[name] != 1:
            raise InputError(f"{path}: {name}: expected this column once, found {names[:40]}")
    rows: dict[str, Row] = {}
    for number, values in enumerate(table, 2):
        if len(values) != len(names):
            raise InputError(f"{path}: row {number}: {len(values)} fields, expected {len(names)} as in the header")
        row = dict(zip(names, values, strict=True))
        for name in ("path", "session"):
            if row.get(name) == "":
                raise InputError(f"{path}: row {number}: {name}: empty, expected one in every row")
        row["path"] = posixpath.normpath(row["path"])
        if row["path"] in rows:
            raise InputError(f"{path}: {row['path']} occurs twice, expected one label per path")
        rows[row["path"]] = row
    return list(rows.values())


def number(row: Mapping[str, str], name: str, path: Path, *, default: float | None = None) -> float:
    """A finite number of a row; ``default``, where there is one, for an empty field."""
    try:
        value = default if not row[name] and default is not None else float(row[name])
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{path}: {row['path']}: {name}: {row[name]!r}, expected a number")
    return value
