"""The ranking as Markdown and as LaTeX (booktabs), with the caveats that its averages carry."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from emma.report.data import ARROW, KINDS, REFERENCE_NOTE, SCALE_NOTE, components, digits_of, number, tasks_of
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

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "–": "--",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
    "†": "\\dag{}",
}


def latex(text: str) -> str:
    """Text with every character that LaTeX would read as its own written out."""
    return "".join(_LATEX.get(character, character) for character in text)


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


def _marked(row: Row) -> str:
    return f" ({KINDS[row.kind]})" if row.kind in KINDS else ""


def _notes(board: Board) -> list[str]:
    split = board.eval_split.upper()
    notes = [f"Release {board.release}, {split} scenes, seed {board.seed}.", *board.caveats]
    notes += ["The best OOD-avg is bold only where it can be told apart from the next one."]
    notes += [
        "Range: the ranks that a model takes when one task, held-out value or fifth of the fits is dropped for all."
    ]
    notes += ["In brackets the scores of the held-out values, whose mean stands before them."]
    if has_controls(board):
        notes.append(CONTROL_NOTE)
    if gap_columns(board):
        notes.append(GAP_NOTE)
    if any(above_floor(row, task) is False for row in board.models for task in row.tasks):
        notes.append(f"† does not beat the floor (one-sided p of {LEVEL} or more).")
    if any(row.kind == "oracle" for row in board.models):
        notes.append(SCALE_NOTE)
    if board.eval_split == "dev" and any(row.kind == "reference" for row in board.models):
        notes.append(REFERENCE_NOTE)
    notes += [f"{row.model}: no OOD-avg: {row.undefined}" for row in board.models if row.undefined]
    notes += [f"{row.model}: {caveat}" for row in board.models for caveat in row.caveats]
    return notes


def _best(row: Row) -> bool:
    return row.rank == 1 and row.separable_from_next is True


def markdown(board: Board) -> str:
    """The ranking as a Markdown table with its notes."""
    table = _ranking(board)
    text = table.map(markdown_text)
    lines = [list(table.columns), ["--:", "--:", "---", *["--:"] * (len(table.columns) - 3)]]
    for row, cells in zip(board.models, text.to_numpy().tolist(), strict=True):
        cells[2] += _marked(row)
        cells[3] = f"**{cells[3]}**" if _best(row) else cells[3]
        lines.append(cells)
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    if board.apart:
        own = 2 + len(board.reproduced)
        rows = [*rows[:own], "", f"{APART_TITLE}:", "", *rows[:2], *rows[own:]]
    return "\n".join([*rows, "", *(f"- {markdown_text(note)}" for note in _notes(board))]) + "\n"


def tex(board: Board) -> str:
    """The ranking as a LaTeX tabular for booktabs, its notes below it."""
    table = _ranking(board)
    text = table.map(latex)
    lines = ["\\begin{tabular}{rrl" + "r" * (len(table.columns) - 3) + "}", "\\toprule"]
    lines += [" & ".join(latex(title) for title in table.columns) + " \\\\", "\\midrule"]
    rules = 0
    for place, (row, cells) in enumerate(zip(board.models, text.to_numpy().tolist(), strict=True)):
        # One line before the rows without a rank, and one before those that rest on predictions alone.
        if (kind := 2 if place >= len(board.reproduced) else int(row.rank is None)) > rules:
            rules = kind
            lines.append("\\midrule")
            lines += [f"\\multicolumn{{{len(table.columns)}}}{{l}}{{{latex(APART_TITLE)}}} \\\\"] if kind == 2 else []
        cells[2] += _marked(row)
        cells[3] = f"\\textbf{{{cells[3]}}}" if _best(row) else cells[3]
        lines.append(" & ".join(cells) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}", "\\par\\smallskip"]
    return "\n".join([*lines, *(f"{{\\footnotesize {latex(note)}\\par}}" for note in _notes(board))]) + "\n"


def bibtex(board: Board) -> str:
    """References in BibTeX: the release, and every model that says where it comes from."""
    entries = [
        _entry(
            f"emma_{board.release}",
            {
                "title": f"{{EMMA}}: Electromagnetic Multi-task Model Assessment, release {board.release}",
                "author": "{The EMMA authors}",
                "version": board.harness_version,
                "note": f"Data release hash {board.data_release_hash}, {board.eval_split.upper()} scenes, "
                f"seed {board.seed}",
            },
        )
    ]
    for row in board.models:
        if row.cost is None or row.cost.link is None:
            continue
        weights = row.run_manifest.model_provenance.weights_sha256
        notes = [f"Licence {row.cost.licence}"] if row.cost.licence else []
        notes += [f"SHA-256 of the weights {weights}"] if weights else []
        entries.append(
            _entry(
                row.model,
                {
                    "title": latex(row.cost.description or row.model),
                    "howpublished": f"\\url{{{row.cost.link}}}",
                    "note": latex("; ".join(notes)),
                },
            )
        )
    return "\n".join(entries)


def _entry(key: str, fields: dict[str, str]) -> str:
    kept = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items() if text)
    return f"@misc{{{re.sub('[^A-Za-z0-9._-]', '_', key)},\n{kept}}}\n"
