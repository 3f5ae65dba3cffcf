"""Scenes: complex baseband IQ with metadata, in Parquet, addressed by the hash of their content; labels apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from common.errors import InputError
from common.files import atomic
from common.hashing import canonical_records, content_hash, sha256
from emma.data.labels import join_labels, labels_beside, labels_table, plain_values, read_labels
from emma.data.reference import REFERENCE_START, Reference, check_start, reference_of
from emma.data.samples import Stored, check_iq, convert, iq_hashes, revert
from emma.data.schema import check_version, read_stamped, stamped
from emma.data.tables import check_schema, check_values, open_parquet, row_groups, unique_ids

_TEXT, _NUMBER = pa.string(), pa.float64()

#: What a scene says of its acquisition, apart from its samples. Its label stands elsewhere (``emma.data.labels``).
METADATA_SCHEMA = pa.schema(
    [
        pa.field("task", _TEXT, nullable=False),
        pa.field("split", _TEXT, nullable=False),
        pa.field("environment", _TEXT),
        pa.field("device", _TEXT),
        pa.field("session", _TEXT),
        pa.field("receiver", _TEXT),
        pa.field("waveform", _TEXT),
        pa.field("frequency_band", _TEXT, nullable=False),
        pa.field("snr_regime", _TEXT, nullable=False),
        pa.field("snr_db", _NUMBER, nullable=False),
        pa.field("sample_rate_hz", _NUMBER, nullable=False),
        pa.field("center_frequency_hz", _NUMBER, nullable=False),
        pa.field("link_id", _TEXT),
    ]
)
_IDS = [pa.field("scene_id", _TEXT, nullable=False), pa.field("iq_sha256", _TEXT, nullable=False)]

#: One row per scene, without its samples: what splits, guards and the release manifest read.
INDEX_SCHEMA = pa.schema([*_IDS, *METADATA_SCHEMA])

#: Columns by name, each of as many values as there are scenes.
Columns = Mapping[str, Sequence[Any] | np.ndarray]


class Made(Protocol):
    """Scenes as a generator makes them; ``reference`` is what a receiver knows of the reference symbol, if any."""

    @property
    def iq(self) -> np.ndarray: ...  # noqa: D102
    @property
    def metadata(self) -> Columns: ...  # noqa: D102
    @property
    def labels(self) -> Columns: ...  # noqa: D102
    @property
    def reference(self) -> Mapping[str, Any] | None: ...  # noqa: D102


class SceneChunk(NamedTuple):
    """Scenes that are written together: complex ``[n, antennas, samples]``, metadata columns, label columns.

    Scenes with a ``reference`` symbol have the column REFERENCE_START among their metadata, others have not.
    """

    iq: np.ndarray
    metadata: Columns
    labels: Columns
    reference: Reference | None = None

    @classmethod
    def of(cls, made: Made) -> SceneChunk:
        """The chunk that a generator made; InputError where its reference is no Reference."""
        return cls(made.iq, made.metadata, made.labels, Reference.of(made.reference))


def scene_schema(antennas: int, samples: int, reference: Reference | None = None) -> pa.Schema:
    """Schema of a scene file: the index columns, ``iq_scale``, and ``iq``, int16 pairs of ``[antennas, samples]``.

    The pairs are little-endian bytes in row order: Parquet stores a column of 16-bit integers in 32 bits each. With a
    ``reference``, REFERENCE_START follows the index columns, and the schema metadata hold the symbol.
    """
    scale = pa.field("iq_scale", pa.float32(), nullable=False)
    iq = pa.field("iq", pa.binary(4 * antennas * samples), nullable=False)
    own = {} if reference is None else reference.metadata
    columns = [*(INDEX_SCHEMA if reference is None else INDEX_SCHEMA.append(REFERENCE_START)), scale, iq]
    return stamped(pa.schema(columns), antennas=str(antennas), samples=str(samples), **own)


def identify(pairs: np.ndarray, scale: float, metadata: Mapping[str, Any]) -> tuple[str, str]:
    """``(scene_id, iq_sha256)`` of one scene: the hash of metadata, samples and scale, and of the samples alone.

    Args:
        pairs: int16 ``[antennas, samples, 2]``, hashed little-endian in row order.
        scale: the value of one step, a float32, hashed as its hexadecimal text.
        metadata: the columns of METADATA_SCHEMA (and REFERENCE_START, where there is one), None where there is no
            value.
    """
    iq_sha256 = iq_hashes(Stored(pairs[None], np.array([scale], np.float32)))[0]
    around = {"antennas": pairs.shape[0], "samples": pairs.shape[1]}
    return content_hash({"metadata": metadata, **around, "iq_sha256": iq_sha256, "iq_scale": _text(scale)}), iq_sha256


def identify_all(stored: Stored, metadata: pa.Table) -> tuple[list[str], list[str]]:
    """Scene ids and ``iq_sha256`` of n scenes, as ``identify`` gives them one by one.

    Args:
        stored: the samples of n scenes.
        metadata: n rows of METADATA_SCHEMA, with REFERENCE_START where there is one.
    """
    hashes = iq_hashes(stored)
    names = _metadata_schema(metadata.column_names).names
    columns = {name: metadata[name].to_pylist() for name in names}
    around = {"antennas": stored.pairs.shape[1], "samples": stored.pairs.shape[2]}
    own = {"iq_sha256": hashes, "iq_scale": [_text(scale) for scale in stored.scale]}
    return [sha256(record) for record in canonical_records(columns, around, "metadata", own)], hashes


def _metadata_schema(names: Iterable[str]) -> pa.Schema:
    return METADATA_SCHEMA.append(REFERENCE_START) if REFERENCE_START.name in names else METADATA_SCHEMA


def _text(scale: float) -> str:
    return float(scale).hex()


def write_scenes(
    scene_path: str | Path,
    index_path: str | Path,
    chunks: Iterable[SceneChunk],
    label: pa.Field | None = None,
    *,
    labels_path: str | Path | None = None,
) -> None:
    """Write scenes chunk by chunk, one row group per chunk, with their index and labels; all three or none.

    Args:
        scene_path: Parquet file with samples.
        index_path: Parquet file without them.
        chunks: the scenes.
        label: the column that carries their labels; None for an unlabelled pool, whose table of labels is empty.
        labels_path: Parquet file of the labels; beside the index by default (``labels_beside``).

    Raises:
        InputError: samples are not complex or not finite, a metadata or label column or a value in it is missing, a
            scene occurs twice, or there is none.
    """
    labels_path = labels_beside(index_path) if labels_path is None else labels_path
    with contextlib.ExitStack() as stack:
        scene_temporary = stack.enter_context(atomic(scene_path))
        tables = [(path, stack.enter_context(atomic(path))) for path in (index_path, labels_path)]
        writer, index, labels = None, [], []
        for chunk in chunks:
            iq = chunk.iq
            if not np.iscomplexobj(iq) or iq.ndim != 3:
                found = f"{iq.dtype} {list(iq.shape)}"
                raise InputError(f"{scene_path}: iq: {found}, expected complex [scenes, antennas, samples]")
            if not len(iq):
                continue
            check_start(scene_path, chunk.metadata, chunk.reference)
            if writer is None:
                shape, reference = iq.shape[1:], chunk.reference
                schema = scene_schema(shape[0], shape[1], reference)
                writer = stack.enter_context(
                    pq.ParquetWriter(scene_temporary, schema, compression="none", use_dictionary=False)
                )
            elif iq.shape[1:] != shape:
                raise InputError(f"{scene_path}: iq: shape {iq.shape[1:]} after {shape}, expected one shape per file")
            elif chunk.reference != reference:
                raise InputError(f"{scene_path}: reference: two symbols, expected one per file")
            check_iq(scene_path, iq)
            stored = convert(iq)
            table = index_table(scene_path, stored, chunk.metadata)
            index.append(table)
            labels.append(labels_table(labels_path, table["scene_id"].to_pylist(), chunk.labels, label))
            raw = pa.py_buffer(np.ascontiguousarray(stored.pairs, "<i2"))
            values = pa.Array.from_buffers(writer.schema.field("iq").type, len(iq), [None, raw])
            rows = table.append_column("iq_scale", pa.array(stored.scale)).append_column("iq", values)
            writer.write_table(pa.Table.from_arrays(rows.columns, schema=writer.schema), row_group_size=len(iq))
        if writer is None:
            raise InputError(f"{scene_path}: expected at least one scene")
        writer.close()
        unique_ids(scene_path, pa.concat_tables(index)["scene_id"])
        for (path, temporary), parts in zip(tables, (index, labels), strict=True):
            try:
                whole = pa.concat_tables(parts)
            except pa.ArrowException:
                raise InputError(f"{path}: detail: column missing in some chunks, expected in all or none") from None
            schema = stamped(whole.schema)
            pq.write_table(whole.replace_schema_metadata(schema.metadata), temporary, compression="zstd")


def index_table(path: str | Path, stored: Stored, columns: Columns) -> pa.Table:
    """Index rows of scenes with their ids; InputError names ``path`` where a metadata column or value is missing."""
    missing = sorted(set(METADATA_SCHEMA.names) - set(columns))
    if missing:
        raise InputError(f"{path}: {missing[0]}: column missing")
    schema = _metadata_schema(columns)
    metadata = pa.table([pa.array(plain_values(columns[field.name]), field.type) for field in schema], schema=schema)
    check_values(path, metadata, schema)
    scene_ids, hashes = identify_all(stored, metadata)
    return pa.table([pa.array(scene_ids), pa.array(hashes), *metadata.columns], schema=pa.schema([*_IDS, *schema]))


def read_index(path: str | Path) -> pa.Table:
    """Read a scene index: INDEX_SCHEMA, and REFERENCE_START where its scenes carry a reference.

    Raises:
        InputError: broken file, another schema or version of it, or a scene id that occurs twice.
    """
    table = read_stamped(path, INDEX_SCHEMA, optional=[REFERENCE_START])
    unique_ids(path, table["scene_id"])
    return table


def read_labelled(index_path: str | Path, label: pa.Field) -> pa.Table:
    """Read a scene index with the labels beside it: its columns, the label's and ``detail``.

    Raises:
        InputError: a file is broken or of another schema or version, or a scene has no label or two.
    """
    path = labels_beside(index_path)
    return join_labels(path, read_index(index_path), read_labels(path, label))


def iterate_scenes(path: str | Path, *, verify: bool = True) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Read a scene file one row group at a time, in bounded memory.

    Args:
        path: Parquet file written by ``write_scenes``.
        verify: recompute every scene id from the metadata and samples.

    Yields:
        the index columns ``[n]``, whose schema metadata hold the reference symbol, if any (``reference_of``), and IQ
        complex64 ``[n, antennas, samples]``: integers times the scene's scale.

    Raises:
        InputError: broken file, another schema or version of it, a scale that is no finite number, or content that has
            another id.
    """
    with open_parquet(path) as file:
        check_version(path, file.schema_arrow)
        metadata = file.schema_arrow.metadata
        try:
            shape = int(metadata[b"antennas"]), int(metadata[b"samples"])
        except (KeyError, ValueError):
            raise InputError(f"{path}: expected the schema metadata antennas and samples") from None
        reference = reference_of(file.schema_arrow, path)
        schema = scene_schema(*shape, reference)
        check_schema(path, file.schema_arrow, schema)
        if not file.metadata.num_rows:
            raise InputError(f"{path}: expected at least one scene")
        for rows in row_groups(path, file):
            check_values(path, rows, schema)
            column = rows["iq"].combine_chunks()
            column = column.chunk(0) if isinstance(column, pa.ChunkedArray) else column
            start = column.offset * column.type.byte_width
            flat = np.frombuffer(column.buffers()[1], "<i2", 2 * len(rows) * shape[0] * shape[1], start)
            pairs = flat.reshape(len(rows), *shape, 2)
            stored = Stored(pairs, np.asarray(rows["iq_scale"]))
            table = rows.select([name for name in schema.names if name not in {"iq_scale", "iq"}])
            if verify:
                _verify_ids(path, table, stored)
            yield table, revert(stored)


def first_scenes(path: str | Path, count: int, *, verify: bool = True) -> tuple[pa.Table, np.ndarray]:
    """The first ``count`` scenes of a file, or all, in one piece; see ``iterate_scenes``. InputError for none."""
    indexes: list[pa.Table] = []
    scenes: list[np.ndarray] = []
    for index, iq in iterate_scenes(path, verify=verify):
        indexes.append(index)
        scenes.append(iq)
        if sum(map(len, scenes)) >= count:
            break
    if not sum(map(len, scenes)):
        raise InputError(f"{path}: expected at least one scene")
    return pa.concat_tables(indexes).combine_chunks().slice(0, count), np.concatenate(scenes)[:count]


def _verify_ids(path: str | Path, table: pa.Table, stored: Stored) -> None:
    found = table["scene_id"].to_pylist(), table["iq_sha256"].to_pylist()
    for scene_id, iq_sha256, *made in zip(*found, *identify_all(stored, table), strict=True):
        if made != [scene_id, iq_sha256]:
            raise InputError(f"{path}: scene_id: {(scene_id, iq_sha256)} does not match its content")
