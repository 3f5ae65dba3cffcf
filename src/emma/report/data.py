"""Tidy rows out of a leaderboard: what every table and figure shows, in board order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypedDict

from common.errors import InputError
from emma.data.release import DataReleaseManifest
from emma.evaluation.records import Interval, StandardErrors
from emma.results.components import components_text, headroom
from emma.results.normalisation import normalise_clipped
from emma.results.records import Board, RankRange, RankRanges, Row, ScoreRecord, TaskRecord
from emma.tasks import Anchors, TaskID

#: Arrows of the field: which way is better.
ARROW = {"higher": "↑", "lower": "↓"}

#: What a row outside the ranking, or of somebody else, is called beside its name.
KINDS = {"submitted": "submitted", "reference": "textbook", "chance": "floor", "oracle": "oracle", "control": "control"}

#: What every table says of rows that set the scale.
SCALE_NOTE = (
    "The floor knows nothing of a scene; an oracle knows its true parameters. Percentages say how far a score has come "
    "from the one to the other."
)

#: What the page says of the textbook rows that ship, where the split that chose their settings is scored.
REFERENCE_NOTE = (
    "Textbook rows stand outside the ranking. The settings of the shipped ones were chosen with v0.1 DEV scores in "
    "view, so that their DEV scores are optimistic and no fair comparison."
)

#: What a cell of the heat map says of pretraining; a value that pretraining did not meet needs no word.
MET = {True: "met", "unknown": "met?", False: ""}


#: A row of a table by column: text, a number, a truth value, or None where there is nothing to show.
Cells = Mapping[str, str | int | float | bool | None]


class ValueRow(TypedDict):
    """A model's score on one held-out value; ``skill`` is on the anchors' scale, clipped to [0, 1]."""

    model: str
    task: str
    held_out: str
    metric: str
    score: float | None
    text: str
    interval: str
    n: int
    in_distribution: float | None
    in_distribution_text: str
    gap_interval: str
    skill: float | None
    skill_in_distribution: float | None
    undefined: str | None
    met: str
    mark: str


class JackknifeRow(TypedDict):
    """The range of a model's OOD average over one kind of drop, and the drops at both ends."""

    model: str
    dropped: str
    ood_avg: float | None
    min: float
    max: float
    min_without: str
    max_without: str
    fragile: bool | None


def check_release(board: Board, manifest: DataReleaseManifest) -> None:
    """Raise InputError where the board is not of this release: its anchors would scale another's scores."""
    if board.data_release_hash != manifest.data_release_hash:
        raise InputError(
            f"leaderboard: data_release_hash: expected {manifest.data_release_hash}, that of the release manifest"
        )


def number(value: float | None, digits: int = 3) -> str:
    """A score with fixed digits; a dash where there is none. A value that rounds to zero carries no sign."""
    return "–" if value is None else f"{value + 0.0:.{digits}f}".replace("-0." + "0" * digits, "0." + "0" * digits)


def digits_of(unit: str) -> int:
    """Digits after the point: one for degrees, two for decibels, three for shares."""
    return {"degrees": 1, "dB": 2}.get(unit, 3)


def values(board: Board, manifest: DataReleaseManifest) -> list[ValueRow]:
    """One row per model, task and held-out value of its primary protocol."""
    rows: list[ValueRow] = []
    for row in board.models:
        for task, block in row.tasks.items():
            scale = (manifest.spec(task).anchors, block.direction)
            for name, record in block.values.items():
                digits = digits_of(block.unit)
                rows.append(
                    {
                        "model": row.model,
                        "task": task.value,
                        "held_out": name,
                        "metric": block.metric,
                        "score": record.score,
                        "text": number(record.score, digits),
                        "interval": span(record.ci95, digits),
                        "n": record.n,
                        "in_distribution": record.in_distribution,
                        "in_distribution_text": number(record.in_distribution, digits),
                        "gap_interval": span(record.gap_ci95, digits),
                        "skill": _skill(record.score, *scale),
                        "skill_in_distribution": _skill(record.in_distribution, *scale),
                        "undefined": record.undefined_reason,
                        "met": {True: "yes", False: "no", "unknown": "unknown"}[record.met_in_pretraining],
                        "mark": "undefined" if record.undefined_reason else MET[record.met_in_pretraining],
                    }
                )
    return rows


def span(interval: Interval | None, digits: int = 3) -> str:
    """An interval in words."""
    return "none" if interval is None else f"{number(interval[0], digits)} to {number(interval[1], digits)}"


def _skill(score: float | None, anchors: Anchors, direction: Literal["higher", "lower"]) -> float | None:
    return None if score is None else normalise_clipped(score, anchors, direction)


