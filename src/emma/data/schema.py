"""The version of the tables that hold scenes, indexes and labels, which each of them carries in its schema metadata."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from common.errors import InputError
from emma.data.tables import open_parquet, read_table

#: Version of the columns of scenes, index and labels: of what a scene id covers, and of where labels stand.
SCENE_SCHEMA = "3"

_KEY = "scene_schema"


def stamped(schema: pa.Schema, **metadata: str) -> pa.Schema:
    """A schema whose metadata are the version and ``metadata``."""
    return schema.with_metadata({_KEY: SCENE_SCHEMA, **metadata})


def check_version(path: str | Path, schema: pa.Schema) -> None:
    """Raise InputError where a file is of no version, or of another one."""
    found = (schema.metadata or {}).get(_KEY.encode())
    if found != SCENE_SCHEMA.encode():
        said = "none" if found is None else found.decode(errors="replace")
        again = f"delete it and run snakemake --cores 2 --config release=NAME -- {path}"
        raise InputError(f"{path}: {_KEY}: version {said}, expected {SCENE_SCHEMA}: make it again: {again}")


def read_stamped(path: str | Path, schema: pa.Schema, optional: Sequence[pa.Field] = ()) -> pa.Table:
    """Read a whole table of this version, with exactly the columns of ``schema`` and those of ``optional`` it has.

    Raises:
        InputError: broken file, another version or schema, a null where the schema allows none, or NaN.
    """
    with open_parquet(path) as file:
        found = file.schema_arrow
    check_version(path, found)
    for field in optional:
        if field.name in found.names:
            schema = schema.append(field)
    return read_table(path, schema)
