"""Scenes that backbones embed again: drawn ones, or all, as files that their processes read."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from emma.audit.verify.captures import capture_sets
from emma.audit.verify.draws import Draw
from emma.audit.verify.results import Results
from emma.backbones.base import IQ
from emma.captures.settings import CaptureSet
from emma.data.scenes import iterate_scenes
from emma.data.tables import open_parquet
from emma.results.layout import Layout
from emma.tasks import Split, TaskID

#: Scenes of a file that are drawn: where a share f of its rows is forged, (1 - f)^64 is the chance to miss all.
DRAWN = 64

#: What scenes belong to: a task or a capture set, and a split of it.
Place = tuple[str, str]


class Part(NamedTuple):
    """Scenes in a file of pickled (index rows, complex64 ``[n, A, T]``), and their ids."""

    path: Path
    ids: pa.ChunkedArray

    def read(self) -> tuple[IQ, pa.Table]:
        """The scenes, complex64 ``[n, A, T]``, and their index rows; this process wrote the file."""
        index, iq = pickle.loads(self.path.read_bytes())
        return iq, index


class Samples:
    """Scenes to embed again by their place.

    Args:
        draw: which ones.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self._folder = tempfile.TemporaryDirectory(prefix="emma-")
        self._parts: dict[Place, list[Part]] = {}
        self._first: dict[Place, tuple[pa.Table, IQ]] = {}
        self._written = 0

    def add(self, place: Place, index: pa.Table, iq: IQ) -> None:
        """Keep scenes of a place, complex64 ``[n, A, T]``, with the columns of their index."""
        path = Path(self._folder.name) / f"{self._written}.part"
        self._written += 1
        path.write_bytes(pickle.dumps((index, iq)))
        self._parts.setdefault(place, []).append(Part(path, index["scene_id"]))

    def made(self, place: Place, start: int, index: pa.Table, iq: IQ) -> None:
        """Keep what is drawn of a chunk that was made again, and all of a place's first one."""
        rows = self.draw.rows(len(iq), DRAWN, *place, str(start))
        self.add(place, index.take(rows), iq[rows])
        if start == 0:
            self._first[place] = index, iq

    def first(self, place: Place, path: Path) -> tuple[pa.Table, IQ] | None:
        """The first chunk of a place's scenes, from its file or made again; None where there is neither."""
        return next(iterate_scenes(path, verify=False)) if path.is_file() else self._first.get(place)

    def has(self, place: Place, path: Path) -> bool:
        """Whether a place's scenes are at hand or were made again."""
        return place in self._parts or path.is_file()

    def of(self, place: Place, path: Path) -> list[Part]:
        """The scenes of a place: those of its file, or, without one, what was made again; none where neither is."""
        if place not in self._parts and path.is_file():
            self._read(place, path)
        return self._parts.get(place, [])

    def drop(self, place: Place) -> None:
        """Remove a place's files."""
        for part in self._parts.pop(place, []):
            part.path.unlink()

    def _read(self, place: Place, path: Path) -> None:
        with open_parquet(path) as file:
            wanted = self.draw.rows(file.metadata.num_rows, DRAWN, *place)
        start, kept = 0, []
        for index, iq in iterate_scenes(path, verify=False):
            rows = wanted[(wanted >= start) & (wanted < start + len(iq))] - start
            start += len(iq)
            if self.draw.every:
                self.add(place, index, iq)
            elif len(rows):
                kept.append((index.take(rows), iq[rows]))
        if kept:
            self.add(place, pa.concat_tables([index for index, _ in kept]), np.concatenate([iq for _, iq in kept]))


class Wanted(NamedTuple):
    """A table of embeddings of a model, and the places of its scenes with their files."""

    path: Path
    task: TaskID
    captured: CaptureSet | None
    scenes: dict[Place, Path]


def tables_of(results: Results, model: str) -> Iterator[Wanted]:
    """Every table of a model's embeddings, of tasks and of capture sets."""
    layout = results.layout
    for task in results.tasks_of(model):
        splits = (Split.TRAIN, results.eval_split())
        scenes = {(task.value, split.value): layout.scenes(task, split) for split in splits}
        yield Wanted(layout.embeddings(model, task), task, None, scenes)
    report = results.sim_to_real()
    own = report.models[model].sets if report is not None and model in report.models else {}
    for name, declared in capture_sets(results).items():
        if name not in own:
            continue
        files = {(name, "captured"): layout.capture_scenes(name)}
        if declared.matched:
            files |= {(name, split): layout.twin_scenes(name, split) for split in Layout.twin_splits}
        yield Wanted(layout.capture_embeddings(name, model), declared.task, declared, files)
