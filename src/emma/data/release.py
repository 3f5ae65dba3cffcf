"""The data release: what was frozen, by which recipe, under which hashes, and how it is scored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, model_validator

from common.errors import InputError, advice, near, unknown
from common.files import parse, read_json, read_yaml
from common.hashing import content_hash, table_hash
from emma.data.caveats import derived_caveats
from emma.data.extends import read_extended
from emma.data.labels import join_labels, label_field, labels_beside, read_labels
from emma.data.scenes import read_index
from emma.tasks import Name, OODAxis, Split, Strict, TaskID, TaskSpec


class BootstrapSpec(Strict):
    """How intervals are drawn: number of resamples and confidence level."""

    resamples: Annotated[int, Field(ge=100, description="number of resamples")]
    level: Annotated[float, Field(gt=0, lt=1, description="confidence level of the intervals, between 0 and 1")]


class SplitRecord(Strict):
    """One frozen split of one task: its number of scenes, and the content hashes of its index and its labels."""

    scenes: Annotated[int, Field(description="number of scenes")]
    index_hash: Annotated[str, Field(description="content hash of the index")]
    labels_hash: Annotated[str, Field(description="content hash of the labels")]


class HoldoutCommitment(Strict):
    """The content of ``config/releases/NAME.holdout.yaml``: what binds the secret HOLDOUT split before it is opened.

    Seed and frozen generator decide every scene; the hashes are recorded when the split is first made, and from then on
    bind other machines' arithmetic too.
    """

    seed_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", description="SHA-256 of the secret seed")]
    splits: Annotated[
        dict[TaskID, SplitRecord] | None,
        Field(description="the HOLDOUT split of each task, once one was made"),
    ] = None


class ReleaseConfig(Strict):
    """The content of ``config/releases/NAME.yaml``.

    The file may extend another (``emma.data.extends``); this is the whole. ``rfgen`` is the generator's recipe, which
    the generator validates; ``tasks`` pins how its scenes are scored; ``stress_regimes`` names, for each task, the SNR
    regimes that take turns in the stress report. ``caveats``: those that do not follow from the rest.
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
    caveats: Annotated[
        tuple[str, ...],
        Field(
            description="sentences that stand wherever an aggregate is shown, apart from those that follow from `tasks`"
        ),
    ]

    @model_validator(mode="after")
    def _complete(self) -> ReleaseConfig:
        if not self.tasks:
            raise ValueError("tasks: expected at least one")
        for task, regimes in self.stress_regimes.items():
            if task not in self.tasks or not 1 < len(regimes) == len(set(regimes)):
                raise ValueError(f"stress_regimes.{task}: expected a task of this release and distinct regimes")
        return self

    @property
    def all_caveats(self) -> tuple[str, ...]:
        """The caveats that follow from the specs, then the file's own."""
        return (*derived_caveats(self.tasks), *self.caveats)


class GeneratorProvenance(Strict):
    """What generated a release's scenes; it may change while the scenes, and so the release, stay the same."""

    rfgen_version: str
    rfgen_source_sha256: str


#: Fields of a manifest that are what the release is: ``data_release_hash`` covers these.
CONTENT = ("seed", "rfgen", "tasks", "stress_regimes", "bootstrap", "splits")


class DataReleaseManifest(Strict):
    """What a release is; the hash of its content, ``data_release_hash``, is quoted by every score.

    ``splits`` maps task and split to the frozen scenes. The anchors that normalise scores are in ``tasks``, and are
    read from here only. Name, caveats, provenance and ``holdout`` are no content: words, a generator's source and an
    opened holdout change no release. ``holdout``: in an official run the commitment, with the splits of its seed.
    """

    release: str
    seed: int
    rfgen: dict[str, Any]
    tasks: dict[TaskID, TaskSpec]
    stress_regimes: dict[TaskID, tuple[Name, ...]]
    bootstrap: BootstrapSpec
    splits: dict[TaskID, dict[Split, SplitRecord]]
    caveats: tuple[str, ...]
    holdout: HoldoutCommitment | None = None
    provenance: GeneratorProvenance

    @property
    def data_release_hash(self) -> str:
        """SHA-256 of the canonical content, CONTENT.

        Keys of a task spec that have their default do not count, so that a key that is added with a default to specs
        leaves releases as they are. A default that is changed would change what a release means under the same hash.
        """
        return content_hash(self.model_dump(mode="json", include=set(CONTENT), exclude_defaults=True))

    def spec(self, task: str) -> TaskSpec:
        """The pinned TaskSpec of a task; InputError for a task that this release does not have."""
        if task not in list(self.tasks):
            raise InputError(f"release {self.release}: task {unknown(task, [*self.tasks])}")
        return self.tasks[TaskID(task)]

    def frozen(self, task: TaskID, split: Split) -> SplitRecord:
        """What is frozen of a task's split; InputError where the manifest has none."""
        records: Mapping[Split, SplitRecord | None] = self.splits.get(task, {})
        if split is Split.HOLDOUT and self.holdout is not None:
            records = {Split.HOLDOUT: (self.holdout.splits or {}).get(task)}
        record = records.get(split)
        if record is None:
            raise InputError(f"release {self.release}: split {split} of {task} is not in the manifest")
        return record


