"""The page: one HTML file that asks for nothing outside itself, with the files that stand beside it."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup, escape

from common.files import json_text
from emma.captures.records import SimToRealReport
from emma.report.captures import caveats, gap_rows, in_points, mean_gaps, set_rows, without_gap
from emma.report.data import (
    ARROW,
    KINDS,
    REFERENCE_NOTE,
    SCALE_NOTE,
    Cells,
    details,
    number,
    rank_rows,
    ranked,
    tasks_of,
)
from emma.report.drawing import Figure
from emma.report.figures import columns_of
from emma.report.latex import appendix, bibtex, tex
from emma.report.models import control_rows, cost_rows, facts
from emma.report.ranking import columns, lines
from emma.report.signs import Signs, scales, signs
from emma.report.terms import QUESTIONS, TERMS, TITLES, short_metric, title_of
from emma.results.components import APART_TITLE, CONTROL_NOTE, GAP_NOTE, gap_columns, has_controls
from emma.results.frames import board_csv
from emma.results.records import Board

#: The files that stand beside the page, as its buttons call them.
DOWNLOADS = {
    "leaderboard.csv": "CSV",
    "leaderboard.json": "JSON",
    "leaderboard.tex": "LaTeX",
    "leaderboard.appendix.tex": "LaTeX, held-out values",
    "leaderboard.bib": "BibTeX",
}

#: Most characters of a packed file within the page; a larger one stands beside it.
LARGEST_DOWNLOAD = 600_000
#: With more models than this, tasks are drawn when they are chosen and not before.
MANY = 60

#: The page's own scripts, in their order; the drawing library comes before them.
SCRIPTS = ("table.js", "page.js", "charts.js")


def _flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{place}.{key}" if place else str(key))
    else:
        yield place, "none" if value is None or value in ([], {}) else value


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "–" if value is None else number(value) if isinstance(value, float) else str(value)


def _columns(rows: Sequence[Cells]) -> list[str]:
    """Keys of rows in their order, without those that hold nothing anywhere or one text everywhere."""
    keys, constants = dict.fromkeys(key for row in rows for key in row), _constants(rows)
    return [key for key in keys if key not in constants and any(row.get(key) is not None for row in rows)]


def _constants(rows: Sequence[Cells]) -> dict[str, str]:
    """Columns that say the same in words in each of three rows or more, with what they say."""
    first, *others = rows
    return {
        key: cell
        for key, cell in first.items()
        if len(others) > 1 and isinstance(cell, str) and cell[:1].isalpha() and key != "model"
        if all(row.get(key) == cell for row in others)
    }


def _wordy(rows: Sequence[Cells], keys: Sequence[str]) -> set[str]:
    """The columns that hold words, which stand at their left, and no numbers."""
    return {key for key in keys if any(isinstance(cell := row.get(key), str) and cell[0].isalpha() for row in rows)}


@cache
def _library() -> tuple[str, str]:
    """The hash of the script that draws figures, and the script packed."""
    text = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub asks for what is optional
    return _source_hash(text), _packed(text)


def _template(name: str) -> str:
    return files("emma.report").joinpath("templates", name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _anchor(model: str) -> str:
    return f"model-{model}"


def _breakable(name: str) -> Markup:
    """A name that may go on in the next line after an underscore or a dot."""
    return Markup(re.sub(r"([_.])(?=.)", r"\1<wbr>", str(escape(name))))


def _contents(board: Board, controls: Sequence[Cells]) -> list[tuple[str, str]]:
    """What the page holds, by the anchors of its headings; ``controls`` are the rows of that table."""
    found = [("ranking", "Ranking")]
    found += [("submitted", "Submitted")] if board.apart else []
    found += [("tasks", "Tasks"), ("figures", "Cost and headroom")]
    found += [("controls", "What pretraining bought")] if controls else []
    return [
        *found,
        *(("sim-to-real", "Sim to real"), ("jackknife", "Stability"), ("models", "Models"), ("glossary", "Glossary")),
    ]


def _files(board: Board) -> dict[str, str]:
    """The files that stand beside the page."""
    return {
        "leaderboard.csv": board_csv(board),
        "leaderboard.json": json_text(board.model_dump(mode="json")),
        "leaderboard.tex": tex(board),
        "leaderboard.appendix.tex": appendix(board),
        "leaderboard.bib": bibtex(board),
    }


def _packed(text: str) -> str:
    """A text as the page holds what it needs later, or what is large."""
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def _downloads(board: Board) -> dict[str, str | None]:
    """The packed files by name; None for one that is too large for the page, which links to it."""
    packed = {name: _packed(text) for name, text in _files(board).items()}
    return {name: text if len(text) <= LARGEST_DOWNLOAD else None for name, text in packed.items()}


def _packed_figures(board: Board, drawn: Mapping[str, Figure], signed: Signs) -> str:
    """Specifications and tables of the figures, and the data that they share, by column."""
    fields: dict[str, set[str]] = {}
    for figure in drawn.values():
        fields.setdefault(figure.data, set()).update(figure.fields)
    shared = {figure.data: columns_of(figure.rows, fields[figure.data]) for figure in drawn.values()}
    content = {
        "figures": {
            name: {"spec": figure.spec, "data": figure.data, "columns": figure.columns}
            for name, figure in drawn.items()
        },
        "data": shared,
        "scales": scales([row.model for row in board.models], signed),
        "titles": TITLES,
    }
    return _packed(json.dumps(content))


def _words(key: str, text: Any) -> Any:
    """A cell's text, with tasks in words."""
    return (
        ", ".join(title_of(each) for each in str(text).split(", "))
        if key in {"task", "tasks", "matched_tasks"}
        else text
    )


