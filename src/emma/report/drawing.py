"""The figures by name, each with its caption, its alternative text and the rows behind it; and as files for papers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import vl_convert
from altair import TopLevelMixin
from altair.utils.schemapi import debug_mode

from emma.captures.records import SimToRealReport
from emma.data.release import DataReleaseManifest
from emma.report import figures
from emma.report.captures import gap_rows, side_rows
from emma.report.data import Cells, ValueRow, check_release, jackknives, number, tasks_of, values
from emma.report.figures import Rows
from emma.report.models import average_points, cost_points, headroom_points
from emma.report.probes import efficiency_rows
from emma.report.signs import signs
from emma.report.terms import short_metric, title_of
from emma.results.probes import ProbesReport
from emma.results.records import Board

#: Pixels a unit of the PNG files, for print.
_SCALE = 3.0


@dataclass(frozen=True)
class Figure:
    """A chart with what stands beside it on the page.

    Attributes:
        spec: Vega-Lite in the page's variables, without its data.
        data: the name of its data: figures of one name have the same rows.
        rows: its data.
        alt: its alternative text.
        caption: what it shows.
        columns: the columns of its table, by key.
    """

    spec: Mapping[str, Any]
    data: str
    rows: Rows
    alt: str
    caption: str
    columns: tuple[str, ...]

    @classmethod
    def of(
        cls, chart: TopLevelMixin, data: str, rows: Rows, alt: str, caption: str, columns: tuple[str, ...]
    ) -> Figure:
        """The figure of a chart; see the attributes."""
        return cls(figures.spec(chart, alt), data, rows, alt, caption, columns)

    @property
    def fields(self) -> set[str]:
        """The columns of the data that its chart or its table shows."""
        return figures.fields_of(self.spec) | set(self.columns)


def build_figures(
    board: Board,
    manifest: DataReleaseManifest,
    report: SimToRealReport | None = None,
    probes: ProbesReport | None = None,
) -> dict[str, Figure]:
    """The figures by name.

    Args:
        board: the board.
        manifest: its release.
        report: what its sim-to-real gaps were taken from, where captures were scored.
        probes: its probe report, for the figures of label efficiency.

    Raises:
        InputError: the board is of another release.
    """
    check_release(board, manifest)
    # altair would check each part of each chart as often as it is copied, which takes longer than all the rest.
    with debug_mode(False):
        return _figures(board, manifest, report) | _efficiency(probes)


def _figures(board: Board, manifest: DataReleaseManifest, report: SimToRealReport | None) -> dict[str, Figure]:
    models, tidy = [row.model for row in board.models], values(board, manifest)
    drawn: dict[str, Figure] = {}
    if (ranking := _ranking(board)) is not None:
        drawn["ranking"] = ranking
    for task in tasks_of(board):
        rows = [row for row in tidy if row["task"] == task.value]
        data = f"values {task.value}"
        drawn[f"held_out_{task.value}"] = Figure.of(
            figures.heat_map(rows, data, title_of(task)),
            data,
            rows,
            f"Heat map of {task.value}: one row per model, one column per held-out value, {_span(rows)}",
            f"{rows[0]['metric']} by model and held-out value.",
            ("model", "held_out", "text", "interval", "n", "in_distribution_text", "gap_interval", "met", "undefined"),
        )
        pairs = [(row["skill"], row["skill_in_distribution"]) for row in rows]
        both = [(skill, within) for skill, within in pairs if skill is not None and within is not None]
        lost = sum(skill < within for skill, within in both)
        drawn[f"transfer_{task.value}"] = Figure.of(
            figures.transfer(data, title_of(task)),
            data,
            rows,
            f"Scatter of {task.value}: {lost} of {len(both)} points lie below the line of equal skill",
            "Skill on held-out values against that of a readout that has met them.",
            ("model", "held_out", "skill_in_distribution", "skill", "n"),
        )
    drawn |= _costs(board)
    if shares := headroom_points(board):
        drawn["headroom"] = Figure.of(
            figures.headroom(shares, "shares"),
            "shares",
            shares,
            f"Points of {len({row['model'] for row in shares})} models between floor and oracle, by task",
            "How far each score has come from the floor, which knows nothing of a scene, to the oracle, which knows "
            "its true parameters.",
            ("model", "task", "share", "text"),
        )
    if (gaps := _gaps(gap_rows(board, report), models)) is not None:
        drawn["sim_to_real"] = gaps
    both_sides = side_rows(report)
    for name in dict.fromkeys(str(row["set"]) for row in both_sides):
        own = [row for row in both_sides if row["set"] == name]
        drawn[f"sides_{name}"] = Figure.of(
            figures.sides(f"sides {name}", name),
            f"sides {name}",
            own,
            f"Scatter of {name}: {len(own)} models, a line between fits on synthetic and on captured scenes",
            "Synthetic against captured score on the anchors' scale. Lines: from a fit on synthetic scenes to one on "
            "as many captured scenes of other sessions (tick).",
            ("model", "set", "synthetic", "captured", "fit_on_captured", "fit_on_as_many_synthetic"),
        )
    if spans := jackknives(board):
        drawn["jackknife"] = Figure.of(
            figures.jackknife(spans, "spans"),
            "spans",
            spans,
            f"Bars of {len(spans)} ranges, a tick at each average",
            "Range of each OOD average when one task or one held-out value is dropped.",
            ("model", "dropped", "ood_avg", "min", "min_without", "max", "max_without", "fragile"),
        )
    return drawn


def _efficiency(probes: ProbesReport | None) -> dict[str, Figure]:
    found = {}
    for task, rows in ({} if probes is None else efficiency_rows(probes)).items():
        data = f"efficiency {task}"
        most = max(int(str(row["at"])) for row in rows)
        found[f"label_efficiency_{task}"] = Figure.of(
            figures.label_efficiency(rows, data, title_of(task), short_metric(str(rows[0]["metric"]))),
            data,
            rows,
            f"Lines of {task}: {len({row['model'] for row in rows})} models, score against up to {most} fit scenes",
            "Mean over five draws of fit scenes; the last point is a fit on all of them. No intervals.",
            ("model", "scenes", "text", "deviation"),
        )
    return found


def _costs(board: Board) -> dict[str, Figure]:
    rows = cost_points(board)
    models = list(dict.fromkeys(str(row["model"]) for row in rows))
    found = {}
    if averages := average_points(board):
        found["cost"] = Figure.of(
            figures.costs("costs", "Average", "OOD-avg"),
            "costs",
            averages,
            f"Scatter of {len(averages)} models, OOD-avg against multiply-accumulates",
            "OOD-avg against cost. Hollow: the same network with permuted weights.",
            ("model", "macs", "skill"),
        )
    for task in dict.fromkeys(str(row["task"]) for row in rows):
        own = [row for row in rows if row["task"] == task]
        found[f"cost_{task}"] = Figure.of(
            figures.costs(f"costs {task}", title_of(task), "score on the anchors' scale"),
            f"costs {task}",
            own,
            f"Scatter of {task}: {len(own)} points of {len(models)} models, score against multiply-accumulates",
            "Score against cost. Hollow: the same network with permuted weights.",
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
    chart = figures.ranking(rows, "averages")
    return Figure.of(chart, "averages", rows, text, "OOD averages with 95 % intervals.", columns)


def _gaps(every: Sequence[Cells], models: Sequence[str]) -> Figure | None:
    rows = [
        {**row, "panel": f"{row['task']}, {row['set']}: {row['kind']}"}
        for row in sorted(every, key=lambda row: models.index(str(row["model"])))
        if row["gap"] is not None
    ]
    if not rows:
        return None
    sets = list(dict.fromkeys(str(row["set"]) for row in every if row["gap"] is not None))
    text = f"Bars of {len(rows)} gaps in one panel per set: "
    return Figure.of(
        figures.gap_bars(rows, "gaps", sets),
        "gaps",
        rows,
        text + "; ".join(dict.fromkeys(f"{row['set']} is {row['kind']}" for row in every if row["gap"] is not None)),
        "Gap by set and model, in percentage points of the anchors' scale.",
        ("model", "task", "set", "kind", "gap"),
    )


def _span(rows: Sequence[ValueRow]) -> str:
    defined = sorted((row["score"], row["text"]) for row in rows if row["score"] is not None)
    return f"scores from {defined[0][1]} to {defined[-1][1]}" if defined else "no score defined"


def _ordered(pdf: bytes) -> bytes:
    """A PDF with the names of its resources in order: their order says nothing, and differs between processes."""
    return re.sub(
        rb"(?:^ +/\w+ \d+ 0 R\n){2,}",
        lambda block: b"".join(sorted(block[0].splitlines(keepends=True))),
        pdf,
        flags=re.MULTILINE,
    )


def images(drawn: Mapping[str, Figure], models: Iterable[str]) -> dict[str, bytes]:
    """Every figure as SVG, PDF and PNG in a paper's colours, by file name.

    The typeface has one weight: of two, the numbers of a PDF's parts would differ between processes.

    Args:
        drawn: the figures.
        models: those of the board, whose signs they are.
    """
    files, signed = {}, signs(models)
    for name, figure in drawn.items():
        spec = figures.paper(figure.spec, {figure.data: figure.rows}, signed)
        svg = vl_convert.vegalite_to_svg(spec)
        files[f"{name}.svg"] = svg.encode()
        files[f"{name}.pdf"] = _ordered(vl_convert.svg_to_pdf(svg))
        files[f"{name}.png"] = vl_convert.svg_to_png(svg, scale=_SCALE)
    return files
