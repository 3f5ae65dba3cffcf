"""Runs without the workflow: every fold of a protocol, and the Evaluator, by the functions that the workflow uses."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import pyarrow as pa
from common.threads import one_thread
from numpy.typing import NDArray
from tqdm import tqdm

from common.errors import InputError
from common.files import parse
from emma.backbones.base import Backbone
from emma.backbones.config import ModelConfig
from emma.backbones.dense import task_contract
from emma.backbones.embed import embed_batch, write_rows
from emma.data.embeddings import Embeddings
from emma.data.protocols import InDistribution, OODProtocol, board_protocols, primary_protocol, protocol_named
from emma.data.provenance import Provenance, with_sets
from emma.data.release import DataReleaseManifest, load_manifest, read_assigned
from emma.evaluation.fitting import FittedFold, Predicted, fit_fold
from emma.evaluation.task_metrics import check_metrics
from emma.evaluation.records import MetricScores
from emma.evaluation.scoring import score_task
from emma.results.aggregate import OODAvg, summarise
from emma.results.manifest import RunManifest
from emma.results.layout import DEFAULT_RELEASE, Layout, results_folder
from emma.results.records import RunRecord
from emma.results.runs import run_record, task_record
from emma.tasks import Split, TaskID

#: Fitted folds by held-out value.
FittedFolds = Mapping[str, FittedFold]


@dataclass(frozen=True)
class ProtocolRun:
    """What ``ProtocolRunner.run`` returns, by held-out value: the fitted folds, and their scores by metric.

    Attributes:
        metric: the task's metric.
        folds: fitted folds by held-out value.
        scores: scores by held-out value and metric.
    """

    metric: str
    folds: FittedFolds
    scores: Mapping[str, MetricScores]

    @property
    def score(self) -> float | None:
        """The unweighted mean over held-out values of the task's metric; None where a fold is undefined."""
        return summarise({value: by_metric[self.metric].score for value, by_metric in self.scores.items()}).score


def checked_seed(seed: int) -> int:
    """The seed; InputError for all but whole numbers from 0 on, which would draw other numbers than are recorded."""
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise InputError(f"seed: {seed!r}, expected a whole number of 0 or more")
    return seed


class ProtocolRunner:
    """Runs every fold of one protocol on one model's embeddings; only the readout is fit.

    Args:
        manifest: the data release, which pins the task and the bootstrap.
        task: a task of it.
        protocol: how folds are made (``LeaveOneEnvironmentOut()``), or the name of one of the task's protocols.
        seed: the run's seed.

    Raises:
        InputError: no such task or protocol, or a protocol whose axis the task does not pin.
    """

    def __init__(
        self, manifest: DataReleaseManifest, task: str | TaskID, protocol: OODProtocol | str, seed: int
    ) -> None:
        self.spec, self.task = manifest.spec(task), TaskID(task)
        self.bootstrap, self.seed = manifest.bootstrap, checked_seed(seed)
        stress = manifest.stress_regimes.get(self.task, ())
        if isinstance(protocol, str):
            protocol = protocol_named(protocol, self.spec, stress)
        if not isinstance(protocol, OODProtocol):
            raise InputError(f"protocol: {protocol!r}, expected a name or an OODProtocol, as LeaveOneEnvironmentOut()")
        self.protocol = protocol if protocol.has_task else protocol.for_task(self.spec)
        if self.protocol.spec != self.spec:
            raise InputError(f"protocol {self.protocol.name}: made for another TaskSpec than the release's {self.task}")

    def fit(
        self,
        embeddings: Embeddings,
        train_index: pa.Table,
        eval_index: pa.Table,
        done: Callable[[], object] = lambda: None,
    ) -> dict[str, FittedFold]:
        """Fitted folds by held-out value, on one thread as in the workflow; raises what ``fit_fold`` raises.

        ``done`` is called after each fold.
        """
        return self._fit(self.protocol, embeddings, (train_index, eval_index), done)

    def _fit(
        self,
        protocol: OODProtocol,
        embeddings: Embeddings,
        assigned: tuple[pa.Table, pa.Table],
        done: Callable[[], object] = lambda: None,
    ) -> dict[str, FittedFold]:
        fitted = {}
        with one_thread():
            for value in protocol.eval_values():
                fold = protocol.fold(value, *assigned, self.seed)
                fitted[value] = fit_fold(self.spec, protocol, fold, assigned, embeddings)
                done()
        return fitted

    def run(self, embeddings: Embeddings, train_index: pa.Table, eval_index: pa.Table) -> ProtocolRun:
        """Fit and score every fold, and average; readouts that met the values give ``in_distribution``.

        Args:
            embeddings: the model's embeddings of the task.
            train_index: frozen index of the TRAIN scenes.
            eval_index: frozen index of the evaluation scenes.

        Raises:
            InputError: what ``fit_fold`` raises.
        """
        assigned, name = (train_index, eval_index), self.protocol.name
        folds = {each.name: self._fit(each, embeddings, assigned) for each in (self.protocol, InDistribution(self.protocol))}
        predictions = predictions_of(folds)
        given = (self.spec, self.task.value, predictions, self.bootstrap, self.seed)
        scores, _ = score_task(*given, only=[name])
        return ProtocolRun(self.spec.metric, folds[name], scores[name])


