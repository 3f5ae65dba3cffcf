"""Checks of the folds: splits, guards, embeddings, predictions and the readouts that made them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from common.doors import read_bytes
from common.errors import InputError
from common.hashing import sha256, table_hash
from emma.audit.verify.base import Check
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.backbones.load import load_weights
from emma.data.folds import fold_metadata
from emma.data.guards import guard_fold
from emma.data.release import read_assigned
from emma.data.tables import metadata_of
from emma.evaluation.fitting import predictions_hash, query_fault
from emma.evaluation.prediction import query_scores
from emma.evaluation.refits import refits_hash
from emma.readouts import load_readout
from emma.tasks import Split, TaskID, TaskSpec, target_of
from emma.version import HARNESS_VERSION

#: Difference between a prediction and the readout applied again, in units of the largest score (degrees: absolute).
REAPPLIED = 1e-7


class Splits(Check):
    """Every fold is the one that its protocol builds from the frozen indexes."""

    name = "splits"

    def run(self, results: Results) -> None:
        """Build each fold again and compare content."""
        for task in results.tasks:
            for protocol, value in results.folds(task):
                path = results.layout.side(task, protocol, value, "train").parent
                with self.item(path):
                    actual = results.fold(task, protocol, value)
                    expected = results.rebuilt(task, protocol, value)
                    for side in ("train", "eval"):
                        one, other = getattr(actual, side), getattr(expected, side)
                        where = path / f"{side}.parquet"
                        if table_hash(one) != table_hash(other):
                            self.fault(where, f"{_differing(one, other)} than {protocol} gives")
                    for field in ("undefined_reason", "eval_split", "draw_seed"):
                        one, other = getattr(actual, field), getattr(expected, field)
                        if one != other:
                            self.fault(path / "eval.parquet", f"{field}: {one}, expected {other}")


class Guards(Check):
    """No fold as written lets a scene, its samples or its propagation link stand on both sides."""

    name = "guards"

    def run(self, results: Results) -> None:
        """Run the harness's guards again on every fold as written."""
        for task in results.tasks:
            paths = [results.layout.index(task, split) for split in (Split.TRAIN, results.eval_split())]
            with self.item(paths[0].parent):
                splits = (Split.TRAIN, results.eval_split())
                assigned = [
                    read_assigned(results.manifest(), task, split, path)
                    for split, path in zip(splits, paths, strict=True)
                ]
                for protocol, value in results.folds(task):
                    path = results.layout.side(task, protocol, value, "train").parent
                    with self.item(path):
                        fold = results.fold(task, protocol, value)
                        try:
                            guard_fold(results.protocols(task)[protocol], fold, *assigned)
                        except InputError as error:
                            self.fault(path, str(error))


class EmbeddingTables(Check):
    """Embeddings hold every scene of TRAIN and the evaluation split once, and name the model of the run."""

    name = "embeddings"

    def run(self, results: Results) -> None:
        """Compare ids with the indexes, and provenance with the run record."""
        for model in results.models():
            for task in [] if results.is_submitted(model) else results.tasks_of(model):
                path = results.layout.embeddings(model, task)
                if not path.exists():
                    self.miss("tables of embeddings not at hand", Level.RESCORED)
                    continue
                with self.item(path):
                    embeddings = results.embeddings(model, task)
                    expected = pa.concat_arrays(
                        chunk
                        for split in (Split.TRAIN, results.eval_split())
                        for chunk in results.index(task, split)["scene_id"].chunks
                    )
                    if not embeddings.ids.combine_chunks().equals(expected):
                        self.fault(path, "scene_id: expected the scenes of the indexes, in their order")
                    provenance = results.run(model).run_manifest.model_provenance
                    self.compare(path, {"model_provenance": embeddings.provenance}, {"model_provenance": provenance})


