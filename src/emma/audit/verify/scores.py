"""Checks of every number above the predictions: metrics, replicates, run records, board and reports."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from common.errors import InputError
from common.files import parse, read_text
from emma.audit.verify.base import AGGREGATED, RESCORED, Check
from emma.audit.verify.results import Results
from emma.data.costs import read_cost
from emma.data.provenance import with_sets
from emma.evaluation.fitting import Predicted, predictions_hash
from emma.evaluation.records import Draws, Replicates
from emma.evaluation.replicates import ReplicateSource, primary_replicates, read_replicates
from emma.evaluation.scoring import score_task
from emma.results.frames import board_csv
from emma.results.leaderboard import build_board, check_provenance
from emma.results.records import AggregationReport, Board, Kind, RunRecord
from emma.results.runs import run_record, stress_report, task_record
from emma.tasks import TaskID
from emma.version import HARNESS_VERSION


class Scores(Check):
    """Every metric, interval, in-distribution value and bootstrap replicate follows from the predictions."""

    name = "scores"

    def run(self, results: Results) -> None:
        """Rescore every bundle with the metric code."""
        for model in results.models():
            for task in results.tasks_of(model):
                with self.item(results.layout.replicates(model, task).parent):
                    self._task(results, model, task)

    def _task(self, results: Results, model: str, task: TaskID) -> None:
        manifest = results.manifest()
        keys = [key for key in results.model_folds() if key[:2] == (model, task)]
        folds: dict[str, dict[str, Predicted]] = {}
        for key in keys:
            fitted = () if results.is_submitted(model) else (results.refits(*key), results.regularisation(*key))
            folds.setdefault(key[2], {})[key[3]] = Predicted(
                results.predictions(*key), results.undefined_reason(*key), *fitted
            )
        given = (manifest.tasks[task], task.value, folds, manifest.bootstrap, results.seed())
        scored, replicates = score_task(*given)
        for key in keys:
            path = results.layout.metrics(*key)
            with self.item(path):
                self.checked -= 1
                actual = results.metrics(*key).metrics
                self.compare(path, {"metrics": actual}, {"metrics": scored[key[2]][key[3]]}, RESCORED)
        board = set(results.board_protocols(task))
        seed, split = results.seed(), results.eval_split().value.lower()
        source = ReplicateSource(model, task.value, results.release_hash(), seed, split)
        for kind in ("score", "stress"):
            own = {key: draws for key, draws in replicates.items() if (key[0] in board) == (kind == "score")}
            if own or kind == "score":
                path = results.layout.replicates(model, task, kind)
                self._replicates(path, own, source)

    def _replicates(self, path: Path, expected: Replicates, source: ReplicateSource) -> None:
        actual = read_replicates(path, source)
        if set(actual) != set(expected):
            self.fault(path, "expected one row per fold and metric that is defined")
            return
        for key, draws in expected.items():
            if not _alike(actual[key], draws):
                self.fault(path, f"{' '.join(key)}: replicates differ from those of the predictions")


def _alike(actual: Draws, expected: Draws) -> bool:
    """Whether draws are of the same kinds, units and, within tolerance, values."""
    if actual.units != expected.units:
        return False
    for kind in ("bootstrap", "jackknife", "enrolment"):
        one, other = getattr(actual, kind), getattr(expected, kind)
        if one is None or other is None:
            if one is not other:
                return False
        elif one.shape != other.shape or not np.allclose(
            one, other, rtol=RESCORED, atol=RESCORED * 1e-3, equal_nan=True
        ):
            return False
    return True


class _Model(NamedTuple):
    """What a run record says of a model by itself."""

    name: str
    kind: Kind


class Runs(Check):
    """Every run record, and each field of its RunManifest, follows from metrics and predictions."""

    name = "run records"

    def run(self, results: Results) -> None:
        """Collect each model's metrics again."""
        for model in results.models():
            path = results.layout.run(model)
            with self.item(path):
                actual = results.run(model)
                self.compare(path, actual, self._again(results, actual), AGGREGATED)

    @staticmethod
    def _again(results: Results, actual: RunRecord) -> RunRecord:
        manifest, model = results.manifest(), actual.model
        tasks, hashes = results.tasks_of(model), {}
        first = next(iter(results.board_protocols(tasks[0]).values()))
        provenance = results.provenance(model, tasks[0], first.name, first.eval_values()[0])
        records = {}
        for task in tasks:
            protocols = list(results.board_protocols(task).values())
            keys = {protocol.name: protocol.eval_values() for protocol in protocols}
            scores = {
                name: {value: results.metrics(model, task, name, value).metrics for value in values}
                for name, values in keys.items()
            }
            hashes[task] = {
                name: {value: predictions_hash(results.predictions(model, task, name, value)) for value in values}
                for name, values in keys.items()
            }
            seen = with_sets(provenance.pretraining, manifest.rfgen)
            records[task] = task_record(manifest.tasks[task], protocols, scores, seen)
        return run_record(
            manifest,
            _Model(model, actual.kind),
            provenance,
            records,
            hashes,
            seed=results.seed(),
            eval_split=results.eval_split(),
            control_of=actual.control_of,
        )


