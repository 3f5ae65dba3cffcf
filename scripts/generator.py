"""Where the generator and the benchmark meet: HOLDOUT splits from a seed, single chunks again, scenes for a look."""

import contextlib
import itertools
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

import rfgen
from common.errors import InputError
from common.files import parse
from common.streams import complex_normal, stream
from emma.audit.verify import Results
from emma.audit.verify.deep import Chunk
from emma.audit.verify.draws import Draw
from emma.data.freezing import freeze
from emma.data.holdout import split_seed
from emma.data.labels import label_field, labels_beside, read_labels
from emma.data.published import PublishedRelease, published_release
from emma.data.reference import REFERENCE_START, Reference
from emma.data.release import DataReleaseManifest, ReleaseConfig, SplitRecord, split_record
from emma.data.scenes import SceneChunk, read_index, write_scenes
from emma.tasks import Split, TaskID
from rfgen.recipe import Recipe
from rfgen.scenes import chunk_keys, generate, truths


def holdout_splits(
    release: ReleaseConfig | DataReleaseManifest, source: Path, seed: str
) -> Iterator[tuple[TaskID, SplitRecord]]:
    """Pairs of task and SplitRecord of the HOLDOUT split that a seed makes; the scenes themselves are not kept."""
    for task, path in _made_split(release, source, Split.HOLDOUT, seed):
        label = label_field(release.tasks[task])
        yield task, split_record(read_index(path), read_labels(labels_beside(path), label))


def made_release(config: ReleaseConfig, source: Path, folder: Path) -> PublishedRelease:
    """Make the public splits of a release in ``folder``, freeze them, and say what is to be recorded of it."""
    paths: dict[TaskID, dict[Split, Path]] = {}
    for split in (Split.TRAIN, Split.DEV):
        for task, path in _made_split(config, source, split, config.seed, folder):
            paths.setdefault(task, {})[split] = path
    return published_release(freeze(config, paths, rfgen.__version__, rfgen.source_digest()), folder)


def _made_split(
    release: ReleaseConfig | DataReleaseManifest,
    source: Path,
    split: Split,
    seed: int | str,
    folder: Path | None = None,
) -> Iterator[tuple[TaskID, Path]]:
    """Each task with the index of its scenes in a split; without ``folder``, they go when the next task is made."""
    recipe = parse(Recipe, release.rfgen, f"{source}: rfgen")
    rays = rays_of(recipe, split, seed, source)
    with contextlib.ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory())) if folder is None else folder
        for task, spec in release.tasks.items():
            own = place / (task.value if folder is not None else "scenes")
            chunks = generate(recipe, task.value, split.value, rays, seed)
            scenes = map(SceneChunk.of, chunks)
            index_path = own / f"{split.value}.index.parquet"
            write_scenes(own / f"{split.value}.parquet", index_path, scenes, label_field(spec))
            yield task, index_path


def rays_of(recipe: Recipe, split: Split, seed: int | str, source: Path) -> pa.Table:
    """The ray table of a split; InputError where the recipe allows none."""
    from rfgen.channels import split_table

    try:
        return split_table(recipe, split.value, seed)
    except ValueError as error:
        raise InputError(f"{source}: rfgen: {error}") from None


def true_parameters(
    config: ReleaseConfig | DataReleaseManifest,
    source: Path,
    task: TaskID,
    rays: Mapping[str, pa.Table],
    ids: Mapping[str, pa.ChunkedArray],
) -> Iterator[tuple[pa.ChunkedArray, np.ndarray]]:
    """Scene ids with features of their true parameters, float32 ``[n, D]``, chunk by chunk, split after split.

    Args:
        config: the release.
        source: its file.
        task: a task of it.
        rays: ray tables by split.
        ids: scene ids by split, in the order that the scenes were made in.

    Raises:
        InputError: a task that states no truth, or ids that are not those of the recipe's scenes.
    """
    recipe = parse(Recipe, config.rfgen, f"{source}: rfgen")
    for split, known in ids.items():
        place = 0
        try:
            for values in truths(recipe, task.value, split, rays[split], split_seed(source, config.seed, split)):
                yield known.slice(place, len(values)), values.astype(np.float32)
                place += len(values)
        except (NotImplementedError, ValueError) as error:
            raise InputError(f"{source}: rfgen: {error}") from None
        if place != len(known):
            raise InputError(f"{source}: rfgen: {place} scenes of {task} in {split}, expected {len(known)} as frozen")


