"""The ranking as Markdown and as LaTeX (booktabs), with the caveats that its averages carry."""

from __future__ import annotations

from emma.report.data import ARROW, REFERENCE_NOTE, digits_of, number, tasks_of
from emma.results.records import Board, Row

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


def _head(board: Board) -> list[str]:
    titles = [f"{task.value} {block.metric} {ARROW[block.direction]}" for task, block in tasks_of(board).items()]
    return ["Rank", "Model", "OOD-avg ↑", "95 % interval", *titles]


def _cells(board: Board, row: Row) -> list[str]:
    interval = "–" if row.ood_avg_ci95 is None else f"{number(row.ood_avg_ci95[0])} to {number(row.ood_avg_ci95[1])}"
    cells = [str(row.rank or "–"), row.model, number(row.ood_avg), interval]
    for task, block in tasks_of(board).items():
        score = row.tasks[task].score if task in row.tasks else None
        cells.append(number(score, digits_of(block.unit)))
    return cells


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
    head = _head(board)
    lines = [head, ["--:", "---", "--:", "--:", *["--:"] * (len(head) - 4)]]
    for row in board.models:
        cells = [markdown_text(cell) for cell in _cells(board, row)]
        cells[1] += _marked(row)
        cells[2] = f"**{cells[2]}**" if _best(row) else cells[2]
        lines.append(cells)
    table = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([*table, "", *(f"- {markdown_text(note)}" for note in _notes(board))]) + "\n"


def tex(board: Board) -> str:
    """The ranking as a LaTeX tabular for booktabs, its notes below it."""
    head = _head(board)
    lines = ["\\begin{tabular}{rlrr" + "r" * (len(head) - 4) + "}", "\\toprule"]
    lines += [" & ".join(latex(cell) for cell in head) + " \\\\", "\\midrule"]
    apart = False
    for row in board.models:
        if row.rank is None and not apart:
            apart = True
            lines.append("\\midrule")
        cells = [latex(cell) for cell in _cells(board, row)]
        cells[1] += _marked(row)
        cells[2] = f"\\textbf{{{cells[2]}}}" if _best(row) else cells[2]
        lines.append(" & ".join(cells) + " \\\\")
    lines += ["\\bottomrule", "\\end{tabular}", "\\par\\smallskip"]
    return "\n".join([*lines, *(f"{{\\footnotesize {latex(note)}\\par}}" for note in _notes(board))]) + "\n"