def jackknives(board: Board) -> list[JackknifeRow]:
    """One row per model with an OOD average and kind of drop."""
    rows: list[JackknifeRow] = []
    for row in board.models:
        if row.sensitivity is None:
            continue
        kinds = {"task": row.sensitivity.leave_one_task_out, "held-out value": row.sensitivity.leave_one_value_out}
        for kind, span in kinds.items():
            if span is not None:
                lowest, highest = (pick(span.averages, key=span.averages.__getitem__) for pick in (min, max))
                rows.append(
                    {
                        "model": row.model,
                        "dropped": kind,
                        "ood_avg": row.ood_avg,
                        "min": span.min,
                        "max": span.max,
                        "min_without": lowest,
                        "max_without": highest,
                        "fragile": row.sensitivity.fragile,
                    }
                )
    return rows


_NO_RANKS = RankRanges(leave_one_task_out=None, leave_one_value_out=None, leave_one_fifth_out=None)


def rank_rows(board: Board) -> list[Cells]:
    """One row per ranked model: its rank under each kind of drop, and the standard errors of its average by cause."""
    rows: list[Cells] = []
    for row in board.models:
        if row.rank is None:
            continue
        ranks = row.sensitivity.ranks if row.sensitivity and row.sensitivity.ranks else _NO_RANKS
        errors = row.ood_avg_standard_errors or StandardErrors()
        rows.append(
            {
                "model": row.model,
                "rank": str(row.rank),
                "over_tasks": _ranks(ranks.leave_one_task_out),
                "over_held-out_values": _ranks(ranks.leave_one_value_out),
                "over_fifths_of_the_fit": _ranks(ranks.leave_one_fifth_out),
                "error_by_scenes": number(errors.scenes),
                "by_fits": number(errors.fit),
                "by_enrolment": number(errors.enrolment),
            }
        )
    return rows


def _ranks(ranks: RankRange | None) -> str:
    if ranks is None:
        return "–"
    return str(ranks[0]) if ranks[0] == ranks[1] else f"{ranks[0]} to {ranks[1]}"


def details(board: Board, task: TaskID) -> list[dict[str, str | None]]:
    """One row per model that ran the task, the best first: each score, with the standard error over held-out values."""
    rows = []
    ran = [(row, row.tasks[task]) for row in board.models if task in row.tasks]
    for row, block in sorted(ran, key=lambda pair: _worse(pair[1])):
        scores: dict[str, ScoreRecord] = {f"{block.metric} {ARROW[block.direction]}, {block.protocol}": block}
        scores |= {f"{name} {ARROW[other.direction]}": other for name, other in block.secondary_metrics.items()}
        scores |= {f"{other.metric} {ARROW[other.direction]}, {name}": other for name, other in block.secondary.items()}
        cells: dict[str, str | None] = {"model": row.model}
        for title, record in scores.items():
            error, digits = record.standard_error, digits_of(record.unit)
            cells[title] = number(record.score, digits) + (f" ± {number(error, digits)}" if error is not None else "")
        level = number(block.normalized) + (" (clipped)" if block.clipped else "")
        cells |= {"on the anchors' scale": level}
        cells |= {"p against the floor": None if block.beats_floor is None else p_text(block.beats_floor.p)}
        cells |= {"of the headroom": share_text(headroom(board, row, task))}
        cells |= {"undefined": "; ".join(dict.fromkeys(r.undefined for r in scores.values() if r.undefined)) or None}
        rows.append(cells)
    return rows


def _worse(block: TaskRecord) -> tuple[bool, float]:
    """A key that puts better scores first, and those that are not defined last."""
    score = block.score or 0.0
    return block.score is None, score if block.direction == "lower" else -score


def p_text(p: float) -> str:
    """A p-value to three digits, never as zero."""
    return "< 0.001" if p < 0.001 else number(p)


def share_text(share: float | None) -> str | None:
    """A share in per cent."""
    return None if share is None else f"{number(100 * share, 0)} %"


def components(board: Board, row: Row, task: TaskID) -> str:
    """The held-out values behind a task's score, and where a floor and an oracle are, how far it has come."""
    block = row.tasks[task]
    shown = components_text(block.values.values(), lambda score: number(score, digits_of(block.unit)))
    share = share_text(headroom(board, row, task))
    return shown if share is None else f"{shown}; {share}"


def brackets(board: Board) -> dict[str, str]:
    """Place of each ranked model in a bracket of neighbours whose order does not hold: start, middle, end or none."""
    ranked = [row for row in board.models if row.rank is not None]
    tied_down = [row.separable_from_next is False for row in ranked]
    places = {(False, True): "start", (True, True): "middle", (True, False): "end", (False, False): "none"}
    above = [False, *tied_down]
    return {row.model: places[above[index], tied_down[index]] for index, row in enumerate(ranked)}


def tasks_of(board: Board) -> dict[TaskID, TaskRecord]:
    """The tasks that any row ran, in the first row's order, each with one row's block for its metric and unit."""
    blocks: dict[TaskID, TaskRecord] = {}
    for row in board.models:
        for task, block in row.tasks.items():
            blocks.setdefault(task, block)
    return blocks


def ranked(board: Board) -> tuple[list[Row], list[Row]]:
    """Rows in the ranking, and rows apart from it; without those that rest on predictions alone, on DEV."""
    own = board.reproduced
    return [row for row in own if row.rank is not None], [row for row in own if row.rank is None]
