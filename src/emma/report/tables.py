"""The ranking as Markdown and as LaTeX (booktabs), with the caveats that its averages carry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from emma.report.data import ARROW, REFERENCE_NOTE, digits_of, number, tasks_of
from emma.results.frames import board_frames
from emma.results.records import Board, Row

if TYPE_CHECKING:
    import pandas as pd

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "–": "--",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
}


def latex(text: str) -> str:
    """Text with every character that LaTeX would read as its own written out."""
    return "".join(_LATEX.get(character, character) for character in text)


def markdown_text(text: str) -> str:
    """Text that neither ends a Markdown cell nor marks it up."""
    return "".join(f"\\{c}" if c in "\\|*_`[]<>" else c for c in " ".join(text.split()))


def _ranking(board: Board) -> pd.DataFrame:
    """The ranking as text: one row per model, one column per task that any model ran."""
    import pandas as pd

    frames = board_frames(board)
    models = frames.models.set_index("model")
    own = frames.scores[frames.scores["primary"]].set_index(["model", "task"])["score"]
    columns = {
        "Rank": ["–" if pd.isna(rank) else str(rank) for rank in models["rank"]],
        "Model": list(models.index),
        "OOD-avg ↑": [number(_defined(average)) for average in models["ood_avg"]],
        "95 % interval": [
            "–" if pd.isna(low) else f"{number(low)} to {number(high)}"
            for low, high in zip(models["ood_avg_low"], models["ood_avg_high"], strict=True)
        ],
    }
    for task, block in tasks_of(board).items():
        scores = [_defined(own.get((model, task.value))) for model in models.index]
        title = f"{task.value} {block.metric} {ARROW[block.direction]}"
        columns[title] = [number(score, digits_of(block.unit)) for score in scores]
    return pd.DataFrame(columns)


def _defined(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else value


def _marked(row: Row) -> str:
    return {"submitted": " (submitted)", "reference": " (textbook)"}.get(row.kind, "")


def _notes(board: Board) -> list[str]:
    split = board.eval_split.upper()
    notes = [f"Release {board.release}, {split} scenes, seed {board.seed}.", *board.caveats]
    notes += ["The best OOD-avg is bold only where it can be told apart from the next one."]
    if board.eval_split == "dev" and any(row.kind == "reference" for row in board.models):
        notes.append(REFERENCE_NOTE)
    notes += [f"{row.model}: no OOD-avg: {row.undefined}" for row in board.models if row.undefined]
    return notes


def _best(row: Row) -> bool:
    return row.rank == 1 and row.separable_from_next is True


def markdown(board: Board) -> str:
    """The ranking as a Markdown table with its notes."""
    table = _ranking(board)
    text = table.map(markdown_text)
    lines = [list(table.columns), ["--:", "---", "--:", "--:", *["--:"] * (len(table.columns) - 4)]]
    for row, cells in zip(board.models, text.to_numpy().tolist(), strict=True):
        cells[1] += _marked(row)
        cells[2] = f"**{cells[2]}**" if _best(row) else cells[2]
        lines.append(cells)
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*rows, "", *(f"- {markdown_text(note)}" for note in _notes(board))]) + "\n"


def tex(board: Board) -> str:
    """The ranking as a LaTeX tabular for booktabs, its notes below it."""
    table = _ranking(board)
    text = table.map(latex)
    lines = ["\\begin{tabular}{rlrr" + "r" * (len(table.columns) - 4) + "}", "\\toprule"]
    lines += [" & ".join(latex(title) for title in table.columns) + " \\\\", "\\midrule"]
    apart = False
    for row, cells in zip(board.models, text.to_numpy().tolist(), strict=True):
        if row.rank is None and not apart:
            apart = True
            lines.append("\\midrule")
        cells[1] += _marked(row)
        cells[2] = f"\\textbf{{{cells[2]}}}" if _best(row) else cells[2]
        lines.append(" & ".join(cells) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}", "\\par\\smallskip"]
    return "\n".join([*lines, *(f"{{\\footnotesize {latex(note)}\\par}}" for note in _notes(board))]) + "\n"
