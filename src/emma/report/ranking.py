"""The ranking table of the page: its columns, and the cells of each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from emma.evaluation.records import Interval
from emma.report.data import ARROW, brackets, components, digits_of, number, span, tasks_of
from emma.report.terms import QUESTIONS, TERMS, short_metric, title_of
from emma.results.components import CONTROL_HEAD, above_floor, components_head, gap_columns, has_controls
from emma.results.records import Board, Row
from emma.tasks import TaskID


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        key: what names it on the page.
        title: its head.
        note: what stands small below its head.
        tip: what it is.
        first: the order that puts the best first, which is that of the first click.
        shown: whether it is there until the reader chooses.
    """

    key: str
    title: str
    note: str = ""
    tip: str = ""
    first: Literal["ascending", "descending"] = "descending"
    shown: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell of the table.

    Attributes:
        value: what the column is sorted by; None goes last.
        text: what stands in it.
        notes: small lines below.
        bar: a drawing of the number.
        tags: words beside it.
        reason: why there is no number, or what it is over.
        bold: whether it is a best that holds.
    """

    value: float | str | None
    text: str
    notes: tuple[str, ...] = ()
    bar: Markup | None = None
    tags: tuple[str, ...] = ()
    reason: str | None = None
    bold: bool = False


@dataclass(frozen=True)
class Line:
    """A row of the table with its cells in the order of the columns; ``bracket`` joins neighbours."""

    row: Row
    cells: tuple[Cell, ...]
    bracket: str


#: Height of a bar's box; its width is 100, stretched to the cell.
_HEIGHT = 10


def bar(value: float, interval: Interval | None, low: float = 0.0, high: float = 1.0) -> Markup:
    """A bar from zero to a value on the scale ``low`` to ``high``, its interval as a line over it.

    Example:
        >>> 'x="50.0" width="25.0"' in bar(0.5, None, -1.0, 1.0)
        True
    """

    def at(number: float) -> float:
        return 100 * (min(max(number, low), high) - low) / (high - low)

    zero, end = at(max(low, 0.0)), at(value)
    parts = [f'<rect class="bar-track" x="0" width="100" y="0" height="{_HEIGHT}"/>']
    parts.append(f'<rect class="bar-fill" x="{min(zero, end):.1f}" width="{abs(end - zero):.1f}" y="2" height="6"/>')
    if low < 0:
        parts.append(f'<rect class="bar-zero" x="{zero:.1f}" width="0.6" y="0" height="{_HEIGHT}"/>')
    if interval is not None:
        ends = [at(each) for each in interval]
        parts.append(f'<rect class="bar-span" x="{ends[0]:.1f}" width="{ends[1] - ends[0]:.1f}" y="4.2" height="1.6"/>')
        parts += [f'<rect class="bar-span" x="{each - 0.4:.1f}" width="0.8" y="2.5" height="5"/>' for each in ends]
    box = f'<svg class="bar" viewBox="0 0 100 {_HEIGHT}" preserveAspectRatio="none" aria-hidden="true">'
    return Markup(box + "".join(parts) + "</svg>")


def columns(board: Board) -> list[Column]:
    """The columns, the same for every table of a board."""
    found = [
        Column("rank", "Rank", "range", TERMS["rank range"], "ascending"),
        Column("model", "Model", "", "", "ascending"),
        Column("ood_avg", "OOD-avg ↑", "95 % interval", TERMS["OOD-avg"]),
    ]
    if has_controls(board):
        tip = "OOD-avg less that of the control, with the paired 95 % interval: what pretraining bought."
        found.append(Column("over_control", CONTROL_HEAD, "OOD-avg, 95 % interval", tip))
    for title, unit in gap_columns(board):
        found.append(Column(_key(title), title, unit, TERMS["sim-to-real gap"], "ascending"))
    for task, block in tasks_of(board).items():
        unit = "" if block.unit == "1" else f", {block.unit}"
        averaged = "" if block.in_ood_avg else "; not averaged"
        metric = f"{short_metric(block.metric)} {ARROW[block.direction]}{unit}"
        note = f"{metric}{averaged}; {components_head(list(block.values))}"
        first: Literal["ascending", "descending"] = "ascending" if block.direction == "lower" else "descending"
        found.append(
            Column(
                task.value, title_of(task), note, f"{task.value}, by {block.metric}. {QUESTIONS.get(task, '')}", first
            )
        )
    if _has_costs(board):
        found.append(Column("parameters", "Parameters", "", "Distinct parameters of the network.", "ascending", False))
        tip = "Multiply-accumulates per scene: the most over the tasks."
        found.append(Column("macs", "Multiply-accumulates", "per scene", tip, "ascending", False))
    return found


def lines(board: Board, rows: Sequence[Row]) -> list[Line]:
    """The lines of a table of some rows of the board, in their order."""
    places = {row.model: place for place, row in enumerate(board.models)}
    gaps = gap_columns(board)
    most = _most(board)
    joined, costed, controlled = brackets(board), _has_costs(board), has_controls(board)
    found = []
    for row in rows:
        cells = [_rank(row), _name(row), _average(row)]
        if controlled:
            cells.append(_bought(row, most))
        for column in gaps.values():
            gap = column[places[row.model]]
            points = None if gap is None else gap.gap_percentage_points
            if gap is None or points is None:
                cells.append(_none("no captures were scored" if gap is None else gap.undefined))
            else:
                over = "over " + ", ".join(title_of(task) for task in gap.over)
                cells.append(
                    Cell(points, number(points, 1), (f"{len(gap.over)} task{'s' * (len(gap.over) > 1)}",), reason=over)
                )
        cells += [_task(board, row, task) for task in tasks_of(board)]
        if costed:
            cells += _costs(row)
        found.append(Line(row, tuple(cells), joined.get(row.model, "none")))
    return found


def _has_costs(board: Board) -> bool:
    return any(row.cost is not None for row in board.models)


def _key(title: str) -> str:
    return title.lower().replace(" ", "_")


def _none(reason: str | None) -> Cell:
    return Cell(None, "–", reason=reason or "there is none")


def _most(board: Board) -> float:
    """The greatest end of a difference from a control, the scale of all their bars."""
    found = [0.05]
    for row in board.models:
        if row.control is not None and row.control.ood_avg.difference is not None:
            found += [abs(each) for each in (row.control.ood_avg.difference, *(row.control.ood_avg.ci95 or ()))]
    return max(found)


def _rank(row: Row) -> Cell:
    if row.rank is None:
        return _none(row.unranked)
    low, high = row.rank_range or (row.rank, row.rank)
    tied = ("cannot be told apart from the next",) if row.separable_from_next is False else ()
    return Cell(row.rank, str(row.rank), (f"{low} to {high}",) if low != high else (), tags=tied)


def _name(row: Row) -> Cell:
    fragile = ("fragile",) if row.sensitivity and row.sensitivity.fragile else ()
    return Cell(row.model, row.model, row.caveats, tags=fragile)


def _average(row: Row) -> Cell:
    if row.ood_avg is None:
        return _none(row.undefined or "not every scored task was run")
    notes = () if row.ood_avg_ci95 is None else (span(row.ood_avg_ci95),)
    best = row.rank == 1 and row.separable_from_next is True
    return Cell(row.ood_avg, number(row.ood_avg), notes, bar(row.ood_avg, row.ood_avg_ci95), bold=best)


def _bought(row: Row, most: float) -> Cell:
    bought = None if row.control is None else row.control.ood_avg
    if bought is None or bought.difference is None:
        reason = "this row is a control" if row.control_of else "no control: there are no weights to permute"
        return _none(reason if bought is None else row.undefined or "its control has no OOD-avg")
    notes = () if bought.ci95 is None else (span(bought.ci95),)
    sign = "+" if bought.difference > 0 else ""
    return Cell(
        bought.difference, sign + number(bought.difference), notes, bar(bought.difference, bought.ci95, -most, most)
    )


def _task(board: Board, row: Row, task: TaskID) -> Cell:
    if (block := row.tasks.get(task)) is None:
        return _none("this model did not run the task")
    shown = components(board, row, task).replace(" %", "\u00a0%")
    notes = (shown,) + ((block.undefined,) if block.undefined else ())
    if block.score is None:
        return Cell(None, "–", notes, reason=block.undefined or "the score is not defined")
    tags = ("not above the floor",) if above_floor(row, task) is False else ()
    drawn = None if block.normalized is None else bar(block.normalized, None)
    return Cell(block.score, number(block.score, digits_of(block.unit)), notes, drawn, tags)


def _costs(row: Row) -> list[Cell]:
    if row.cost is None:
        return [_none("nothing is embedded here"), _none("nothing is embedded here")]
    uncounted = next((task.uncounted for task in row.cost.tasks.values() if task.uncounted), None)
    macs = _none(uncounted) if row.cost.macs is None else Cell(row.cost.macs, f"{row.cost.macs:,}")
    return [Cell(row.cost.parameters, f"{row.cost.parameters:,}"), macs]
