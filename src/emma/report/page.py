"""The page: one HTML file that asks for nothing outside itself, and the figures in it as SVG and PNG."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from emma.captures.records import SimToRealReport
from emma.data.release import DataReleaseManifest
from emma.report import figures
from emma.report.captures import caveats, gap_rows, mean_gaps, set_rows, without_gap
from emma.report.data import (
    ARROW,
    REFERENCE_NOTE,
    brackets,
    check_release,
    details,
    digits_of,
    jackknives,
    number,
    ranked,
    tasks_of,
    values,
)
from emma.results.records import Board

#: Pixels a unit of the PNG files, for print.
_SCALE = 3.0


def build_figures(
    board: Board, manifest: DataReleaseManifest, report: SimToRealReport | None = None
) -> dict[str, dict[str, Any]]:
    """Charts by name, each with its caption, alternative text, and the rows and columns of its table."""
    check_release(board, manifest)
    models, tidy = [row.model for row in board.models], values(board, manifest)
    averages = [
        {"model": row.model, "ood_avg": row.ood_avg, "low": row.ood_avg_ci95[0], "high": row.ood_avg_ci95[1]}
        for row in board.models
        if row.ood_avg is not None and row.ood_avg_ci95 is not None
    ]
    found: dict[str, dict[str, Any]] = {}

    def add(name: str, chart: Any, caption: str, alt: str, rows: list, columns: str) -> None:
        found[name] = {"chart": chart, "caption": caption, "alt": alt, "rows": rows, "columns": columns.split()}

    if averages:
        alt = "Dot and interval per model: " + "; ".join(f"{r['model']} {number(r['ood_avg'])}" for r in averages)
        caption = "OOD averages with 95 % intervals."
        add("ranking", figures.ranking(averages), caption, alt, averages, "model ood_avg low high")
    for task in tasks_of(board):
        rows = [row for row in tidy if row["task"] == task.value]
        caption = f"{rows[0]['metric']} by model and held-out value."
        alt = f"Heat map of {task.value}: one row per model, one column per held-out value, {_span(rows, 'text')}"
        columns = "model held_out text interval n in_distribution_text met undefined"
        add(f"held_out_{task.value}", figures.heat_map(rows, task.value), caption, alt, rows, columns)
        caption = "Skill on held-out values against that of a readout that has met them."
        below = [r for r in rows if r["skill"] is not None and r["skill_in_distribution"] is not None]
        lost = sum(r["skill"] < r["skill_in_distribution"] for r in below)
        alt = f"Scatter of {task.value}: {lost} of {len(below)} points lie below the line of equal skill"
        columns = "model held_out skill_in_distribution skill n"
        add(f"transfer_{task.value}", figures.transfer(rows, task.value, models), caption, alt, rows, columns)
    every = gap_rows(board, report)
    if rows := [row for row in every if row["gap"] is not None]:
        alt = f"Bars of {len(rows)} gaps in one panel per set: " + "; ".join(
            dict.fromkeys(f"{row['set']} is {row['kind']}" for row in rows)
        )
        panels = list(dict.fromkeys(row["set"] for row in rows))
        caption = "Gap by set and model, in percentage points of the anchors' scale."
        add(
            "sim_to_real",
            figures.gap_bars(sorted(every, key=lambda row: models.index(row["model"])), panels),
            caption,
            alt,
            _points(rows),
            "model task set kind gap",
        )
    if rows := jackknives(board):
        alt = f"Bars of {len(rows)} ranges, a tick at each average"
        caption = "Range of each OOD average when one task or one held-out value is dropped."
        columns = "model dropped ood_avg min min_without max max_without fragile"
        add("jackknife", figures.jackknife(rows), caption, alt, rows, columns)
    return found


def _span(rows: list[dict[str, Any]], key: str) -> str:
    defined = sorted((row for row in rows if row["score"] is not None), key=lambda row: row["score"])
    return f"scores from {defined[0][key]} to {defined[-1][key]}" if defined else "no score defined"


def images(found: Mapping[str, dict[str, Any]]) -> dict[str, bytes]:
    """Every figure as SVG and PNG in a paper's colours, by file name."""
    files = {}
    for name, item in found.items():
        spec = figures.spec(item["chart"], item["alt"], page=False)
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


def _points(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with their gaps as text: percentage points, to a tenth."""
    return [{**row, "gap": number(row["gap"], 1)} for row in rows]


def _columns(rows: list[Mapping[str, Any]]) -> list[str]:
    """Keys of rows in their order, without those that hold nothing anywhere."""
    keys = dict.fromkeys(key for row in rows for key in row)
    return [key for key in keys if any(row.get(key) is not None for row in rows)]


def _wordy(rows: list[Mapping[str, Any]], key: str) -> bool:
    """Whether a column holds words, which stand at its left, and no numbers."""
    return any(isinstance(row.get(key), str) and row[key][0].isalpha() for row in rows)


def _template(name: str) -> str:
    return files("emma.report").joinpath("templates", name).read_text(encoding="utf-8")


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _on_page(name: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """A figure with its chart in the page's variables; scatters share one legend."""
    chart = figures.spec(item["chart"], item["alt"], page=True, legend=not name.startswith("transfer"))
    return {**item, "spec": chart}


def _legend(board: Board) -> dict[str, Any]:
    models = [row.model for row in board.models]
    return {
        "chart": figures.legend(models),
        "alt": "Colour and shape of each model in the scatters: " + ", ".join(models),
    }


def build_page(board: Board, found: Mapping[str, dict[str, Any]], report: SimToRealReport | None = None) -> str:
    """The page as HTML. Every text of the board is escaped; only the page's own scripts run."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("emma.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
    )
    bundle = vl_convert.javascript_bundle(None)
    script = _template("script.js")
    first, apart = ranked(board)
    return (
        environment.get_template("page.html")
        .render(
            board=board,
            ranked=first,
            apart=apart,
            textbook=any(row.kind == "reference" for row in apart),
            tasks=tasks_of(board),
            brackets=brackets(board),
            figures={name: _on_page(name, item) for name, item in found.items()},
            legend=_on_page("legend", _legend(board)),
            details={task: details(board, task) for task in tasks_of(board)},
            gaps=_points(
                [
                    row
                    for row in gap_rows(board, report)
                    if row["set"] is not None or row["task"] not in without_gap(board)
                ]
            ),
            mean_gaps=_points(mean_gaps(board)),
            surrogate=any("surrogate" in (row["kind"] or "") for row in gap_rows(board, report)),
            sets=set_rows(report),
            caveats=caveats(report),
            without_gap=without_gap(board),
            arrow=ARROW,
            reference_note=REFERENCE_NOTE,
            number=number,
            digits=digits_of,
            cell=_cell,
            columns=_columns,
            wordy=_wordy,
            flat=_flat,
            hashes=Markup(" ".join(_source_hash(text) for text in (bundle, "\n" + script))),
            style=Markup(_template("style.css")),
            bundle=Markup(bundle),
            script=Markup(script),
        )
        .lstrip()
    )
