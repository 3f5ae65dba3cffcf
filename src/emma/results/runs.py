"""The record of a run: one model's fold metrics put together, with the RunManifest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from emma.results.aggregate import summarise_task
from emma.backbones.load import ModelConfig
from emma.results.records import FoldRecord, RunRecord, ScoreRecord, TaskRecord, ValueRecord
from common.errors import InputError
from common.files import parse, read_json
from emma.version import HARNESS_VERSION
from emma.results.manifest import RunManifest, bundle_hash
from emma.metrics import METRICS
from emma.data.protocols import InDistribution, LeaveOneSNRRegimeOut, OODProtocol, board_protocols, task_protocols
from emma.data.release import DataReleaseManifest
from emma.tasks import OODAxis, Split, TaskID, TaskSpec

#: Metrics of one task's folds, by protocol and value, as ``score_task`` returns them.
TaskResults = Mapping[str, Mapping[str, Mapping[str, Any]]]

_DECLARED = {
    OODAxis.ENVIRONMENT: "environments",
    OODAxis.DEVICE: "devices",
    OODAxis.FREQUENCY_BAND: "frequency_bands",
    OODAxis.SNR_REGIME: "snr_regimes",
}


class Named(Protocol):
    """What a run record says of a model by itself: a ModelConfig has it."""

    name: str
    kind: str


def met_in_pretraining(pretraining: Mapping[str, Sequence[str]] | str, axis: str, value: str) -> bool | str:
    """Whether declared pretraining saw a held-out value; of a layered value, any part of it."""
    if pretraining == "unknown":
        return "unknown"
    if pretraining["release_splits"]:
        return True
    if "+" in value:
        environment, band = value.split("+")
        return environment in pretraining["environments"] or band in pretraining["frequency_bands"]
    return value in pretraining[_DECLARED[OODAxis(axis)]]


def score_record(
    spec: TaskSpec, metric: str, protocol: str, axis: str, folds: Mapping[str, Mapping[str, Any]], pretraining: Any
) -> dict[str, Any]:
    """The fields of a ScoreRecord from the fold metrics of one protocol, by value."""
    values = {
        value: ValueRecord(**record["metrics"][metric], met_in_pretraining=met_in_pretraining(pretraining, axis, value))
        for value, record in folds.items()
    }
    summary = summarise_task(spec, metric, {value: record.value for value, record in values.items()})
    naming = {"metric": metric, "unit": METRICS[metric].unit, "direction": METRICS[metric].direction}
    return naming | {"protocol": protocol, "axis": axis, "values": values} | summary


def task_record(spec: TaskSpec, results: TaskResults, pretraining: Any) -> TaskRecord:
    """A task's block of the board from the metrics of its folds."""
    primary, *others = [p for p in board_protocols(spec).values() if not isinstance(p, InDistribution)]
    common = (spec.metric, primary.name, primary.axis.value, results[primary.name], pretraining)
    secondary_metrics = {}
    for metric in spec.secondary_metrics:
        fields = score_record(spec, metric, primary.name, primary.axis.value, results[primary.name], pretraining)
        secondary_metrics[metric] = ScoreRecord(**fields)
    secondary = {}
    for protocol in others:
        fields = score_record(
            spec, spec.metric, protocol.name, protocol.axis.value, results[protocol.name], pretraining
        )
        secondary[protocol.name] = _as_score(fields)
    return TaskRecord(
        **score_record(spec, *common),
        in_ood_avg=spec.in_ood_avg,
        secondary_metrics=secondary_metrics,
        secondary=secondary,
    )


def run_record(
    manifest: DataReleaseManifest,
    config: Named,
    provenance: Mapping[str, Any],
    results: Mapping[TaskID, TaskResults],
    fold_hashes: Mapping[TaskID, Mapping[str, Mapping[str, str]]],
    *,
    seed: int,
    eval_split: Split,
) -> RunRecord:
    """One model's run from the metrics of all its folds.

    Args:
        manifest: the data release.
        config: the model's config, or anything with its name and kind.
        provenance: what ``load_backbone`` said of the model.
        results: fold metrics by task, protocol and value.
        fold_hashes: content hashes of the predictions, in the same places.
        seed: the run's seed.
        eval_split: DEV or HOLDOUT.
    """
    tasks = {task: task_record(manifest.tasks[task], results[task], provenance["pretraining"]) for task in results}
    task_metrics = {
        task: {record.metric: record.score} | {name: other.score for name, other in record.secondary_metrics.items()}
        for task, record in tasks.items()
    }
    return RunRecord(
        model=config.name,
        kind=config.kind,
        release=manifest.release,
        eval_split=eval_split.value.lower(),
        tasks=tasks,
        run_manifest=RunManifest(
            model_provenance=dict(provenance),
            data_release_hash=manifest.data_release_hash,
            prediction_bundle_hashes={task: bundle_hash(hashes) for task, hashes in fold_hashes.items()},
            task_metrics=task_metrics,
            seed=seed,
            harness_version=HARNESS_VERSION,
        ),
    )


