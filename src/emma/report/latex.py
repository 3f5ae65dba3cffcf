"""The board for papers: the ranking and its held-out values as LaTeX tables, and references in BibTeX.

The tables need booktabs, threeparttable, adjustbox and longtable, which every TeX distribution has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from emma.report.data import ARROW, digits_of, number, share_text, span, tasks_of
from emma.report.tables import is_best, markdown, marked, notes
from emma.report.terms import short_metric, title_of
from emma.results.components import (
    APART_TITLE,
    above_floor,
    control_texts,
    gap_columns,
    gap_texts,
    headroom,
    short_names,
)
from emma.results.records import Board, Row, TaskRecord
from emma.tasks import TaskID

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    # After a line's end or an item, a bracket would begin an option.
    "[": "{[}",
    "]": "{]}",
    "–": "--",
    "↑": "$\\uparrow$",
    "↓": "$\\downarrow$",
    "†": "\\dag{}",
    "±": "$\\pm$",
    "×": "$\\times$",
    "°": "$^\\circ$",
}
#: Most held-out values of one table of the appendix: with their intervals, what a page is wide.
_WIDE = 3


def latex(text: str) -> str:
    """Text in one line, with every character that LaTeX would read as its own written out."""
    return "".join(_LATEX.get(character, character) for character in " ".join(text.split()))


def texts(board: Board) -> dict[str, str]:
    """The files for papers, by the ends of their names."""
    return {"md": markdown(board), "tex": tex(board), "appendix.tex": appendix(board), "bib": bibtex(board)}


def tex(board: Board) -> str:
    """The ranking as a table over both columns of a paper, with caption, label and notes."""
    tasks = tasks_of(board)
    heads = [["Rank"], ["Range"], ["Model"], ["OOD-avg ↑"], ["95 %", "interval"]]
    beside = [([*head.split()], column) for head, column in control_texts(board, number, "–").items()]
    beside += _gaps(board)
    heads += [head for head, _ in beside]
    heads += [_head(task, block) for task, block in tasks.items()]
    lines = [*_rows(heads), "\\midrule"]
    rules = 0
    for place, row in enumerate(board.models):
        # One line before the rows without a rank, and one before those that rest on predictions alone.
        if (kind := 2 if place >= len(board.reproduced) else int(row.rank is None)) > rules:
            rules = kind
            lines.append("\\midrule")
            lines += [f"\\multicolumn{{{len(heads)}}}{{l}}{{{latex(APART_TITLE)}}} \\\\"] if kind == 2 else []
        cells = [*_standing(row), *(latex(column[place]) for _, column in beside)]
        lines.append(_line([*cells, *(_score(row, task) for task in tasks)]))
    of = f"release {board.release}, {board.eval_split.upper()} scenes"
    caption = f"EMMA, {of}: {len(board.models)} models by OOD-avg, and their score on each task."
    pointed = f"The held-out values behind every score stand in Table~\\ref{{{_label(board, next(iter(tasks)))}}}"
    pointed += "." if len(tasks) == 1 else " and those after it."
    items = [*(latex(note) for note in notes(board, brackets=False)), pointed]
    noted = [
        f"\\item {item}" if not item.startswith("\\dag{}") else f"\\item[\\dag] {item[6:].strip()}" for item in items
    ]
    return _text(
        "% \\usepackage{booktabs,threeparttable,adjustbox}",
        "\\begin{table*}",
        "\\centering",
        f"\\caption{{{latex(caption)}}}",
        f"\\label{{{_label(board)}}}",
        "\\begin{adjustbox}{max width=\\textwidth}",
        "\\begin{threeparttable}",
        f"\\begin{{tabular}}{{rrl{'r' * (len(heads) - 3)}}}",
        "\\toprule",
        *lines,
        "\\bottomrule",
        "\\end{tabular}",
        "\\begin{tablenotes}[flushleft]",
        *noted,
        "\\end{tablenotes}",
        "\\end{threeparttable}",
        "\\end{adjustbox}",
        "\\end{table*}",
    )


def _gaps(board: Board) -> list[tuple[list[str], list[str]]]:
    """Heads and cells of the columns of gaps; the tasks that all gaps of a column are over stand in its head."""
    found = []
    for ((title, unit), gaps), texts in zip(gap_columns(board).items(), gap_texts(board, "–").values(), strict=True):
        points = [None if gap is None else gap.gap_percentage_points for gap in gaps]
        over = {gap.over for gap, value in zip(gaps, points, strict=True) if gap is not None and value is not None}
        head = [*f"{title}, {unit}".split()]
        if len(over) != 1:
            found.append((head, texts))
            continue
        head += f"({', '.join(over.pop())})".split()
        found.append((head, [number(value, 1) for value in points]))
    return found


def appendix(board: Board) -> str:
    """The scores of every held-out value with their intervals: a long table per task, for one wide column.

    A task with many held-out values has several tables, each of some of them.
    """
    lines = ["% \\usepackage{booktabs,longtable}, in one column: \\onecolumn before \\appendix"]
    for task, block in tasks_of(board).items():
        names = list(block.values)
        for start in range(0, len(names), _WIDE):
            lines += _values_table(board, task, names[start : start + _WIDE], start)
    return _text(*lines)


def _values_table(board: Board, task: TaskID, names: Sequence[str], start: int) -> Iterator[str]:
    """The lines of a table of some held-out values of a task; the first of a task says what stands in it."""
    block = tasks_of(board)[task]
    heads = [["Model"], *([name] for name in _short(block, names))]
    whole = not start
    shares = {row.model: share_text(headroom(board, row, task)) for row in board.models if whole}
    if whole:
        heads.insert(1, ["Mean"])
    if known := any(shares.values()):
        heads.insert(2, ["Headroom"])
    unit = "" if block.unit == "1" else f", {block.unit}"
    metric = f"{short_metric(block.metric)} {ARROW[block.direction]}{unit}"
    caption = f"{title_of(task)} ({task.value}): {metric}, {block.protocol}, with 95 % intervals"
    caption += ". Headroom: the way from floor to oracle." if known else "." if whole else ", continued."
    yield "\\begingroup\\scriptsize\\setlength{\\tabcolsep}{4pt}"
    yield f"\\begin{{longtable}}{{l{'r' * (len(heads) - 1)}}}"
    yield f"\\caption{{{latex(caption)}}}" + (f"\\label{{{_label(board, task)}}}" if whole else "") + " \\\\"
    yield "\\toprule"
    yield from _rows(heads)
    yield "\\midrule\\endhead"
    yield "\\bottomrule\\endlastfoot"
    for row in board.models:
        if (own := row.tasks.get(task)) is None:
            continue
        digits = digits_of(own.unit)
        cells = [latex(row.model) + marked(row)]
        cells += [number(own.score, digits)] if whole else []
        cells += [shares[row.model] or "–"] if known else []
        for name in names:
            value = own.values[name]
            spread = "" if value.ci95 is None else f" ({span(value.ci95, digits)})"
            cells.append(number(value.score, digits) + spread)
        yield _line([cells[0], *map(latex, cells[1:])])
    yield "\\end{longtable}"
    yield "\\endgroup"


def _short(block: TaskRecord, names: Sequence[str]) -> list[str]:
    """Some held-out values without the words that all values of the task begin with."""
    return [dict(zip(block.values, short_names(list(block.values)), strict=True))[name] for name in names]


def _label(board: Board, task: TaskID | None = None) -> str:
    return f"tab:emma-{board.release}" + ("" if task is None else f"-{task.value}")


def _head(task: TaskID, block: TaskRecord) -> list[str]:
    """A task's name and metric, a line each word, so that the column is no wider than its numbers need."""
    unit = [] if block.unit == "1" else [block.unit]
    averaged = [] if block.in_ood_avg else ["(not", "averaged)"]
    *words, last = short_metric(block.metric).split()
    return [*title_of(task).split(), *words, f"{last} {ARROW[block.direction]}", *unit, *averaged]


