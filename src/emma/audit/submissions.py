"""Submissions: someone else's predictions, validated as a stranger's and scored as ours.

A bundle is a folder with ``submission.yaml`` and ``predictions/TASK/PROTOCOL/VALUE.parquet``, one a fold of the board.
Targets always come from the frozen index and rows are joined by scene id, so a bundle can neither bring its own
targets nor gain by an order of rows.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from common.errors import InputError
from common.files import parse, read_yaml
from common.hashing import content_hash, table_hash
from emma.backbones.load import Pretraining
from emma.data.protocols import Fold, board_protocols
from emma.data.release import DataReleaseManifest
from emma.data.tables import lists_to_matrix, matrix_to_lists, read_untrusted
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.evaluation.scoring import fold_metrics, score_task
from emma.readouts import make_readout
from emma.results.records import RunRecord
from emma.results.runs import run_record
from emma.tasks import Split, Strict, TaskID, target_of
from emma.version import HARNESS_VERSION

MANIFEST_NAME = "submission.yaml"
#: Largest manifest and largest file of predictions, bytes.
LARGEST_MANIFEST, LARGEST_FILE = 2**20, 2**26

#: What a file of predictions must hold. ``session`` and ``target`` may stand beside it, and are never read.
SUBMITTED_SCHEMA = pa.schema([PREDICTION_SCHEMA.field("scene_id"), PREDICTION_SCHEMA.field("scores")])


class DeclaredReadout(Strict):
    """The head that made a task's predictions, as its author declares it."""

    kind: Annotated[str, Field(description="kind of the head")]
    embedding_dim: Annotated[int, Field(ge=0, description="width of the embedding that it was fit on")]
    parameters: Annotated[int, Field(ge=0, description="number of parameters")]


class SubmissionManifest(Strict):
    """The content of ``submission.yaml``."""

    model: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
            max_length=64,
            description="name on the board, which no other model has",
        ),
    ]
    pretraining: Annotated[
        Pretraining | Literal["unknown"], Field(description="what pretraining saw, `{}` for nothing, or `unknown`")
    ]
    data_release_hash: Annotated[
        str, Field(pattern=r"^[0-9a-f]{64}$", description="the release that the predictions are for")
    ]
    harness_version: Annotated[str, Field(description="version of this project that the folds come from")]
    eval_split: Annotated[Literal["DEV", "HOLDOUT"], Field(description="`DEV` or `HOLDOUT`")] = "DEV"
    seed: Annotated[int, Field(ge=0, description="the run's seed, which drew the enrolment sessions")]
    readouts: Annotated[
        dict[TaskID, DeclaredReadout], Field(min_length=1, description="per task, the head that made the predictions")
    ]

    @property
    def name(self) -> str:
        """The model's name on the board."""
        return self.model

    @property
    def kind(self) -> str:
        """The kind of its row on the board."""
        return "submitted"


@dataclass(frozen=True)
class Expected:
    """What a bundle is held against.

    Attributes:
        manifest: the data release.
        folds: the board's folds by (task, protocol, value), built from the frozen indexes.
        seed: the run's seed, which drew the enrolment sessions of the folds.
        eval_split: DEV or HOLDOUT.
        taken: names that stand on the board already.
    """

    manifest: DataReleaseManifest
    folds: Mapping[tuple[TaskID, str, str], Fold]
    seed: int
    eval_split: Split
    taken: frozenset[str] = frozenset()


class Bundle:
    """A submitted folder, read once.

    Args:
        root: the folder.

    Raises:
        InputError: no such folder, or its manifest is missing, too large or wrong: without it nothing can be checked.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise InputError(f"{root}: expected a folder with {MANIFEST_NAME}")
        path = self.root / MANIFEST_NAME
        if path.is_symlink():
            raise InputError(f"{path}: a link, expected a file of the bundle's own")
        if path.is_file() and path.stat().st_size > LARGEST_MANIFEST:
            raise InputError(f"{path}: {path.stat().st_size} bytes, expected at most {LARGEST_MANIFEST}")
        self.manifest = parse(SubmissionManifest, read_yaml(path), path)
        self._tables: dict[Path, pa.Table | InputError] = {}

    def path(self, task: TaskID, protocol: str, value: str) -> Path:
        """Where the predictions of a fold are."""
        return self.root / "predictions" / task.value / protocol / f"{value}.parquet"

    def table(self, task: TaskID, protocol: str, value: str) -> pa.Table | None:
        """A fold's predictions with the columns of SUBMITTED_SCHEMA; None where they cannot be read."""
        path = self.path(task, protocol, value)
        found = self._tables.get(path)
        if found is None:
            found = self._tables[path] = self._read(path)
        return None if isinstance(found, InputError) else found

    def problem(self, task: TaskID, protocol: str, value: str) -> str | None:
        """Why a fold's predictions cannot be read, or None."""
        self.table(task, protocol, value)
        found = self._tables[self.path(task, protocol, value)]
        return str(found) if isinstance(found, InputError) else None

    def _read(self, path: Path) -> pa.Table | InputError:
        if not path.resolve().is_relative_to(self.root.resolve()):
            return InputError(f"{path}: leads out of the bundle")
        if not path.is_file():
            return InputError(f"{path}: no such file")
        if path.stat().st_size > LARGEST_FILE:
            return InputError(f"{path}: {path.stat().st_size} bytes, expected at most {LARGEST_FILE}")
        try:
            return read_untrusted(path, SUBMITTED_SCHEMA, ignored=PREDICTION_SCHEMA)
        except InputError as error:
            return error


