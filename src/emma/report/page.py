"""The page: one HTML file that asks for nothing outside itself, and the figures in it as SVG and PNG."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import jinja2
import vl_convert
from markupsafe import Markup

from emma.board import Board
from emma.release import DataReleaseManifest
from emma.report import figures, template
from emma.report.data import (
    ARROW,
    REFERENCE_NOTE,
    brackets,
    check_release,
    digits_of,
    gaps,
    jackknives,
    number,
    ranked,
    tasks_of,
    values,
)

#: Pixels a unit of the PNG files, for print.
_SCALE = 3.0


def build_figures(board: Board, manifest: DataReleaseManifest) -> dict[str, dict[str, Any]]:
    """Charts by name, each with its alternative text, and the rows and columns of its table."""
    check_release(board, manifest)
    models, tidy = [row.model for row in board.models], values(board, manifest)
    averages = [
        {"model": row.model, "ood_avg": row.ood_avg, "low": row.ood_avg_ci95[0], "high": row.ood_avg_ci95[1]}
        for row in board.models
        if row.ood_avg is not None and row.ood_avg_ci95 is not None
    ]
    found: dict[str, dict[str, Any]] = {}

    def add(name: str, chart: Any, alt: str, rows: list, columns: str) -> None:
        found[name] = {"chart": chart, "alt": alt, "rows": rows, "columns": columns.split()}

    if averages:
        alt = "OOD averages with 95 % intervals, " + "; ".join(f"{r['model']} {number(r['ood_avg'])}" for r in averages)
        add("ranking", figures.ranking(averages), alt, averages, "model ood_avg low high")
    for task in tasks_of(board):
        rows = [row for row in tidy if row["task"] == task.value]
        alt = f"{task.value}, {rows[0]['metric']}: scores of each model on each held-out value"
        columns = "model held_out text interval n in_distribution_text met undefined"
        add(f"held_out_{task.value}", figures.heat_map(rows, task.value), alt, rows, columns)
        alt = f"{task.value}: skill on held-out values against skill of a readout that has met them"
        columns = "model held_out skill_in_distribution skill n"
        add(f"transfer_{task.value}", figures.transfer(rows, task.value, models), alt, rows, columns)
    if rows := gaps(board):
        alt = "Sim-to-real gap of each model in percentage points; surrogates are not real captures"
        add("sim_to_real", figures.gap_bars(rows), alt, rows, "model kind gap")
    if rows := jackknives(board):
        alt = "Range of each OOD average when one task or one held-out value is dropped"
        columns = "model dropped ood_avg min min_without max max_without fragile"
        add("jackknife", figures.jackknife(rows), alt, rows, columns)
    return found


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


def _source_hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def build_page(board: Board, found: Mapping[str, dict[str, Any]]) -> str:
    """The page as HTML. Every text of the board is escaped; only the page's own scripts run."""
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    bundle = vl_convert.javascript_bundle()
    first, apart = ranked(board)
    return (
        environment.from_string(template.MACROS + template.PAGE)
        .render(
            board=board,
            ranked=first,
            apart=apart,
            textbook=any(row.kind == "reference" for row in apart),
            tasks=tasks_of(board),
            brackets=brackets(board),
            figures={
                name: {**item, "spec": figures.spec(item["chart"], item["alt"], page=True)}
                for name, item in found.items()
            },
            arrow=ARROW,
            reference_note=REFERENCE_NOTE,
            number=number,
            digits=digits_of,
            cell=_cell,
            flat=_flat,
            hashes=Markup(" ".join(_source_hash(text) for text in (bundle, template.SCRIPT))),
            style=Markup(template.STYLE),
            bundle=Markup(bundle),
            script=Markup(template.SCRIPT),
        )
        .lstrip()
    )