class Provenance(Check):
    """All runs, and the board, are of one release, seed, evaluation split and harness version: this one's."""

    name = "provenance"

    def run(self, results: Results) -> None:
        """Refuse mixed provenance."""
        runs = {}
        for model, path in results.run_files().items():
            with self.item(path):
                runs[str(path)] = results.run(model)
                version = runs[str(path)].run_manifest.harness_version
                if version != HARNESS_VERSION:
                    self.fault(path, f"harness_version: {version}, expected {HARNESS_VERSION}, that of this harness")
                if runs[str(path)].release != results.manifest().release:
                    self.fault(path, f"release: expected {results.manifest().release}")
        with self.item(results.layout.runs):
            if not runs:
                raise InputError(f"{results.layout.runs}: no run record, expected one per model")
            check_provenance(results.manifest(), runs)
        with self.item(results.layout.board):
            rows = [row.model for row in _board(results).models]
            path, lost = results.layout.board, sorted(set(results.run_files()) - set(rows))
            for model in lost:
                who = results.named_by(model)
                self.fault(
                    path,
                    f"models: no row of {model}, although runs/{model}.json is here and {who} names it: build the board"
                    f" and the reports with it, or, where it left models:, without it, and remove runs/{model}.json"
                    f" and folds/{model}",
                )
            if not lost and sorted(rows) != sorted(results.run_files()):
                self.fault(path, f"models: expected one row per run: {', '.join(results.run_files())}")


class BoardFiles(Check):
    """Ranks, averages, intervals, p-values and jackknives follow from the runs; CSV, schema and report agree."""

    name = "leaderboard"

    def run(self, results: Results) -> None:
        """Build the board again and compare all its files."""
        path = results.layout.board
        with self.item(path):
            board, aggregation = self._again(results)
            self.compare(path, results.document(path), board, AGGREGATED)
            where = results.layout.report("aggregation")
            with self.item(where):
                self.compare(where, results.document(where), aggregation, AGGREGATED)
        schema = results.layout.board_as("schema.json")
        with self.item(schema):
            self.compare(schema, results.document(schema), Board.model_json_schema())
        csv = results.layout.board_as("csv")
        with self.item(csv):
            actual, expected = read_text(csv).splitlines(), board_csv(_board(results)).splitlines()
            if actual != expected:
                pairs = enumerate(zip(actual, expected, strict=False), 1)
                shortest = min(len(actual), len(expected))
                line = next((number for number, (one, other) in pairs if one != other), shortest + 1)
                self.fault(csv, f"line {line}: differs from leaderboard.json")

    @staticmethod
    def _again(results: Results) -> tuple[Board, AggregationReport]:
        runs = {str(path): results.run(model) for model, path in results.run_files().items()}
        files = [
            (model, task, results.layout.replicates(model, task))
            for model in results.run_files()
            for task in results.tasks_of(model)
        ]
        split = results.eval_split().value.lower()
        replicates = primary_replicates(results.manifest(), files, results.seed(), split)
        rows = _board(results).models
        real = {row.model: row.sim_to_real for row in rows if row.sim_to_real is not None}
        costs = {model: read_cost(results.layout.cost(model)) for model in results.costed()}
        return build_board(results.manifest(), runs, replicates, real, costs)


class Stress(Check):
    """The stress report, where it was built, follows from the stress folds' metrics."""

    name = "stress report"

    def run(self, results: Results) -> None:
        """Build the report again."""
        if not results.has_stress():
            self.note = "not built"
            return
        path = results.layout.report("stress")
        with self.item(path):
            paths = [
                results.layout.metrics(*key)
                for key in results.model_folds()
                if key[2] not in results.board_protocols(key[1])
            ]
            expected = stress_report(results.manifest(), paths)
            self.compare(path, results.document(path), expected, AGGREGATED)


def _board(results: Results) -> Board:
    return parse(Board, results.document(results.layout.board), results.layout.board)