def build_page(board: Board, drawn: Mapping[str, Figure], report: SimToRealReport | None = None) -> str:
    """The page as HTML. Every text of the board is escaped; only the page's own scripts run."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("emma.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    library_hash, library = _library()
    scripts = [_template(name) for name in SCRIPTS]
    signed, parts = signs(row.model for row in board.models), {}

    def keep(key: str, html: str) -> Markup:
        """Keep what is shown later or seldom, packed: a place for it, which the page fills when it is wanted."""
        parts[key] = str(html)
        return Markup('<div data-part="{}"></div>').format(key)

    apart = ranked(board)[1]
    controls, gaps, gapless = control_rows(board), list(gap_rows(board, report)), without_gap(board)
    return (
        environment.get_template("page.html")
        .render(
            board=board,
            contents=_contents(board, controls),
            labels=DOWNLOADS,
            downloads=_downloads(board),
            many=MANY,
            keep=keep,
            packed_parts=lambda: _packed(json.dumps(parts)),
            board_columns=columns(board),
            ranking=lines(board, board.reproduced),
            submitted=lines(board, board.apart),
            row_kinds=Counter(row.kind for row in board.models),
            signs=signed,
            packed_figures=_packed_figures(board, drawn, signed),
            short=short_metric,
            constants=_constants,
            anchor=_anchor,
            breakable=_breakable,
            facts=facts,
            terms=TERMS,
            questions=QUESTIONS,
            title_of=title_of,
            words=_words,
            has_control_rows=any(row.control_of is not None for row in board.models),
            apart_title=APART_TITLE,
            textbook=any(row.kind == "reference" for row in apart),
            oracle=any(row.kind == "oracle" for row in apart),
            kinds=KINDS,
            scale_note=SCALE_NOTE,
            rank_rows=rank_rows(board),
            control_rows=controls,
            cost_rows=cost_rows(board),
            has_controls=has_controls(board),
            control_note=CONTROL_NOTE,
            tasks=tasks_of(board),
            figures=drawn,
            details={task: details(board, task) for task in tasks_of(board)},
            gaps=in_points([row for row in gaps if row["set"] is not None or row["task"] not in gapless]),
            mean_gaps=in_points(mean_gaps(board)),
            gap_columns=gap_columns(board),
            gap_note=GAP_NOTE,
            sided=[name for name in drawn if name.startswith("sides_")],
            surrogate=any("surrogate" in str(row["kind"]) for row in gaps),
            sets=set_rows(report),
            caveats=caveats(report),
            without_gap=gapless,
            arrow=ARROW,
            reference_note=REFERENCE_NOTE,
            cell=_cell,
            columns=_columns,
            wordy=_wordy,
            flat=_flat,
            hashes=Markup(" ".join([library_hash, *(_source_hash(f"\n{text}") for text in scripts)])),
            style=Markup(_template("style.css")),
            library=library,
            scripts=[Markup(script) for script in scripts],
        )
        .lstrip()
    )
