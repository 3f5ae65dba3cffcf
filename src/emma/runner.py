"""Runs: every fold of a protocol, the record of a model, and the Evaluator for use without the workflow."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from threadpoolctl import threadpool_limits

from emma.backbones.base import Backbone
from emma.backbones.load import ModelConfig
from emma.board import RunRecord
from emma.embeddings import Embeddings, write_embeddings
from emma.files import InputError, parse
from emma.folds import FittedFold, fit_fold
from emma.hashing import content_hash
from emma.manifest import RunManifest
from emma.protocols import OODProtocol, board_protocols
from emma.release import load_manifest, read_assigned
from emma.runs import run_record
from emma.scoring import score_task
from emma.tasks import Split, TaskID, TaskSpec


class ProtocolRunner:
    """Fits and predicts every fold of one protocol on one model's embeddings; only the readout is fit.

    Args:
        spec: the task's pinned declaration.
        protocol: how folds are made.
        seed: the run's seed.
    """

    def __init__(self, spec: TaskSpec, protocol: OODProtocol, seed: int) -> None:
        self.spec, self.protocol, self.seed = spec, protocol, seed

    def run(self, embeddings: Embeddings, train_index: pa.Table, eval_index: pa.Table) -> dict[str, FittedFold]:
        """Fitted folds by held-out value, on one thread as in the workflow; raises what ``fit_fold`` raises."""
        assigned = (train_index, eval_index)
        with threadpool_limits(1):
            return {
                value: fit_fold(
                    self.spec, self.protocol, self.protocol.fold(value, *assigned, self.seed), assigned, embeddings
                )
                for value in self.protocol.eval_values()
            }


@dataclass(frozen=True)
class EvalRun:
    """What ``Evaluator.evaluate`` returns: the record of one model on one task, its folds, and their replicates."""

    task: TaskID
    record: RunRecord
    folds: Mapping[str, Mapping[str, FittedFold]]

    @property
    def score(self) -> float | None:
        """The task's score: the unweighted mean over held-out values."""
        return self.record.tasks[self.task].score

    @property
    def run_manifest(self) -> RunManifest:
        """The auditable triple behind the score."""
        return self.record.run_manifest

    def __repr__(self) -> str:
        """Score and components in a few lines."""
        block = self.record.tasks[self.task]
        head = f"{self.record.model} on {self.task} ({self.record.release}, {self.record.eval_split}): "
        lines = [head + f"{block.metric} {_shown(block.score)} {block.unit}, {block.protocol}"]
        for value, record in block.values.items():
            interval = f" [{_shown(record.ci95[0])}, {_shown(record.ci95[1])}]" if record.ci95 else ""
            lines.append(
                f"  {value}: {_shown(record.value)}{interval}, n = {record.n}, "
                f"in distribution {_shown(record.in_distribution)}"
            )
        spread = f"standard error {_shown(block.standard_error)} with {len(block.values) - 1} degrees of freedom"
        lines.append(f"  mean over {len(block.values)} held-out values, {spread}: a ranking, not a population estimate")
        return "\n".join(lines)


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


class Evaluator:
    """Scores a backbone on frozen scenes by the same functions as the workflow.

    Args:
        release: the release's name, checked against its manifest.
        results: folder that the workflow wrote: ``release/manifest.json`` and ``scenes/``.
        seed: the run's seed.
        split: DEV, or HOLDOUT where its scenes were opened.
    """

    def __init__(
        self, release: str = "v0.1", *, results: str | Path = "results", seed: int = 0, split: Split = Split.DEV
    ) -> None:
        self.results, self.seed, self.split = Path(results), seed, split
        self.manifest = load_manifest(self.results / "release" / "manifest.json")
        if self.manifest.release != release:
            raise InputError(f"{self.results}: release: expected {release}, found {self.manifest.release}")

    def assigned(self, task: TaskID) -> tuple[pa.Table, pa.Table]:
        """The frozen TRAIN and evaluation indexes of a task, checked against the manifest."""
        folder = self.results / "scenes" / task.value
        train, evaluation = (
            read_assigned(self.manifest, task, split, folder / f"{split.value}.index.parquet")
            for split in (Split.TRAIN, self.split)
        )
        return train, evaluation

    def embed(self, backbone: Backbone, task: TaskID, config: ModelConfig, provenance: Mapping[str, Any]) -> Embeddings:
        """Embed a task's scenes through a temporary file, in bounded memory."""
        folder = self.results / "scenes" / task.value
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "embeddings.parquet"
            scenes = [folder / f"{split.value}.parquet" for split in (Split.TRAIN, self.split)]
            with threadpool_limits(1):
                write_embeddings(path, backbone, scenes, contract=config, provenance=provenance)
            return Embeddings.read(path)

    def evaluate(
        self,
        backbone: Backbone,
        task: str | TaskID,
        *,
        config: ModelConfig | None = None,
        provenance: Mapping[str, Any] | None = None,
    ) -> EvalRun:
        """Score one backbone on one task under the task's own protocols.

        Args:
            backbone: the model.
            task: a task of the release.
            config: the model's config; without one, defaults and pretraining "unknown".
            provenance: the model's provenance; without one, name and config alone.

        Raises:
            InputError: unknown task, missing scenes, a model that breaks its contract, an unfit fold.
        """
        spec = self.manifest.spec(task)
        task = TaskID(task)
        if config is None:
            reference = f"{type(backbone).__module__}:{type(backbone).__qualname__}".replace("<", "").replace(">", "")
            known = {"name": backbone.name, "factory": _as_reference(reference), "pretraining": "unknown"}
            config = parse(ModelConfig, known, f"model {backbone.name}")
        dumped = config.model_dump(mode="json")
        provenance = provenance or {
            "name": config.name,
            "config_sha256": content_hash(dumped),
            "weights_sha256": None,
            "pretraining": dumped["pretraining"],
        }
        assigned = self.assigned(task)
        embeddings = self.embed(backbone, task, config, provenance)
        folds = {
            name: ProtocolRunner(spec, protocol, self.seed).run(embeddings, *assigned)
            for name, protocol in board_protocols(spec).items()
        }
        predictions = {
            name: {value: (fitted.predictions, fitted.undefined) for value, fitted in fitted_folds.items()}
            for name, fitted_folds in folds.items()
        }
        results, _ = score_task(spec, task.value, predictions, self.manifest.bootstrap, self.seed)
        hashes = {name: {value: fold.predictions_hash for value, fold in f.items()} for name, f in folds.items()}
        record = run_record(
            self.manifest, config, provenance, {task: results}, {task: hashes}, seed=self.seed, eval_split=self.split
        )
        return EvalRun(task, record, folds)


def _as_reference(reference: str) -> str:
    """A class's address in the form that ModelConfig wants: package.module:name."""
    module, _, name = reference.partition(":")
    return f"{module}:{name.rpartition('.')[2]}"