def read_metrics(paths: Sequence[Path], expected: Mapping[str, Any]) -> dict[TaskID, dict[str, dict[str, dict]]]:
    """Read the metrics of one model's folds, by task, protocol and value as their folders say.

    Args:
        paths: files ``.../MODEL/TASK/PROTOCOL/VALUE/metrics.json``.
        expected: fields that every file must have (release hash, seed, ...).

    Raises:
        InputError: a file is missing, no fold's metrics, or in another fold's place; a field differs, or folds are of
            two models.
    """
    records: dict[TaskID, dict[str, dict[str, dict]]] = {}
    provenance = None
    for path in paths:
        record = parse(FoldRecord, read_json(path), path).model_dump()
        place = dict(zip(("value", "protocol", "task", "model"), path.parts[-2:-6:-1], strict=False))
        for key, wanted in {**place, **expected}.items():
            if record[key] != wanted:
                raise InputError(f"{path}: {key}: {record[key]}, expected {wanted}")
        provenance = provenance or record["model_provenance"]
        if record["model_provenance"] != provenance:
            raise InputError(f"{path}: model_provenance: differs between folds, expected one model")
        records.setdefault(record["task"], {}).setdefault(record["protocol"], {})[record["value"]] = record
    return records


def collect_run(
    manifest: DataReleaseManifest, config: ModelConfig, paths: Sequence[Path], *, seed: int, eval_split: Split
) -> RunRecord:
    """Read the metrics of a model's folds and make its run record.

    Raises:
        InputError: a fold is missing, or folds differ in release, seed, harness version, evaluation split or model.
    """
    expected = {
        "model": config.name,
        "data_release_hash": manifest.data_release_hash,
        "seed": seed,
        "harness_version": HARNESS_VERSION,
        "eval_split": eval_split.value.lower(),
    }
    found = read_metrics(paths, expected)
    results, hashes = {}, {}
    for task in (task for task in manifest.tasks if task in config.tasks):
        results[task] = _complete(found, task, board_protocols(manifest.tasks[task]), config.name)
        hashes[task] = {
            name: {value: record["hashes"]["predictions"] for value, record in values.items()}
            for name, values in results[task].items()
        }
    if not results:
        raise InputError(f"model {config.name}: tasks: none of the release's, expected at least one")
    provenance = _provenance(results)
    return run_record(manifest, config, provenance, results, hashes, seed=seed, eval_split=eval_split)


def _complete(
    found: Mapping[TaskID, TaskResults], task: TaskID, protocols: Mapping[str, OODProtocol], model: str
) -> dict[str, dict[str, Any]]:
    """The folds of the given protocols in their own order; InputError names one, or a metric of it, that is missing."""
    wanted = {name: protocol.eval_values() for name, protocol in protocols.items()}
    for name, values in wanted.items():
        for value in values:
            if value not in found.get(task, {}).get(name, {}):
                raise InputError(f"model {model}: {task} {name} {value}: no metrics, expected every fold")
            spec, metrics = protocols[name].spec, found[task][name][value]["metrics"]
            if missing := [metric for metric in (spec.metric, *spec.secondary_metrics) if metric not in metrics]:
                raise InputError(f"model {model}: {task} {name} {value}: metrics: no {missing[0]}")
    return {name: {value: dict(found[task][name][value]) for value in values} for name, values in wanted.items()}


def _provenance(results: Mapping[TaskID, TaskResults]) -> dict[str, Any]:
    """The model's provenance, which every fold carries."""
    folds = next(iter(next(iter(results.values())).values()))
    return next(iter(folds.values()))["model_provenance"]


def stress_report(manifest: DataReleaseManifest, paths: Sequence[Path]) -> dict[str, Any]:
    """``reports/stress.json``: scored tasks under leave-one-SNR-regime-out, by model; never in the OOD average.

    Args:
        manifest: the data release.
        paths: files ``.../MODEL/TASK/PROTOCOL/VALUE/metrics.json`` of the stress folds of every model.
    """
    name, axis = LeaveOneSNRRegimeOut.name, OODAxis.SNR_REGIME.value
    rows: dict[str, dict[str, Any]] = {}
    for path in paths:
        if len(path.parts) < 5:
            raise InputError(f"{path}: expected a file in folders MODEL/TASK/PROTOCOL/VALUE")
    for model in dict.fromkeys(path.parts[-5] for path in paths):
        own = [path for path in paths if path.parts[-5] == model]
        found = read_metrics(own, {"data_release_hash": manifest.data_release_hash})
        rows[model] = {}
        for task in found:
            spec = manifest.tasks[task]
            protocols = task_protocols(spec, manifest.stress_regimes.get(task, ()))
            results = _complete(found, task, {name: protocols[name]}, model)
            pretraining = _provenance({task: results})["pretraining"]
            fields = score_record(spec, spec.metric, name, axis, results[name], pretraining)
            rows[model][task.value] = _as_score(fields).model_dump(mode="json")
    caveats = [*manifest.caveats, "Stress scores are never part of the OOD average."]
    head = {"release": manifest.release, "data_release_hash": manifest.data_release_hash, "caveats": caveats}
    return head | {"protocol": name, "axis": axis, "models": rows}


def _as_score(fields: Mapping[str, Any]) -> ScoreRecord:
    """A ScoreRecord from ``score_record``, whose normalised score belongs to the primary protocol alone."""
    return ScoreRecord(**{key: value for key, value in fields.items() if key in ScoreRecord.model_fields})
