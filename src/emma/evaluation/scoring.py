"""From predictions to fold metrics: value, interval over scenes, and the bootstrap replicates behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.data.protocols import InDistribution, primary_protocol
from emma.data.release import BootstrapSpec, DataReleaseManifest
from emma.data.tables import lists_to_matrix, matrix_to_lists, metadata_of, read_table, rows_of, write_table
from emma.evaluation.statistics import bootstrap_weights
from emma.metrics import METRICS, Metric, UndefinedMetricError
from emma.tasks import TaskID, TaskSpec, target_of
from emma.version import HARNESS_VERSION

#: Predictions and the reason a fold is undefined, by protocol and value.
Folds = Mapping[str, Mapping[str, tuple[pa.Table, str | None]]]


#: Bootstrap replicates of one model and task, one row a fold and metric.
REPLICATE_SCHEMA = pa.schema(
    [
        pa.field("protocol", pa.string(), nullable=False),
        pa.field("value", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("replicates", pa.list_(pa.float64()), nullable=False),
    ]
)

#: What the schema metadata of replicates says; a board takes those of one release, seed and evaluation split alone.
REPLICATE_PROVENANCE = ("model", "task", "data_release_hash", "seed", "eval_split", "harness_version")


def metric_inputs(spec: TaskSpec, metric: Metric, predictions: pa.Table) -> tuple[Any, Any, int]:
    """What a metric takes, from a table of PREDICTION_SCHEMA with at least one row: see ``Target.metric_inputs``."""
    target = target_of(spec)
    scores = lists_to_matrix(predictions["scores"], target.width, "predictions: scores")
    return target.metric_inputs(metric, scores, np.asarray(predictions["target"]))


def score_predictions(
    spec: TaskSpec,
    metric_name: str,
    predictions: pa.Table,
    undefined: str | None,
    bootstrap: BootstrapSpec,
    seed: tuple[int | str, ...],
) -> tuple[dict[str, Any], np.ndarray | None]:
    """Score one fold under one metric.

    Scenes are resampled, or whole sessions where captures of one session are alike. The resamples depend on the seed
    and the scenes, never on the model, so that two models are compared on identical resamples.

    Returns:
        ``{"value", "n", "ci95", "undefined"}`` (the interval at the release's level), and the replicates ``[R]``.
    """
    n = predictions.num_rows
    record = {"value": None, "n": n, "ci95": None, "undefined": undefined}
    if undefined is not None:
        return record, None
    metric = METRICS[metric_name]
    preds, wanted, entries = metric_inputs(spec, metric, predictions)
    try:
        record["value"] = metric(preds, wanted)
    except UndefinedMetricError as error:
        return record | {"undefined": str(error)}, None
    except ValueError as error:
        raise InputError(f"predictions: {metric_name}: {error}") from None
    sessions = predictions["session"].to_pylist()
    groups = None if None in sessions else sessions
    weights = bootstrap_weights(n, n_resamples=bootstrap.resamples, seed=seed, groups=groups)
    replicates = metric.resampled(preds, wanted, np.repeat(weights, entries, axis=1))
    defined = replicates[~np.isnan(replicates)]
    if 2 * len(defined) >= len(replicates):
        tail = 50.0 * (1.0 - bootstrap.level)
        record["ci95"] = [float(edge) for edge in np.percentile(defined, [tail, 100.0 - tail])]
    return record, replicates


def score_task(
    spec: TaskSpec, task: str, folds: Folds, bootstrap: BootstrapSpec, seed: int, only: Collection[str] | None = None
) -> tuple[dict[str, dict[str, dict[str, Any]]], dict[tuple[str, str, str], np.ndarray]]:
    """Score every fold of one task.

    Args:
        spec: the task.
        task: its name, which seeds the resamples.
        folds: predictions and the reason a fold is undefined, by protocol and value; with the in-distribution fold.
        bootstrap: resamples and level.
        seed: the run's seed.
        only: protocols to score; the others serve as reference alone. All of them by default.

    Returns:
        metrics by protocol and value: ``{"metrics": {name: record}}`` with ``in_distribution`` in each record, the
        value on the same scenes of the readout that was fit on all TRAIN scenes; and the replicates by
        (protocol, value, metric).
    """
    reference, reference_undefined = folds[InDistribution.name]["all"]
    results: dict[str, dict[str, dict[str, Any]]] = {}
    replicates: dict[tuple[str, str, str], np.ndarray] = {}
    for protocol, values in folds.items():
        if only is not None and protocol not in only:
            continue
        results[protocol] = {}
        for value, (predictions, undefined) in values.items():
            metrics = {}
            # Resamples are drawn by row, so that the rows stand in one order for every model.
            predictions = predictions.sort_by("scene_id")  # noqa: PLW2901
            comparable = undefined is None and reference_undefined is None
            if comparable:
                rows = rows_of(reference["scene_id"], predictions["scene_id"], f"{task} {InDistribution.name}")
                within = reference.take(pa.array(rows))
            for name in (spec.metric, *spec.secondary_metrics):
                arguments = (bootstrap, (seed, task, protocol, value))
                record, draws = score_predictions(spec, name, predictions, undefined, *arguments)
                record["in_distribution"] = None
                if comparable:
                    record["in_distribution"] = point_value(spec, name, within)
                if draws is not None:
                    replicates[protocol, value, name] = draws
                metrics[name] = record
            results[protocol][value] = {"metrics": metrics}
    return results, replicates


def point_value(spec: TaskSpec, metric_name: str, predictions: pa.Table) -> float | None:
    """The metric alone, without an interval; None where it is undefined."""
    metric = METRICS[metric_name]
    preds, wanted, _ = metric_inputs(spec, metric, predictions)
    try:
        return metric(preds, wanted)
    except UndefinedMetricError:
        return None


def fold_metrics(
    model: str,
    task: str,
    protocol: str,
    value: str,
    result: Mapping[str, Any],
    manifest: DataReleaseManifest,
    seed: int,
) -> dict[str, Any]:
    """The content of a fold's ``metrics.json``, but for the hashes of what was scored."""
    return {
        "model": model,
        "task": task,
        "protocol": protocol,
        "value": value,
        "data_release_hash": manifest.data_release_hash,
        "seed": seed,
        "harness_version": HARNESS_VERSION,
        **result,
    }


def write_replicates(
    path: str | Path, replicates: Mapping[tuple[str, str, str], np.ndarray], provenance: Mapping[str, Any]
) -> None:
    """Write the replicates of one model and task, in the order of protocol, value and metric.

    Args:
        path: the file.
        replicates: draws by (protocol, value, metric).
        provenance: what drew them, for the schema metadata: REPLICATE_PROVENANCE.
    """
    keys = sorted(replicates)
    naming = [pa.array([key[column] for key in keys], pa.string()) for column in range(3)]
    width = len(replicates[keys[0]]) if keys else 0
    lists = matrix_to_lists(np.array([replicates[key] for key in keys], np.float64).reshape(len(keys), width))
    said = {key: str(provenance[key]) for key in REPLICATE_PROVENANCE}
    write_table(path, pa.table([*naming, lists], schema=REPLICATE_SCHEMA), said)


def read_replicates(path: Path, expected: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows of one file of replicates; InputError where its schema metadata is not the provenance expected."""
    table = read_table(path, REPLICATE_SCHEMA)
    found = metadata_of(table)
    for key, wanted in expected.items():
        if found.get(key) != str(wanted):
            raise InputError(f"{path}: {key}: {found.get(key)}, expected {wanted}")
    return table.to_pylist()


def primary_replicates(
    manifest: DataReleaseManifest, paths: Iterable[Path], seed: int, eval_split: str
) -> dict[str, dict[TaskID, dict]]:
    """Replicates ``[R]`` of the primary metric under the primary protocol, by model, task and held-out value.

    Args:
        manifest: the data release.
        paths: files ``.../MODEL/TASK/score_replicates.parquet``.
        seed: the seed of the runs that they belong to.
        eval_split: the runs' evaluation split, dev or holdout.

    Raises:
        InputError: broken file, replicates of another model, task, release, seed or split, or a file given twice.
    """
    shared = {"data_release_hash": manifest.data_release_hash, "seed": seed, "eval_split": eval_split}
    shared |= {"harness_version": HARNESS_VERSION}
    found: dict[str, dict[TaskID, dict]] = {}
    for path in paths:
        model, task = path.parts[-3], TaskID(path.parts[-2])
        spec = manifest.spec(task)
        wanted = {"protocol": primary_protocol(spec).name, "metric": spec.metric}
        if task in found.get(model, {}):
            raise InputError(f"{path}: replicates of {model} {task} given twice")
        found.setdefault(model, {})[task] = {
            row["value"]: np.array(row["replicates"])
            for row in read_replicates(path, {"model": model, "task": task.value, **shared})
            if all(row[key] == value for key, value in wanted.items())
        }
    return found