def release_names(folder: str | Path) -> list[str]:
    """Names of the releases in a folder of YAML files; one that others only extend names none."""
    return sorted(path.stem for path in Path(folder).glob("*.yaml") if "release" in read_yaml(path))


def load_release_config(path: str | Path) -> ReleaseConfig:
    """Read ``config/releases/NAME.yaml`` with what it extends, and validate it.

    Raises:
        InputError: names the file and key that is wrong; the file's name is not the release's.
    """
    config = parse(ReleaseConfig, read_extended(path), path)
    if config.release != Path(path).stem:
        raise InputError(f"{path}: release: expected {Path(path).stem}, the file's name, found {config.release}")
    return config


def load_manifest(path: str | Path) -> DataReleaseManifest:
    """Read and validate a DataReleaseManifest.

    Raises:
        InputError: it is no manifest, or a hash in it is not the hash of what it covers.
    """
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected a mapping")
    stated = {key: value.pop(key, None) for key in _SAID}
    manifest = parse(DataReleaseManifest, value, path)
    for key, wanted in _said(manifest).items():
        if stated[key] != wanted:
            what = "what the hash covers" if key == _SAID[1] else "the hash of the content"
            raise InputError(f"{path}: {key}: expected {wanted}, {what}")
    return manifest


def manifest_record(manifest: DataReleaseManifest) -> dict[str, Any]:
    """The manifest as it is written: the release's hash and what it covers, the content, the hash of all of this."""
    return {**_said(manifest), **manifest.model_dump(mode="json")}


_SAID = ("data_release_hash", "data_release_hash_covers", "manifest_sha256")


def _said(manifest: DataReleaseManifest) -> dict[str, Any]:
    """What a written manifest says of itself beside its fields."""
    whole = content_hash(manifest.model_dump(mode="json"))
    return dict(zip(_SAID, (manifest.data_release_hash, list(CONTENT), whole), strict=True))


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
            raise InputError(f"{source}: tasks.{task}: no such task in the recipe, {advice(task, [*values])}")
        declared = [
            (f"tasks.{task}.held_out", spec.ood_axis.value, spec.held_out),
            *((f"tasks.{task}.secondary", entry.ood_axis.value, entry.held_out) for entry in spec.secondary),
            (f"stress_regimes.{task}", OODAxis.SNR_REGIME.value, config.stress_regimes.get(task, ())),
        ]
        for key, column, wanted in declared:
            made = values[task][column]
            for value in wanted:
                if value not in made:
                    meant, known = near(value, made), ", ".join(made) or "none"
                    told = f"did you mean {meant}?" if meant else f"expected among {known}"
                    raise InputError(f"{source}: {key}: no scene of {value} in the recipe, {told}")


def split_record(index: pa.Table, labels: pa.Table) -> SplitRecord:
    """What a manifest or a commitment says of a split's index and labels."""
    return SplitRecord(scenes=index.num_rows, index_hash=table_hash(index), labels_hash=table_hash(labels))


def read_assigned(manifest: DataReleaseManifest, task: TaskID, split: Split, index_path: str | Path) -> pa.Table:
    """Read a split's index and the labels beside it, as frozen: which scenes are the split's, and what they are.

    Returns:
        the index with the label column of the task and ``detail``.

    Raises:
        InputError: the manifest has no such split, or index or labels are not the frozen ones.
    """
    record = manifest.frozen(task, split)
    labels_path = labels_beside(index_path)
    index, labels = read_index(index_path), read_labels(labels_path, label_field(manifest.spec(task)))
    for path, table, frozen in ((index_path, index, record.index_hash), (labels_path, labels, record.labels_hash)):
        if table_hash(table) != frozen:
            raise InputError(f"{path}: content differs from the manifest of release {manifest.release}, {task} {split}")
    return join_labels(labels_path, index, labels)
