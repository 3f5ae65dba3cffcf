"""Finished results as tidy tables (pandas): models, scores, held-out values, folds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from common.errors import InputError
from common.files import parse, read_json
from emma.evaluation.records import FoldRecord, StandardErrors
from emma.results.layout import Layout
from emma.results.records import Board, BoardTask, Difference, Row, ScoreRecord
from emma.tasks import TaskID

if TYPE_CHECKING:
    import pandas as pd

#: A value of a cell; None where there is none.
Cell = str | int | float | bool | None

#: Ends of names of columns of numbers that may be missing.
_FLOAT_ENDS = ("_low", "_high", "_points", "error_scenes", "error_fit", "error_enrolment")

#: What names a row of ``scores``.
SCORE_KEYS = ("model", "task", "protocol", "metric")

_MET = {True: "yes", False: "no", "unknown": "unknown"}

#: Types of columns whose values may be missing, all of them at times: pandas would guess others.
_NULLABLE = {
    "rank": "Int64",
    "rank_best": "Int64",
    "rank_worst": "Int64",
    "n": "Int64",
    "seed": "Int64",
    "parameters": "Int64",
    "macs": "Int64",
    "width": "Int64",
    "weights_bytes": "Int64",
    "clipped": "boolean",
    "separable_from_next": "boolean",
    "fragile": "boolean",
}
_TEXTS = (
    "unranked",
    "row_caveats",
    "control",
    "licence",
    "link",
    "description",
    "undefined_reason",
    "sim_to_real_kind",
    "sim_to_real_over",
    "sim_to_real_matched_over",
     "readout_sha256", "weights_sha256")
_FLOATS = ("ood_avg", "score", "standard_error", "normalized", "in_distribution", "floor_p", "control_ood_avg", "over_control", "control_score", "score_over_control")


@dataclass(frozen=True)
class BoardFrames:
    """A leaderboard as tidy tables, rows in board order.

    Attributes:
        caveats: what must be said beside every aggregate.
        models: one row per model: rank and its range, or why it has none, kind, standing, OOD average, its interval and standard errors by
            cause, the comparison with its control, sim-to-real gaps in percentage points, what it is and costs.
        scores: one row per model, task, protocol and metric. ``primary``: the task's own score, in the metric's unit;
            ``normalized`` is on the anchors' scale, ``floor_p`` the one-sided p against the floor and
            ``score_over_control`` how much better it is than the control's, for primary scores alone.
        held_out_values: one row per model, task, protocol, metric and held-out value; ``gap_low`` and ``gap_high``
            bound ``score - in_distribution``.
    """

    caveats: tuple[str, ...]
    models: pd.DataFrame
    scores: pd.DataFrame
    held_out_values: pd.DataFrame


@dataclass(frozen=True)
class ResultFrames(BoardFrames):
    """Finished results as tidy tables.

    Attributes:
        folds: one row per fold, those of the stress report too: what was scored, and the hashes of what made it.
    """

    folds: pd.DataFrame


def load(results: str | Path = "results") -> ResultFrames:
    """Read finished results.

    Args:
        results: the folder that the workflow wrote: ``results``, or ``results/releases/NAME``.

    Raises:
        InputError: no leaderboard there, a fold's metrics missing, or of another release than the leaderboard.
    """
    layout = Layout(results)
    if not layout.board.is_file():
        raise InputError(f"{layout.board}: no such file; other releases stand under results/releases/NAME")
    board = parse(Board, read_json(layout.board), layout.board)
    folds = _frame([_fold(record) for record in _folds(layout, board)], _FOLD_COLUMNS)
    return ResultFrames(**vars(board_frames(board)), folds=folds)


def board_frames(board: Board) -> BoardFrames:
    """The tables of a leaderboard."""
    every = [(row, *named) for row in board.models for named in _scores(row)]
    values = [_held_out(row, task, score, name) for row, task, score, _ in every for name in score.values]
    return BoardFrames(
        caveats=board.caveats,
        models=_frame([_model(row) for row in board.models], _MODEL_COLUMNS),
        scores=_frame([_score(*named) for named in every], _SCORE_COLUMNS),
        held_out_values=_frame(values, _VALUE_COLUMNS),
    )


def board_csv(board: Board) -> str:
    """The board as CSV: one row per model, task, protocol, metric and held-out value, aggregates beside components.

    Every row ends with the release's caveats, since every row shows an aggregate.
    """
    frames, keys = board_frames(board), list(SCORE_KEYS)
    values = frames.held_out_values.rename(columns={"score": "held_out_score"})
    beside = frames.scores[[*keys, "direction", "score", "normalized", "floor_p", *_CONTROL_SCORES]]
    models = frames.models.drop(columns="undefined_reason")
    table = values.merge(beside, on=keys, how="left").merge(models, on="model", how="left")
    table = table.assign(caveats=" ".join(frames.caveats))
    for name in ("caveats", "licence", "link", "description"):
        table[name] = table[name].map(_no_formula)
    return str(table[list(_CSV_COLUMNS)].to_csv(index=False, lineterminator="\n"))


def _no_formula(text: object) -> object:
    """A text that no spreadsheet takes for a formula: one that begins like one has an apostrophe before it."""
    return f"'{text}" if isinstance(text, str) and text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


#: Standard errors by cause.
_ERRORS = ("error_scenes", "error_fit", "error_enrolment")

#: Sim-to-real gaps: of sets in the release's format, and of those with a matched synthetic set.
_GAPS = (
    "sim_to_real_kind",
    "sim_to_real_points",
    "sim_to_real_over",
    "sim_to_real_matched_points",
    "sim_to_real_matched_over",
)

#: A model's control, the control's OOD average, and how much better the model's is.
_CONTROLS = ("control", "control_ood_avg", "over_control", "over_control_low", "over_control_high")

#: What a model is and costs.
_COSTS = ("parameters", "macs", "width", "weights_bytes", "licence", "link", "description")

_MODEL_COLUMNS = (
    "model",
    "kind",
    "standing",
    "rank",
    "rank_best",
    "rank_worst",
    "ood_avg",
    "ood_avg_low",
    "ood_avg_high",
    *(f"ood_avg_{error}" for error in _ERRORS),
    "separable_from_next",
    "fragile",
    *_CONTROLS,
    *_GAPS,
    *_COSTS,
    "unranked",
    "row_caveats",
    "undefined_reason",
)
#: The same of a task's own score, in the metric's unit.
_CONTROL_SCORES = ("control_score", "score_over_control", "score_over_control_low", "score_over_control_high")

_SCORE_COLUMNS = (
    *SCORE_KEYS,
    "unit",
    "direction",
    "primary",
    "in_ood_avg",
    "score",
    "standard_error",
    "normalized",
    "clipped",
    "floor_p",
    *_CONTROL_SCORES,
    "undefined_reason",
)
_VALUE_COLUMNS = (
    *SCORE_KEYS,
    "held_out_value",
    "score",
    "ci95_low",
    "ci95_high",
    *_ERRORS,
    "n",
    "in_distribution",
    "gap_low",
    "gap_high",
    "met_in_pretraining",
    "undefined_reason",
)
_FOLD_COLUMNS = (
    "model",
    "task",
    "protocol",
    "held_out_value",
    "eval_split",
    "seed",
    "harness_version",
    "data_release_hash",
    "predictions_hash",
    "readout_sha256",
    "config_sha256",
    "weights_sha256",
)
_CSV_COLUMNS = (
    "rank",
    "rank_best",
    "rank_worst",
    "model",
    "kind",
    "standing",
    "unranked",
    "ood_avg",
    "ood_avg_low",
    "ood_avg_high",
    *_CONTROLS,
    *_GAPS,
    *_COSTS,
    "task",
    "protocol",
    "metric",
    "direction",
    "score",
    "normalized",
    "floor_p",
    *_CONTROL_SCORES,
    "held_out_value",
    "held_out_score",
    "ci95_low",
    "ci95_high",
    "n",
    "in_distribution",
    "gap_low",
    "gap_high",
    "undefined_reason",
    "row_caveats",
    "caveats",
)


def _frame(rows: Sequence[Sequence[Cell]], columns: Sequence[str]) -> pd.DataFrame:
    # Half a second to import: only for those who make a table.
    import pandas as pd

    frame = pd.DataFrame(list(rows), columns=list(columns))
    types = {name: _NULLABLE[name] for name in columns if name in _NULLABLE}
    types |= {name: "str" for name in columns if name in _TEXTS}
    types |= {name: "float64" for name in columns if name in _FLOATS or name.endswith(_FLOAT_ENDS)}
    return frame.astype(types)


def _scores(row: Row) -> Iterator[tuple[str, ScoreRecord, bool]]:
    """Task, score and whether it is the task's own, of every score of a model."""
    for task, block in row.tasks.items():
        yield task.value, block, True
        for other in (*block.secondary_metrics.values(), *block.secondary.values()):
            yield task.value, other, False


