"""From predictions to fold scores: score, interval over scenes, fits and enrolments, and the draws behind it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from common.errors import InputError
from emma.data.folds import row_keys
from emma.data.protocols import base_name, reference_name
from emma.data.release import BootstrapSpec
from emma.data.tables import rows_of
from emma.evaluation.fitting import Predicted, PredictedFold
from emma.evaluation.records import Draws, FloatArray, FoldRecord, FoldScore, Interval, Score, TaskScores
from emma.evaluation.refits import FIFTHS, REFIT_TURNS
from emma.evaluation.statistics import bootstrap_weights, percentile_interval
from emma.evaluation.task_metrics import metric_of
from emma.evaluation.uncertainty import less, parts_of, t_interval
from emma.metrics import Metric, UndefinedMetricError
from emma.tasks import TaskID, TaskSpec, target_of
from emma.version import HARNESS_VERSION

#: The order of rows of predictions.
_ROW_ORDER = [("scene_id", "ascending"), ("turn", "ascending")]

#: What is scored, by protocol and held-out value.
Folds = Mapping[str, Mapping[str, Predicted]]


def metric_inputs(spec: TaskSpec, metric: Metric, predictions: pa.Table) -> tuple[Any, Any, int]:
    """What a metric takes, from a table of PREDICTION_SCHEMA with at least one row: see ``Target.metric_inputs``."""
    target = target_of(spec)
    scores = target.read(predictions["scores"], "predictions: scores")
    return target.metric_inputs(metric, scores, target.numbers(predictions["target"]))


def turns_of(predictions: pa.Table) -> list[NDArray[np.int64]]:
    """Rows of each turn of enrolment, in their order; all rows at once where the task does not enrol."""
    if not predictions.num_rows or predictions["turn"].null_count:
        return [np.arange(predictions.num_rows)]
    turns = np.asarray(predictions["turn"])
    return [np.flatnonzero(turns == turn) for turn in np.unique(turns)]


def score_predictions(
    spec: TaskSpec,
    metric_name: str,
    predictions: pa.Table,
    undefined_reason: str | None,
    bootstrap: BootstrapSpec,
    seed: tuple[int | str, ...],
    refits: pa.Table | None = None,
) -> tuple[Score, Draws | None]:
    """Score one fold under one metric, whose value is compared with that of the kernel that resamples it.

    Scenes are resampled, or whole sessions where captures of one session are alike. The resamples depend on the seed
    and the scenes, never on the model, so that two models are compared on identical resamples. Where units are enrolled
    in turn, the score is the mean over turns.

    Args:
        spec: the task.
        metric_name: one of its metrics.
        predictions: a table of PREDICTION_SCHEMA.
        undefined_reason: why the fold cannot be scored, if it cannot.
        bootstrap: resamples, and level of the interval.
        seed: of the resamples.
        refits: a table of REFIT_SCHEMA of the same scenes; without it, or its rows, the interval lacks the fit.

    Returns:
        the score, and the draws behind its interval; no draws where it is undefined.

    Raises:
        InputError: a broken prediction, or refits that are not of the same scenes.
    """
    n = len(pc.unique(predictions["scene_id"]))
    if undefined_reason is not None:
        return Score(score=None, n=n, ci95=None, undefined_reason=undefined_reason), None
    metric, turns = metric_of(spec, metric_name), turns_of(predictions)
    inputs = [metric_inputs(spec, metric, predictions.take(pa.array(rows))) for rows in turns]
    try:
        by_turn = np.array([metric.checked(preds, target) for preds, target, _ in inputs])
    except UndefinedMetricError as error:
        return Score(score=None, n=n, ci95=None, undefined_reason=str(error)), None
    except ValueError as error:
        raise InputError(f"predictions: {metric_name}: {error}") from None
    sessions = predictions["session"].to_pylist()
    groups = None if None in sessions else sessions
    # A metric of all pairs, turn by turn, takes minutes per model; its deviation alone needs no more than this.
    fewer = metric_name != spec.metric and len(turns) > 1
    resamples = -(-bootstrap.resamples // 5) if fewer else bootstrap.resamples
    drawn = slice(REFIT_TURNS) if fewer else slice(None)
    weights = bootstrap_weights(predictions.num_rows, n_resamples=resamples, seed=seed, groups=groups)
    resampled = [
        metric.resampled(preds, target, np.repeat(weights[:, rows], entries, axis=1))
        for rows, (preds, target, entries) in zip(turns[drawn], inputs[drawn], strict=True)
    ]
    draws = Draws(
        np.mean(resampled, axis=0),
        n if groups is None else min(len({groups[row] for row in rows}) for rows in turns),
        jackknife_scores(spec, metric_name, predictions, refits) if refits is not None and refits.num_rows else None,
        by_turn if len(turns) > 1 else None,
    )
    score = float(by_turn.mean())
    interval = interval_of(spec, metric_name, score, draws, bootstrap.level)
    errors = parts_of(draws).standard_errors
    return Score(score=score, n=n, ci95=interval, standard_errors=errors, undefined_reason=None), draws


def interval_of(spec: TaskSpec, metric_name: str, score: float, draws: Draws, level: float) -> Interval | None:
    """The interval of a score by Student's t over the parts of its draws, within the metric's bounds.

    Args:
        spec: the task.
        metric_name: one of its metrics.
        score: the score.
        draws: the draws behind it.
        level: coverage, in (0, 1).

    Returns:
        None where nothing says how the score varies with the scenes: there is but one unit.
    """
    total = parts_of(draws).total
    if total is not None:
        return t_interval(score, total, level, metric_of(spec, metric_name).bounds)
    # Some resamples are infinite: nothing to take a deviation of. One unit alone has no spread at all.
    return percentile_interval(draws.bootstrap, level) if draws.units > 1 else None


def jackknife_scores(spec: TaskSpec, metric_name: str, predictions: pa.Table, refits: pa.Table) -> FloatArray:
    """Scores ``[5]`` of a fold's readout refit without each fifth of its fit scenes, on the fold's own eval scenes.

    Args:
        spec: the task.
        metric_name: one of its metrics.
        predictions: a table of PREDICTION_SCHEMA, which says what is scored.
        refits: a table of REFIT_SCHEMA.

    Returns:
        one score per fifth, the mean over the turns of refits where units are enrolled; NaN where a refit has no rows.

    Raises:
        InputError: a refit that lacks a scene.
    """
    metric, scores = metric_of(spec, metric_name), np.full(FIFTHS, np.nan)
    if len(turns_of(predictions)) > 1:
        predictions = predictions.filter(pc.less(predictions["turn"], REFIT_TURNS))
    for fifth in range(FIFTHS):
        own = refits.filter(pc.equal(refits["without"], fifth))
        if not own.num_rows:
            continue
        column = predictions.column_names.index("scores")
        refit = aligned(own, predictions, f"refits without fifth {fifth}")["scores"]
        table = predictions.set_column(column, predictions.schema.field("scores"), refit)
        by_turn = [
            metric.kernel(*metric_inputs(spec, metric, table.take(pa.array(rows)))[:2]) for rows in turns_of(table)
        ]
        scores[fifth] = np.mean(by_turn)
    return scores


def aligned(table: pa.Table, predictions: pa.Table, what: str) -> pa.Table:
    """Rows of ``table`` in the order of the scenes and turns of ``predictions``; InputError where one is missing."""
    return table.take(pa.array(rows_of(row_keys(table), row_keys(predictions), what)))


def gap_interval(
    own: tuple[Score, Draws | None], reference: tuple[Score, Draws | None], level: float
) -> Interval | None:
    """The interval of a fold's score less that of its reference on the same scenes.

    Both are paired: the same resamples, the same fifths left out of both fits, the same turns.

    Args:
        own: what ``score_predictions`` gives of the fold.
        reference: what it gives of the reference with the same seed.
        level: coverage, in (0, 1).

    Returns:
        None where one of the two has no score, or nothing says how they vary.

    Raises:
        ValueError: the two were drawn on other scenes.
    """
    (score, draws), (within, reference_draws) = own, reference
    if score.score is None or within.score is None or draws is None or reference_draws is None:
        return None
    difference = less(draws, reference_draws)
    part = parts_of(difference).total
    if part is None:
        return percentile_interval(difference.bootstrap, level) if difference.units > 1 else None
    return t_interval(score.score - within.score, part, level)


def score_task(
    spec: TaskSpec,
    task: str,
    folds: Folds,
    bootstrap: BootstrapSpec,
    seed: int,
    only: Collection[str] | None = None,
) -> tuple[dict[str, dict[str, dict[str, FoldScore]]], dict[tuple[str, str, str], Draws]]:
    """Score every fold of one task.

    Args:
        spec: the task.
        task: its name, which seeds the resamples.
        folds: what was predicted, by protocol and held-out value; with the references of every protocol that is
            scored.
        bootstrap: resamples and level.
        seed: the run's seed.
        only: protocols to score; the others serve as reference alone. All of them by default.

    Returns:
        scores by protocol, held-out value and metric; and the draws by (protocol, held-out value, metric).
    """
    # Resamples are drawn by row, so that the rows stand in one order for every model.
    tables = {
        (protocol, value): Predicted(*fold)._replace(predictions=fold[0].sort_by(_ROW_ORDER))
        for protocol, by_value in folds.items()
        for value, fold in by_value.items()
    }

    @cache
    def scored(protocol: str, value: str, metric: str) -> tuple[Score, Draws | None]:
        # A reference is resampled as its fold is, so that the two are compared pair by pair.
        own, resamples = tables[protocol, value], (bootstrap, (seed, task, base_name(spec, protocol), value))
        if protocol == reference_name(spec, protocol) and metric != spec.metric and own.undefined_reason is None:
            # Only the primary metric's gap has an interval: draws of a secondary one would cost more than they tell.
            score, n = point_score(spec, metric, own.predictions), len(pc.unique(own.predictions["scene_id"]))
            reason = None if score is not None else f"{metric} is undefined"
            return Score(score=score, n=n, ci95=None, undefined_reason=reason), None
        return score_predictions(spec, metric, own.predictions, own.undefined_reason, *resamples, own.refits)

    scores: dict[str, dict[str, dict[str, FoldScore]]] = {}
    replicates: dict[tuple[str, str, str], Draws] = {}
    for (protocol, value), fold in tables.items():
        if only is not None and protocol not in only:
            continue
        reference = reference_name(spec, protocol)
        met_fold = tables[reference, value]
        undefined = fold.undefined_reason or met_fold.undefined_reason
        if not undefined:
            _same_scenes(fold.predictions, met_fold.predictions, f"{task} {reference} {value}")
        by_metric = scores.setdefault(protocol, {})[value] = {}
        for metric in (spec.metric, *spec.secondary_metrics):
            own = scored(protocol, value, metric)
            within = gap = None
            if not undefined:
                met = scored(reference, value, metric)
                within = met[0].score
                gap = None if protocol == reference else gap_interval(own, met, bootstrap.level)
            chosen = fold.regularisation
            by_metric[metric] = FoldScore(**dict(own[0]), in_distribution=within, gap_ci95=gap, regularisation=chosen)
            if own[1] is not None:
                replicates[protocol, value, metric] = own[1]
    return scores, replicates


def _same_scenes(predictions: pa.Table, reference: pa.Table, what: str) -> None:
    """InputError for a reference that is not of the same scenes and turns."""
    rows_of(row_keys(reference), row_keys(predictions), what)
    if reference.num_rows != predictions.num_rows:
        raise InputError(f"{what}: {reference.num_rows} predictions, expected the {predictions.num_rows} of its fold")


def point_score(spec: TaskSpec, metric_name: str, predictions: pa.Table) -> float | None:
    """The metric alone, the mean over turns where units are enrolled, checked against its kernel; None if undefined."""
    metric = metric_of(spec, metric_name)
    inputs = [metric_inputs(spec, metric, predictions.take(pa.array(rows)))[:2] for rows in turns_of(predictions)]
    try:
        return float(np.mean([metric.checked(*given) for given in inputs]))
    except UndefinedMetricError:
        return None


def fold_record(
    model: str,
    task: TaskID,
    place: tuple[str, str],
    scores: TaskScores,
    fold: PredictedFold,
    data_release_hash: str,
    seed: int,
) -> FoldRecord:
    """The content of a fold's ``metrics.json``.

    Args:
        model: the model's name.
        task: the task.
        place: the fold's protocol and held-out value.
        scores: scores by protocol, held-out value and metric.
        fold: the predictions that were scored, and what made them.
        data_release_hash: that of the release.
        seed: the run's seed.
    """
    protocol, held_out_value = place
    return FoldRecord(
        model=model,
        task=task,
        protocol=protocol,
        held_out_value=held_out_value,
        data_release_hash=data_release_hash,
        seed=seed,
        harness_version=HARNESS_VERSION,
        eval_split=fold.eval_split,
        metrics=dict(scores[protocol][held_out_value]),
        hashes=fold.hashes,
        model_provenance=fold.provenance,
    )
