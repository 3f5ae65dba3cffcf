"""The data release: what was frozen, by which recipe, under which hashes, and how it is scored."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from common.errors import InputError
from common.files import parse, read_json, read_yaml
from common.hashing import content_hash, sha256, table_hash
from emma.data.scenes import read_index
from emma.tasks import Name, OODAxis, Split, Strict, TaskID, TaskSpec, target_of


class BootstrapSpec(Strict):
    """How intervals are drawn: number of resamples and confidence level."""

    resamples: Annotated[int, Field(ge=100, description="number of resamples")]
    level: Annotated[float, Field(gt=0, lt=1, description="confidence level of the intervals, between 0 and 1")]


class SplitRecord(Strict):
    """One frozen split of one task: its number of scenes and the content hash of its index."""

    scenes: Annotated[int, Field(description="number of scenes")]
    index_hash: Annotated[str, Field(description="content hash of the index")]


class HoldoutCommitment(Strict):
    """What binds the secret HOLDOUT split before it is opened: SHA-256 of its seed, and its expected splits."""

    seed_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the secret seed")]
    splits: Annotated[dict[TaskID, SplitRecord], Field(description="the expected HOLDOUT split of each task")]


class ReleaseConfig(Strict):
    """The content of ``config/releases/NAME.yaml``.

    ``rfgen`` is the generator's recipe, which the generator validates; ``tasks`` pins how its scenes are scored;
    ``stress_regimes`` names, for each task, the SNR regimes that take turns in the stress report.
    """

    release: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the file's name")]
    seed: Annotated[int, Field(ge=0, description="seed of the public splits")]
    rfgen: Annotated[
        dict[str, Any],
        Field(description="the generator's recipe: every number of the scenes ([docs/scenes.md](../docs/scenes.md))"),
    ]
    tasks: Annotated[dict[TaskID, TaskSpec], Field(description="how each task is scored")]
    stress_regimes: Annotated[
        dict[TaskID, tuple[Name, ...]],
        Field(description="per task, the SNR regimes that take turns in `reports/stress.json`"),
    ]
    bootstrap: Annotated[BootstrapSpec, Field(description="how intervals are drawn")]
    caveats: Annotated[tuple[str, ...], Field(description="sentences that stand wherever an aggregate is shown")]
    holdout: Annotated[
        HoldoutCommitment | None,
        Field(description="the commitment to the secret split ([docs/protocol.md](../docs/protocol.md))"),
    ] = None

    @model_validator(mode="after")
    def _complete(self) -> ReleaseConfig:
        if not self.tasks:
            raise ValueError("tasks: expected at least one")
        for task, regimes in self.stress_regimes.items():
            if task not in self.tasks or not 1 < len(regimes) == len(set(regimes)):
                raise ValueError(f"stress_regimes.{task}: expected a task of this release and distinct regimes")
        return self


class DataReleaseManifest(Strict):
    """What a release is; its content hash, ``data_release_hash``, is quoted by every score.

    ``splits`` maps task and split to the frozen scenes. The anchors that normalise scores are in ``tasks``, and are
    read from here only.
    """

    release: str
    seed: int
    rfgen_version: str
    rfgen_source_sha256: str
    rfgen: dict[str, Any]
    tasks: dict[TaskID, TaskSpec]
    stress_regimes: dict[TaskID, tuple[Name, ...]]
    bootstrap: BootstrapSpec
    caveats: tuple[str, ...]
    holdout: HoldoutCommitment | None = None
    splits: dict[TaskID, dict[Split, SplitRecord]]

    @property
    def data_release_hash(self) -> str:
        """SHA-256 of the manifest's canonical content."""
        return content_hash(self.model_dump(mode="json"))

    def spec(self, task: str) -> TaskSpec:
        """The pinned TaskSpec of a task; InputError for a task that this release does not have."""
        if task not in list(self.tasks):
            raise InputError(f"release {self.release}: task {task}: expected one of {', '.join(self.tasks)}")
        return self.tasks[TaskID(task)]