class Remade:
    """What the recipe of finished results gives again, of TRAIN and DEV: rays, drawn chunks of scenes, their truths.

    Args:
        draw: which chunks.
    """

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self._rays: dict[Split, pa.Table] = {}

    def rays(self, results: Results) -> dict[Split, pa.Table]:
        """The ray table of each split."""
        if not self._rays:
            manifest, source = results.manifest(), results.layout.manifest
            recipe = parse(Recipe, manifest.rfgen, f"{source}: rfgen")
            self._rays = {split: rays_of(recipe, split, manifest.seed, source) for split in (Split.TRAIN, Split.DEV)}
        return self._rays

    def chunks(self, results: Results, count: int = 2) -> Iterator[Chunk]:
        """The first chunk of every task's splits and ``count`` that are drawn, or all."""
        manifest = results.manifest()
        recipe = parse(Recipe, manifest.rfgen, f"{results.layout.manifest}: rfgen")
        for (split, rays), task in itertools.product(self.rays(results).items(), manifest.tasks):
            keys = chunk_keys(recipe, task.value, split.value)
            places = sorted({0, *self.draw.rows(len(keys), count, "chunks", task.value, split.value).tolist()})
            chosen = [keys[place] for place in places]
            chunks = generate(recipe, task.value, split.value, rays, manifest.seed, chunk_keys=chosen)
            for place, chunk in zip(places, chunks, strict=True):
                yield task, split, place * len(chunk.iq), SceneChunk.of(chunk)

    def truths(self, results: Results, task: TaskID) -> Iterator[tuple[pa.ChunkedArray, np.ndarray]]:
        """Scene ids of a task with the features of their true parameters, float32 ``[n, D]``."""
        rays = {split.value: table for split, table in self.rays(results).items()}
        ids = {split: results.index(task, Split(split))["scene_id"] for split in rays}
        return true_parameters(results.manifest(), results.layout.manifest, task, rays, ids)


def example_scenes(
    release: ReleaseConfig | DataReleaseManifest, source: Path, task: TaskID, count: int = 16
) -> tuple[np.ndarray, pa.Table, str]:
    """A few scenes of a task without ray tables: from the recipe, or, where it needs rays, noise of the scenes' shape.

    Returns:
        complex64 ``[count, A, T]``, the columns of their index that a model's input depends on, and what they are.
    """
    recipe = parse(Recipe, release.rfgen, f"{source}: rfgen")
    params = recipe.tasks[task.value]
    if params.needs_links:
        noise = complex_normal(stream(release.seed, "example", task.value), (count, params.antennas, params.samples))
        carriers = [recipe.bands_hz[params.bands[number % len(params.bands)]] for number in range(count)]
        columns = {"sample_rate_hz": [params.sample_rate_hz] * count, "center_frequency_hz": carriers}
        told = f"{count} scenes of complex noise (no scenes there, and these need ray tables)"
        index = pa.table(columns)
        if (reference := Reference.of(params.known_symbol())) is not None:
            starts = np.linspace(reference.prefix, reference.last_start(params.samples), count).astype(np.int64)
            index = index.append_column(REFERENCE_START, pa.array(starts)).replace_schema_metadata(reference.metadata)
        return noise.astype(np.complex64), index, told
    keys = chunk_keys(recipe, task.value, Split.DEV.value)
    chosen = [keys[place] for place in sorted({round(place) for place in np.linspace(0, len(keys) - 1, 4)})]
    chunks = list(generate(recipe, task.value, Split.DEV.value, None, release.seed, chunk_keys=chosen))
    iq = np.concatenate([chunk.iq for chunk in chunks])
    rows = np.linspace(0, len(iq) - 1, count).round().astype(int)
    names = ("sample_rate_hz", "center_frequency_hz")
    columns = {name: np.concatenate([chunk.metadata[name] for chunk in chunks])[rows] for name in names}
    return iq[rows], pa.table(columns), f"{count} scenes from the recipe of release {release.release}"
