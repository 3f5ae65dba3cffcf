"""A submitted folder: its manifest and its files of predictions, read within bounds.

A bundle is a folder with ``submission.yaml`` and ``predictions/TASK/PROTOCOL/VALUE.parquet``, one for each fold of the
board.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from common.doors import require_regular
from common.errors import InputError
from common.files import parse, read_yaml
from emma.data.folds import Fold
from emma.data.foreign import foreign_schema, is_text, leaf, read_untrusted
from emma.data.protocols import board_protocols
from emma.data.provenance import DeclaredReadout, Pretraining
from emma.data.release import DataReleaseManifest, load_manifest, read_assigned
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.results.layout import Layout
from emma.tasks import Split, Strict, Target, TaskID

MANIFEST_NAME = "submission.yaml"
#: Largest file of predictions, and most predictions that are kept in memory once they are read, bytes.
LARGEST_FILE, _MOST_KEPT = 2**26, 2**28

#: What a file of predictions must hold, ``scores`` of the task's own type (``typed``). ``session`` and ``target`` may
#: be there too, and are never read.
SUBMITTED_SCHEMA = pa.schema([PREDICTION_SCHEMA.field("scene_id"), PREDICTION_SCHEMA.field("scores")])
#: What it holds of a task that enrols: a row per scene and turn.
ENROLLED_SCHEMA = SUBMITTED_SCHEMA.append(PREDICTION_SCHEMA.field("turn"))

#: Place of a fold: task, protocol, held-out value.
FoldKey = tuple[TaskID, str, str]


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
    seed: Annotated[int, Field(ge=0, description="the run's seed, which drew the fit scenes of references")]
    readouts: Annotated[
        dict[TaskID, DeclaredReadout], Field(min_length=1, description="per task, the head that made the predictions")
    ]

    @property
    def name(self) -> str:
        """The model's name on the board."""
        return self.model

    @property
    def kind(self) -> Literal["submitted"]:
        """The kind of its row on the board."""
        return "submitted"


@dataclass(frozen=True)
class Expected:
    """What a bundle is held against.

    Attributes:
        manifest: the data release.
        folds: the board's folds by (task, protocol, held-out value), built from the frozen indexes.
        seed: the run's seed, which drew the fit scenes of references.
        eval_split: DEV or HOLDOUT.
        taken: names that stand on the board already.
    """

    manifest: DataReleaseManifest
    folds: Mapping[FoldKey, Fold]
    seed: int
    eval_split: Split
    taken: frozenset[str] = frozenset()

    @classmethod
    def read(
        cls, results: str | Path, eval_split: Split = Split.DEV, seed: int = 0, taken: Iterable[str] = ()
    ) -> Expected:
        """What results of a release ask for: its folds are built again from the frozen indexes.

        Raises:
            InputError: no manifest, indexes that are not the manifest's, or no fold.
        """
        layout = Layout(results)
        manifest = load_manifest(layout.manifest)
        folds = {}
        for task, spec in manifest.tasks.items():
            train, scored = (
                read_assigned(manifest, task, split, layout.index(task, split)) for split in (Split.TRAIN, eval_split)
            )
            for name, protocol in board_protocols(spec).items():
                for value in protocol.eval_values():
                    folds[task, name, value] = protocol.fold(value, train, scored, seed)
        if not folds:
            raise InputError(f"{results}: no fold to submit to")
        return cls(manifest, folds, seed, eval_split, frozenset(taken))

    def of(self, bundle: Bundle) -> Iterator[FoldKey]:
        """The folds of the tasks that a bundle declares."""
        return (key for key in self.folds if key[0] in bundle.manifest.readouts)


class Bundle:
    """A submitted folder, read once.

    Args:
        root: the folder.

    Raises:
        InputError: no such folder, or its manifest is missing, too large or wrong: without it nothing can be checked.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)
        if self.root.is_symlink():
            raise InputError(f"{root}: a link, expected the bundle's own folder")
        if not self.root.is_dir():
            raise InputError(f"{root}: expected a folder with {MANIFEST_NAME}")
        path = self.root / MANIFEST_NAME
        if path.is_symlink():
            raise InputError(f"{path}: a link, expected a file of the bundle's own")
        self.manifest = parse(SubmissionManifest, read_yaml(path), path)
        self._tables: dict[Path, pa.Table | InputError] = {}

    def path(self, task: TaskID, protocol: str, value: str) -> Path:
        """Where the predictions of a fold are."""
        return self.root / "predictions" / task.value / protocol / f"{value}.parquet"

    def table(self, task: TaskID, protocol: str, value: str) -> pa.Table | None:
        """A fold's predictions with the columns of ENROLLED_SCHEMA; None where they cannot be read.

        ``turn`` is null throughout where the file has no such column.
        """
        path = self.path(task, protocol, value)
        read = self._once(path)
        return None if isinstance(read, InputError) else read

    def problem(self, task: TaskID, protocol: str, value: str) -> str | None:
        """Why a fold's predictions cannot be read, or None."""
        read = self._once(self.path(task, protocol, value))
        return str(read) if isinstance(read, InputError) else None

    def _once(self, path: Path) -> pa.Table | InputError:
        """A fold's predictions; read again where later ones took their place in memory."""
        read = self._tables.get(path)
        if read is None:
            read = self._tables[path] = self._read(path)
            while len(self._tables) > 1 and sum(map(_size, self._tables.values())) > _MOST_KEPT:
                del self._tables[next(iter(self._tables))]
        return read

    def _read(self, path: Path) -> pa.Table | InputError:
        if not path.resolve().is_relative_to(self.root.resolve()):
            return InputError(f"{path}: leads out of the bundle")
        try:
            if (size := require_regular(path)) > LARGEST_FILE:
                return InputError(f"{path}: {size} bytes, expected at most {LARGEST_FILE}")
            found = foreign_schema(path)
            turned = "turn" in found.names
            schema = _read_as(ENROLLED_SCHEMA if turned else SUBMITTED_SCHEMA, found)
            table = read_untrusted(path, schema, ignored=PREDICTION_SCHEMA)
            turns = ENROLLED_SCHEMA.field("turn")
            return table if turned else table.append_column(turns, pa.nulls(table.num_rows, turns.type))
        except InputError as error:
            return error


def scores_of(table: pa.Table, target: Target) -> pa.ChunkedArray:
    """The scores of a fold's predictions; numbers of any width in that of the target."""
    scores, kind = table["scores"], target.score_type
    both = all(pa.types.is_floating(leaf(of)) for of in (scores.type, kind))
    return scores.cast(kind) if both else scores


def _read_as(schema: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The schema with lists of texts, or of numbers as wide as those that are there, for scores."""
    place = found.get_field_index("scores")
    kind = leaf(found.field(place).type) if place >= 0 else pa.float64()
    entry = pa.string() if is_text(kind) else pa.float32() if kind == pa.float32() else pa.float64()
    place = schema.get_field_index("scores")
    return schema.set(place, schema.field(place).with_type(pa.list_(entry)))


def _size(read: pa.Table | InputError) -> int:
    return 0 if isinstance(read, InputError) else int(read.nbytes)
