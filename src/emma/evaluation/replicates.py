"""Draws behind intervals, as files: bootstrap resamples, refits and turns of one model and task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.data.protocols import primary_protocol
from emma.data.release import DataReleaseManifest
from emma.data.tables import metadata_of, read_table, write_table
from emma.evaluation.records import Draws, FloatArray, Replicates
from emma.tasks import TaskID
from emma.version import HARNESS_VERSION

#: Draws of one model and task, one row per fold, metric and kind: ``bootstrap`` (resamples over ``units``),
#: ``jackknife`` (refits) and ``enrolment`` (turns), whose units are their number.
REPLICATE_SCHEMA = pa.schema(
    [
        pa.field("protocol", pa.string(), nullable=False),
        pa.field("held_out_value", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("units", pa.int32(), nullable=False),
        pa.field("replicates", pa.list_(pa.float64()), nullable=False),
    ]
)


@dataclass(frozen=True)
class ReplicateSource:
    """What drew replicates, as their schema metadata says; a board takes those of one release, seed and split alone."""

    model: str
    task: str
    data_release_hash: str
    seed: int
    eval_split: str
    harness_version: str = HARNESS_VERSION

    @property
    def metadata(self) -> dict[str, str]:
        """The record as schema metadata."""
        return {key: str(fact) for key, fact in asdict(self).items()}


def write_replicates(path: str | Path, replicates: Replicates, source: ReplicateSource) -> None:
    """Write the draws of one model and task, in the order of protocol, held-out value, metric and kind.

    Args:
        path: the file.
        replicates: draws of each fold and metric.
        source: what drew them, for the schema metadata.
    """
    rows: list[tuple[str, str, str, str, int, FloatArray]] = []
    for key in sorted(replicates):
        draws = replicates[key]
        kinds = {"bootstrap": draws.bootstrap, "enrolment": draws.enrolment, "jackknife": draws.jackknife}
        for kind, values in kinds.items():
            if values is not None:
                units = draws.units if kind == "bootstrap" else values.size
                rows.append((*key, kind, units, values.astype(np.float64)))
    columns = [pa.array([row[number] for row in rows], field.type) for number, field in enumerate(REPLICATE_SCHEMA)]
    write_table(path, pa.table(columns, schema=REPLICATE_SCHEMA), source.metadata)


def read_replicates(path: Path, source: ReplicateSource) -> dict[tuple[str, str, str], Draws]:
    """Read one file of replicates.

    Args:
        path: the file.
        source: what must have drawn them.

    Returns:
        draws by (protocol, held-out value, metric).

    Raises:
        InputError: a broken file, other schema metadata, another kind, a row that occurs twice, or a fold without a
            bootstrap.
    """
    table = read_table(path, REPLICATE_SCHEMA)
    actual, expected = metadata_of(table), source.metadata
    for key in expected:
        if actual.get(key) != expected.get(key):
            raise InputError(f"{path}: {key}: {actual.get(key)}, expected {expected.get(key)}")
    rows: dict[tuple[str, str, str], dict[str, tuple[int, FloatArray]]] = {}
    columns = (table[name].to_pylist() for name in ("protocol", "held_out_value", "metric", "kind", "units"))
    for (*place, kind, units), values in zip(zip(*columns, strict=True), table["replicates"], strict=True):
        protocol, held_out_value, metric = place
        own = rows.setdefault((protocol, held_out_value, metric), {})
        if kind in own:
            raise InputError(f"{path}: a fold, metric and kind occur twice, expected one row for each")
        if kind not in ("bootstrap", "enrolment", "jackknife"):
            raise InputError(f"{path}: kind: {kind}, expected bootstrap, enrolment or jackknife")
        own[kind] = (units, np.array(values.values, np.float64))
    lost = next((key for key, own in rows.items() if "bootstrap" not in own), None)
    if lost is not None:
        raise InputError(f"{path}: {' '.join(lost)}: no bootstrap, expected one for every fold and metric")
    return {key: _draws(own) for key, own in rows.items()}


def _draws(own: Mapping[str, tuple[int, FloatArray]]) -> Draws:
    units, bootstrap = own["bootstrap"]
    jackknife, enrolment = (own[kind][1] if kind in own else None for kind in ("jackknife", "enrolment"))
    return Draws(bootstrap, units, jackknife, enrolment)


def primary_replicates(
    manifest: DataReleaseManifest, files: Iterable[tuple[str, str, Path]], seed: int, eval_split: str
) -> dict[str, dict[TaskID, dict[str, Draws]]]:
    """Draws of the primary metric under the primary protocol, by model, task and held-out value.

    Args:
        manifest: the data release.
        files: model, task and the file of their replicates.
        seed: the seed of the runs that they belong to.
        eval_split: the runs' evaluation split, dev or holdout.

    Raises:
        InputError: broken file, replicates of another model, task, release, seed or split, or a file given twice.
    """
    primary: dict[str, dict[TaskID, dict[str, Draws]]] = {}
    for model, name, path in files:
        spec, task = manifest.spec(name), TaskID(name)
        if task in primary.get(model, {}):
            raise InputError(f"{path}: replicates of {model} {task} given twice")
        source = ReplicateSource(model, task.value, manifest.data_release_hash, seed, eval_split)
        place = (primary_protocol(spec).name, spec.metric)
        primary.setdefault(model, {})[task] = {
            held_out_value: draws
            for (protocol, held_out_value, metric), draws in read_replicates(path, source).items()
            if (protocol, metric) == place
        }
    return primary
