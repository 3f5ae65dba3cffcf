"""The ranking as Markdown, and the notes that its averages carry wherever they stand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from emma.report.data import ARROW, KINDS, REFERENCE_NOTE, SCALE_NOTE, components, digits_of, number, tasks_of
from emma.report.models import cost_rows
from emma.results.components import (
    APART_TITLE,
    CONTROL_NOTE,
    GAP_NOTE,
    LEVEL,
    above_floor,
    components_head,
    control_texts,
    gap_columns,
    gap_texts,
    has_controls,
)
from emma.results.frames import board_frames
from emma.results.records import Board, Row
from emma.tasks import TaskID

if TYPE_CHECKING:
    import pandas as pd


def markdown_text(text: str) -> str:
    """Text that neither ends a Markdown cell nor marks it up."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>" else c for c in " ".join(text.split()))


def _ranking(board: Board) -> pd.DataFrame:
    """The ranking as text: one row per model, one column per task that any model ran, with its held-out values."""
    import pandas as pd

    frames = board_frames(board)
    models = frames.models.set_index("model")
    columns = {
        "Rank": ["–" if pd.isna(rank) else str(rank) for rank in models["rank"]],
        "Range": [
            "–" if pd.isna(best) else f"{best} to {worst}"
            for best, worst in zip(models["rank_best"], models["rank_worst"], strict=True)
        ],
        "Model": list(models.index),
        "OOD-avg ↑": [number(_defined(average)) for average in models["ood_avg"]],
        "95 % interval": [
            "–" if pd.isna(low) else f"{number(low)} to {number(high)}"
            for low, high in zip(models["ood_avg_low"], models["ood_avg_high"], strict=True)
        ],
    }
    columns |= control_texts(board, number, "–") | gap_texts(board, "–")
    for task, block in tasks_of(board).items():
        title = f"{task.value} {block.metric} {ARROW[block.direction]} ({components_head(list(block.values))})"
        columns[title] = [_score(board, row, task) for row in board.models]
    return pd.DataFrame(columns)


def _score(board: Board, row: Row, task: TaskID) -> str:
    """A task's score, a mark where it does not beat the floor, and what it is the mean of."""
    if (block := row.tasks.get(task)) is None:
        return "–"
    mark = "†" if above_floor(row, task) is False else ""
    return f"{number(block.score, digits_of(block.unit))}{mark} ({components(board, row, task)})"


def _defined(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def marked(row: Row) -> str:
    """What follows a model's name: its kind, where that is no backbone."""
    return f" ({KINDS[row.kind]})" if row.kind in KINDS else ""


def notes(board: Board, *, brackets: bool = True) -> list[str]:
    """What must be said of the ranking; ``brackets``: whether held-out values stand beside each score."""
    split = board.eval_split.upper()
    found = [f"Release {board.release}, {split} scenes, seed {board.seed}.", *board.caveats]
    found += ["The best OOD-avg is bold only where it can be told apart from the next one."]
    found += [
        "Range: the ranks that a model takes when one task, held-out value or fifth of the fits is dropped for all."
    ]
    if brackets:
        found.append("In brackets the scores of the held-out values, whose mean stands before them.")
    if has_controls(board):
        found.append(CONTROL_NOTE)
    if gap_columns(board):
        found.append(GAP_NOTE)
    if any(above_floor(row, task) is False for row in board.models for task in row.tasks):
        found.append(f"† does not beat the floor (one-sided p of {LEVEL} or more).")
    if any(row.kind == "oracle" for row in board.models):
        found.append(SCALE_NOTE)
    if board.eval_split == "dev" and any(row.kind == "reference" for row in board.models):
        found.append(REFERENCE_NOTE)
    found += [f"{row.model}: no OOD-avg: {row.undefined}" for row in board.models if row.undefined]
    found += [f"{row.model}: {caveat}" for row in board.models for caveat in row.caveats]
    return found


def is_best(row: Row) -> bool:
    """Whether the row has a best OOD average that holds."""
    return row.rank == 1 and row.separable_from_next is True


def markdown(board: Board) -> str:
    """The ranking as a Markdown table with its notes, and what models cost."""
    table = _ranking(board)
    text = table.map(markdown_text)
    lines = [list(table.columns), ["--:", "--:", "---", *["--:"] * (len(table.columns) - 3)]]
    for row, cells in zip(board.models, text.to_numpy().tolist(), strict=True):
        cells[2] += marked(row)
        cells[3] = f"**{cells[3]}**" if is_best(row) else cells[3]
        lines.append(cells)
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    if board.apart:
        own = 2 + len(board.reproduced)
        rows = [*rows[:own], "", f"{APART_TITLE}:", "", *rows[:2], *rows[own:]]
    noted = [f"- {markdown_text(note)}" for note in notes(board)]
    return "\n".join([*rows, "", *noted, *_costs(board)]) + "\n"


#: What of a model's costs stands below the ranking: what is counted, and the licence.
_COSTS = ("model", "parameters", "multiply-accumulates per scene", "width", "file, bytes", "licence")


def _costs(board: Board) -> list[str]:
    """Lines of a table of costs; none where none was counted."""
    rows = cost_rows(board)
    if not rows:
        return []
    lines = [_COSTS, ("---", *["--:"] * (len(_COSTS) - 2), "---")]
    lines += [tuple(markdown_text(str(row[key] or "–")) for key in _COSTS) for row in rows]
    said = "What the models cost, of several tasks the most; what NumPy computes is not counted:"
    return ["", said, "", *("| " + " | ".join(line) + " |" for line in lines)]