class Predictions(Check):
    """Every bundle holds its fold's queries and frozen targets, and is of this release and this model."""

    name = "predictions"

    def run(self, results: Results) -> None:
        """Compare rows with the rebuilt fold, metadata with manifest and run, and the hash with the metrics file."""
        for model, task, protocol, value in results.model_folds():
            key = (model, task, protocol, value)
            path = results.layout.predictions(*key)
            with self.item(path):
                table = results.predictions(*key)
                metadata = metadata_of(table)
                fold = results.rebuilt(task, protocol, value)
                expected = fold_metadata(fold, results.release_hash())
                for field in ("data_release_hash", "undefined_reason", "eval_split", "draw_seed"):
                    if metadata.get(field) != expected.get(field):
                        self.fault(path, f"{field}: expected {expected.get(field)}, found {metadata.get(field)}")
                if fault := query_fault(table, fold.eval.slice(0, 0) if fold.undefined_reason else fold.eval):
                    self.fault(path, fault)
                provenance = results.run(model).run_manifest.model_provenance
                self.compare(path, {"model_provenance": results.provenance(*key)}, {"model_provenance": provenance})
                target_of(results.manifest().tasks[task]).read(table["scores"], path)
                self._metrics(results, key, table)

    def _metrics(self, results: Results, key: tuple[str, TaskID, str, str], table: pa.Table) -> None:
        model, task, protocol, value = key
        path = results.layout.metrics(*key)
        record = results.metrics(*key)
        expected = {
            "model": model,
            "task": task,
            "protocol": protocol,
            "held_out_value": value,
            "data_release_hash": results.release_hash(),
            "seed": results.seed(),
            "harness_version": HARNESS_VERSION,
            "eval_split": results.eval_split().value.lower(),
            "model_provenance": results.run(model).run_manifest.model_provenance,
        }
        self.compare(path, {name: getattr(record, name) for name in expected}, expected)
        if record.hashes.predictions != predictions_hash(table):
            actual = record.hashes.predictions
            self.fault(path, f"hashes.predictions: {actual} is not the hash of predictions.parquet beside it")


class Readouts(Check):
    """Every readout is within its pinned capacity and, applied again to the embeddings, gives the predictions."""

    name = "readouts"

    def run(self, results: Results) -> None:
        """Hash, load and apply each readout."""
        reapplied, submitted = 0, set()
        for key in results.model_folds():
            model, task, protocol, value = key
            if results.is_submitted(model):
                submitted.add(model)
                continue
            path = results.layout.readout(*key)
            with self.item(path):
                if not path.is_file():
                    raise InputError(f"{path}: no such file")
                expected = results.metrics(*key).hashes.readout
                if sha256(read_bytes(path)) != expected:
                    self.fault(path, f"its SHA-256 is not hashes.readout of metrics.json, {expected}")
                beside = results.layout.refits(*key)
                if refits_hash(results.refits(*key)) != results.metrics(*key).hashes.refits:
                    self.fault(beside, "its content hash is not hashes.refits of metrics.json")
                tensors, _ = load_weights(path)
                if results.rebuilt(task, protocol, value).undefined_reason is not None:
                    continue
                spec = results.manifest().tasks[task]
                self._capacity(path, spec, tensors)
                if results.layout.embeddings(model, task).exists():
                    reapplied += 1
                    self._reapply(results, key, spec, tensors)
        self.note = f"{reapplied} applied again"
        # Such a row says on the board that it is submitted: nothing below its predictions was ever claimed.
        if submitted:
            alone = Level.RESCORED if submitted == set(results.models()) else None
            self.miss("submitted rows, below their predictions", alone, len(submitted))

    def _capacity(self, path: Path, spec: TaskSpec, tensors: dict[str, np.ndarray]) -> None:
        readout = load_readout(spec, tensors)
        width = len(tensors["mean"])
        if width > spec.readout.max_embedding_dim or readout.parameters(width) > spec.readout.max_parameters:
            self.fault(path, f"{readout.parameters(width)} parameters for width {width}, over the pinned capacity")

    def _reapply(
        self, results: Results, key: tuple[str, TaskID, str, str], spec: TaskSpec, tensors: dict[str, np.ndarray]
    ) -> None:
        model, task, _, _ = key
        path = results.layout.predictions(*key)
        table = results.predictions(*key)
        actual = target_of(spec).read(table["scores"], path)
        expected = query_scores(load_readout(spec, tensors), results.embeddings(model, task), table)
        distance = target_of(spec).distance(actual, expected)
        if not distance <= REAPPLIED:
            self.fault(
                path, f"scores: differ by {distance:.1e} from the readout beside them, applied to the embeddings"
            )


def _differing(actual: pa.Table, expected: pa.Table) -> str:
    lost = set(expected["scene_id"].to_pylist()) - set(actual["scene_id"].to_pylist())
    foreign = set(actual["scene_id"].to_pylist()) - set(expected["scene_id"].to_pylist())
    return f"other content ({len(lost)} scenes missing, {len(foreign)} foreign)"