class BundleCheck(ABC):
    """One thing that must hold of a bundle; all checks run, and each yields every fault that it finds."""

    @abstractmethod
    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Faults, one line each, the file first."""


class PlainFiles(BundleCheck):
    """The bundle holds its own plain files, no link, and none that no fold asks for."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Walk the folder without following a link."""
        known = {bundle.path(*key) for key in expected.folds} | {bundle.root / MANIFEST_NAME}
        for folder, names, files in os.walk(bundle.root, followlinks=False):
            for name in sorted([*names, *files]):
                path = Path(folder) / name
                if path.is_symlink():
                    yield f"{path}: a link, expected a file of the bundle's own"
                elif name in files and path.suffix == ".parquet" and path not in known:
                    yield f"{path}: belongs to no fold of the board"


class SameRelease(BundleCheck):
    """Predictions were made on this release, by this harness, seed and evaluation split, under a name of its own."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Compare the manifest's fields."""
        path, declared = bundle.root / MANIFEST_NAME, bundle.manifest
        wanted = {
            "data_release_hash": expected.manifest.data_release_hash,
            "harness_version": HARNESS_VERSION,
            "eval_split": expected.eval_split.value,
            "seed": expected.seed,
        }
        for field, value in wanted.items():
            if getattr(declared, field) != value:
                yield f"{path}: {field}: expected {value}, found {getattr(declared, field)}"
        if declared.model in expected.taken:
            yield f"{path}: model: {declared.model} stands on the board already, expected a name of its own"
        for task in declared.readouts:
            if task not in expected.manifest.tasks:
                yield f"{path}: readouts.{task}: not a task of release {expected.manifest.release}"


class DeclaredCapacity(BundleCheck):
    """Each task's readout is of the pinned kind and within the pinned capacity."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Compare the declared readouts with the TaskSpecs."""
        path = bundle.root / MANIFEST_NAME
        for task, declared in bundle.manifest.readouts.items():
            if task not in expected.manifest.tasks:
                continue
            spec = expected.manifest.tasks[task]
            field = f"{path}: readouts.{task}"
            if declared.kind != spec.readout.kind:
                yield f"{field}.kind: expected {spec.readout.kind}, found {declared.kind}"
            if declared.embedding_dim > spec.readout.max_embedding_dim:
                pinned = spec.readout.max_embedding_dim
                yield f"{field}.embedding_dim: {declared.embedding_dim} is wider than the pinned {pinned}"
            most = min(make_readout(spec).parameters(declared.embedding_dim), spec.readout.max_parameters)
            if declared.parameters > most:
                yield f"{field}.parameters: {declared.parameters}, expected at most {most} for this width"


class Readable(BundleCheck):
    """Every fold of every declared task has a complete Parquet file of the expected columns."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Read each file within bounds."""
        for key in _own(bundle, expected):
            problem = bundle.problem(*key)
            if problem is not None:
                yield problem


class CompleteIds(BundleCheck):
    """Every fold predicts each of its queries once, and nothing else."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Compare the ids with the fold's."""
        for key in _own(bundle, expected):
            table = bundle.table(*key)
            if table is None:
                continue
            ids, path = table["scene_id"].to_pylist(), bundle.path(*key)
            wanted = set(_queries(expected.folds[key])["scene_id"].to_pylist())
            if len(set(ids)) != len(ids):
                twice, _ = Counter(ids).most_common(1)[0]
                yield f"{path}: scene_id: {twice[:80]} stands twice, expected unique ids"
            if lost := wanted - set(ids):
                yield f"{path}: scene_id: {len(lost)} missing, first {min(lost)}"
            if foreign := set(ids) - wanted:
                yield f"{path}: scene_id: {len(foreign)} that the fold does not score, first {min(foreign)[:80]}"


