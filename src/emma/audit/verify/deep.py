"""Deep checks, on a sample: scenes made again from the recipe, embeddings and fits made again from their inputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from common.errors import InputError
from common.hashing import sha256
from emma.audit.verify.base import Check
from emma.audit.verify.results import Results
from emma.backbones.config import config_file, load_model_config
from emma.backbones.cost import cost_of, first_batches
from emma.backbones.dense import task_contract
from emma.backbones.embed import embed_batch
from emma.backbones.load import load_backbone, weights_file
from emma.data.folds import row_keys
from emma.data.labels import plain_values
from emma.data.reference import reference_of
from emma.data.samples import convert, iq_hashes
from emma.data.scenes import Columns, SceneChunk, index_table, iterate_scenes
from emma.evaluation.fitting import fit_fold
from emma.evaluation.refits import refit_keys
from emma.tasks import Split, TaskID, TaskSpec, target_of

#: Differences allowed where floating point differs between machines: of samples and embeddings, relative to the
#: largest in the scene or row; of refitted predictions as ``Target.distance`` measures them (degrees or relative).
SAMPLES, EMBEDDED, REFITTED = 1e-4, 1e-3, 1e-3

#: The same of embeddings, where those of the results or those made again come from a GPU: its convolutions round their
#: factors to 10 bits (TF32), 5e-4 each, and add up in another order.
EMBEDDED_ON_GPU = 1e-2

#: A chunk made again: task, split, number of the chunk's first scene in the split, and the scenes.
Chunk = tuple[TaskID, Split, int, SceneChunk]


class Regenerated(Check):
    """Sampled scenes, made again from the recipe, are the frozen ones: the same bits, or within SAMPLES elsewhere.

    Args:
        chunks: makes sampled chunks again; the generator is no part of this package.
    """

    name: ClassVar[str] = "scenes from the recipe"

    def __init__(self, chunks: Callable[[Results], Iterator[Chunk]]) -> None:
        super().__init__()
        self.chunks = chunks

    def run(self, results: Results) -> None:
        """Compare ids, metadata and labels; where ids differ, samples, if they are at hand, else their hashes."""
        identical = 0
        for task, split, start, chunk in self.chunks(results):
            path, iq = results.layout.scenes(task, split), chunk.iq
            with self.item(path):
                frozen = results.labelled(task, split).slice(start, len(iq))
                stored = convert(iq)
                if index_table(path, stored, chunk.metadata)["scene_id"].equals(frozen["scene_id"]):
                    identical += 1
                elif path.is_file():
                    self._near(path, start, iq)
                elif iq_hashes(stored) != frozen["iq_sha256"].to_pylist():
                    self.fault(path, f"scenes from {start} on: other samples than the recipe gives")
                if path.is_file() and reference_of(pq.read_schema(path), path) != chunk.reference:
                    self.fault(path, "reference: another symbol than the recipe gives")
                self._columns(results.layout.index(task, split), start, frozen, chunk.metadata)
                self._columns(results.layout.labels(task, split), start, frozen, chunk.labels)
        self.note = f"{identical} chunks bit for bit"

    def _columns(self, path: Path, start: int, frozen: pa.Table, columns: Columns) -> None:
        for name in sorted({*columns} & {*frozen.column_names}):
            pairs = zip(frozen[name].to_pylist(), plain_values(columns[name]), strict=True)
            for number, (actual, expected) in enumerate(pairs, start):
                if not _same_value(actual, expected):
                    self.fault(path, f"{name}: scene {number}: {actual}, expected {expected}, as the recipe gives")
                    break

    def _near(self, path: Path, start: int, iq: np.ndarray) -> None:
        actual = np.concatenate([stored for _, stored in iterate_scenes(path, verify=False)])[start : start + len(iq)]
        if actual.shape != iq.shape:
            raise InputError(f"{path}: scenes from {start} on: expected the shape {iq.shape}, found {actual.shape}")
        distance = np.abs(actual - iq).max(axis=(1, 2)) / np.maximum(np.abs(iq).max(axis=(1, 2)), 1e-30)
        if not distance.max() <= SAMPLES:
            number = start + int(distance.argmax())
            self.fault(path, f"scene {number}: differs by {distance.max():.1e} from what the recipe gives")


class Reembedded(Check):
    """The first evaluation scenes of every task, through every backbone again, give the embeddings."""

    name = "embeddings from scenes"

    def run(self, results: Results) -> None:
        """Embed one row group per model and task."""
        absent, generated = 0, []
        for model in results.models():
            if results.is_submitted(model):
                continue
            config_path = (results.project or results.root) / "config" / "models" / f"{model}.yaml"
            if config_file(config_path).is_file() and load_model_config(config_path).truth:
                generated.append(model)
                continue
            for task in results.tasks_of(model):
                path = results.layout.embeddings(model, task)
                scenes = results.layout.scenes(task, results.eval_split())
                if not (path.is_file() and scenes.is_file() and config_file(config_path).is_file()):
                    absent += 1
                    continue
                with self.item(path):
                    config = load_model_config(config_path)
                    weights, root = results.layout.weights(model), results.project or results.root
                    if config.device == "cuda":
                        config = config.model_copy(update={"device": "auto"})
                    backbone, now = load_backbone(config, root, weights if weights.is_file() else None)
                    index, iq = next(iterate_scenes(scenes))
                    expected = embed_batch(backbone, iq, index, task_contract(config, results.manifest().tasks[task]))
                    actual = results.embeddings(model, task).of(index["scene_id"])
                    if actual.shape != expected.shape:
                        self.fault(path, f"expected width {expected.shape[1]}, found {actual.shape[1]}")
                        continue
                    devices = {now.device, results.embeddings(model, task).provenance.device}
                    allowed = EMBEDDED if devices == {"cpu"} else EMBEDDED_ON_GPU
                    if expected.size and not _relative(actual, expected) <= allowed:
                        self.fault(path, f"differs by {_relative(actual, expected):.1e} from what {model} gives")
        notes = [f"{absent} not at hand"] if absent else []
        notes += [f"{model}'s come from the generator" for model in generated]
        self.note = ", ".join(notes)


class Counted(Check):
    """What the models cost, counted again."""

    name: ClassVar[str] = "costs"

    def run(self, results: Results) -> None:
        """Load every model whose row has a cost and count on the same scenes."""
        absent, layout, root = 0, results.layout, results.project or results.root
        for model in results.costed():
            config_path = root / "config" / "models" / f"{model}.yaml"
            tasks = results.tasks_of(model)
            scenes = {task: layout.scenes(task, Split.TRAIN) for task in tasks}
            there = [*scenes.values(), *(layout.embeddings(model, task) for task in tasks), config_file(config_path)]
            if not all(path.is_file() for path in there):
                absent += 1
                continue
            path = layout.cost(model)
            with self.item(path):
                config, weights = load_model_config(config_path), layout.weights(model)
                made = weights if weights.is_file() else None
                backbone, provenance = load_backbone(config, root, made)
                trained = {
                    task: results.embeddings(model, task).of(results.labelled(task, Split.TRAIN)["scene_id"])
                    for task in tasks
                }
                batches = first_batches(scenes, config.batch_size)
                file = weights_file(config, root, made)
                contracts = {task: task_contract(config, results.manifest().tasks[task]) for task in tasks}
                again = cost_of(config, backbone, provenance, batches, trained, file, contracts)
                self.compare(path, results.document(path), again)
        self.note = f"{absent} not at hand" if absent else ""


class Refitted(Check):
    """Sampled folds, fit again on their embeddings, give the predictions.

    Args:
        share: every how many folds one is fit again; which ones depends on their names alone.
    """

    name = "fits from embeddings"

    def __init__(self, share: int = 4) -> None:
        super().__init__()
        self.share = share

    def run(self, results: Results) -> None:
        """Fit and compare."""
        for key in results.model_folds():
            model, task, protocol, value = key
            chosen = int(sha256("/".join(key).encode()), 16) % self.share == 0
            if not chosen or not results.layout.embeddings(model, task).is_file():
                continue
            path = results.layout.predictions(*key)
            with self.item(path):
                spec = results.manifest().tasks[task]
                assigned = results.labelled(task, Split.TRAIN), results.labelled(task, results.eval_split())
                fold = results.rebuilt(task, protocol, value)
                arguments = (results.protocols(task)[protocol], fold, assigned, results.embeddings(model, task))
                again = fit_fold(spec, *arguments)
                self._compare(path, spec, results.predictions(*key), again.predictions, row_keys)
                path = results.layout.refits(*key)
                self._compare(path, spec, results.refits(*key), again.refits, refit_keys)

    def _compare(
        self, path: Path, spec: TaskSpec, actual: pa.Table, again: pa.Table, keys: Callable[[pa.Table], pa.ChunkedArray]
    ) -> None:
        if keys(again).to_pylist() != keys(actual).to_pylist():
            raise InputError(f"{path}: scene_id: expected those of the fold")
        tables = [target_of(spec).read(table["scores"], path) for table in (actual, again) if actual.num_rows]
        distance = target_of(spec).distance(*tables) if tables else 0.0
        if not distance <= REFITTED:
            self.fault(path, f"scores: differ by {distance:.1e} from those of the fold fit again")


def _same_value(actual: Any, expected: Any) -> bool:
    if isinstance(actual, float) and isinstance(expected, float):
        return math.isclose(actual, expected, rel_tol=SAMPLES, abs_tol=SAMPLES)
    if isinstance(actual, list) and isinstance(expected, list):
        return len(actual) == len(expected) and all(map(_same_value, actual, expected))
    return type(actual) is type(expected) and actual == expected


def _relative(actual: np.ndarray, expected: np.ndarray) -> float:
    return float(np.abs(actual - expected).max() / max(np.abs(expected).max(), 1e-30))
