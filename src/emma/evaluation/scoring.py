"""From predictions to fold scores: score, interval over scenes, and the bootstrap replicates behind it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.data.protocols import InDistribution, primary_protocol
from emma.data.release import BootstrapSpec, DataReleaseManifest
from emma.data.tables import lists_to_matrix, matrix_to_lists, metadata_of, read_table, rows_of, write_table
from emma.evaluation.fitting import PredictedFold
from emma.evaluation.records import FloatArray, FoldRecord, FoldScore, Replicates, Score, TaskScores
from emma.evaluation.statistics import bootstrap_weights, percentile_interval
from emma.evaluation.task_metrics import metric_of
from emma.metrics import Metric, UndefinedMetricError
from emma.tasks import TaskID, TaskSpec, target_of
from emma.version import HARNESS_VERSION

#: Predictions and the reason a fold is undefined, by protocol and held-out value.
Folds = Mapping[str, Mapping[str, tuple[pa.Table, str | None]]]


#: Bootstrap replicates of one model and task, one row per fold and metric.
REPLICATE_SCHEMA = pa.schema(
    [
        pa.field("protocol", pa.string(), nullable=False),
        pa.field("held_out_value", pa.string(), nullable=False),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("replicates", pa.list_(pa.float64()), nullable=False),
    ]
)


@dataclass(frozen=True)
class ReplicateSource:
    """What drew replicates, as their schema metadata says; a board takes those of one release, seed and split alone.

    ``enrolment_seed``: what drew the galleries of the folds, where the task enrols; None elsewhere.
    """

    model: str
    task: str
    data_release_hash: str
    seed: int
    eval_split: str
    enrolment_seed: int | None
    harness_version: str = HARNESS_VERSION

    @property
    def metadata(self) -> dict[str, str]:
        """The record as schema metadata, without what is None."""
        return {key: str(fact) for key, fact in asdict(self).items() if fact is not None}


def metric_inputs(spec: TaskSpec, metric: Metric, predictions: pa.Table) -> tuple[Any, Any, int]:
    """What a metric takes, from a table of PREDICTION_SCHEMA with at least one row: see ``Target.metric_inputs``."""
    target = target_of(spec)
    scores = lists_to_matrix(predictions["scores"], target.width, "predictions: scores")
    return target.metric_inputs(metric, scores, np.asarray(predictions["target"]))


def score_predictions(
    spec: TaskSpec,
    metric_name: str,
    predictions: pa.Table,
    undefined_reason: str | None,
    bootstrap: BootstrapSpec,
    seed: tuple[int | str, ...],
) -> tuple[Score, FloatArray | None]:
    """Score one fold under one metric, whose value is compared with that of the kernel that resamples it.

    Scenes are resampled, or whole sessions where captures of one session are alike. The resamples depend on the seed
    and the scenes, never on the model, so that two models are compared on identical resamples.

    Args:
        spec: the task.
        metric_name: one of its metrics.
        predictions: a table of PREDICTION_SCHEMA.
        undefined_reason: why the fold cannot be scored, if it cannot.
        bootstrap: resamples, and level of the interval.
        seed: of the resamples.

    Returns:
        the score, and the replicates ``[R]`` behind its interval; no replicates where it is undefined.
    """
    n = predictions.num_rows
    if undefined_reason is not None:
        return Score(score=None, n=n, ci95=None, undefined_reason=undefined_reason), None
    metric = metric_of(spec, metric_name)
    preds, target, entries = metric_inputs(spec, metric, predictions)
    try:
        score = metric.checked(preds, target)
    except UndefinedMetricError as error:
        return Score(score=None, n=n, ci95=None, undefined_reason=str(error)), None
    except ValueError as error:
        raise InputError(f"predictions: {metric_name}: {error}") from None
    sessions = predictions["session"].to_pylist()
    groups = None if None in sessions else sessions
    weights = bootstrap_weights(n, n_resamples=bootstrap.resamples, seed=seed, groups=groups)
    replicates = metric.resampled(preds, target, np.repeat(weights, entries, axis=1))
    interval = percentile_interval(replicates, bootstrap.level)
    return Score(score=score, n=n, ci95=interval, undefined_reason=None), replicates


def score_task(
    spec: TaskSpec, task: str, folds: Folds, bootstrap: BootstrapSpec, seed: int, only: Collection[str] | None = None
) -> tuple[dict[str, dict[str, dict[str, FoldScore]]], dict[tuple[str, str, str], FloatArray]]:
    """Score every fold of one task.

    Args:
        spec: the task.
        task: its name, which seeds the resamples.
        folds: predictions and the reason a fold is undefined, by protocol and held-out value; with the
            in-distribution fold.
        bootstrap: resamples and level.
        seed: the run's seed.
        only: protocols to score; the others serve as reference alone. All of them by default.

    Returns:
        scores by protocol, held-out value and metric; and the replicates by (protocol, held-out value, metric).
    """
    reference, reference_undefined = folds[InDistribution.name]["all"]
    scores: dict[str, dict[str, dict[str, FoldScore]]] = {}
    replicates: dict[tuple[str, str, str], FloatArray] = {}
    for protocol, by_value in folds.items():
        if only is not None and protocol not in only:
            continue
        scores[protocol] = {}
        for held_out_value, (unsorted, undefined_reason) in by_value.items():
            # Resamples are drawn by row, so that the rows stand in one order for every model.
            predictions = unsorted.sort_by("scene_id")
            within = None
            if undefined_reason is None and reference_undefined is None:
                rows = rows_of(reference["scene_id"], predictions["scene_id"], f"{task} {InDistribution.name}")
                within = reference.take(pa.array(rows))
            by_metric = scores[protocol][held_out_value] = {}
            for metric in (spec.metric, *spec.secondary_metrics):
                resamples = (bootstrap, (seed, task, protocol, held_out_value))
                score, draws = score_predictions(spec, metric, predictions, undefined_reason, *resamples)
                in_distribution = None if within is None else point_score(spec, metric, within)
                by_metric[metric] = FoldScore(**dict(score), in_distribution=in_distribution)
                if draws is not None:
                    replicates[protocol, held_out_value, metric] = draws
    return scores, replicates


def point_score(spec: TaskSpec, metric_name: str, predictions: pa.Table) -> float | None:
    """The metric alone, checked against its kernel, without an interval; None where it is undefined."""
    metric = metric_of(spec, metric_name)
    preds, target, _ = metric_inputs(spec, metric, predictions)
    try:
        return metric.checked(preds, target)
    except UndefinedMetricError:
        return None


def fold_record(
    model: str,
    task: TaskID,
    place: tuple[str, str],
    scores: TaskScores,
    fold: PredictedFold,
    manifest: DataReleaseManifest,
    seed: int,
) -> FoldRecord:
    """The content of a fold's ``metrics.json``.

    Args:
        model: the model's name.
        task: the task.
        place: the fold's protocol and held-out value.
        scores: scores by protocol, held-out value and metric.
        fold: the predictions that were scored, and what made them.
        manifest: the data release.
        seed: the run's seed.
    """
    protocol, held_out_value = place
    return FoldRecord(
        model=model,
        task=task,
        protocol=protocol,
        held_out_value=held_out_value,
        data_release_hash=manifest.data_release_hash,
        seed=seed,
        harness_version=HARNESS_VERSION,
        eval_split=fold.eval_split,
        metrics=dict(scores[protocol][held_out_value]),
        hashes=fold.hashes,
        model_provenance=fold.provenance,
    )


def write_replicates(path: str | Path, replicates: Replicates, source: ReplicateSource) -> None:
    """Write the replicates of one model and task, in the order of protocol, held-out value and metric.

    Args:
        path: the file.
        replicates: draws ``[R]``.
        source: what drew them, for the schema metadata.
    """
    keys = sorted(replicates)
    naming = [pa.array([key[column] for key in keys], pa.string()) for column in range(3)]
    width = len(replicates[keys[0]]) if keys else 0
    lists = matrix_to_lists(np.array([replicates[key] for key in keys], np.float64).reshape(len(keys), width))
    write_table(path, pa.table([*naming, lists], schema=REPLICATE_SCHEMA), source.metadata)


def read_replicates(path: Path, source: ReplicateSource) -> dict[tuple[str, str, str], FloatArray]:
    """Read one file of replicates.

    Args:
        path: the file.
        source: what must have drawn them.

    Returns:
        draws ``[R]`` by (protocol, held-out value, metric).

    Raises:
        InputError: a broken file, other schema metadata, a row that occurs twice, or rows of different lengths.
    """
    table = read_table(path, REPLICATE_SCHEMA)
    actual, expected = metadata_of(table), source.metadata
    for key in dict.fromkeys([*expected, "enrolment_seed"]):
        if actual.get(key) != expected.get(key):
            raise InputError(f"{path}: {key}: {actual.get(key)}, expected {expected.get(key)}")
    columns = (table[name].to_pylist() for name in ("protocol", "held_out_value", "metric"))
    keys = list(zip(*columns, strict=True))
    if len(set(keys)) != len(keys):
        raise InputError(f"{path}: a fold and metric occur twice, expected one row for each")
    width = len(table["replicates"][0]) if keys else 0
    draws = lists_to_matrix(table["replicates"], width, f"{path}: replicates")
    return dict(zip(keys, draws, strict=True))


def primary_replicates(
    manifest: DataReleaseManifest, files: Iterable[tuple[str, str, Path]], seed: int, eval_split: str
) -> dict[str, dict[TaskID, dict[str, FloatArray]]]:
    """Replicates ``[R]`` of the primary metric under the primary protocol, by model, task and held-out value.

    Args:
        manifest: the data release.
        files: model, task and the file of their replicates.
        seed: the seed of the runs that they belong to.
        eval_split: the runs' evaluation split, dev or holdout.

    Raises:
        InputError: broken file, replicates of another model, task, release, seed or split, or a file given twice.
    """
    primary: dict[str, dict[TaskID, dict[str, FloatArray]]] = {}
    for model, name, path in files:
        spec, task = manifest.spec(name), TaskID(name)
        if task in primary.get(model, {}):
            raise InputError(f"{path}: replicates of {model} {task} given twice")
        enrolment_seed = seed if target_of(spec).enrols else None
        source = ReplicateSource(model, task.value, manifest.data_release_hash, seed, eval_split, enrolment_seed)
        place = (primary_protocol(spec).name, spec.metric)
        primary.setdefault(model, {})[task] = {
            held_out_value: draws
            for (protocol, held_out_value, metric), draws in read_replicates(path, source).items()
            if (protocol, metric) == place
        }
    return primary