class FiniteScores(BundleCheck):
    """Every prediction has the task's number of scores, all finite; angles are degrees in [0, 360)."""

    def faults(self, bundle: Bundle, expected: Expected) -> Iterator[str]:
        """Look at every number."""
        for key in _own(bundle, expected):
            table, path, spec = bundle.table(*key), bundle.path(*key), expected.manifest.tasks[key[0]]
            if table is None:
                continue
            try:
                scores = lists_to_matrix(table["scores"], target_of(spec).width, f"{path}: scores")
            except InputError as error:
                yield str(error)
                continue
            if not np.isfinite(scores).all():
                row = int(np.flatnonzero(~np.isfinite(scores).all(axis=1))[0])
                scene = table["scene_id"][row].as_py()[:80]
                yield f"{path}: scores: NaN or infinity for {scene}, expected finite"
            elif (fault := target_of(spec).score_fault(scores)) is not None:
                yield f"{path}: scores: {fault}"


CHECKS: tuple[type[BundleCheck], ...] = (
    PlainFiles,
    SameRelease,
    DeclaredCapacity,
    Readable,
    CompleteIds,
    FiniteScores,
)


def validate(bundle: Bundle, expected: Expected) -> list[str]:
    """Every fault that any check finds, one line each; none for a bundle that can be scored."""
    return [fault for check in CHECKS for fault in check().faults(bundle, expected)]


@dataclass(frozen=True)
class Scored:
    """A scored submission: its record, and by task the frozen predictions, metrics and replicates of its folds."""

    record: RunRecord
    provenance: dict[str, Any]
    predictions: dict[tuple[TaskID, str, str], tuple[pa.Table, str | None]]
    metrics: dict[tuple[TaskID, str, str], dict[str, Any]]
    replicates: dict[TaskID, dict[tuple[str, str, str], np.ndarray]]


def score(bundle: Bundle, expected: Expected) -> Scored:
    """Score a bundle that ``validate`` found nothing wrong with, as the workflow scores its own models."""
    release, declared = expected.manifest, bundle.manifest
    dumped = declared.model_dump(mode="json")
    provenance = {
        "name": declared.model,
        "config_sha256": content_hash(dumped),
        "weights_sha256": None,
        "pretraining": dumped["pretraining"],
        "readouts": dumped["readouts"],
    }
    predictions = {key: joined(bundle.table(*key), expected.folds[key]) for key in _own(bundle, expected)}
    results, hashes, metrics, replicates = {}, {}, {}, {}
    for task in (task for task in release.tasks if task in declared.readouts):
        places = {name: protocol.eval_values() for name, protocol in board_protocols(release.tasks[task]).items()}
        folds = {name: {value: predictions[task, name, value] for value in places[name]} for name in places}
        results[task], replicates[task] = score_task(
            release.tasks[task], task.value, folds, release.bootstrap, declared.seed
        )
        hashes[task] = {
            name: {value: table_hash(table) for value, (table, _) in values.items()} for name, values in folds.items()
        }
        for name, values in hashes[task].items():
            for value, digest in values.items():
                content = results[task][name][value]
                head = fold_metrics(declared.model, task.value, name, value, content, release, declared.seed)
                made = {
                    "eval_split": expected.eval_split.value.lower(),
                    "hashes": {"predictions": digest, "readout": None},
                    "model_provenance": provenance,
                }
                metrics[task, name, value] = head | made
    record = run_record(
        release, declared, provenance, results, hashes, seed=declared.seed, eval_split=expected.eval_split
    )
    return Scored(record, provenance, predictions, metrics, replicates)


def joined(submitted: pa.Table, fold: Fold) -> tuple[pa.Table, str | None]:
    """The fold's queries with frozen session and target and the submitted scores, by scene id; and why undefined."""
    if fold.undefined is not None:
        return PREDICTION_SCHEMA.empty_table(), fold.undefined
    queries = _queries(fold)
    rows = pc.index_in(queries["scene_id"], value_set=submitted["scene_id"].combine_chunks())
    scores = submitted["scores"].take(rows)
    width = len(scores[0]) if queries.num_rows else 0
    columns = [queries[name] for name in ("scene_id", "session", "target")]
    lists = matrix_to_lists(lists_to_matrix(scores, width, "scores"))
    return pa.table([*columns, lists], schema=PREDICTION_SCHEMA), None


def _own(bundle: Bundle, expected: Expected) -> Iterator[tuple[TaskID, str, str]]:
    return (key for key in expected.folds if key[0] in bundle.manifest.readouts)


def _queries(fold: Fold) -> pa.Table:
    return fold.eval.filter(pc.equal(fold.eval["role"], "query"))