def predictions_of(folds: Mapping[str, FittedFolds]) -> dict[str, dict[str, Predicted]]:
    """What ``score_task`` takes of fitted folds, by protocol and held-out value."""
    return {name: {value: fold.predicted for value, fold in by_value.items()} for name, by_value in folds.items()}


@dataclass(frozen=True)
class EvalRun:
    """What ``Evaluator.evaluate`` returns: the record of one model on one task, its folds, the release's caveats."""

    task: TaskID
    record: RunRecord
    folds: Mapping[str, FittedFolds]
    caveats: tuple[str, ...] = ()

    @property
    def score(self) -> float | None:
        """The score of the task, or of the one protocol that was run: the unweighted mean over held-out values."""
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
            score = _shown(record.score) + (f" ({record.undefined_reason})" if record.undefined_reason else "")
            interval = f"[{_shown(record.ci95[0])}, {_shown(record.ci95[1])}]" if record.ci95 else ""
            met = {True: "yes", False: "no", "unknown": "unknown"}[record.met_in_pretraining]
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
        progress: show how many scenes are embedded and folds fit, on standard error, where that is a terminal or a
            notebook's.
    """

    def __init__(
        self,
        release: str = DEFAULT_RELEASE,
        *,
        results: str | Path | None = None,
        seed: int = 0,
        split: Split = Split.DEV,
        progress: bool = False,
    ) -> None:
        self.progress = progress
        self.layout = Layout(results_folder(release, split) if results is None else results)
        self.release, self.seed, self.split = release, checked_seed(seed), split
        if split not in (Split.DEV, Split.HOLDOUT):
            raise InputError(f"split: {split}, expected Split.DEV or Split.HOLDOUT")
        path = self._made(self.layout.manifest)
        self.manifest = load_manifest(path)
        if self.manifest.release != release:
            raise InputError(f"{self.layout.root}: release: expected {release}, found {self.manifest.release}")
        check_metrics(self.manifest.tasks, path)

    def assigned(self, task: TaskID) -> tuple[pa.Table, pa.Table]:
        """The frozen TRAIN and evaluation indexes of a task, checked against the manifest."""
        splits = (Split.TRAIN, self.split)
        for split in splits:
            # No command makes scenes of a split that the release does not have.
            self.manifest.frozen(task, split)
        train, evaluation = (
            read_assigned(self.manifest, task, split, self._made(self.layout.index(task, split))) for split in splits
        )
        return train, evaluation

    def _made(self, path: Path) -> Path:
        """The path of a file that the workflow makes; InputError with the command that makes it where it is missing."""
        if not path.is_file():
            target = Path(results_folder(self.release, self.split)) / path.relative_to(self.layout.root)
            official = " eval_split=HOLDOUT" if self.split is Split.HOLDOUT else ""
            command = f"snakemake --cores 2 --config release={self.release}{official} -- {target}"
            raise InputError(f"{path}: no such file; in the project's folder, make it by: {command}")
        return path

    def embed(self, backbone: Backbone, task: TaskID, config: ModelConfig, provenance: Provenance) -> Embeddings:
        """Embed a task's scenes through a temporary file, in bounded memory."""
        with tempfile.TemporaryDirectory() as temporary:
            path = Path(temporary) / "embeddings.parquet"
            scenes = [self._made(self.layout.scenes(task, split)) for split in (Split.TRAIN, self.split)]
            contract = task_contract(config, self.manifest.spec(task))
            total = sum(self.manifest.frozen(task, split).scenes for split in (Split.TRAIN, self.split))
            with one_thread(), self._bar(f"{task}: embedding", total, "scene") as bar:

                def embed(iq: NDArray[np.complex64], index: pa.Table) -> NDArray[np.float32]:
                    rows = embed_batch(backbone, iq, index, contract)
                    # Some scenes are embedded again, to hold their rows against rows alone.
                    bar.update(min(len(iq), total - bar.n))
                    return rows

                write_rows(path, embed, scenes, provenance, backbone.name)
            return Embeddings.read(path)

    def _bar(self, what: str, total: int, unit: str) -> tqdm:
        """A bar that is shown where it was asked for and somebody sees it; a notebook's output is no terminal."""
        seen = sys.stderr.isatty() or "ipykernel" in sys.modules
        return tqdm(total=total, desc=what, unit=f" {unit}", disable=not (self.progress and seen))

    def evaluate(
        self,
        backbone: Backbone,
        task: str | TaskID,
        *,
        config: ModelConfig | None = None,
        provenance: Provenance | None = None,
        protocol: OODProtocol | str | None = None,
    ) -> EvalRun:
        """Score one backbone on one task under the task's own protocols, or under one protocol.

        Args:
            backbone: the model.
            task: a task of the release.
            config: the model's config; without one, defaults and pretraining "unknown".
            provenance: the model's provenance; without one, name and config alone.
            protocol: one of the task's protocols by name, or an OODProtocol; by default all that the leaderboard
                shows. The reference of each fold is always fit.

        Raises:
            InputError: unknown task or protocol, a protocol that holds out nothing, missing scenes, a model that
                breaks its contract, an unfit fold.
        """
        spec = self.manifest.spec(task)
        task = TaskID(task)
        if not isinstance(backbone, Backbone):
            raise InputError(f"backbone: {type(backbone).__name__}, expected an object with name, embedding_dim and embed")
        if config is None:
            reference = f"{type(backbone).__module__}:{type(backbone).__qualname__}".replace("<", "").replace(">", "")
            known = {"name": backbone.name, "factory": _as_reference(reference), "pretraining": "unknown"}
            config = parse(ModelConfig, known, f"model {backbone.name}")
        provenance = provenance or Provenance.of(config.name, config, config.pretraining)
        if protocol is None:
            protocols = list(board_protocols(spec).values())
        else:
            chosen = ProtocolRunner(self.manifest, task, protocol, self.seed).protocol
            if chosen.axis is None:
                raise InputError(f"protocol {chosen.name}: holds out nothing, expected one that does")
            protocols = [chosen, InDistribution(chosen)]
        assigned = self.assigned(task)
        embeddings = self.embed(backbone, task, config, provenance)
        with self._bar(f"{task}: fitting", sum(len(each.eval_values()) for each in protocols), "fold") as bar:
            folds = {
                each.name: ProtocolRunner(self.manifest, task, each, self.seed).fit(embeddings, *assigned, bar.update)
                for each in protocols
            }
        given = (spec, task.value, predictions_of(folds), self.manifest.bootstrap, self.seed)
        scores, _ = score_task(*given)
        hashes = {name: {value: fold.predictions_hash for value, fold in f.items()} for name, f in folds.items()}
        tasks = {task: task_record(spec, protocols, scores, with_sets(provenance.pretraining, self.manifest.rfgen))}
        record = run_record(
            self.manifest, config, provenance, tasks, {task: hashes}, seed=self.seed, eval_split=self.split
        )
        return EvalRun(task, record, folds, self.manifest.caveats)

    def ood_average(self, runs: Iterable[EvalRun]) -> float:
        """The OOD average of one model from its runs, one per task that is scored: the number on the leaderboard.

        Args:
            runs: what ``evaluate`` returned for each task under its own protocol; tasks outside the OOD average, such
                as E-ID-AMC, may be among them and do not count.

        Raises:
            InputError: runs of another release, seed, split or protocol, of two models, or two of one task.
            UndefinedMetricError: a scored task is missing, or one of its folds is undefined.
        """
        runs, by_task = list(runs), {}
        for run in runs:
            where = f"run of {run.record.model} on {run.task}"
            expected = {
                "data_release_hash": (run.run_manifest.data_release_hash, self.manifest.data_release_hash),
                "seed": (run.run_manifest.seed, self.seed),
                "eval_split": (run.record.eval_split, self.split.value.lower()),
                "model_provenance": (run.run_manifest.model_provenance, runs[0].run_manifest.model_provenance),
            }
            for key, (actual, value) in expected.items():
                if actual != value:
                    raise InputError(f"{where}: {key}: {actual}, expected {value}")
            block = run.record.tasks[run.task]
            pinned = primary_protocol(self.manifest.tasks[run.task]).name
            if block.protocol != pinned:
                raise InputError(f"{where}: protocol: {block.protocol}, expected {pinned}, the task's own")
            if run.task in by_task:
                raise InputError(f"{where}: given twice, expected one run per task")
            by_task[run.task] = {value: record.score for value, record in block.values.items()}
        return OODAvg(self.manifest.tasks)(by_task)


def _as_reference(reference: str) -> str:
    """A class's address in the form that ModelConfig wants: package.module:name."""
    module, _, name = reference.partition(":")
    return f"{module}:{name.rpartition('.')[2]}"
