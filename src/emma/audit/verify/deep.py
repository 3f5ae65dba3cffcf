"""Deep checks, on a sample: rays and scenes made again from the recipe, fits made again from their embeddings."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from common.errors import InputError
from emma.audit.verify.base import Check
from emma.audit.verify.draws import Draw
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.audit.verify.samples import Samples
from emma.data.folds import row_keys
from emma.data.labels import plain_values
from emma.data.reference import reference_of
from emma.data.samples import convert, iq_hashes, revert
from emma.data.scenes import Columns, SceneChunk, index_table, iterate_scenes
from emma.data.tables import check_schema, open_parquet, row_groups
from emma.evaluation.fitting import fit_fold
from emma.evaluation.refits import refit_keys
from emma.tasks import Split, TaskID, TaskSpec, target_of

#: Differences allowed where floating point differs between machines: of samples relative to the largest in the scene,
#: of refitted predictions as ``Target.distance`` measures them (degrees or relative).
SAMPLES, REFITTED = 1e-4, 1e-3

#: A chunk made again: task, split, number of the chunk's first scene in the split, and the scenes.
Chunk = tuple[TaskID, Split, int, SceneChunk]


class Regenerated(Check):
    """Sampled scenes, made again from the recipe, are the frozen ones: the same bits, or within SAMPLES elsewhere.

    Args:
        chunks: makes sampled chunks again; the generator is no part of this package.
        samples: takes scenes whose file is not at hand, to be embedded again.
    """

    name: ClassVar[str] = "scenes from the recipe"

    def __init__(self, chunks: Callable[[Results], Iterator[Chunk]], samples: Samples | None = None) -> None:
        super().__init__()
        self.chunks, self.samples = chunks, samples

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
                if self.samples is not None and not path.is_file():
                    rows = results.index(task, split).slice(start, len(iq))
                    # As a file of scenes says it.
                    rows = rows.replace_schema_metadata(chunk.reference.metadata if chunk.reference else None)
                    self.samples.made((task.value, split.value), start, rows, revert(stored))
        self.note = f"{identical} chunks bit for bit"
        if results.eval_split() is Split.HOLDOUT:
            self.miss("scenes of the secret split not made again", Level.REPRODUCED)

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


class Rays(Check):
    """Tables of rays that are at hand are those of the recipe: the same, or within SAMPLES elsewhere.

    Args:
        rays: makes the tables of TRAIN and DEV again, by split; the generator is no part of this package.
    """

    name: ClassVar[str] = "rays from the recipe"

    def __init__(self, rays: Callable[[Results], Mapping[Split, pa.Table]]) -> None:
        super().__init__()
        self.rays = rays

    def run(self, results: Results) -> None:
        """Compare every column."""
        for split, expected in self.rays(results).items():
            path = results.layout.channels(split)
            if not path.is_file():
                continue
            with self.item(path):
                with open_parquet(path) as file:
                    check_schema(path, file.schema_arrow, expected.schema)
                    actual = pa.concat_tables(row_groups(path, file)).select(expected.column_names)
                if actual.num_rows != expected.num_rows:
                    raise InputError(
                        f"{path}: {actual.num_rows} links, expected {expected.num_rows} as the recipe gives"
                    )
                for name in expected.column_names:
                    if not _alike(actual[name], expected[name]):
                        self.fault(path, f"{name}: differs from what the recipe gives")


class Refitted(Check):
    """Sampled folds, fit again on their embeddings, give the predictions.

    Args:
        draw: which folds are fit again.
        share: every how many folds one is.
    """

    name = "fits from embeddings"

    def __init__(self, draw: Draw, share: int = 4) -> None:
        super().__init__()
        self.draw, self.share = draw, share

    def run(self, results: Results) -> None:
        """Fit and compare."""
        for key in results.model_folds():
            model, task, protocol, value = key
            if not self.draw.takes(self.share, *key) or not results.layout.embeddings(model, task).is_file():
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


def _alike(actual: pa.ChunkedArray, expected: pa.ChunkedArray) -> bool:
    """Whether two columns of one type hold the same, numbers and numbers in lists within SAMPLES."""
    if actual.equals(expected):
        return True
    if pa.types.is_list(expected.type):
        lengths = [pc.list_value_length(column) for column in (actual, expected)]
        return lengths[0].equals(lengths[1]) and _alike(pc.list_flatten(actual), pc.list_flatten(expected))
    if not pa.types.is_floating(expected.type):
        return False
    one, other = (np.asarray(column, dtype=float) for column in (actual, expected))
    return bool(np.allclose(one, other, rtol=SAMPLES, atol=SAMPLES * 1e-3, equal_nan=True))
