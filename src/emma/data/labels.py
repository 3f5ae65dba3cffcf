"""Labels of scenes: a table of their own beside the scenes' index, joined with it by scene id.

A scene id covers samples and acquisition, never a label, so that a new kind of label changes no scene.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.data.schema import read_stamped
from emma.data.tables import check_values, rows_of, unique_ids
from emma.tasks import TARGETS, Target, TaskSpec, target_of

_INDEX, _LABELS = "index.parquet", "labels.parquet"
_SCENE_ID = pa.field("scene_id", pa.string(), nullable=False)

#: What else is known of a scene than its label: a family, a state, a recording.
DETAIL = pa.field("detail", pa.string())


def label_field(spec: TaskSpec) -> pa.Field:
    """Name and type of the column that carries the labels of a task."""
    return target_field(target_of(spec))


def target_field(target: Target | type[Target]) -> pa.Field:
    """Name and type of the column that carries labels of a kind."""
    return pa.field(target.column, target.label_type, nullable=False)


#: The columns of angles and of class names.
AZIMUTH, CLASS = target_field(TARGETS["angle"]), target_field(TARGETS["class"])


def labels_beside(index_path: str | Path) -> Path:
    """Where the labels of an index are: ``labels.parquet`` for ``index.parquet``, with the same start.

    Raises:
        InputError: the index has another name, so that its labels have no place.
    """
    path = Path(index_path)
    if not path.name.endswith(_INDEX):
        raise InputError(f"{path}: expected a name that ends in {_INDEX}, since its labels are in a file beside it")
    return path.with_name(path.name.removesuffix(_INDEX) + _LABELS)


def labels_schema(label: pa.Field | None, *, detail: bool = False) -> pa.Schema:
    """Schema of a labels table; without a label, of one that stays empty, as an unlabelled pool's does."""
    fields = [] if label is None else [label, *([DETAIL] if detail else [])]
    return pa.schema([_SCENE_ID, *fields])


def labels_table(
    path: str | Path,
    scene_ids: Sequence[str],
    columns: Mapping[str, Sequence[Any] | np.ndarray],
    label: pa.Field | None,
) -> pa.Table:
    """Labels of n scenes as a table.

    Args:
        path: what to call the table in an error.
        scene_ids: ids ``[n]``.
        columns: label columns of length n; of them, the label's and ``detail`` are kept.
        label: the label's column, or None for scenes without labels, whose table has no row.

    Raises:
        InputError: the label's column is missing, or a value in it.
    """
    if label is None:
        return labels_schema(None).empty_table()
    if label.name not in columns:
        raise InputError(f"{path}: {label.name}: column missing, expected {label.type}")
    schema = labels_schema(label, detail=DETAIL.name in columns)
    values = [scene_ids, *(plain_values(columns[name]) for name in schema.names[1:])]
    try:
        arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    except (pa.ArrowException, TypeError) as error:
        raise InputError(f"{path}: {label.name}: expected {label.type} ({error})") from None
    table = pa.table(arrays, schema=schema)
    check_values(path, table, schema)
    return table


def plain_values(values: Sequence[Any] | np.ndarray) -> list[Any]:
    """A column as a list of Python values; NaN in a number column stands for no value, an array for several numbers."""
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    values = [value.tolist() if isinstance(value, np.ndarray) else value for value in values]
    return [None if isinstance(value, float) and np.isnan(value) else value for value in values]


def read_labels(path: str | Path, label: pa.Field | None) -> pa.Table:
    """Read a labels table.

    Raises:
        InputError: broken file, another schema or version of it, a scene without a label, or one that occurs twice.
    """
    table = read_stamped(path, labels_schema(label), optional=[] if label is None else [DETAIL])
    unique_ids(path, table["scene_id"])
    return table


def join_labels(path: str | Path, index: pa.Table, labels: pa.Table) -> pa.Table:
    """An index with the label column and ``detail`` (null where the labels have none), in the order of the index.

    Raises:
        InputError: names a scene that has no label; labels and scenes differ in number.
    """
    rows = rows_of(labels["scene_id"], index["scene_id"], path)
    if labels.num_rows != index.num_rows:
        raise InputError(f"{path}: {labels.num_rows} labels, expected one for each of {index.num_rows} scenes")
    chosen = labels.take(pa.array(rows))
    for field in chosen.schema:
        if field.name != _SCENE_ID.name:
            index = index.append_column(field, chosen[field.name])
    if DETAIL.name not in index.column_names:
        index = index.append_column(DETAIL, pa.nulls(index.num_rows, DETAIL.type))
    return index