def _rows(heads: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a head whose columns have words one below the other, the last ones on the last line."""
    turned = zip_longest(*(reversed(head) for head in heads), fillvalue="")
    return [_line([latex(cell) for cell in line]) for line in reversed(list(turned))]


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + " \\\\"


def _standing(row: Row) -> list[str]:
    """Rank, its range, the model, its average and the interval of that."""
    low, high = row.rank_range or (None, None)
    average = number(row.ood_avg)
    return [
        latex(str(row.rank or "–")),
        latex("–" if low is None else str(low) if low == high else f"{low} to {high}"),
        latex(row.model) + marked(row),
        f"\\textbf{{{average}}}" if is_best(row) else latex(average),
        latex("–" if row.ood_avg_ci95 is None else span(row.ood_avg_ci95)),
    ]


def _score(row: Row, task: TaskID) -> str:
    """A task's score, with a mark where it does not beat the floor."""
    if (block := row.tasks.get(task)) is None:
        return latex("–")
    mark = "\\tnote{\\dag}" if above_floor(row, task) is False else ""
    return latex(number(block.score, digits_of(block.unit))) + mark


def _text(*lines: str) -> str:
    return "\n".join(lines) + "\n"


def bibtex(board: Board) -> str:
    """References in BibTeX: the release, and every model that says where it comes from."""
    entries = [
        _entry(
            f"emma_{board.release}",
            {
                "title": f"{{EMMA}}: Electromagnetic Multi-task Model Assessment, release {board.release}",
                "author": "{The EMMA authors}",
                "version": board.harness_version,
                "note": f"Data release hash {_broken(board.data_release_hash)}, {board.eval_split.upper()} scenes, "
                f"seed {board.seed}",
            },
        )
    ]
    for row in board.models:
        if row.cost is None or row.cost.link is None:
            continue
        weights = row.run_manifest.model_provenance.weights_sha256
        facts = [f"Licence {row.cost.licence}"] if row.cost.licence else []
        said = latex("; ".join(facts))
        said += f"{'; ' * bool(facts)}SHA-256 of the weights {_broken(weights)}" if weights else ""
        entries.append(
            _entry(
                row.model,
                {
                    "title": latex(row.cost.description or row.model),
                    "howpublished": f"\\url{{{row.cost.link}}}",
                    "note": said,
                },
            )
        )
    return "\n".join(entries)


def _broken(digits: str) -> str:
    """A hash that may go on in the next line after each sixteen digits."""
    return "\\allowbreak{}".join(digits[place : place + 16] for place in range(0, len(digits), 16))


def _entry(key: str, fields: dict[str, str]) -> str:
    kept = "".join(f"  {name} = {{{text}}},\n" for name, text in fields.items() if text)
    return f"@misc{{{re.sub('[^A-Za-z0-9._-]', '_', key)},\n{kept}}}\n"
