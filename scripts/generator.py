"""Where the generator and the benchmark meet for the audit: HOLDOUT splits from a seed, and single chunks again."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from emma.files import InputError, parse
from emma.hashing import table_hash
from emma.release import DataReleaseManifest, ReleaseConfig, SplitRecord
from emma.scenes import read_index, write_scenes
from emma.tasks import Split
from emma.verify import Results
from emma.verify.deep import Chunk
from rfgen.recipe import Recipe
from rfgen.scenes import chunk_keys, generate


def holdout_splits(release: ReleaseConfig | DataReleaseManifest, source: Path, seed: str) -> Iterator[tuple]:
    """Pairs of task and SplitRecord of the HOLDOUT split that a seed makes; the scenes themselves are not kept."""
    recipe = parse(Recipe, release.rfgen, f"{source}: rfgen")
    rays = rays_of(recipe, Split.HOLDOUT, seed, source)
    with tempfile.TemporaryDirectory() as folder:
        scenes, path = Path(folder) / "scenes.parquet", Path(folder) / "index.parquet"
        for task in release.tasks:
            chunks = generate(recipe, task.value, Split.HOLDOUT.value, rays, seed)
            write_scenes(scenes, path, ((chunk.iq, chunk.metadata) for chunk in chunks))
            index = read_index(path)
            yield task, SplitRecord(scenes=index.num_rows, index_hash=table_hash(index))


def rays_of(recipe: Recipe, split: str, seed: int | str, source: Path) -> pa.Table:
    """The ray table of a split; InputError where the recipe allows none."""
    from rfgen.channels import split_table

    try:
        return split_table(recipe, str(split), seed)
    except ValueError as error:
        raise InputError(f"{source}: rfgen: {error}") from None


def sampled_chunks(results: Results, count: int = 2) -> Iterator[Chunk]:
    """``count`` chunks of every task's DEV split, first and last among them, made again from the recipe."""
    manifest = results.manifest()
    source = results.path("release", "manifest.json")
    recipe = parse(Recipe, manifest.rfgen, f"{source}: rfgen")
    rays = rays_of(recipe, Split.DEV, manifest.seed, source)
    for task in manifest.tasks:
        keys = chunk_keys(recipe, task.value, Split.DEV.value)
        places = sorted({round(number * (len(keys) - 1) / max(count - 1, 1)) for number in range(count)})
        chosen = [keys[place] for place in places]
        chunks = generate(recipe, task.value, Split.DEV.value, rays, manifest.seed, chunk_keys=chosen)
        for place, chunk in zip(places, chunks, strict=True):
            yield task, Split.DEV, place * len(chunk.iq), chunk.iq, chunk.metadata
