"""Generated scenes become a release: they are checked against what it declares, and their hashes put down."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from common.errors import InputError
from emma.data.holdout import check_opened
from emma.data.labels import join_labels, label_field, labels_beside, read_labels
from emma.data.release import (
    DataReleaseManifest,
    GeneratorProvenance,
    HoldoutCommitment,
    ReleaseConfig,
    SplitRecord,
    split_record,
)
from emma.data.scenes import read_index
from emma.tasks import Split, TaskID, TaskSpec, target_of


def freeze(
    config: ReleaseConfig,
    index_paths: Mapping[TaskID, Mapping[Split, Path]],
    rfgen_version: str,
    rfgen_source: str,
    commitment: HoldoutCommitment | None = None,
) -> DataReleaseManifest:
    """Freeze generated scenes into a DataReleaseManifest.

    Args:
        config: the release's configuration.
        index_paths: for each task and split, the index that ``write_scenes`` wrote; HOLDOUT's in an official run.
        rfgen_version: version of the generator.
        rfgen_source: digest of the generator's source.
        commitment: what HOLDOUT is held to; its splits are recorded in the manifest, and are no content.

    Raises:
        InputError: an index is missing, broken or of a task that the release lacks; a held-out value has no scene in
            a split, or scenes carry a value or label that the TaskSpec does not declare; the same scene is in two
            splits.
    """
    splits: dict[TaskID, dict[Split, SplitRecord]] = {}
    for task, paths in index_paths.items():
        if task not in config.tasks:
            raise InputError(f"{next(iter(paths.values()))}: release {config.release} has no task {task}")
        spec = config.tasks[task]
        indexes = {split: read_index(path) for split, path in paths.items()}
        labels = {split: read_labels(labels_beside(path), label_field(spec)) for split, path in paths.items()}
        for split, index in indexes.items():
            _check_axes(paths[split], index, spec, task, split)
            _check_labels(labels_beside(paths[split]), index, labels[split], spec, task)
        _check_disjoint(task, indexes)
        splits[task] = {split: split_record(index, labels[split]) for split, index in indexes.items()}
    for task in config.tasks:
        for split in (Split.TRAIN, Split.DEV, *([Split.HOLDOUT] if commitment else [])):
            if split not in splits.get(task, {}):
                raise InputError(f"indexes: no {task}/{split}.index.parquet, expected one per task and split")
    content = config.model_dump() | {"caveats": config.all_caveats}
    provenance = GeneratorProvenance(rfgen_version=rfgen_version, rfgen_source_sha256=rfgen_source)
    holdout = None
    if commitment is not None:
        opened = {task: own.pop(Split.HOLDOUT) for task, own in splits.items()}
        holdout = HoldoutCommitment(seed_sha256=commitment.seed_sha256, splits=opened)
    manifest = DataReleaseManifest(**content, provenance=provenance, splits=splits, holdout=holdout)
    check_opened(manifest, commitment, f"release {config.release}")
    return manifest


def _check_axes(path: Path, index: pa.Table, spec: TaskSpec, task: TaskID, split: Split) -> None:
    for column, expected in (("task", {task.value}), ("split", {split.value})):
        found = set(index[column].to_pylist())
        if found != expected:
            raise InputError(f"{path}: {column}: expected {expected.pop()} in every row, found {sorted(found)}")
    for axis, values in [(spec.ood_axis, spec.held_out), *((each.ood_axis, each.held_out) for each in spec.secondary)]:
        found = set(index[axis.value].to_pylist())
        for value in sorted(set(values) - found):
            raise InputError(f"{path}: {axis.value}: no scene of {value}, which the release's tasks.{task} holds out")
        if found - set(values):
            odd = min(str(value) for value in found - set(values))
            raise InputError(f"{path}: {axis.value}: {odd} is not among the held-out values of tasks.{task}")


def _check_labels(path: Path, index: pa.Table, labels: pa.Table, spec: TaskSpec, task: TaskID) -> None:
    join_labels(path, index, labels)
    target = target_of(spec)
    column = labels[target.column]
    if (codes := target.encode(column)).null_count:
        odd = str(min(column.filter(pc.is_null(codes)).to_pylist()))[:80]
        raise InputError(f"{path}: {target.column}: {odd} is no label of tasks.{task}")


def _check_disjoint(task: TaskID, indexes: Mapping[Split, pa.Table]) -> None:
    names = list(indexes)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            shared = pc.is_in(indexes[first]["iq_sha256"], value_set=indexes[second]["iq_sha256"].combine_chunks())
            if pc.any(shared).as_py():
                raise InputError(f"{task}: iq_sha256: splits {first} and {second} share samples, expected none")
