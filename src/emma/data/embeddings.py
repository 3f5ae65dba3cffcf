"""Embeddings of a task's scenes by scene id, as a frozen backbone gave them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from common.columns import lists_to_matrix
from common.errors import InputError
from common.rows import WHOLE, RowFile, Rows
from emma.data.provenance import Provenance, provenance_of
from emma.data.tables import check_schema, metadata_of, open_parquet, row_groups, rows_of, unique_ids

#: One row per scene; the list is the embedding, of the width in the schema metadata.
EMBEDDING_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("embedding", pa.list_(pa.float32()), nullable=False),
    ]
)


class Embeddings:
    """A task's embeddings by scene id.

    Args:
        ids: scene ids ``[N]``.
        values: float32 ``[N, D]``, an array or on disk.
        provenance: the model's provenance.
        source: what to call them in an error.
    """

    def __init__(
        self, ids: pa.ChunkedArray, values: np.ndarray | RowFile, provenance: Provenance, source: str | Path
    ) -> None:
        self.ids, self.values, self.provenance, self.source = ids, values, provenance, source
        #: Why the model does not take the scenes, if it does not.
        self.unsuited: str | None = None

    @classmethod
    def read(cls, path: str | Path, only: pa.ChunkedArray | None = None, *, bounded: bool = False) -> Embeddings:
        """Read what ``write_embeddings`` wrote, with a part of the file in memory beside what is kept.

        Args:
            path: the table.
            only: scene ids that are wanted; every row is checked all the same.
            bounded: keep more than ``WHOLE`` numbers on disk, not in memory; ``rows`` then gives Rows.

        Raises:
            InputError: broken file, another schema, lists of another width, NaN, infinity or a null, repeated ids.
        """
        with open_parquet(path) as file:
            check_schema(path, file.schema_arrow, EMBEDDING_SCHEMA)
            metadata = metadata_of(file.schema_arrow.empty_table())
            try:
                width = int(metadata["embedding_dim"])
            except (KeyError, ValueError):
                raise InputError(f"{path}: embedding_dim: expected a whole number in the schema metadata") from None
            provenance = provenance_of(metadata, path)
            parts = row_groups(path, file, ["scene_id"])
            ids = pa.chunked_array([chunk for part in parts for chunk in part["scene_id"].chunks], pa.string())
            if ids.null_count:
                raise InputError(f"{path}: scene_id: null, expected a value in every row")
            unique_ids(path, ids)
            kept = np.ones(len(ids), bool) if only is None else np.asarray(pc.is_in(ids, value_set=only))
            values: np.ndarray | RowFile = np.empty((0, max(width, 0)), np.float32)
            row = place = 0
            for part in row_groups(path, file, ["embedding"]):
                matrix = lists_to_matrix(part["embedding"], width, path)
                if not np.isfinite(matrix).all():
                    raise InputError(f"{path}: embedding: NaN or infinity, expected finite values")
                if not row:
                    # Here the lists are known to have the width that the file says.
                    count = int(kept.sum())
                    if bounded and count * width > WHOLE:
                        values = RowFile((width,), np.float32)
                    else:
                        values = np.empty((count, width), np.float32)
                chosen = matrix[kept[row : row + len(matrix)]]
                if isinstance(values, RowFile):
                    values.append(chosen)
                else:
                    values[place : place + len(chosen)] = chosen
                row, place = row + len(matrix), place + len(chosen)
        made = cls(ids.filter(pa.array(kept)), values, provenance, path)
        made.unsuited = metadata.get("unsuited")
        return made

    def of(self, ids: pa.ChunkedArray) -> np.ndarray:
        """Embeddings ``[len(ids), D]`` of the given scenes, joined by id; InputError names a scene that is missing."""
        return np.asarray(self.rows(ids))

    def rows(self, ids: pa.ChunkedArray) -> np.ndarray | Rows:
        """The same, as Rows where they are on disk."""
        numbers = rows_of(self.ids, ids, self.source)
        return Rows(self.values, numbers) if isinstance(self.values, RowFile) else self.values[numbers]