def load_release_config(path: str | Path) -> ReleaseConfig:
    """Read and validate ``config/releases/NAME.yaml``; the file's name must be the release's."""
    config = parse(ReleaseConfig, read_yaml(path), path)
    if config.release != Path(path).stem:
        raise InputError(f"{path}: release: expected {Path(path).stem}, the file's name, found {config.release}")
    return config


def holdout_seed(config: ReleaseConfig | DataReleaseManifest) -> str:
    """The secret seed of the HOLDOUT split, from EMMA_HOLDOUT_SEED or from the file that EMMA_HOLDOUT_SEED_FILE names.

    Raises:
        InputError: there is no seed, or it is not the one that the release is committed to. The seed is never quoted.
    """
    seed = os.environ.get("EMMA_HOLDOUT_SEED")
    file = os.environ.get("EMMA_HOLDOUT_SEED_FILE")
    if seed is None and file is not None:
        try:
            seed = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            raise InputError("EMMA_HOLDOUT_SEED_FILE: cannot be read, expected a text file with the seed") from None
    if not seed:
        raise InputError(
            "config/config.yaml: eval_split: HOLDOUT expects its secret seed in EMMA_HOLDOUT_SEED"
            " or in the file that EMMA_HOLDOUT_SEED_FILE names"
        )
    if config.holdout is None:
        raise InputError(f"release {config.release}: holdout: no commitment, expected one for a HOLDOUT run")
    if sha256(seed.encode()) != config.holdout.seed_sha256:
        raise InputError(f"release {config.release}: the HOLDOUT seed is not the one of holdout.seed_sha256")
    return seed


def split_seed(config: ReleaseConfig, split: str) -> int | str:
    """The seed that a split's scenes are made from: the release's, or the secret one for HOLDOUT."""
    return holdout_seed(config) if split == Split.HOLDOUT else config.seed


