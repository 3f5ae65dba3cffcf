"""The record of a run: one model's fold scores put together, with the RunManifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Protocol

from common.errors import InputError
from common.files import parse, read_json
from emma.backbones.config import ControlConfig, ModelConfig
from emma.data.protocols import InDistribution, LeaveOneSNRRegimeOut, OODProtocol, board_protocols, task_protocols
from emma.data.provenance import PRETRAINING_FIELDS, Pretraining, Provenance, with_sets
from emma.data.release import DataReleaseManifest
from emma.evaluation.records import FoldRecord, TaskScores
from emma.metrics import METRICS
from emma.results.aggregate import normalise_task, summarise
from emma.results.manifest import RunManifest, bundle_hash
from emma.results.layout import Layout
from emma.results.records import (
    HeldOutScore,
    Kind,
    RunRecord,
    ScoreRecord,
    StressReport,
    TaskRecord,
)
from emma.tasks import OODAxis, Split, TaskID, TaskSpec
from emma.version import HARNESS_VERSION

#: One model's folds by task, protocol and held-out value.
FoldRecords = Mapping[TaskID, Mapping[str, Mapping[str, FoldRecord]]]


class Named(Protocol):
    """What a run record says of a model by itself: a ModelConfig has it."""

    @property
    def name(self) -> str:
        """The model's name on the board."""

    @property
    def kind(self) -> Kind:
        """What kind of row it is."""


def met_in_pretraining(
    pretraining: Pretraining | Literal["unknown"], parts: Mapping[OODAxis, str]
) -> bool | Literal["unknown"]:
    """Whether declared pretraining saw any part of a held-out value, given by axis."""
    if not isinstance(pretraining, Pretraining):
        return "unknown"
    if pretraining.release_splits:
        return True
    return any(part in getattr(pretraining, PRETRAINING_FIELDS[axis]) for axis, part in parts.items())


def score_record(
    metric: str, protocol: OODProtocol, scores: TaskScores, pretraining: Pretraining | Literal["unknown"]
) -> ScoreRecord:
    """The score of one metric under one protocol, from the scores of its folds.

    Raises:
        InputError: the protocol holds out nothing.
    """
    if protocol.axis is None:
        raise InputError(f"{protocol.name}: axis: none, expected a protocol that holds out values of an axis")
    values = {
        held_out_value: HeldOutScore(
            **dict(by_metric[metric]),
            met_in_pretraining=met_in_pretraining(pretraining, protocol.parts(held_out_value)),
        )
        for held_out_value, by_metric in scores[protocol.name].items()
    }
    summary = summarise({held_out_value: record.score for held_out_value, record in values.items()})
    return ScoreRecord(
        metric=metric,
        unit=METRICS[metric].unit,
        direction=METRICS[metric].direction,
        score=summary.score,
        standard_error=summary.standard_error,
        undefined=summary.undefined_reason,
        protocol=protocol.name,
        axis=protocol.axis.value,
        values=values,
    )


def task_record(
    spec: TaskSpec,
    protocols: Sequence[OODProtocol],
    scores: TaskScores,
    pretraining: Pretraining | Literal["unknown"],
) -> TaskRecord:
    """A task's block of the board from the scores of its folds.

    Args:
        spec: the task.
        protocols: what was scored, the protocol of the task's score first; references are no protocol here.
        scores: scores by protocol, held-out value and metric.
        pretraining: what the model's pretraining saw.
    """
    first, *others = [protocol for protocol in protocols if not isinstance(protocol, InDistribution)]
    record = score_record(spec.metric, first, scores, pretraining)
    normalized, clipped = normalise_task(spec, record.score)
    return TaskRecord(
        **dict(record),
        normalized=normalized,
        clipped=clipped,
        in_ood_avg=spec.in_ood_avg and first.axis is spec.ood_axis,
        secondary_metrics={
            metric: score_record(metric, first, scores, pretraining) for metric in spec.secondary_metrics
        },
        secondary={other.name: score_record(spec.metric, other, scores, pretraining) for other in others},
    )


def run_record(
    manifest: DataReleaseManifest,
    config: Named,
    provenance: Provenance,
    tasks: Mapping[TaskID, TaskRecord],
    fold_hashes: Mapping[TaskID, Mapping[str, Mapping[str, str]]],
    *,
    seed: int,
    eval_split: Split,
    control_of: str | None = None,
) -> RunRecord:
    """One model's run from its tasks.

    Args:
        manifest: the data release.
        config: the model's config, or anything with its name and kind.
        provenance: what made the model.
        tasks: its tasks, as ``task_record`` makes them.
        fold_hashes: content hashes of the predictions by task, protocol and held-out value.
        seed: the run's seed.
        eval_split: DEV or HOLDOUT.
        control_of: of a control, its model.
    """
    task_metrics = {
        task: {record.metric: record.score} | {name: other.score for name, other in record.secondary_metrics.items()}
        for task, record in tasks.items()
    }
    return RunRecord(
        model=config.name,
        kind=config.kind,
        control_of=control_of,
        release=manifest.release,
        eval_split="holdout" if eval_split is Split.HOLDOUT else "dev",
        tasks=dict(tasks),
        run_manifest=RunManifest(
            model_provenance=provenance,
            data_release_hash=manifest.data_release_hash,
            prediction_bundle_hashes={task: bundle_hash(hashes) for task, hashes in fold_hashes.items()},
            task_metrics=task_metrics,
            seed=seed,
            harness_version=HARNESS_VERSION,
        ),
    )


