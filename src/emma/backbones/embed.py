"""Every scene of a task through one frozen backbone, once, in bounded memory."""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from common.columns import matrix_to_lists
from common.errors import InputError
from common.files import atomic
from emma.backbones.alone import Again, Embed, check_alone
from emma.backbones.base import IQ, Backbone, Embeddings
from emma.backbones.dense import DenseContract
from emma.backbones.features import Spread
from emma.backbones.inputs import Channels, Contract, pool, prepare
from emma.backbones.units import antennas_alone, cut, inner, join, joined_width, windows_of
from emma.backbones.views import channel_estimate
from emma.data.embeddings import EMBEDDING_SCHEMA
from emma.data.provenance import Provenance
from emma.data.reference import REFERENCE_START, Reference, reference_of
from emma.data.scenes import iterate_scenes
from emma.data.tables import unique_ids, write_table

_LOG = logging.getLogger(__name__)


class UnsuitedError(InputError):
    """The model refuses the scenes' shape, such as their number of antennas."""


class NotFiniteError(InputError):
    """The model returns NaN or infinity."""


def embed_batch(backbone: Backbone, iq: IQ, index: pa.Table, contract: Contract) -> Embeddings:
    """Embed scenes of one file chunk.

    Args:
        backbone: the model.
        iq: complex64 ``[n, A, T]``.
        index: their index rows, which give sample rate and carrier, and for ``view: csi`` the reference symbol.
        contract: how the scenes reach the model and how its answer is read.

    Returns:
        float32 ``[n, width]``: the model's own width, or that of several antennas or windows (``joined_width``); for a
        ``DenseContract`` so much for each of the task's windows, side by side.

    Raises:
        InputError: the scenes do not fit the contract; the model fails, or returns another shape, another type, or a
            value that is not finite.
    """
    if isinstance(contract, DenseContract):
        with _unsuited(backbone):
            windows, rows = contract.cut(iq, index)
        return embed_batch(backbone, windows, rows, contract.of_a_window).reshape(len(iq), -1)
    rates = np.asarray(index["sample_rate_hz"])
    carriers = np.asarray(index["center_frequency_hz"])
    known = _reference(backbone, index) if contract.view == "csi" else None
    out = np.empty((len(iq), joined_width(contract, backbone.embedding_dim, iq.shape[1])), np.float32)
    # So few scenes at a time that their units fill one call, where they are not more than that each.
    step = max(contract.batch_size // (antennas_alone(contract, iq.shape[1]) * windows_of(contract, iq.shape[2])), 1)
    for rate, carrier in sorted(set(zip(rates.tolist(), carriers.tolist(), strict=True))):
        alike = np.flatnonzero((rates == rate) & (carriers == carrier))
        for start in range(0, len(alike), step):
            rows = alike[start : start + step]
            shown, shown_rate = iq[rows], rate
            with _unsuited(backbone):
                if known is not None:
                    reference, starts = known
                    shown, shown_rate = channel_estimate(shown, starts[rows], reference), rate / reference.size
                units, shown_rate = cut(shown, shown_rate, contract)
            out[rows] = join(_embed_units(backbone, units, shown_rate, carrier, contract), contract)
    return out


@contextlib.contextmanager
def _unsuited(backbone: Backbone) -> Iterator[None]:
    """Name the model that does not take the scenes."""
    try:
        yield
    except ValueError as error:
        raise UnsuitedError(f"model {backbone.name}: {error}") from None


def _reference(backbone: Backbone, index: pa.Table) -> tuple[Reference, NDArray[np.int64]]:
    """The reference symbol of scenes, and the sample ``[n]`` at which it starts."""
    reference, name = reference_of(index.schema), REFERENCE_START.name
    if reference is None or name not in index.column_names or index[name].null_count:
        raise UnsuitedError(f"model {backbone.name}: view csi: the scenes carry no reference symbol")
    return reference, np.asarray(index[name])


def _embed_units(backbone: Backbone, units: IQ, rate: float, carrier: float, contract: Contract) -> Embeddings:
    """Embed units ``[B, antennas alone, windows, A, T]``, at most ``batch_size`` per call; ``[B, .., .., D]``."""
    count, rules = units.shape[:3], inner(contract)
    total = int(np.prod(count))
    rows = np.empty((total, backbone.embedding_dim), np.float32)
    for start in range(0, total, contract.batch_size):
        part = np.arange(start, min(start + contract.batch_size, total))
        with _unsuited(backbone):
            given, new_rate = prepare(units[np.unravel_index(part, count)], rate, rules)
        rows[part] = _embed_checked(backbone, given, new_rate, carrier, contract.pooling)
    return rows.reshape(*count, backbone.embedding_dim)


def _embed_checked(backbone: Backbone, given: IQ | Channels, rate: float, carrier: float, pooling: str) -> Embeddings:
    try:
        values = backbone.embed(given, rate, carrier)
    except Exception as error:  # noqa: BLE001 (a model may raise anything)
        if isinstance(error, ValueError | RuntimeError | IndexError):
            raise UnsuitedError(f"model {backbone.name}: embed: {error}") from None
        raise InputError(f"model {backbone.name}: embed: {type(error).__name__}: {error}") from None
    if not isinstance(values, np.ndarray) or values.dtype != np.float32:
        actual = f"{getattr(values, 'dtype', type(values).__name__)} {getattr(values, 'shape', '')}"
        raise InputError(f"model {backbone.name}: embed: expected a float32 numpy array, found {actual}")
    expected, pooled = (len(given), backbone.embedding_dim), pool(values, pooling)
    if pooled.shape != expected or (pooling != "none" and values.ndim != 3):
        shape = str(expected) if pooling == "none" else f"({expected[0]}, tokens, {expected[1]})"
        hint = " (pooling reads tokens)" if pooling == "none" and values.ndim == 3 else ""
        raise InputError(f"model {backbone.name}: embed: expected float32 {shape}, found float32 {values.shape}{hint}")
    if not np.isfinite(pooled).all():
        raise NotFiniteError(f"model {backbone.name}: embed: NaN or infinity, expected finite values")
    return pooled


def write_embeddings(
    path: str | Path,
    backbone: Backbone,
    scene_paths: Sequence[str | Path],
    *,
    contract: Contract,
    provenance: Provenance,
) -> None:
    """Embed the scenes of several files into one Parquet table, one row group per chunk of scenes.

    Raises:
        InputError: broken scenes, a scene that occurs twice, or a model that breaks its contract; one whose rows
            depend on their batch among them.
    """

    def embed(iq: IQ, index: pa.Table) -> Embeddings:
        return embed_batch(backbone, iq, index, contract)

    write_rows(path, embed, scene_paths, provenance, backbone.name)


def write_rows(
    path: str | Path, embed: Embed, scene_paths: Sequence[str | Path], provenance: Provenance, model: str | None = None
) -> None:
    """Embed the scenes of several files by a function; see ``write_embeddings``.

    Args:
        path: the Parquet table.
        embed: scenes with their index rows to embeddings.
        scene_paths: the scene files.
        provenance: the model's.
        model: what errors call it, its name unless given.
    """
    spread, kept, name = Spread(), [], model or provenance.name

    def parts() -> Iterator[tuple[pa.ChunkedArray, Embeddings]]:
        for scene_path in scene_paths:
            for number, (index, iq) in enumerate(iterate_scenes(scene_path)):
                values = embed(iq, index)
                if number == 0:
                    kept.append(Again.of(scene_path, iq, index, values))
                yield index["scene_id"], values
                spread.add(values)
        check_alone(name, provenance.device, embed, kept, spread)

    made = parts()
    first = next(made)
    # The width is that of the rows: a model may embed several antennas or windows of a scene.
    write_parts(path, itertools.chain([first], made), first[1].shape[1], provenance)
    for fault in spread.faults():
        _LOG.warning("model %s: %s: %s", name, path, fault)


def write_parts(
    path: str | Path, parts: Iterable[tuple[pa.ChunkedArray, Embeddings]], width: int, provenance: Provenance
) -> None:
    """Write embeddings that come in parts, one row group each.

    Args:
        path: the Parquet table.
        parts: scene ids ``[n]`` with float32 embeddings ``[n, width]``.
        width: of every embedding.
        provenance: the model's.

    Raises:
        InputError: a scene that occurs twice, or embeddings of another width.
    """
    schema = EMBEDDING_SCHEMA.with_metadata({"embedding_dim": str(width)} | provenance.metadata)
    ids: list[pa.ChunkedArray] = []
    # Hardly two values are the same: dictionaries would add half to the file.
    plain = {"compression": "none", "use_dictionary": False}
    with atomic(path) as temporary, pq.ParquetWriter(temporary, schema, **plain) as writer:
        for part, values in parts:
            if values.shape[1] != width:
                raise InputError(f"{path}: embedding: width {values.shape[1]} after {width}, expected one per table")
            writer.write_table(pa.table([part.combine_chunks(), matrix_to_lists(values)], schema=schema))
            ids.append(part)
        unique_ids(path, pa.chunked_array([chunk for column in ids for chunk in column.chunks], pa.string()))


def write_unsuited(path: str | Path, reason: str, provenance: Provenance) -> None:
    """Write a table without rows that says why the model does not take the scenes."""
    metadata = {"embedding_dim": "0", "unsuited": reason} | provenance.metadata
    write_table(path, EMBEDDING_SCHEMA.empty_table(), metadata)