def _model(row: Row) -> tuple[Cell, ...]:
    fragile = None if row.sensitivity is None else row.sensitivity.fragile
    average = (row.ood_avg, *(row.ood_avg_ci95 or (None, None)), *_errors(row.ood_avg_standard_errors))
    ranks = (row.rank, *(row.rank_range or (None, None)))
    gaps: tuple[Cell, ...] = (None,) * len(_GAPS)
    if (block := row.sim_to_real) is not None:
        both = [cell for gap in (block, block.matched) for cell in (gap.gap_percentage_points, _words(gap.over))]
        gaps = (block.kind, *both)
    control = _difference(row.control.ood_avg if row.control else None)
    named = (row.control.model if row.control else None, *control)
    costs = tuple(None if row.cost is None else getattr(row.cost, key) for key in _COSTS)
    told = (row.unranked, _words(row.caveats), row.undefined)
    rest = (row.separable_from_next, fragile, *named, *gaps, *costs, *told)
    return (row.model, row.kind, row.standing, *ranks, *average, *rest)


def _difference(difference: Difference | None) -> tuple[Cell, ...]:
    """A control's score, how much better the model's is, and the interval of that."""
    if difference is None:
        return (None,) * 4
    return (difference.score, difference.difference, *(difference.ci95 or (None, None)))


