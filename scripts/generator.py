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
from rfgen.recipe import Recipe
from rfgen.scenes import generate


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
