"""Checks of captured scenes: conversion records, both sides' predictions and scores, and the sim-to-real report."""

from __future__ import annotations

from pathlib import Path

from common.errors import InputError
from common.files import parse, read_text, read_yaml
from common.hashing import content_hash, table_hash
from emma.audit.verify.base import AGGREGATED, RESCORED, Check
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.captures.records import CaptureScores, SimToRealReport
from emma.captures.report import report_text, sim_to_real_report
from emma.captures.scoring import board_record, capture_spec, predict_sides, read_sides, scored, unscored
from emma.captures.settings import CaptureSet
from emma.data.embeddings import Embeddings
from emma.data.folds import stored_schema
from emma.data.labels import label_field, read_labels
from emma.data.release import split_record
from emma.data.scenes import read_index, read_labelled
from emma.data.tables import metadata_of, read_table
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.results.layout import Layout
from emma.version import HARNESS_VERSION


def capture_sets(results: Results) -> dict[str, CaptureSet]:
    """The sets that the sim-to-real report declares, by name; none where there is no report."""
    report = results.sim_to_real()
    return {} if report is None else {name: about.declared for name, about in report.sets.items()}


def capture_pairs(results: Results) -> list[tuple[str, str]]:
    """(set, model) of everything that the report scores."""
    report = results.sim_to_real()
    return [] if report is None else [(name, model) for model, gaps in report.models.items() for name in gaps.sets]


def capture_files(results: Results) -> set[str]:
    """Files that the report rests on, by their name below the root."""
    sets = capture_sets(results)
    layout = Layout("")
    report = results.gap_report.relative_to(results.root)
    paths = {report, report.with_suffix(".md")} if sets else set()
    for name, declared in sets.items():
        paths |= {layout.conversion(name), layout.capture_index(name), layout.capture_labels(name)}
        if declared.matched:
            paths |= {layout.twin_index(name, split) for split in Layout.twin_splits}
            paths |= {layout.twin_labels(name, split) for split in Layout.twin_splits}
    for name, model in capture_pairs(results):
        paths.add(layout.capture_metrics(name, model))
        hashes = results.capture(name, model).hashes or {}
        paths |= {layout.capture_predictions(name, model, side) for side in hashes}
    return {path.as_posix() for path in paths}