def load_manifest(path: str | Path) -> DataReleaseManifest:
    """Read and validate a DataReleaseManifest; InputError where its hash is not the hash of its content."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a mapping")
    stated = value.pop("data_release_hash", None)
    manifest = parse(DataReleaseManifest, value, path)
    if stated != manifest.data_release_hash:
        raise InputError(f"{path}: data_release_hash: expected {manifest.data_release_hash}, the hash of the content")
    return manifest


def check_declared(
    config: ReleaseConfig, values: Mapping[str, Mapping[str, Sequence[str]]], source: str | Path
) -> None:
    """Refuse a release that scores a task or value of which its recipe makes no scene.

    Args:
        config: the release's configuration.
        values: for each task of the recipe, the values that its scenes can have in each column.
        source: what to call the configuration in an error.

    Raises:
        InputError: names the key, and what the recipe has in its place.
    """
    for task, spec in config.tasks.items():
        if task not in values:
            raise InputError(f"{source}: tasks.{task}: no such task in the recipe, expected one of {', '.join(values)}")
        declared = [
            (f"tasks.{task}.held_out", spec.ood_axis.value, spec.held_out),
            (f"tasks.{task}.layered_band", OODAxis.FREQUENCY_BAND.value, spec.layered_band),
            (f"stress_regimes.{task}", OODAxis.SNR_REGIME.value, config.stress_regimes.get(task, ())),
        ]
        for key, column, wanted in declared:
            made = values[task][column]
            for value in wanted:
                if value not in made:
                    known = ", ".join(made) or "none"
                    raise InputError(f"{source}: {key}: no scene of {value} in the recipe, expected among {known}")


def manifest_record(manifest: DataReleaseManifest) -> dict[str, Any]:
    """The manifest as it is written: its content and the hash of that content."""
    return {**manifest.model_dump(mode="json"), "data_release_hash": manifest.data_release_hash}


def freeze(
    config: ReleaseConfig, index_paths: Mapping[TaskID, Mapping[Split, Path]], rfgen_version: str, rfgen_source: str
) -> DataReleaseManifest:
    """Freeze generated scenes into a DataReleaseManifest.

    Args:
        config: the release's configuration.
        index_paths: for each task and split, the index that ``write_scenes`` wrote.
        rfgen_version: version of the generator.
        rfgen_source: digest of the generator's source.

    Raises:
        InputError: an index is missing, broken or of a task that the release lacks; a held-out value has no scene in
            a split, or scenes carry a value or label that the TaskSpec does not declare; the same scene is in two
            splits.
    """
    splits: dict[TaskID, dict[Split, SplitRecord]] = {}
    for task, paths in index_paths.items():
        if task not in config.tasks:
            raise InputError(f"{next(iter(paths.values()))}: release {config.release} has no task {task}")
        indexes = {split: read_index(path) for split, path in paths.items()}
        for split, index in indexes.items():
            _check_declared(paths[split], index, config.tasks[task], task, split)
        _check_disjoint(task, indexes)
        splits[task] = {
            split: SplitRecord(scenes=index.num_rows, index_hash=table_hash(index)) for split, index in indexes.items()
        }
    for task in config.tasks:
        for split in (Split.TRAIN, Split.DEV):
            if split not in splits.get(task, {}):
                raise InputError(f"indexes: no {task}/{split}.index.parquet, expected every task's TRAIN and DEV")
    return DataReleaseManifest(
        **config.model_dump(), rfgen_version=rfgen_version, rfgen_source_sha256=rfgen_source, splits=splits
    )


def _check_declared(path: Path, index: pa.Table, spec: TaskSpec, task: TaskID, split: Split) -> None:
    for column, expected in (("task", {task.value}), ("split", {split.value})):
        found = set(index[column].to_pylist())
        if found != expected:
            raise InputError(f"{path}: {column}: expected {expected.pop()} in every row, found {sorted(found)}")
    declared = [(spec.ood_axis, spec.held_out)] + [(OODAxis.FREQUENCY_BAND, spec.layered_band)] * bool(
        spec.layered_band
    )
    for axis, values in declared:
        found = set(index[axis.value].to_pylist())
        for value in sorted(set(values) - found):
            raise InputError(f"{path}: {axis.value}: no scene of {value}, which the release's tasks.{task} holds out")
        if found - set(values):
            odd = min(str(value) for value in found - set(values))
            raise InputError(f"{path}: {axis.value}: {odd} is not among the held-out values of tasks.{task}")
    target = target_of(spec)
    labels = index[target.column]
    if labels.null_count:
        raise InputError(f"{path}: {target.column}: null, expected a label for every scene")
    if (codes := target.encode(labels)).null_count:
        odd = pc.min(labels.filter(pc.is_null(codes))).as_py()
        raise InputError(f"{path}: {target.column}: {odd} is not among the classes of tasks.{task}")


def _check_disjoint(task: TaskID, indexes: Mapping[Split, pa.Table]) -> None:
    names = list(indexes)
    for position, first in enumerate(names):
        for second in names[position + 1 :]:
            shared = pc.is_in(indexes[first]["iq_sha256"], value_set=indexes[second]["iq_sha256"].combine_chunks())
            if pc.any(shared).as_py():
                raise InputError(f"{task}: iq_sha256: splits {first} and {second} share samples, expected none")


def read_assigned(manifest: DataReleaseManifest, task: TaskID, split: Split, path: str | Path) -> pa.Table:
    """Read a split's index and check it against the manifest: the assignment of scene ids to splits.

    Raises:
        InputError: the manifest has no such split, or the index is not the frozen one.
    """
    records = manifest.splits.get(task, {})
    if split is Split.HOLDOUT and manifest.holdout is not None:
        records = {Split.HOLDOUT: manifest.holdout.splits.get(task)}
    record = records.get(split)
    if record is None:
        raise InputError(f"release {manifest.release}: split {split} of {task} is not in the manifest")
    index = read_index(path)
    if table_hash(index) != record.index_hash:
        raise InputError(f"{path}: content differs from the manifest of release {manifest.release}, {task} {split}")
    return index