def read_metrics(
    paths: Sequence[Path], expected: Mapping[str, str | int]
) -> dict[TaskID, dict[str, dict[str, FoldRecord]]]:
    """Read the metrics of one model's folds, by task, protocol and held-out value as their folders say.

    Args:
        paths: files ``.../MODEL/TASK/PROTOCOL/VALUE/metrics.json``.
        expected: fields that every file must have (release hash, seed, ...).

    Raises:
        InputError: a file is missing, no fold's metrics, or in another fold's place; a field differs, or folds are of
            two models.
    """
    records: dict[TaskID, dict[str, dict[str, FoldRecord]]] = {}
    provenance = None
    for path in paths:
        record = parse(FoldRecord, read_json(path), path)
        for key, value in {**Layout.fold_of(path)._asdict(), **expected}.items():
            if getattr(record, key) != value:
                raise InputError(f"{path}: {key}: {getattr(record, key)}, expected {value}")
        provenance = provenance or record.model_provenance
        if record.model_provenance != provenance:
            raise InputError(f"{path}: model_provenance: differs between folds, expected one model")
        records.setdefault(record.task, {}).setdefault(record.protocol, {})[record.held_out_value] = record
    return records


def collect_run(
    manifest: DataReleaseManifest, config: ModelConfig, paths: Sequence[Path], *, seed: int, eval_split: Split
) -> RunRecord:
    """Read the metrics of a model's folds and make its run record.

    Raises:
        InputError: a fold is missing, or folds differ in release, seed, harness version, evaluation split or model.
    """
    expected: dict[str, str | int] = {
        "model": config.name,
        "data_release_hash": manifest.data_release_hash,
        "seed": seed,
        "harness_version": HARNESS_VERSION,
        "eval_split": eval_split.value.lower(),
    }
    records = read_metrics(paths, expected)
    tasks, hashes, provenance = {}, {}, None
    for task in (task for task in manifest.tasks if task in config.tasks):
        protocols = list(board_protocols(manifest.tasks[task]).values())
        folds = _complete(records, task, protocols, config.name)
        provenance = provenance or _provenance(folds)
        tasks[task] = task_record(manifest.tasks[task], protocols, _scores(folds), with_sets(provenance.pretraining, manifest.rfgen))
        hashes[task] = {
            name: {value: fold.hashes.predictions for value, fold in by_value.items()}
            for name, by_value in folds.items()
        }
    if provenance is None:
        raise InputError(f"model {config.name}: tasks: none of the release's, expected at least one")
    return run_record(
        manifest,
        config,
        provenance,
        tasks,
        hashes,
        seed=seed,
        eval_split=eval_split,
        control_of=config.control_of if isinstance(config, ControlConfig) else None,
    )


def _complete(
    records: FoldRecords, task: TaskID, protocols: Sequence[OODProtocol], model: str
) -> dict[str, dict[str, FoldRecord]]:
    """The folds of the given protocols in their own order; InputError names one, or a metric of it, that is missing."""
    folds: dict[str, dict[str, FoldRecord]] = {}
    for protocol in protocols:
        folds[protocol.name] = {}
        for value in protocol.eval_values():
            where = f"model {model}: {task} {protocol.name} {value}"
            fold = records.get(task, {}).get(protocol.name, {}).get(value)
            if fold is None:
                raise InputError(f"{where}: no metrics, expected every fold")
            metrics = (protocol.spec.metric, *protocol.spec.secondary_metrics)
            if missing := [metric for metric in metrics if metric not in fold.metrics]:
                raise InputError(f"{where}: metrics: no {missing[0]}")
            folds[protocol.name][value] = fold
    return folds


def _scores(folds: Mapping[str, Mapping[str, FoldRecord]]) -> TaskScores:
    return {name: {value: fold.metrics for value, fold in by_value.items()} for name, by_value in folds.items()}


def _provenance(folds: Mapping[str, Mapping[str, FoldRecord]]) -> Provenance:
    """The model's provenance, which every fold carries."""
    return next(iter(next(iter(folds.values())).values())).model_provenance


def stress_report(manifest: DataReleaseManifest, paths: Sequence[Path]) -> StressReport:
    """Scored tasks under leave-one-SNR-regime-out, by model; never in the OOD average.

    Args:
        manifest: the data release.
        paths: files ``.../MODEL/TASK/PROTOCOL/VALUE/metrics.json`` of the stress folds of every model.

    Raises:
        InputError: a fold is missing, or one is of another release or model than its folders say.
    """
    name = LeaveOneSNRRegimeOut.name
    models: dict[str, dict[TaskID, ScoreRecord]] = {}
    by_model: dict[str, list[Path]] = {}
    for path in paths:
        by_model.setdefault(Layout.fold_of(path).model, []).append(path)
    for model, own in by_model.items():
        records = read_metrics(own, {"data_release_hash": manifest.data_release_hash})
        models[model] = {}
        for task in records:
            spec = manifest.tasks[task]
            protocol = task_protocols(spec, manifest.stress_regimes.get(task, ()))[name]
            folds = _complete(records, task, [protocol], model)
            seen = with_sets(_provenance(folds).pretraining, manifest.rfgen)
            models[model][task] = score_record(spec.metric, protocol, _scores(folds), seen)
    return StressReport(
        release=manifest.release,
        data_release_hash=manifest.data_release_hash,
        caveats=(*manifest.caveats, "Stress scores are never part of the OOD average."),
        protocol=name,
        axis=OODAxis.SNR_REGIME,
        models=models,
    )
