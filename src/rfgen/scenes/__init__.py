"""Scenes of the five tasks, in chunks of a fixed size whose random streams are named by what they are, not by order."""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from common.streams import Seed
from rfgen.propagation import links_from_table
from rfgen.recipe import LOCALISATION, WITH_LINKS, Recipe, counts
from rfgen.scenes import drone, fingerprint, localisation, modulation
from rfgen.scenes.common import Chunk

__all__ = ["Chunk", "chunk_keys", "class_names", "generate"]


def class_names(recipe: Recipe, task: str) -> tuple[str, ...]:
    """Class names of a task in the order of its label numbers; empty for E-LOC-AOA, whose label is an angle."""
    if task == "E-LOC-AOA":
        return ()
    if task == "E-LOC-LOS":
        return ("NLOS", "LOS")
    if task == "E-ID-DRONE":
        return ("absent", "present")
    return recipe.tasks[task].units if task == "E-ID-FP" else recipe.tasks[task].classes


def chunk_keys(recipe: Recipe, task: str, split: str) -> list[tuple]:
    """Keys of a task's chunks in a split, in the order that `generate` makes them.

    (environment, band, number) for tasks with links, (session, band, number) for E-ID-FP, where a chunk holds every
    unit, and (regime, band, number) for E-ID-AMC. ValueError for a task that the recipe lacks.
    """
    if task not in recipe.tasks:
        raise ValueError(f"task {task}: expected one of {', '.join(recipe.tasks)}")
    params = recipe.tasks[task]
    numbers = range(counts(params).get(split, 0) // params.chunk)
    if task in WITH_LINKS:
        outer = tuple(recipe.environments_in(task, split))
    elif task == "E-ID-FP":
        outer = tuple(range(params.sessions))
    else:
        outer = tuple(modulation.regimes(recipe, split))
    return [(value, band, number) for value in outer for band in recipe.bands_in(task, split) for number in numbers]


def generate(
    recipe: Recipe,
    task: str,
    split: str,
    rays: pa.Table | None,
    seed: Seed,
    *,
    chunk_keys: Sequence[tuple] | None = None,
) -> Iterator[Chunk]:
    """Chunks of a task's scenes in a split; all of them, or those of `chunk_keys` in the order given.

    `rays` is the split's ray table (`rfgen.channels.split_table`), which tasks with links need and the others ignore.
    `seed` is the release seed, for HOLDOUT the secret one. Scenes are bit-identical for one seed, recipe, lock and kind
    of machine, whatever the order, the number of threads or the other chunks made. ValueError for a key that is not one
    of the task's or a ray table that lacks the chunk's links.
    """
    known = globals()["chunk_keys"](recipe, task, split)
    keys = known if chunk_keys is None else [tuple(key) for key in chunk_keys]
    valid = set(known)
    for key in keys:
        if key not in valid:
            raise ValueError(f"chunk_keys: {key!r} is not a chunk of {task} in {split}")
    return _chunks(recipe, task, split, keys, rays=rays, seed=seed)


def _chunks(
    recipe: Recipe, task: str, split: str, keys: Iterable[tuple], *, rays: pa.Table | None, seed: Seed
) -> Iterator[Chunk]:
    tables: dict[tuple, pa.Table] = {}
    for key in keys:
        if task not in WITH_LINKS:
            make = fingerprint.make if task == "E-ID-FP" else modulation.make
            yield make(recipe, split, key, seed)
            continue
        place = key[:2]
        if place not in tables:
            tables = {place: _rows(rays, task=task, split=split, environment=place[0], band=place[1])}
        size = recipe.tasks[task].chunk
        rows = tables[place].slice(key[2] * size, size)
        if rows.num_rows != size:
            raise ValueError(f"rays: no rows for chunk {key!r} of {task} in {split}, expected {size}")
        make = localisation.make if task in LOCALISATION else drone.make
        yield make(recipe, task, split, key, links=links_from_table(rows), seed=seed)


def _rows(rays: pa.Table | None, **wanted: str) -> pa.Table:
    if rays is None:
        raise ValueError(f"rays: expected the ray table of {wanted['split']} for {wanted['task']}, got none")
    mask = None
    for column, value in wanted.items():
        if column not in rays.column_names:
            raise ValueError(f"rays: no column {column}, expected a table of rays")
        equal = pc.equal(rays.column(column), value)
        mask = equal if mask is None else pc.and_(mask, equal)
    return rays.filter(mask).sort_by("index")
