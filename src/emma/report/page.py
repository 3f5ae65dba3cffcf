"""The page: one HTML file that asks for nothing outside itself, and the figures in it as SVG and PNG."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from altair import TopLevelMixin
from markupsafe import Markup

from emma.captures.records import SimToRealReport
from emma.data.release import DataReleaseManifest
from emma.report import figures
from emma.report.captures import caveats, gap_rows, mean_gaps, set_rows, side_rows, without_gap
from emma.report.data import (
    ARROW,
    KINDS,
    REFERENCE_NOTE,
    SCALE_NOTE,
    Cells,
    ValueRow,
    check_release,
    details,
    jackknives,
    number,
    rank_rows,
    ranked,
    tasks_of,
    values,
)
from emma.report.figures import Rows
from emma.report.models import average_points, control_rows, cost_points, cost_rows, facts, headroom_points
from emma.report.ranking import columns, lines
from emma.report.signs import signs
from emma.report.tables import bibtex, tex
from emma.report.terms import QUESTIONS, TERMS, title_of
from emma.results.components import APART_TITLE, CONTROL_NOTE, GAP_NOTE, gap_columns, has_controls
from emma.results.frames import board_csv
from emma.results.records import Board

#: Pixels a unit of the PNG files, for print.
_SCALE = 3.0

#: The page's own scripts, in their order; the drawing library comes before them.
SCRIPTS = ("table.js", "page.js", "charts.js")


@dataclass(frozen=True)
class Figure:
    """A chart with what stands beside it on the page.

    Attributes:
        chart: the chart.
        alt: its alternative text.
        caption: what it shows.
        rows: the rows of its table.
        columns: the columns of its table, by key.
    """

    chart: TopLevelMixin
    alt: str
    caption: str = ""
    rows: Rows = ()
    columns: tuple[str, ...] = ()

    @property
    def spec(self) -> dict[str, Any]:
        """Vega-Lite in the page's variables."""
        return figures.spec(self.chart, self.alt, page=True)


def build_figures(
    board: Board, manifest: DataReleaseManifest, report: SimToRealReport | None = None
) -> dict[str, Figure]:
    """The figures by name."""
    check_release(board, manifest)
    models, tidy = [row.model for row in board.models], values(board, manifest)
    drawn: dict[str, Figure] = {}
    if (ranking := _ranking(board)) is not None:
        drawn["ranking"] = ranking
    for task in tasks_of(board):
        rows = [row for row in tidy if row["task"] == task.value]
        drawn[f"held_out_{task.value}"] = Figure(
            figures.heat_map(rows, task.value, title_of(task)),
            f"Heat map of {task.value}: one row per model, one column per held-out value, {_span(rows)}",
            f"{rows[0]['metric']} by model and held-out value.",
            rows,
            ("model", "held_out", "text", "interval", "n", "in_distribution_text", "gap_interval", "met", "undefined"),
        )
        pairs = [(row["skill"], row["skill_in_distribution"]) for row in rows]
        both = [(skill, within) for skill, within in pairs if skill is not None and within is not None]
        lost = sum(skill < within for skill, within in both)
        drawn[f"transfer_{task.value}"] = Figure(
            figures.transfer(rows, task.value, title_of(task)),
            f"Scatter of {task.value}: {lost} of {len(both)} points lie below the line of equal skill",
            "Skill on held-out values against that of a readout that has met them.",
            rows,
            ("model", "held_out", "skill_in_distribution", "skill", "n"),
        )
    drawn |= _costs(board)
    if shares := headroom_points(board):
        drawn["headroom"] = Figure(
            figures.headroom(shares),
            f"Points of {len({row['model'] for row in shares})} models between floor and oracle, by task",
            "How far each score has come from the floor, which knows nothing of a scene, to the oracle, which knows "
            "its true parameters.",
            shares,
            ("model", "task", "share", "text"),
        )
    if (gaps := _gaps(gap_rows(board, report), models)) is not None:
        drawn["sim_to_real"] = gaps
    both_sides = side_rows(report)
    for name in dict.fromkeys(str(row["set"]) for row in both_sides):
        own = [row for row in both_sides if row["set"] == name]
        drawn[f"sides_{name}"] = Figure(
            figures.sides(both_sides, name),
            f"Scatter of {name}: {len(own)} models, a line between fits on synthetic and on captured scenes",
            "Synthetic against captured score on the anchors' scale. Lines: from a fit on synthetic scenes to one on "
            "as many captured scenes of other sessions (tick).",
            own,
            ("model", "set", "synthetic", "captured", "fit_on_captured", "fit_on_as_many_synthetic"),
        )
    if spans := jackknives(board):
        drawn["jackknife"] = Figure(
            figures.jackknife(spans),
            f"Bars of {len(spans)} ranges, a tick at each average",
            "Range of each OOD average when one task or one held-out value is dropped.",
            spans,
            ("model", "dropped", "ood_avg", "min", "min_without", "max", "max_without", "fragile"),
        )
    return drawn


def _costs(board: Board) -> dict[str, Figure]:
    rows = cost_points(board)
    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    found = {}
    if averages := average_points(board):
        found["cost"] = Figure(
            figures.costs(averages, "Average", "OOD-avg"),
            f"Scatter of {len(averages)} models, OOD-avg against multiply-accumulates",
            "OOD-avg against cost. Hollow: the same network with permuted weights.",
            averages,
            ("model", "macs", "skill"),
        )
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        own = [row for row in rows if row["task"] == task]
        found[f"cost_{task}"] = Figure(
            figures.costs(own, title_of(task), "score on the anchors' scale"),
            f"Scatter of {task}: {len(own)} points of {len(models)} models, score against multiply-accumulates",
            "Score against cost. Hollow: the same network with permuted weights.",
            own,
            ("model", "task", "macs", "skill", "text"),
        )
    return found


