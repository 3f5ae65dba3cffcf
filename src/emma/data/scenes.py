"""Scenes: complex baseband IQ with metadata and labels, in Parquet, addressed by the hash of their content."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from common.errors import InputError
from common.files import atomic
from common.hashing import canonical_records, content_hash, sha256
from emma.data.tables import check_schema, check_values, open_parquet, read_table, row_groups, unique_ids

_TEXT, _NUMBER = pa.string(), pa.float64()

#: What a scene says of itself, apart from its samples.
METADATA_SCHEMA = pa.schema(
    [
        pa.field("task", _TEXT, nullable=False),
        pa.field("split", _TEXT, nullable=False),
        pa.field("environment", _TEXT),
        pa.field("device", _TEXT),
        pa.field("session", _TEXT),
        pa.field("receiver", _TEXT),
        pa.field("frequency_band", _TEXT, nullable=False),
        pa.field("snr_regime", _TEXT, nullable=False),
        pa.field("snr_db", _NUMBER, nullable=False),
        pa.field("sample_rate_hz", _NUMBER, nullable=False),
        pa.field("center_frequency_hz", _NUMBER, nullable=False),
        pa.field("link_id", _TEXT),
        pa.field("label_azimuth_deg", _NUMBER),
        pa.field("label_class", _TEXT),
        pa.field("detail", _TEXT),
    ]
)
_IDS = [pa.field("scene_id", _TEXT, nullable=False), pa.field("iq_sha256", _TEXT, nullable=False)]

#: One row a scene, without its samples: what splits, guards and the release manifest read.
INDEX_SCHEMA = pa.schema([*_IDS, *METADATA_SCHEMA])


def scene_schema(antennas: int, samples: int) -> pa.Schema:
    """Schema of a scene file: the index columns and ``iq``, float32 pairs (I, Q) of ``[antennas, samples]``."""
    iq = pa.field("iq", pa.list_(pa.float32(), 2 * antennas * samples), nullable=False)
    return pa.schema([*INDEX_SCHEMA, iq], metadata={"antennas": str(antennas), "samples": str(samples)})


def identify(iq: np.ndarray, metadata: Mapping[str, Any]) -> tuple[str, str]:
    """``(scene_id, iq_sha256)`` of one scene: the hash of metadata and samples, and of the samples alone.

    Args:
        iq: complex64 ``[antennas, samples]``, hashed as little-endian float32 pairs in row order.
        metadata: the columns of METADATA_SCHEMA, None where there is no value.
    """
    iq_sha256 = sha256(np.ascontiguousarray(iq, dtype="<c8").data.cast("B"))
    record = {"metadata": metadata, "antennas": iq.shape[0], "samples": iq.shape[1], "iq_sha256": iq_sha256}
    return content_hash(record), iq_sha256


def identify_all(iq: np.ndarray, metadata: pa.Table) -> tuple[list[str], list[str]]:
    """Scene ids and ``iq_sha256`` of n scenes, as ``identify`` gives them one by one.

    Args:
        iq: complex64 ``[n, antennas, samples]``.
        metadata: n rows of METADATA_SCHEMA.
    """
    iq = np.ascontiguousarray(iq, dtype="<c8")
    iq_hashes = [sha256(samples) for samples in iq.view(np.uint8).reshape(len(iq), -1)]
    columns = {name: metadata[name].to_pylist() for name in METADATA_SCHEMA.names}
    around = {"antennas": iq.shape[1], "samples": iq.shape[2]}
    records = canonical_records(columns, around, "metadata", {"iq_sha256": iq_hashes})
    return [sha256(record) for record in records], iq_hashes


def check_iq(path: str | Path, iq: np.ndarray) -> None:
    """Raise InputError unless every sample is finite."""
    bad = ~np.isfinite(iq.view(np.float32)).all(axis=(1, 2))
    if bad.any():
        raise InputError(
            f"{path}: iq: NaN or infinity in scene {int(np.flatnonzero(bad)[0])} of a chunk, expected finite"
        )


def write_scenes(
    scene_path: str | Path, index_path: str | Path, chunks: Iterator[tuple[np.ndarray, Mapping[str, Sequence]]]
) -> None:
    """Write scenes chunk by chunk, one row group a chunk, and their index; both or neither.

    Args:
        scene_path: Parquet file with samples.
        index_path: Parquet file without them.
        chunks: pairs of complex64 ``[n, antennas, samples]`` and metadata columns of length n.

    Raises:
        InputError: samples are not complex64 or not finite, a metadata column or a value in it is missing, a scene
            stands twice, or there is none.
    """
    with contextlib.ExitStack() as stack:
        scene_temporary = stack.enter_context(atomic(scene_path))
        index_temporary = stack.enter_context(atomic(index_path))
        writer, index = None, []
        for iq, columns in chunks:
            if iq.dtype != np.complex64 or iq.ndim != 3:
                found = f"{iq.dtype} {list(iq.shape)}"
                raise InputError(f"{scene_path}: iq: {found}, expected complex64 [scenes, antennas, samples]")
            if not len(iq):
                continue
            if writer is None:
                shape = iq.shape[1:]
                writer = stack.enter_context(
                    pq.ParquetWriter(scene_temporary, scene_schema(*shape), compression="none", use_dictionary=False)
                )
            elif iq.shape[1:] != shape:
                raise InputError(f"{scene_path}: iq: shape {iq.shape[1:]} after {shape}, expected one shape a file")
            table = _chunk_table(scene_path, iq, columns)
            index.append(table)
            flat = np.ascontiguousarray(iq).view(np.float32).reshape(-1)
            values = pa.FixedSizeListArray.from_arrays(pa.array(flat), 2 * shape[0] * shape[1])
            rows = table.append_column("iq", values)
            writer.write_table(pa.Table.from_arrays(rows.columns, schema=writer.schema), row_group_size=len(iq))
        if writer is None:
            raise InputError(f"{scene_path}: expected at least one scene")
        writer.close()
        whole = pa.concat_tables(index)
        unique_ids(scene_path, whole["scene_id"])
        pq.write_table(whole, index_temporary, compression="zstd")


def _chunk_table(path: str | Path, iq: np.ndarray, columns: Mapping[str, Sequence]) -> pa.Table:
    missing = sorted(set(METADATA_SCHEMA.names) - set(columns))
    if missing:
        raise InputError(f"{path}: {missing[0]}: column missing")
    iq = np.ascontiguousarray(iq)
    check_iq(path, iq)
    metadata = pa.table(
        [pa.array(_plain(columns[field.name]), field.type) for field in METADATA_SCHEMA], schema=METADATA_SCHEMA
    )
    check_values(path, metadata, METADATA_SCHEMA)
    scene_ids, iq_hashes = identify_all(iq, metadata)
    return pa.table([pa.array(scene_ids), pa.array(iq_hashes), *metadata.columns], schema=INDEX_SCHEMA)


def _plain(values: Sequence) -> list:
    """A column as a list of Python values; NaN in a number column stands for no value."""
    values = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return [None if isinstance(value, float) and np.isnan(value) else value for value in values]


def read_index(path: str | Path) -> pa.Table:
    """Read a scene index; InputError on a broken file, another schema or a scene id that stands twice."""
    table = read_table(path, INDEX_SCHEMA)
    unique_ids(path, table["scene_id"])
    return table


def iterate_scenes(path: str | Path, *, verify: bool = True) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Read a scene file one row group at a time, in bounded memory.

    Args:
        path: Parquet file written by ``write_scenes``.
        verify: recompute every scene id from the metadata and samples.

    Yields:
        the index columns ``[n]`` and IQ complex64 ``[n, antennas, samples]``.

    Raises:
        InputError: broken file, another schema, samples that are not finite, or content that has another id.
    """
    with open_parquet(path) as file:
        metadata = file.schema_arrow.metadata or {}
        try:
            shape = int(metadata[b"antennas"]), int(metadata[b"samples"])
        except (KeyError, ValueError):
            raise InputError(f"{path}: expected the schema metadata antennas and samples") from None
        check_schema(path, file.schema_arrow, scene_schema(*shape))
        if not file.metadata.num_rows:
            raise InputError(f"{path}: expected at least one scene")
        for rows in row_groups(path, file):
            check_values(path, rows, scene_schema(*shape))
            flat = rows["iq"].combine_chunks()
            flat = flat.chunk(0) if isinstance(flat, pa.ChunkedArray) else flat
            iq = np.asarray(flat.flatten()).view(np.complex64).reshape(len(rows), *shape)
            check_iq(path, iq)
            table = rows.select(INDEX_SCHEMA.names)
            if verify:
                _verify_ids(path, table, iq)
            yield table, iq


def _verify_ids(path: str | Path, table: pa.Table, iq: np.ndarray) -> None:
    found = table["scene_id"].to_pylist(), table["iq_sha256"].to_pylist()
    for scene_id, iq_sha256, *made in zip(*found, *identify_all(iq, table), strict=True):
        if made != [scene_id, iq_sha256]:
            raise InputError(f"{path}: scene_id: {(scene_id, iq_sha256)} does not match its content")
