"""A small release, made and frozen by the library's own functions, laid out as the workflow's results are."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from threadpoolctl import threadpool_limits

import rfgen
from common.files import write_json
from emma import EvalRun, Evaluator, Split, TaskID
from emma.audit.submissions import Expected
from emma.backbones.base import Backbone
from emma.backbones.config import ModelConfig, load_model_config
from emma.backbones.load import load_backbone
from emma.data.embeddings import Embeddings
from emma.data.extends import read_extended
from emma.data.freezing import freeze
from emma.data.labels import label_field
from emma.data.protocols import board_protocols
from emma.data.provenance import Provenance
from emma.data.release import ReleaseConfig, manifest_record, release_names
from emma.data.scenes import SceneChunk, iterate_scenes, write_scenes
from emma.evaluation.scoring import score_task
from emma.results.evaluator import predictions_of
from emma.results.records import RunRecord
from emma.results.runs import run_record
from emma.version import HARNESS_VERSION
from rfgen import channels, scenes
from rfgen.recipe import Recipe

CONFIG = Path(__file__).parents[3] / "config"
#: Scenes an environment and band, TRAIN and DEV alike, where a comparison needs power.
SCENES = {
    "E-LOC-AOA": 80,
    "E-LOC-LOS": 200,
    "E-ID-DRONE": 80,
    "E-SC-SEP": 80,
    "E-CH-BEAM": 200,
    "E-CH-CSI": 200,
    "E-S2T-CAP": 200,
    "E-S2T-QA": 200,
}


def small_release() -> dict:
    """The tiny release with more scenes: a fresh mapping."""
    data = read_extended(CONFIG / "releases" / "tiny.yaml")
    data["release"] = "small"
    data["rfgen"]["link_chunk"] = 200
    for task, number in SCENES.items():
        data["rfgen"]["tasks"][task] |= {"chunk": 40, "scenes": {"TRAIN": number, "DEV": number, "HOLDOUT": 40}}
    # Antennas, chunk and families are tiny's.
    data["rfgen"]["tasks"]["E-SC-SENSE"]["scenes"] = {"TRAIN": 120, "DEV": 120, "HOLDOUT": 24}
    data["rfgen"]["tasks"]["E-SC-ANOM"]["scenes"] = {"TRAIN": 160, "DEV": 400, "HOLDOUT": 40}
    return data


@dataclass(frozen=True)
class Release:
    """The release on disk, and what the tests ask of it."""

    results: Path
    config: ReleaseConfig

    @functools.cached_property
    def evaluator(self) -> Evaluator:
        return Evaluator("small", results=self.results)

    @property
    def manifest(self):
        return self.evaluator.manifest

    def index(self, task: str) -> tuple[pa.Table, pa.Table]:
        """TRAIN and DEV indexes."""
        return self.evaluator.assigned(TaskID(task))

    def iq(self, task: str, split: str) -> tuple[pa.Table, np.ndarray]:
        """Index with labels, and samples, of a split."""
        path = self.results / "scenes" / task / f"{split}.parquet"
        iq = np.concatenate([iq for _, iq in iterate_scenes(path, verify=False)])
        return self.index(task)[0 if split == "TRAIN" else 1], iq

    def embedded(self, task: str, model: str = "prior") -> Embeddings:
        """A shipped model's embeddings of a task."""
        backbone, provenance, config = self.model(model)
        return self.evaluator.embed(backbone, TaskID(task), config, provenance)

    @functools.cache  # noqa: B019 (one object a session)
    def model(self, name: str) -> tuple[Backbone, Provenance, ModelConfig]:
        """A shipped model without trained weights, by its own config."""
        config = load_model_config(CONFIG / "models" / f"{name}.yaml")
        return *load_backbone(config), config

    def __hash__(self) -> int:
        return id(self)

    @functools.cache  # noqa: B019
    def run(self, name: str) -> tuple[RunRecord, Mapping[TaskID, Mapping[str, np.ndarray]]]:
        """A shipped model's run record over its tasks, with the replicates of its primary scores."""
        backbone, provenance, config = self.model(name)
        tasks, hashes, replicates = {}, {}, {}
        for task in (task for task in self.manifest.tasks if task in config.tasks):
            run = self.evaluator.evaluate(backbone, task, config=config, provenance=provenance)
            tasks[task] = run.record.tasks[task]
            hashes[task], replicates[task] = self.scored(run)
        common = {"seed": self.evaluator.seed, "eval_split": Split.DEV}
        return run_record(self.manifest, config, provenance, tasks, hashes, **common), replicates

    def scored(self, run: EvalRun) -> tuple[dict, dict]:
        """Prediction hashes and primary replicates of an evaluation."""
        spec = self.manifest.spec(run.task)
        block = run.record.tasks[run.task]
        folds = predictions_of(run.folds)
        _, draws = score_task(spec, run.task.value, folds, self.manifest.bootstrap, self.evaluator.seed)
        hashes = {p: {v: f.predictions_hash for v, f in values.items()} for p, values in run.folds.items()}
        return hashes, {v: draws[block.protocol, v, spec.metric] for v in block.values}


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """As every job of the workflow."""
    with threadpool_limits(1):
        yield