class Captures(Check):
    """Every conversion record and score on captured scenes follows from its indexes, embeddings and predictions."""

    name = "captured scenes"

    def run(self, results: Results) -> None:
        """Hash the records, rescore the predictions, and fit again where the embeddings are there."""
        sets = capture_sets(results)
        if not sets:
            self.note = "none configured"
            return
        for name, declared in sets.items():
            path = results.layout.conversion(name)
            with self.item(path):
                self._record(results, path, declared)
            self._declared(results, name, declared)
        fitted = 0
        for name, model in capture_pairs(results):
            path = results.layout.capture_metrics(name, model)
            with self.item(path):
                fitted += self._scores(results, path, sets[name], model)
            if not results.layout.capture_embeddings(name, model).is_file():
                self.miss("tables of embeddings of captured scenes not at hand", Level.RESCORED)
        self.note = f"{fitted} fitted again"

    def _record(self, results: Results, path: Path, declared: CaptureSet) -> None:
        record = results.conversion(declared.name)
        label = label_field(results.manifest().spec(declared.task))
        index = read_index(results.layout.capture_index(declared.name))
        labels = read_labels(results.layout.capture_labels(declared.name), label)
        expected = {
            "record_sha256": content_hash(record.model_dump(mode="json", exclude={"record_sha256"})),
            "sessions": len(set(index["session"].to_pylist())),
            **split_record(index, labels).model_dump(),
        }
        self.compare(path, {key: getattr(record, key) for key in expected}, expected)

    def _declared(self, results: Results, name: str, declared: CaptureSet) -> None:
        """Compare what the report says of a set, its kind first, with the project's config where that is at hand."""
        config = results.project and results.project / "config" / "captures" / f"{name}.yaml"
        report = results.gap_report
        if config is not None and config.is_file():
            with self.item(report):
                expected = parse(CaptureSet, read_yaml(config), config)
                self.compare(f"{report} (against {config})", {"declared": declared}, {"declared": expected})

    def _scores(self, results: Results, path: Path, declared: CaptureSet, model: str) -> bool:
        """Whether the readout could be fit again."""
        record = results.capture(declared.name, model)
        layout = results.layout
        held = layout.capture_embeddings(declared.name, model)
        embeddings = Embeddings.read(held) if held.exists() else None
        board = board_record(declared, lambda: results.run(model))
        if embeddings is not None:
            if reason := unscored(embeddings, board):
                self.compare(path, record.undefined_reason, reason)
            self.compare(held, embeddings.provenance, results.run(model).run_manifest.model_provenance)
        self._made(results, path, declared, model)
        if record.hashes is None:
            return False
        manifest = results.manifest()
        spec = capture_spec(manifest.spec(declared.task), declared)
        tables = {}
        for side, wanted in record.hashes.items():
            where = layout.capture_predictions(declared.name, model, side)
            tables[side] = read_table(where, stored_schema(where, PREDICTION_SCHEMA))
            self.compare(where, table_hash(tables[side]), wanted)
            self.compare(where, metadata_of(tables[side]).get("data_release_hash"), results.release_hash())
        label = label_field(manifest.spec(declared.task))
        index = read_labelled(results.layout.capture_index(declared.name), label)
        again = scored(spec, declared, manifest, tables, index, board, results.seed())
        self.compare(path, {key: getattr(record, key) for key in CaptureScores.model_fields}, again, RESCORED)
        own = layout.embeddings(model, declared.task)
        if embeddings is None or (declared.twin == "release" and not own.is_file()):
            return False
        sides = read_sides(manifest, declared, layout, model, embeddings)
        for side, table in predict_sides(spec, declared, sides, results.seed()).items():
            where = layout.capture_predictions(declared.name, model, side)
            self.compare(where, tables[side] and table_hash(tables[side]), table_hash(table))
        return True

    def _made(self, results: Results, path: Path, declared: CaptureSet, model: str) -> None:
        """Compare what a score says of its making with release, conversion and run."""
        record = results.capture(declared.name, model)
        expected = {
            "model": model,
            "set": declared.name,
            "task": declared.task,
            "data_release_hash": results.release_hash(),
            "eval_split": results.eval_split().value.lower(),
            "seed": results.seed(),
            "harness_version": HARNESS_VERSION,
            "record_sha256": results.conversion(declared.name).record_sha256,
            "model_provenance": results.run(model).run_manifest.model_provenance,
        }
        self.compare(path, {key: getattr(record, key) for key in expected}, expected)


class GapReport(Check):
    """The sim-to-real report follows from the scores on captured scenes, and the board shows what the report says."""

    name = "sim-to-real report"

    def run(self, results: Results) -> None:
        """Build the report again, and compare the board's blocks with it."""
        path = results.gap_report
        rows = results.document(results.layout.board)["models"]
        shown = {row["model"]: row["sim_to_real"] for row in rows}
        report = results.sim_to_real()
        if report is None:
            self.note = "not built"
            if models := sorted(model for model, block in shown.items() if block is not None):
                self.fault(path, f"no such file, although the board shows a gap of {models[0]}")
            return
        with self.item(path):
            self.compare(path, results.document(path), self._again(results), AGGREGATED)
        table = path.with_suffix(".md")
        with self.item(table):
            if read_text(table) != report_text(report):
                self.fault(table, "differs from sim_to_real.json")
        board = results.layout.board
        with self.item(board):
            blocks = {model: gaps.block for model, gaps in report.models.items()}
            expected = {model: blocks.get(model) for model in shown}
            self.compare(board, {"sim_to_real": shown}, {"sim_to_real": expected})

    @staticmethod
    def _again(results: Results) -> SimToRealReport:
        sets = {name: (declared, results.conversion(name)) for name, declared in capture_sets(results).items()}
        records = [results.capture(*pair) for pair in capture_pairs(results)]
        report = results.sim_to_real()
        models = [] if report is None else list(report.models)
        if missing := [model for model in models if model not in results.run_files()]:
            raise InputError(f"{results.root}: reports/sim_to_real.json: {missing[0]} has no run record")
        scores = {model: {task: block.score for task, block in results.run(model).tasks.items()} for model in models}
        return sim_to_real_report(results.manifest(), sets, records, scores, results.eval_split(), results.seed())