def _ranking(board: Board) -> Figure | None:
    rows: list[dict[str, str | float]] = []
    said = []
    for row in board.reproduced:
        if row.ood_avg is not None and row.ood_avg_ci95 is not None:
            low, high = row.ood_avg_ci95
            rows.append({"model": row.model, "ood_avg": row.ood_avg, "low": low, "high": high})
            said.append(f"{row.model} {number(row.ood_avg)}")
    if not rows:
        return None
    text = "Dot and interval per model: " + "; ".join(said)
    columns = ("model", "ood_avg", "low", "high")
    return Figure(figures.ranking(rows), text, "OOD averages with 95 % intervals.", rows, columns)


def _gaps(every: Sequence[Cells], models: Sequence[str]) -> Figure | None:
    rows = [row for row in every if row["gap"] is not None]
    if not rows:
        return None
    text = f"Bars of {len(rows)} gaps in one panel per set: "
    return Figure(
        figures.gap_bars(
            sorted(every, key=lambda row: models.index(str(row["model"]))),
            list(dict.fromkeys(str(row["set"]) for row in rows)),
        ),
        text + "; ".join(dict.fromkeys(f"{row['set']} is {row['kind']}" for row in rows)),
        "Gap by set and model, in percentage points of the anchors' scale.",
        _points(rows),
        ("model", "task", "set", "kind", "gap"),
    )


def _span(rows: Sequence[ValueRow]) -> str:
    defined = sorted((row["score"], row["text"]) for row in rows if row["score"] is not None)
    return f"scores from {defined[0][1]} to {defined[-1][1]}" if defined else "no score defined"


def images(drawn: Mapping[str, Figure]) -> dict[str, bytes]:
    """Every figure as SVG and PNG in a paper's colours, by file name."""
    files = {}
    for name, figure in drawn.items():
        spec = figures.spec(figure.chart, figure.alt, page=False)
        svg = vl_convert.vegalite_to_svg(spec)
        files[f"{name}.svg"] = svg.encode()
        files[f"{name}.png"] = vl_convert.svg_to_png(svg, scale=_SCALE)
    return files


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


def _points(rows: Sequence[Cells]) -> list[Cells]:
    """Rows with their gaps as text: percentage points, to a tenth."""
    return [
        {**row, **{key: number(cell, 1) for key, cell in row.items() if "gap" in key and isinstance(cell, float)}}
        for row in rows
    ]


def _columns(rows: Sequence[Cells]) -> list[str]:
    """Keys of rows in their order, without those that hold nothing anywhere."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return [key for key in keys if any(row.get(key) is not None for row in rows)]


def _wordy(rows: Sequence[Cells], key: str) -> bool:
    """Whether a column holds words, which stand at its left, and no numbers."""
    return any(isinstance(cell := row.get(key), str) and cell[0].isalpha() for row in rows)


def _template(name: str) -> str:
    return files("emma.report").joinpath("templates", name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _anchor(model: str) -> str:
    return f"model-{model}"


def _contents(board: Board) -> list[tuple[str, str]]:
    """What the page holds, by the anchors of its headings."""
    found = [("ranking", "Ranking")]
    found += [("submitted", "Submitted")] if board.apart else []
    found += [("tasks", "Tasks"), ("figures", "Cost and headroom")]
    found += [("controls", "What pretraining bought")] if control_rows(board) else []
    return [
        *found,
        *(("sim-to-real", "Sim to real"), ("jackknife", "Stability"), ("models", "Models"), ("glossary", "Glossary")),
    ]


def _files(board: Board) -> dict[str, str]:
    """The files that stand beside the page."""
    return {
        "leaderboard.csv": board_csv(board),
        "leaderboard.json": json.dumps(board.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n",
        "leaderboard.tex": tex(board),
        "leaderboard.bib": bibtex(board),
    }


def _packed(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


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
    bundle = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # its stub asks for what is optional
    scripts = [_template(name) for name in SCRIPTS]
    apart = ranked(board)[1]
    return (
        environment.get_template("page.html")
        .render(
            board=board,
            contents=_contents(board),
            downloads={name: _packed(text) for name, text in _files(board).items()},
            board_columns=columns(board),
            ranking=lines(board, board.reproduced),
            submitted=lines(board, board.apart),
            row_kinds=Counter(row.kind for row in board.models),
            signs=signs(row.model for row in board.models),
            anchor=_anchor,
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
            control_rows=control_rows(board),
            cost_rows=cost_rows(board),
            has_controls=has_controls(board),
            control_note=CONTROL_NOTE,
            tasks=tasks_of(board),
            figures=drawn,
            details={task: details(board, task) for task in tasks_of(board)},
            gaps=_points(
                [
                    row
                    for row in gap_rows(board, report)
                    if row["set"] is not None or row["task"] not in without_gap(board)
                ]
            ),
            mean_gaps=_points(mean_gaps(board)),
            gap_columns=gap_columns(board),
            gap_note=GAP_NOTE,
            sided=[name for name in drawn if name.startswith("sides_")],
            surrogate=any("surrogate" in str(row["kind"]) for row in gap_rows(board, report)),
            sets=set_rows(report),
            caveats=caveats(report),
            without_gap=without_gap(board),
            arrow=ARROW,
            reference_note=REFERENCE_NOTE,
            cell=_cell,
            columns=_columns,
            wordy=_wordy,
            flat=_flat,
            hashes=Markup(" ".join(_source_hash(text) for text in (bundle, *(f"\n{text}" for text in scripts)))),
            style=Markup(_template("style.css")),
            bundle=Markup(bundle),
            scripts=[Markup(script) for script in scripts],
        )
        .lstrip()
    )