def _words(names: Sequence[str]) -> str | None:
    return " ".join(names) or None


def _errors(errors: StandardErrors | None) -> tuple[Cell, ...]:
    return (None, None, None) if errors is None else (errors.scenes, errors.fit, errors.enrolment)


def _score(row: Row, task: str, score: ScoreRecord, primary: bool) -> tuple[Cell, ...]:
    own = score if isinstance(score, BoardTask) else None
    floor = None if own is None or own.beats_floor is None else own.beats_floor.p
    scale = (None, None, None) if own is None else (own.normalized, own.clipped, floor)
    head = (row.model, task, score.protocol, score.metric, score.unit, score.direction)
    return (
        *head,
        primary,
        own is not None and own.in_ood_avg,
        score.score,
        score.standard_error,
        *scale,
        *_difference(row.control.tasks.get(TaskID(task)) if own is not None and row.control else None),
        score.undefined,
    )


def _held_out(row: Row, task: str, score: ScoreRecord, held_out_value: str) -> tuple[Cell, ...]:
    record = score.values[held_out_value]
    head = (row.model, task, score.protocol, score.metric, held_out_value)
    within = (record.n, record.in_distribution, *(record.gap_ci95 or (None, None)))
    own = (record.score, *(record.ci95 or (None, None)), *_errors(record.standard_errors))
    return (*head, *own, *within, _MET[record.met_in_pretraining], record.undefined_reason)


def _folds(layout: Layout, board: Board) -> Iterator[FoldRecord]:
    """The folds of the board's models, in the order of board, tasks and names."""
    for row in board.models:
        for task, block in row.tasks.items():
            paths = layout.metrics_of(row.model, task.value)
            for value in block.values:
                own = layout.metrics(row.model, task.value, block.protocol, value)
                if own not in paths:
                    raise InputError(f"{own}: no such file")
            for path in paths:
                record = parse(FoldRecord, read_json(path), path)
                if record.data_release_hash != board.data_release_hash:
                    raise InputError(
                        f"{path}: data_release_hash: expected {board.data_release_hash}, the leaderboard's"
                    )
                yield record


def _fold(record: FoldRecord) -> tuple[Cell, ...]:
    place = (record.model, record.task.value, record.protocol, record.held_out_value)
    made = (record.eval_split, record.seed, record.harness_version, record.data_release_hash)
    model = record.model_provenance
    hashes = (record.hashes.predictions, record.hashes.readout, model.config_sha256, model.weights_sha256)
    return (*place, *made, *hashes)