def made_release(data: dict, results: Path) -> Release:
    """TRAIN and DEV of every task of a release's mapping, made and frozen in a folder."""
    config = ReleaseConfig.model_validate(data)
    recipe = Recipe.from_mapping(config.rfgen)
    paths: dict[TaskID, dict[Split, Path]] = {}
    for split in (Split.TRAIN, Split.DEV):
        linked = any(recipe.tasks[task].needs_links for task in config.tasks)
        rays = channels.split_table(recipe, split.value, config.seed) if linked else None
        for task in config.tasks:
            folder = results / "scenes" / task.value
            folder.mkdir(parents=True, exist_ok=True)
            made = scenes.generate(recipe, task.value, split.value, rays, config.seed)
            files = folder / f"{split.value}.parquet", folder / f"{split.value}.index.parquet"
            cut = (SceneChunk.of(chunk) for chunk in made)
            write_scenes(*files, cut, label_field(config.tasks[task]))
            paths.setdefault(task, {})[split] = files[1]
    manifest = freeze(config, paths, rfgen.__version__, rfgen.source_digest())
    write_json(results / "release" / "manifest.json", manifest_record(manifest))
    return Release(results, config)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Generated once: TRAIN and DEV of every task."""
    return made_release(small_release(), tmp_path_factory.mktemp("release"))


@pytest.fixture(scope="session")
def identification(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """The tasks without links at sizes that give a comparison power: twelve sessions a unit, 528 signals a split."""
    data = small_release()
    wanted = {"E-ID-FP", "E-ID-AMC"}
    data["tasks"] = {task: spec for task, spec in data["tasks"].items() if task in wanted}
    data["stress_regimes"] = {task: regimes for task, regimes in data["stress_regimes"].items() if task in wanted}
    sizes = {"TRAIN": 4, "DEV": 4, "HOLDOUT": 4, "PRETRAIN": 4}
    receivers = [f"R{number:02d}" for number in range(1, 25)]
    data["rfgen"]["tasks"]["E-ID-FP"] |= {"sessions": 12, "receivers": receivers, "chunk": 4, "captures": sizes}
    sizes = {"TRAIN": 88, "DEV": 88, "HOLDOUT": 44, "PRETRAIN": 44}
    data["rfgen"]["tasks"]["E-ID-AMC"] |= {"chunk": 44, "scenes": sizes}
    return made_release(data, tmp_path_factory.mktemp("identification"))


@pytest.fixture(scope="session", name="small_release")
def _small_release() -> Callable[[], dict]:
    return small_release


@pytest.fixture(scope="session")
def models() -> Path:
    return CONFIG / "models"


@pytest.fixture(scope="session")
def releases() -> list[Path]:
    folder = CONFIG / "releases"
    return [folder / f"{name}.yaml" for name in release_names(folder)]


@pytest.fixture(scope="session")
def expected_of(small) -> Callable[[TaskID], Expected]:
    """What a bundle of one task is held against."""

    def make(task: TaskID) -> Expected:
        spec, assigned = small.manifest.spec(task), small.index(task)
        folds = {
            (task, name, value): protocol.fold(value, *assigned, 0)
            for name, protocol in board_protocols(spec).items()
            for value in protocol.eval_values()
        }
        return Expected(small.manifest, folds, 0, Split.DEV)

    return make


@pytest.fixture
def bundle_of(small, tmp_path) -> Callable[..., Path]:
    """A bundle with the predictions of a run of one task, scenes in another order."""

    def make(run, task: TaskID, readout: dict) -> Path:
        rng = np.random.default_rng(0)
        for name, by_value in run.folds.items():
            for value, fold in by_value.items():
                table = fold.predictions.select(["scene_id", "scores"]).replace_schema_metadata()
                path = tmp_path / "predictions" / task.value / name / f"{value}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(table.take(rng.permutation(table.num_rows)), path)
        content = {
            "model": "guest",
            "pretraining": "unknown",
            "data_release_hash": small.manifest.data_release_hash,
            "harness_version": HARNESS_VERSION,
            "seed": 0,
            "readouts": {task.value: readout},
        }
        (tmp_path / "submission.yaml").write_text(yaml.safe_dump(content))
        return tmp_path

    return make
