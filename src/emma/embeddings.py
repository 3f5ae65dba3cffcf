"""Embeddings: every scene of a task through one frozen backbone, once, in bounded memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from emma.backbones.base import Backbone
from emma.backbones.load import normalise
from emma.files import InputError, atomic
from emma.scenes import iterate_scenes
from emma.tables import lists_to_matrix, matrix_to_lists, metadata_of, read_table, rows_of, unique_ids

#: One row a scene; the list is the embedding, of the width in the schema metadata.
EMBEDDING_SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("embedding", pa.list_(pa.float32()), nullable=False),
    ]
)


def embed_batch(backbone: Backbone, iq: np.ndarray, index: pa.Table, recipe: str, batch_size: int) -> np.ndarray:
    """Embed scenes of one file chunk.

    Args:
        backbone: the model.
        iq: complex64 ``[n, A, T]``.
        index: their index rows, which give sample rate and carrier.
        recipe: the model's declared normalisation.
        batch_size: most scenes that the model gets at once.

    Returns:
        float32 ``[n, D]``.

    Raises:
        InputError: the model fails, or returns another shape, another type, or a value that is not finite.
    """
    rates = np.asarray(index["sample_rate_hz"])
    carriers = np.asarray(index["center_frequency_hz"])
    out = np.empty((len(iq), backbone.embedding_dim), np.float32)
    for rate, carrier in sorted(set(zip(rates.tolist(), carriers.tolist(), strict=True))):
        alike = np.flatnonzero((rates == rate) & (carriers == carrier))
        for start in range(0, len(alike), batch_size):
            rows = alike[start : start + batch_size]
            try:
                values = backbone.embed(normalise(iq[rows], recipe), rate, carrier)
            except (ValueError, RuntimeError, IndexError) as error:
                raise InputError(f"model {backbone.name}: embed: {error}") from None
            expected = (len(rows), backbone.embedding_dim)
            if getattr(values, "shape", None) != expected or values.dtype != np.float32:
                found = f"{getattr(values, 'dtype', type(values).__name__)} {getattr(values, 'shape', '')}"
                raise InputError(f"model {backbone.name}: embed: expected float32 {expected}, found {found}")
            if not np.isfinite(values).all():
                raise InputError(f"model {backbone.name}: embed: NaN or infinity, expected finite values")
            out[rows] = values
    return out


def write_embeddings(
    path: str | Path,
    backbone: Backbone,
    scene_paths: Sequence[str | Path],
    *,
    recipe: str,
    batch_size: int,
    provenance: Mapping[str, Any],
) -> None:
    """Embed the scenes of several files into one Parquet table, one row group a chunk of scenes.

    Raises:
        InputError: broken scenes, a scene that stands twice, or a model that breaks its contract.
    """
    metadata = {
        "embedding_dim": str(backbone.embedding_dim),
        "model_provenance": json.dumps(provenance, sort_keys=True),
    }
    schema = EMBEDDING_SCHEMA.with_metadata(metadata)
    ids: list[pa.ChunkedArray] = []
    with atomic(path) as temporary, pq.ParquetWriter(temporary, schema, compression="none") as writer:
        for scene_path in scene_paths:
            for index, iq in iterate_scenes(scene_path):
                values = embed_batch(backbone, iq, index, recipe, batch_size)
                columns = [index["scene_id"].combine_chunks(), matrix_to_lists(values)]
                writer.write_table(pa.table(columns, schema=schema))
                ids.append(index["scene_id"])
        unique_ids(path, pa.chunked_array([chunk for column in ids for chunk in column.chunks], pa.string()))


class Embeddings:
    """A task's embeddings by scene id.

    Args:
        ids: scene ids ``[N]``.
        values: float32 ``[N, D]``.
        provenance: the model's provenance.
        source: what to call them in an error.
    """

    def __init__(
        self, ids: pa.ChunkedArray, values: np.ndarray, provenance: dict[str, Any], source: str | Path
    ) -> None:
        self.ids, self.values, self.provenance, self.source = ids, values, provenance, source

    @classmethod
    def read(cls, path: str | Path) -> Embeddings:
        """Read what ``write_embeddings`` wrote; InputError on a broken file, another schema, NaN or repeated ids."""
        table = read_table(path, EMBEDDING_SCHEMA)
        metadata = metadata_of(table)
        try:
            width, provenance = int(metadata["embedding_dim"]), json.loads(metadata["model_provenance"])
        except (KeyError, ValueError):
            raise InputError(f"{path}: expected the schema metadata embedding_dim and model_provenance") from None
        unique_ids(path, table["scene_id"])
        values = lists_to_matrix(table["embedding"], width, path)
        if not np.isfinite(values).all():
            raise InputError(f"{path}: embedding: NaN or infinity, expected finite values")
        return cls(table["scene_id"], values, provenance, path)

    def of(self, ids: pa.ChunkedArray) -> np.ndarray:
        """Embeddings ``[len(ids), D]`` of the given scenes, joined by id; InputError names a scene that is missing."""
        return self.values[rows_of(self.ids, ids, self.source)]
