"""The figures, as Vega-Lite by altair: one form for paper and for page, where colours are the page's own variables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import altair as alt

Rows = Sequence[dict[str, Any]]

#: Colours by role: those of a paper; on the page each is a variable of the style sheet, so that dark follows.
COLOURS = {"ink": "#1c2126", "muted": "#5b6670", "rule": "#d5dade", "accent": "#0b63a5", "ground": "#ffffff"}
#: Okabe and Ito's palette, safe for colour-blind readers; shapes tell models apart as well.
PALETTE = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#8c5a2b"]
SHAPES = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left"]


def heat_map(rows: Rows, task: str) -> alt.Chart:
    """Models x held-out values of one task: text is the score, depth of colour its place between the anchors."""
    rows = [row for row in rows if row["task"] == task]
    models, values = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "held_out"))
    base = alt.Chart(alt.Data(values=rows)).encode(
        x=alt.X("held_out:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, orient="top", ticks=False)),
        y=alt.Y("model:N", sort=None, title=None, axis=alt.Axis(ticks=False)),
        tooltip=[
            alt.Tooltip(f"{field}:N", title=title)
            for field, title in (
                ("model", "model"), ("held_out", "held out"), ("metric", "metric"), ("text", "score"),
                ("interval", "95 % interval"), ("n", "n"), ("in_distribution_text", "in-distribution"),
                ("undefined", "undefined"), ("met", "met in pretraining"),
            )
        ],
    )  # fmt: skip
    opacity = alt.Opacity("skill:Q", scale=alt.Scale(domain=[0, 1], range=[0.06, 1]), legend=None)
    cells = base.mark_rect(fill="@accent", stroke="@ground", strokeWidth=2).encode(opacity=opacity)
    light = alt.condition("datum.skill > 0.55", alt.value("@ground"), alt.value("@ink"))
    layers = cells + base.mark_text(fontSize=11).encode(text="text:N", color=light)
    return layers.properties(title=task, width=max(46 * len(values), 180), height=24 * len(models))


def transfer(rows: Rows, task: str, models: Sequence[str]) -> alt.LayerChart:
    """In-distribution against held-out skill of one task; below the diagonal is lost on the unseen value."""
    rows = [row for row in rows if row["task"] == task and row["skill"] is not None]
    rows = [row for row in rows if row["skill_in_distribution"] is not None]
    ends = alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    diagonal = alt.Chart(ends).mark_line(color="@muted", strokeDash=[3, 3], strokeWidth=1).encode(x="x:Q", y="y:Q")
    scale = alt.Scale(domain=[0, 1])
    colours = alt.Scale(domain=list(models), range=[PALETTE[i % len(PALETTE)] for i in range(len(models))])
    shapes = alt.Scale(domain=list(models), range=[SHAPES[i % len(SHAPES)] for i in range(len(models))])
    points = (
        alt.Chart(alt.Data(values=rows))
        .mark_point(filled=True, size=55, opacity=0.85)
        .encode(
            x=alt.X("skill_in_distribution:Q", scale=scale, title="in-distribution"),
            y=alt.Y("skill:Q", scale=scale, title="held out"),
            color=alt.Color("model:N", scale=colours, title=None),
            shape=alt.Shape("model:N", scale=shapes, title=None),
            tooltip=["model:N", "held_out:N", "text:N", "in_distribution_text:N", "n:Q"],
        )
    )
    return (diagonal + points).properties(title=task, width=190, height=190)


def ranking(rows: Rows) -> alt.LayerChart:
    """OOD averages with their 95 % intervals."""
    order = [row["model"] for row in rows]
    base = alt.Chart(alt.Data(values=list(rows))).encode(y=alt.Y("model:N", sort=None, title=None))
    bars = base.mark_rule(color="@muted", strokeWidth=2).encode(
        x=alt.X("low:Q", scale=alt.Scale(domain=[0, 1]), title="OOD average, 95 % interval"), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=60, color="@accent", opacity=1).encode(
        x="ood_avg:Q", tooltip=["model:N", "ood_avg:Q"]
    )
    return (bars + points).properties(width=420, height=28 * len(order))


def jackknife(rows: Rows) -> alt.LayerChart:
    """How far each OOD average moves when a task or a held-out value is dropped."""
    order = list(dict.fromkeys(row["model"] for row in rows))
    tips = ["model:N", "dropped:N", "min:Q", "min_without:N", "max:Q", "max_without:N"]
    base = alt.Chart(alt.Data(values=list(rows))).encode(
        y=alt.Y("model:N", sort=None, title=None), yOffset=alt.YOffset("dropped:N", sort=None), tooltip=tips
    )
    colours = alt.Scale(domain=["task", "held-out value"], range=["@accent", "#d55e00"])
    bars = base.mark_bar(height=6).encode(
        x=alt.X("min:Q", scale=alt.Scale(domain=[0, 1]), title="OOD average with one dropped"),
        x2="max:Q",
        color=alt.Color("dropped:N", sort=None, scale=colours, title="dropped"),
    )
    ticks = base.mark_tick(color="@ink", thickness=2, height=12).encode(x="ood_avg:Q")
    return (bars + ticks).properties(width=420, height=36 * len(order))


def gap_bars(rows: Rows) -> alt.Chart:
    """Sim-to-real gaps; surrogates are hollow and dashed, and named so."""
    rows = [
        {**row, "kind": "surrogate (not real captures)" if row["kind"] != "real" else "real captures"} for row in rows
    ]
    surrogate = "datum.kind != 'real captures'"
    return (
        alt.Chart(alt.Data(values=rows))
        .mark_bar(stroke="@accent", fill="@accent")
        .encode(
            x=alt.X("gap:Q", title="gap, percentage points"),
            y=alt.Y("model:N", sort=None, title=None),
            row=alt.Row("kind:N", title=None, header=alt.Header(orient="top", labelAnchor="start")),
            fillOpacity=alt.condition(surrogate, alt.value(0.12), alt.value(1)),
            strokeDash=alt.condition(surrogate, alt.value([4, 3]), alt.value([1, 0])),
            tooltip=["model:N", "kind:N", "gap:Q"],
        )
        .properties(width=420, height=28 * len(rows))
    )


def spec(chart: alt.TopLevelMixin, description: str, *, page: bool) -> dict[str, Any]:
    """A chart as Vega-Lite JSON, in the page's variables or in a paper's colours."""
    axis = {"labelColor": "@muted", "titleColor": "@ink", "domainColor": "@rule", "tickColor": "@rule"}
    config = {
        "font": "Liberation Sans, Arial, Helvetica, sans-serif",
        "background": None if page else "@ground",
        "view": {"stroke": None},
        "axis": axis | {"gridColor": "@rule", "gridOpacity": 0.6, "labelFontSize": 11, "titleFontSize": 11,
                        "titleFontWeight": "normal", "labelLimit": 150},
        "title": {"color": "@ink", "fontSize": 12, "anchor": "start"},
        "legend": {"labelColor": "@ink", "titleColor": "@muted", "titleFontWeight": "normal"},
    }  # fmt: skip
    text = json.dumps({**chart.to_dict(), "config": config, "description": description})
    for name, colour in COLOURS.items():
        text = text.replace(f'"@{name}"', f'"var(--{name})"' if page else f'"{colour}"')
    return json.loads(text)
