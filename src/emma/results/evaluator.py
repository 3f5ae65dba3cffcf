"""Runs: every fold of a protocol, the record of a model, and the Evaluator for use without the workflow."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import pyarrow as pa
from threadpoolctl import threadpool_limits

from emma.backbones.base import Backbone
from emma.backbones.load import ModelConfig
from emma.results.records import RunRecord
from emma.backbones.embed import write_embeddings
from emma.data.embeddings import Embeddings
from common.errors import InputError
from common.files import parse
from emma.evaluation.fitting import FittedFold, fit_fold
from common.hashing import content_hash
from emma.results.manifest import RunManifest
from emma.data.protocols import OODProtocol, board_protocols
from emma.data.release import DEFAULT_RELEASE, load_manifest, read_assigned, results_folder
from emma.results.runs import run_record
from emma.evaluation.metric_checks import check_metrics
from emma.evaluation.scoring import score_task
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
    """What ``Evaluator.evaluate`` returns: the record of one model on one task, its folds, the release's caveats."""

    task: TaskID
    record: RunRecord
    folds: Mapping[str, Mapping[str, FittedFold]]
    caveats: tuple[str, ...] = ()

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
        lines = [": ".join(self._head())]
        for value, score, interval, n, within, met in self._rows():
            seen = f", met in pretraining: {met}" if met != "no" else ""
            lines.append(f"  {value}: {f'{score} {interval}'.strip()}, n = {n}, in distribution {within}{seen}")
        return "\n".join([*lines, f"  {self._spread()}", *(f"  {caveat}" for caveat in self.caveats)])

    def _repr_html_(self) -> str:
        """The same as a table for a notebook."""
        title, score = map(escape, self._head())
        names = ("held-out value", "score", "95% interval", "scenes", "in distribution", "met in pretraining")
        head = "".join(f'<th scope="col">{name}</th>' for name in names)
        rows = "".join(
            f'<tr><th scope="row">{escape(value)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
            for value, *cells in self._rows()
        )
        notes = "".join(f"<li>{escape(note)}</li>" for note in (self._spread(), *self.caveats))
        return (
            f"<table><caption>{title}: <strong>{score}</strong></caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table><ul>{notes}</ul>"
        )

    def _head(self) -> tuple[str, str]:
        """What was scored, and the score with its unit, direction and protocol."""
        record, block = self.record, self.record.tasks[self.task]
        unit = "" if block.unit == "1" else f" {block.unit}"
        score = f"{block.metric} {_shown(block.score)}{unit}, {block.direction} is better, {block.protocol}"
        return f"{record.model} on {self.task} ({record.release}, {record.eval_split})", score

    def _rows(self) -> Iterator[tuple[str, ...]]:
        """Of each held-out value: name, score, interval, scenes, in distribution, met in pretraining."""
        for value, record in self.record.tasks[self.task].values.items():
            score = _shown(record.value) + (f" ({record.undefined})" if record.undefined else "")
            interval = f"[{_shown(record.ci95[0])}, {_shown(record.ci95[1])}]" if record.ci95 else ""
            met = {True: "yes", False: "no"}.get(record.met_in_pretraining, "unknown")
            yield value, score, interval, str(record.n), _shown(record.in_distribution), met

    def _spread(self) -> str:
        block = self.record.tasks[self.task]
        count, error = len(block.values), _shown(block.standard_error)
        spread = f"standard error {error} with {count - 1} degree{'s' * (count > 2)} of freedom"
        return f"mean over {count} held-out values, {spread}: a ranking, not a population estimate"


def _shown(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


class Evaluator:
    """Scores a backbone on frozen scenes by the same functions as the workflow.

    Args:
        release: the release's name, checked against its manifest.
        results: folder that the workflow wrote: ``release/manifest.json`` and ``scenes/``; without it, the
            release's own in this folder: ``results``, or ``results/releases/NAME``.
        seed: the run's seed.
        split: DEV, or HOLDOUT where its scenes were opened.
    """

    def __init__(
        self,
        release: str = DEFAULT_RELEASE,
        *,
        results: str | Path | None = None,
        seed: int = 0,
        split: Split = Split.DEV,
    ) -> None:
        self.results = Path(results_folder(release, split) if results is None else results)
        self.seed, self.split = seed, split
        path = self.results / "release" / "manifest.json"
        if not path.is_file():
            made = f"{results_folder(release)}/release/manifest.json --config release={release}"
            raise InputError(f"{path}: no such file; in the project's folder, make it by: snakemake --cores 2 {made}")
        self.manifest = load_manifest(path)
        if self.manifest.release != release:
            raise InputError(f"{self.results}: release: expected {release}, found {self.manifest.release}")
        check_metrics(self.manifest.tasks, path)

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
        return EvalRun(task, record, folds, self.manifest.caveats)


def _as_reference(reference: str) -> str:
    """A class's address in the form that ModelConfig wants: package.module:name."""
    module, _, name = reference.partition(":")
    return f"{module}:{name.rpartition('.')[2]}"
