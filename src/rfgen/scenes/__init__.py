"""Scenes of every task, in chunks of a fixed size whose random streams are named by what they are, not by order.

A task is one class in one module of this package: importing it registers the class (`rfgen.scenes.base.SceneTask`), so
that a new file adds a task and nothing else is edited.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from common.errors import advice
from common.streams import Seed
from rfgen.physics.propagation import Links, links_from_table
from rfgen.physics.types import Floats
from rfgen.scenes import base
from rfgen.scenes.base import POOL, SCORED_SPLITS, SPLITS, Chunk, ChunkKey, SceneRecipe, SceneTask, Split

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

    Rays: TypeAlias = pa.Table | Dataset

__all__ = [
    "POOL",
    "SCORED_SPLITS",
    "SPLITS",
    "TASKS",
    "Chunk",
    "ChunkKey",
    "SceneTask",
    "Split",
    "chunk_keys",
    "generate",
    "truths",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")

#: Chunks whose rays are in memory together.
_CHUNKS = 25

#: Classes of the tasks by task name.
TASKS: Mapping[str, type[SceneTask]] = MappingProxyType(base._TASKS)


def chunk_keys(recipe: SceneRecipe, task: str, split: Split) -> list[ChunkKey]:
    """Keys of a task's chunks in a split, in the order that `generate` makes them.

    (environment, band, number) for tasks with links, (session, band, number) for E-ID-FP, where a chunk holds every
    unit, and (regime, band, number) for E-ID-AMC. ValueError for a task that the recipe lacks.
    """
    return _task(recipe, task).chunk_keys(recipe, split)


def generate(
    recipe: SceneRecipe,
    task: str,
    split: Split,
    rays: Rays | None,
    seed: Seed,
    *,
    chunk_keys: Sequence[ChunkKey] | None = None,
) -> Iterator[Chunk]:
    """Chunks of a task's scenes in a split; all of them, or those of `chunk_keys` in the order given.

    `rays` is the split's ray table (`rfgen.channels.split_table`), or a dataset of its file, which tasks with links
    need and the others ignore. `seed` is the release seed, for HOLDOUT the secret one. Scenes are bit-identical for one
    seed, recipe, lock and kind of machine, whatever the order, the number of threads or the other chunks made.
    ValueError for a key that is not one of the task's or a ray table that lacks the chunk's links.
    """
    keys, own = _keys(recipe, task, split, chunk_keys), recipe.tasks[task]
    return (own.make(recipe, task, split, key, seed, links) for key, links in _placed(recipe, task, split, keys, rays))


def truths(
    recipe: SceneRecipe,
    task: str,
    split: Split,
    rays: Rays | None,
    seed: Seed,
    *,
    chunk_keys: Sequence[ChunkKey] | None = None,
) -> Iterator[Floats]:
    """Features of the true parameters of the scenes that `generate` makes of the same arguments, chunk by chunk.

    Float64 `[n, D]` in the order of the chunk's scenes (`SceneTask.truth`). ValueError as in `generate`,
    NotImplementedError for a task that states no truth.
    """
    keys, own = _keys(recipe, task, split, chunk_keys), recipe.tasks[task]
    return (own.truth(recipe, task, split, key, seed, links) for key, links in _placed(recipe, task, split, keys, rays))


def _keys(recipe: SceneRecipe, task: str, split: Split, asked: Sequence[ChunkKey] | None) -> list[ChunkKey]:
    """Keys of all chunks, or of those asked for; ValueError for one that is not the task's."""
    known = _task(recipe, task).chunk_keys(recipe, split)
    keys = known if asked is None else list(asked)
    valid = set(known)
    for key in keys:
        if key not in valid:
            raise ValueError(f"chunk_keys: {key!r} is not a chunk of {task} in {split}")
    return keys


def _task(recipe: SceneRecipe, task: str) -> SceneTask:
    if task not in recipe.tasks:
        raise ValueError(f"task {task}: {advice(task, recipe.tasks)}")
    return recipe.tasks[task]


def _placed(
    recipe: SceneRecipe, task: str, split: Split, keys: Iterable[ChunkKey], rays: Rays | None
) -> Iterator[tuple[ChunkKey, Links | None]]:
    """Each key with the links of its chunk; None for a task that needs none."""
    own, place, table = recipe.tasks[task], None, pa.table({})
    for key in keys:
        links: Links | None = None
        if own.needs_links:
            group, band, number = key
            # Chunks of one environment and band follow one another, so that rows of many are looked up at once.
            if (block := (group, band, number // _CHUNKS)) != place:
                first = block[2] * _CHUNKS * own.chunk
                span = first, first + _CHUNKS * own.chunk
                place, table = block, _rows(rays, span, task=task, split=split, environment=str(group), band=band)
            rows = table.slice(number % _CHUNKS * own.chunk, own.chunk)
            if rows.num_rows != own.chunk:
                raise ValueError(f"rays: no rows for chunk {key!r} of {task} in {split}, expected {own.chunk}")
            links = links_from_table(rows)
        yield key, links


def _rows(rays: Rays | None, span: tuple[int, int], **wanted: str) -> pa.Table:
    """Rows of rays that have the values wanted and an index within the span, in its order."""
    if rays is None:
        raise ValueError(f"rays: expected the ray table of {wanted['split']} for {wanted['task']}, got none")
    for column in ("index", *wanted):
        if column not in rays.schema.names:
            raise ValueError(f"rays: no column {column}, expected a table of rays")
    chosen = (pc.field("index") >= span[0]) & (pc.field("index") < span[1])
    for column, value in wanted.items():
        chosen &= pc.field(column) == value
    found = rays.filter(chosen) if isinstance(rays, pa.Table) else rays.to_table(filter=chosen, use_threads=False)
    return found.sort_by("index")
