"""Finished results as the checks see them: each file read once, a broken one with the same error every time."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

import pyarrow as pa

from common.doors import read_bytes
from common.errors import InputError
from common.files import parse, read_json, read_yaml
from emma.audit.submissions import Bundle
from emma.captures.records import CaptureRecord, ConversionRecord, SimToRealReport
from emma.data.embeddings import Embeddings
from emma.data.folds import Fold, read_fold, row_keys, stored_schema
from emma.data.labels import join_labels, label_field, read_labels
from emma.data.protocols import OODProtocol, board_protocols, task_protocols
from emma.data.provenance import Provenance, provenance_of
from emma.data.release import DataReleaseManifest, load_manifest
from emma.data.scenes import read_index
from emma.data.tables import metadata_of, read_table, unique_ids
from emma.evaluation.fitting import PREDICTION_SCHEMA, chosen_regularisation
from emma.evaluation.records import FoldRecord
from emma.evaluation.refits import read_refits
from emma.results.layout import Layout
from emma.results.records import RunRecord
from emma.tasks import Split, TaskID

P = ParamSpec("P")
T = TypeVar("T")


def _remembered(method: Callable[Concatenate[Results, P], T]) -> Callable[Concatenate[Results, P], T]:
    """Keep what a reader returned, or the InputError that it raised, by its arguments."""

    @functools.wraps(method)
    def reader(self: Results, /, *key: P.args, **named: P.kwargs) -> T:
        slot = (method.__name__, key, *named.items())
        if slot not in self._memory:
            try:
                self._memory[slot] = method(self, *key, **named)
            except InputError as error:
                self._memory[slot] = _Refused(str(error))
        kept = self._memory[slot]
        if isinstance(kept, _Refused):
            raise InputError(kept.message)
        return cast("T", kept)

    return reader


@dataclass(frozen=True)
class _Refused:
    """Why a file cannot be read."""

    message: str


class OwnLayout(Layout):
    """The layout of results that others made: a path that a link leads out of them is refused."""

    def at(self, *names: str) -> Path:
        """The path of ``names`` below the root; InputError for a name or a link that would leave it."""
        path = super().at(*names)
        if not path.resolve().is_relative_to(self.root.resolve()):
            raise InputError(f"{path}: leads out of {self.root}, expected a file of its own")
        return path


class Results:
    """The folder that the workflow wrote; ``layout`` says where its files are.

    Args:
        root: ``results``, or the folder of another release or of a HOLDOUT run.
        project: the project whose ``config`` made them; None where it is not at hand. It is read, never run.
        code: the project whose code may run: its models, and their configs; None for none.

    Raises:
        InputError: there is no such folder.
    """

    def __init__(self, root: str | Path, project: str | Path | None = None, code: str | Path | None = None) -> None:
        self.root, self.layout = Path(root), OwnLayout(root)
        self.project = None if project is None else Path(project)
        self.code = None if code is None else Path(code)
        if not self.root.is_dir():
            raise InputError(f"{root}: expected a folder of results or a release archive")
        self._memory: dict[tuple[object, ...], object] = {}
        self._embeddings: tuple[tuple[str, str], Embeddings] | None = None

    @_remembered
    def manifest(self) -> DataReleaseManifest:
        """The release's manifest, whose hash is that of its content."""
        return load_manifest(self.layout.manifest)

    @_remembered
    def release_hash(self) -> str:
        """The hash of the manifest's content, which every file of the run names."""
        return self.manifest().data_release_hash

    @property
    def tasks(self) -> list[TaskID]:
        """The release's tasks."""
        return list(self.manifest().tasks)

    def splits(self, task: TaskID) -> list[Split]:
        """The splits of a task that its numbers rest on: the frozen ones, and that which is scored."""
        return sorted({*self.manifest().splits.get(task, {}), self.eval_split()})

    @_remembered
    def run_files(self) -> dict[str, Path]:
        """Run records of this board's models, by model."""
        entrants = set(self.models())
        return {path.stem: path for path in sorted(self.layout.runs.glob("*.json")) if path.stem in entrants}

    @_remembered
    def run(self, model: str) -> RunRecord:
        """One model's run record."""
        path = self.layout.run(model)
        record = parse(RunRecord, read_json(path), path)
        if record.model != model:
            raise InputError(f"{path}: model: expected {model}, the file's name, found {record.model}")
        return record

    @_remembered
    def models(self) -> list[str]:
        """Models of this board: those with a row, and those found here that a report or the project's config names.

        All that are found where the board cannot be read. A model that nothing names is left over from a wider run.
        """
        naming, found = self.naming(), self._found()
        board = naming.get("leaderboard.json")
        entrants = found if board is None else board | (found & set().union(*naming.values()))
        return sorted(name for name in entrants if not name.startswith("."))

    @_remembered
    def costed(self) -> list[str]:
        """Models whose rows on the board say what they cost; none where the board cannot be read."""
        try:
            return sorted(str(row["model"]) for row in self.document(self.layout.board)["models"] if row["cost"])
        except (InputError, LookupError, TypeError):
            return []

    @_remembered
    def leftovers(self) -> list[str]:
        """Models that have a run record or folds here, and that neither board, reports nor config name."""
        return sorted(self._found() - set(self.models()))

    def _found(self) -> set[str]:
        """Models that have a run record or a folder of folds."""
        folds = self.layout.at("folds")
        names = {path.name for path in folds.iterdir() if path.is_dir()} if folds.is_dir() else set()
        names |= {path.stem for path in self.layout.runs.glob("*.json")}
        return {name for name in names if not name.startswith(".")}

    @_remembered
    def naming(self) -> dict[str, set[str]]:
        """Who names which models: the board, the reports and the project's config, as far as they can be read."""
        found: dict[str, set[str]] = {}
        # The checks of these files say what is wrong with them.
        unreadable = contextlib.suppress(InputError, LookupError, TypeError, AttributeError)
        with unreadable:
            found["leaderboard.json"] = {str(row["model"]) for row in self.document(self.layout.board)["models"]}
        for report in ("aggregation", "stress", "sim_to_real"):
            with unreadable:
                found[f"reports/{report}.json"] = set(map(str, self.document(self.layout.report(report))["models"]))
        if self.project is not None and (config := self.project / "config" / "config.yaml").is_file():
            declared = found["config/config.yaml"] = set()
            with unreadable:
                content = read_yaml(config)
                declared |= set(map(str, content.get("models") or ()))
                for folder in content.get("submissions") or ():
                    declared.add(Bundle(self.project / str(folder)).manifest.model)
        return found

    def named_by(self, model: str) -> str:
        """The files that name a model, in words."""
        return ", ".join(name for name, models in self.naming().items() if model in models)

    def is_submitted(self, model: str) -> bool:
        """Whether the model's predictions came from elsewhere, without readouts and embeddings."""
        try:
            return self.run(model).kind == "submitted"
        except InputError:
            return False

    @_remembered
    def tasks_of(self, model: str) -> list[TaskID]:
        """The tasks in a model's run record; all of the release's where it cannot be read."""
        try:
            return [task for task in self.tasks if task in self.run(model).tasks]
        except InputError:
            return self.tasks

    @_remembered
    def eval_split(self) -> Split:
        """The evaluation split of the runs: the first that can be read; another one elsewhere is mixed provenance."""
        for model in self.run_files():
            try:
                return Split(self.run(model).eval_split.upper())
            except InputError:
                continue
        return Split.DEV

    @_remembered
    def seed(self) -> int:
        """The seed of the runs: the first that can be read."""
        for model in self.run_files():
            try:
                return self.run(model).run_manifest.seed
            except InputError:
                continue
        raise InputError(f"{self.layout.runs}: no readable run record, expected one per model")

    @_remembered
    def document(self, path: Path) -> Any:
        """A JSON file."""
        return read_json(path)

    @_remembered
    def index(self, task: TaskID, split: Split) -> pa.Table:
        """The index of a task's split, as written."""
        return read_index(self.layout.index(task, split))

    @_remembered
    def labels(self, task: TaskID, split: Split) -> pa.Table:
        """The labels of a task's split, as written."""
        return read_labels(self.layout.labels(task, split), label_field(self.manifest().tasks[task]))

    @_remembered
    def labelled(self, task: TaskID, split: Split) -> pa.Table:
        """The index of a task's split, joined with its labels."""
        return join_labels(self.layout.labels(task, split), self.index(task, split), self.labels(task, split))

    @_remembered
    def protocols(self, task: TaskID) -> dict[str, OODProtocol]:
        """All protocols of a task, the stress report's included."""
        manifest = self.manifest()
        return task_protocols(manifest.tasks[task], manifest.stress_regimes.get(task, ()))

    @_remembered
    def board_protocols(self, task: TaskID) -> dict[str, OODProtocol]:
        """The protocols that the leaderboard shows."""
        return board_protocols(self.manifest().tasks[task])

    @_remembered
    def has_stress(self) -> bool:
        """Whether the stress report was built."""
        return self.layout.report("stress").exists()

    def folds(self, task: TaskID) -> Iterator[tuple[str, str]]:
        """(protocol, value) of every fold of a task."""
        for name, protocol in self.protocols(task).items():
            for value in protocol.eval_values():
                yield name, value

    def model_folds(self) -> Iterator[tuple[str, TaskID, str, str]]:
        """(model, task, protocol, value) of every fold that was scored.

        The stress folds count where their report was built; a submission has the board's folds alone.
        """
        for model in self.models():
            stress = self.has_stress() and not self.is_submitted(model)
            for task in self.tasks_of(model):
                for protocol, value in self.folds(task):
                    if stress or protocol in self.board_protocols(task):
                        yield model, task, protocol, value

    @_remembered
    def fold(self, task: TaskID, protocol: str, value: str) -> Fold:
        """A fold as written."""
        train, evaluation = (self.layout.side(task, protocol, value, side) for side in ("train", "eval"))
        return read_fold(train, evaluation, protocol, value, self.release_hash())

    @_remembered
    def rebuilt(self, task: TaskID, protocol: str, value: str) -> Fold:
        """The same fold, built again from the frozen indexes."""
        indexes = self.labelled(task, Split.TRAIN), self.labelled(task, self.eval_split())
        return self.protocols(task)[protocol].fold(value, *indexes, self.seed())

    @_remembered
    def predictions(self, model: str, task: TaskID, protocol: str, value: str) -> pa.Table:
        """A fold's predictions as written."""
        path = self.layout.predictions(model, task, protocol, value)
        table = read_table(path, stored_schema(path, PREDICTION_SCHEMA))
        unique_ids(path, row_keys(table))
        return table

    @_remembered
    def refits(self, model: str, task: TaskID, protocol: str, value: str) -> pa.Table:
        """Predictions of a fold's refits as written."""
        return read_refits(self.layout.refits(model, task, protocol, value), self.release_hash())

    @_remembered
    def regularisation(self, model: str, task: TaskID, protocol: str, value: str) -> float | None:
        """The value that a fold's readout chose."""
        path = self.layout.readout(model, task, protocol, value)
        try:
            return chosen_regularisation(path, read_bytes(path))
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None

    def undefined_reason(self, model: str, task: TaskID, protocol: str, value: str) -> str | None:
        """Why a fold's predictions say that it is undefined, or None."""
        return metadata_of(self.predictions(model, task, protocol, value)).get("undefined_reason")

    def provenance(self, model: str, task: TaskID, protocol: str, value: str) -> Provenance:
        """What a fold's predictions say made them; InputError where they do not say."""
        metadata = metadata_of(self.predictions(model, task, protocol, value))
        return provenance_of(metadata, self.layout.predictions(model, task, protocol, value))

    @_remembered
    def metrics(self, model: str, task: TaskID, protocol: str, value: str) -> FoldRecord:
        """A fold's metrics as written."""
        path = self.layout.metrics(model, task, protocol, value)
        return parse(FoldRecord, read_json(path), path)

    @_remembered
    def conversion(self, name: str) -> ConversionRecord:
        """The conversion record of a capture set."""
        path = self.layout.conversion(name)
        return parse(ConversionRecord, read_json(path), path)

    @_remembered
    def capture(self, name: str, model: str) -> CaptureRecord:
        """A model's scores on a capture set."""
        path = self.layout.capture_metrics(name, model)
        return parse(CaptureRecord, read_json(path), path)

    @_remembered
    def sim_to_real(self) -> SimToRealReport | None:
        """The sim-to-real report; None where none was built."""
        path = self.gap_report
        return parse(SimToRealReport, read_json(path), path) if path.exists() else None

    @property
    def gap_report(self) -> Path:
        """The report of the kind of captures that the board shows gaps of."""
        blocks = [row["sim_to_real"] for row in self.document(self.layout.board)["models"]]
        return self.layout.gap_report(next((block["kind"] for block in blocks if block), "surrogate"))

    def embeddings(self, model: str, task: TaskID) -> Embeddings:
        """A model's embeddings of a task; only the last ones are kept."""
        key = (model, task.value)
        if self._embeddings is None or self._embeddings[0] != key:
            self._embeddings = None
            self._embeddings = key, Embeddings.read(self.layout.embeddings(model, task))
        return self._embeddings[1]
