"""The figures, as Vega-Lite by altair: one form for paper and for page, where colours are the page's own variables.

A chart names its data, which is put in later: figures share it, and altair would look through every row.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from emma.report.signs import Signs, channels, scales

#: Rows of a table by column.
Rows = Sequence[Mapping[str, object]]

#: Colours by role: those of a paper; on the page each is a variable of the style sheet, so that dark follows.
COLOURS = {"ink": "#1c2126", "muted": "#5b6670", "rule": "#d5dade", "accent": "#0b63a5", "ground": "#ffffff"}
#: Opacity of a cell at no skill and at full skill: ink on it keeps a contrast of 4.5, light and dark.
DEPTH = (0.06, 0.55)
#: Width and height of a scatter, in pixels.
_SIDE = 240
#: The model that stands out, by name; the page sets it, and on paper none does.
HIGHLIGHT = alt.param(name="highlight", value="")
_LIT = "highlight == '' || datum.model == highlight || datum.model == highlight + '.control'"


def _chart(data: str) -> alt.Chart:
    return alt.Chart(alt.NamedData(name=data))


def heat_map(rows: Rows, data: str, title: str) -> alt.TopLevelMixin:
    """Models x held-out values of one task: text is the score, depth of colour its place between the anchors."""
    models, values = (list(dict.fromkeys(row[key] for row in rows)) for key in ("model", "held_out"))
    base = _chart(data).encode(
        x=alt.X("held_out:N", sort=None, title=None, axis=alt.Axis(labelAngle=0, orient="top", ticks=False)),
        y=alt.Y("model:N", sort=None, title=None, axis=alt.Axis(ticks=False)),
        tooltip=[
            alt.Tooltip(f"{field}:N", title=title)
            for field, title in (
                ("model", "model"), ("held_out", "held out"), ("metric", "metric"), ("text", "score"),
                ("interval", "95 % interval"), ("n", "n"), ("in_distribution_text", "in-distribution"),
                ("gap_interval", "interval of the gap"), ("undefined", "undefined"), ("met", "met in pretraining"),
            )
        ],
    )  # fmt: skip
    # Eleven pixels of a letter's height are about seven of its width.
    cell = max(54, 8 + 7 * max(len(str(value)) for value in values))
    opacity = alt.Opacity("skill:Q", scale=alt.Scale(domain=[0, 1], range=list(DEPTH)), legend=None)
    cells = base.mark_rect(fill="@accent", stroke="@ground", strokeWidth=2).encode(opacity=opacity)
    scores = base.mark_text(fontSize=11, color="@ink", yOffset=-5 if any(row["mark"] for row in rows) else 0).encode(
        text="text:N"
    )
    marks = base.mark_text(fontSize=9, color="@ink", yOffset=8).encode(text="mark:N")
    layers = cells + scores + marks
    return layers.properties(
        title=f"{title}: held-out values", width=max(cell * len(values), 180), height=32 * len(models)
    )


def _points(base: alt.Chart, size: float = 60) -> alt.Chart:
    """Points with the signs of their models; all but the one that stands out are faint."""
    return base.mark_point(size=size, strokeWidth=1.5).encode(
        opacity=alt.when(_LIT).then(alt.value(0.9)).otherwise(alt.value(0.08))
    )


def _diagonal() -> alt.Chart:
    ends = alt.Data(values=[{"x": 0, "y": 0}, {"x": 1, "y": 1}])
    return alt.Chart(ends).mark_line(color="@muted", strokeDash=[3, 3], strokeWidth=1).encode(x="x:Q", y="y:Q")


def transfer(data: str, title: str) -> alt.TopLevelMixin:
    """In-distribution against held-out skill of one task; below the diagonal is lost on the unseen value."""
    scale = alt.Scale(domain=[0, 1])
    known = _chart(data).transform_filter("isValid(datum.skill) && isValid(datum.skill_in_distribution)")
    base = known.encode(
        x=alt.X("skill_in_distribution:Q", scale=scale, title="in-distribution"),
        y=alt.Y("skill:Q", scale=scale, title="held out"),
        tooltip=["model:N", "held_out:N", "text:N", "in_distribution_text:N", "n:Q"],
        **channels(),
    )
    return (
        (_diagonal() + _points(base))
        .add_params(HIGHLIGHT)
        .properties(title=f"{title}: transfer", width=_SIDE, height=_SIDE)
    )


def costs(data: str, title: str, level: str) -> alt.TopLevelMixin:
    """Scores on the anchors' scale against multiply-accumulates per scene; a line joins a model and its control."""
    base = _chart(data).encode(
        x=alt.X(
            "macs:Q",
            scale=alt.Scale(type="log", nice=False, padding=14),
            title="multiply-accumulates per scene",
            axis=alt.Axis(format=".2~s", tickCount=4),
        ),
        y=alt.Y("skill:Q", scale=alt.Scale(domain=[0, 1]), title=level),
    )
    lines = base.mark_line(color="@muted", strokeWidth=1).encode(detail="pair:N")
    points = _points(base).encode(
        tooltip=["model:N", "text:N", alt.Tooltip("macs:Q", format=",")],
        **channels(),
    )
    return (lines + points).add_params(HIGHLIGHT).properties(title=f"{title}: cost", width=_SIDE, height=_SIDE)


def headroom(rows: Rows, data: str) -> alt.TopLevelMixin:
    """How far each model has come from the floor (0) to the oracle (1), one line per task."""
    tasks = list(dict.fromkeys(str(row["task"]) for row in rows))
    base = _chart(data).encode(
        x=alt.X("share:Q", title="share of the way from floor to oracle", axis=alt.Axis(format="%")),
        y=alt.Y("task:N", sort=tasks, title=None, axis=alt.Axis(ticks=False, labelLimit=150, grid=True)),
        tooltip=["model:N", "task:N", alt.Tooltip("share:Q", format=".0%"), "text:N"],
        **channels(),
    )
    ends = alt.Chart(alt.Data(values=[{"x": 0}, {"x": 1}])).mark_rule(color="@muted", strokeDash=[3, 3]).encode(x="x:Q")
    return (ends + _points(base, 80)).add_params(HIGHLIGHT).properties(width=320, height=alt.Step(34))


def label_efficiency(rows: Rows, data: str, title: str, metric: str) -> alt.TopLevelMixin:
    """Scores against the number of fit scenes, one line per model; the last point is all of them."""
    places = {row["at"]: row["scenes"] for row in rows}
    names = " : ".join(f"datum.value == {at} ? '{name}'" for at, name in places.items())
    axis = alt.Axis(values=[float(str(at)) for at in places], labelExpr=f"{names} : ''", grid=False)
    base = (
        _chart(data)
        .transform_filter("isValid(datum.score)")
        .encode(
            x=alt.X("at:Q", scale=alt.Scale(type="log", nice=False, padding=14), title="fit scenes", axis=axis),
            y=alt.Y("score:Q", scale=alt.Scale(zero=False), title=metric),
        )
    )
    lit = alt.when(_LIT).then(alt.value(0.7)).otherwise(alt.value(0.05))
    lines = base.mark_line(strokeWidth=1.2).encode(detail="model:N", opacity=lit, stroke=channels()["stroke"])
    points = _points(base, 40).encode(tooltip=["model:N", "scenes:N", "text:N", "deviation:Q"], **channels())
    return (
        (lines + points).add_params(HIGHLIGHT).properties(title=f"{title}: label efficiency", width=_SIDE, height=_SIDE)
    )


def ranking(rows: Rows, data: str) -> alt.TopLevelMixin:
    """OOD averages with their 95 % intervals."""
    base = _chart(data).encode(y=alt.Y("model:N", sort=None, title=None))
    bars = base.mark_rule(color="@muted", strokeWidth=2).encode(
        x=alt.X("low:Q", scale=alt.Scale(domain=[0, 1]), title="OOD average, 95 % interval"), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=60, color="@accent", opacity=1).encode(
        x="ood_avg:Q", tooltip=["model:N", "ood_avg:Q"]
    )
    return (bars + points).properties(width=320, height=28 * len(rows))


def jackknife(rows: Rows, data: str) -> alt.TopLevelMixin:
    """How far each OOD average moves when a task or a held-out value is dropped."""
    order = list(dict.fromkeys(row["model"] for row in rows))
    tips = ["model:N", "dropped:N", "min:Q", "min_without:N", "max:Q", "max_without:N"]
    base = _chart(data).encode(
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


def sides(data: str, name: str) -> alt.TopLevelMixin:
    """Synthetic against captured skill on one set, a line between the two fits of the in-domain reference.

    It runs from a fit on as many synthetic scenes to the tick of one on captured scenes of other sessions.
    """
    base = _chart(data).encode(x=alt.X("synthetic:Q", title="synthetic"))
    points = _points(base).encode(
        y=alt.Y("captured:Q", title="captured"),
        tooltip=["model:N", "synthetic:Q", "captured:Q", "fit_on_captured:Q", "fit_on_as_many_synthetic:Q"],
        **channels(),
    )
    known = _chart(data).transform_filter("isValid(datum.fit_on_captured) && isValid(datum.fit_on_as_many_synthetic)")
    reach = known.encode(x="synthetic:Q")
    ticks = reach.mark_tick(color="@ink", thickness=2, size=10, orient="horizontal").encode(y="fit_on_captured:Q")
    spans = reach.mark_rule(color="@muted", strokeWidth=1).encode(
        y="fit_on_as_many_synthetic:Q", y2="fit_on_captured:Q"
    )
    layers = _diagonal() + spans + points + ticks
    return layers.add_params(HIGHLIGHT).properties(title=name, width=_SIDE, height=_SIDE)


def gap_bars(rows: Rows, data: str, sets: Sequence[str]) -> alt.TopLevelMixin:
    """Sim-to-real gaps, one panel per set in the order of ``sets``; surrogates are hollow and dashed, and named so."""
    order = list(dict.fromkeys(str(row["model"]) for row in rows))
    panels = list(dict.fromkeys(str(row["panel"]) for name in sets for row in rows if row["set"] == name))
    real = "substring(datum.kind, 0, 4) == 'real'"
    bars = (
        alt.Chart()
        .mark_bar(stroke="@accent", fill="@accent")
        .encode(
            x=alt.X("gap:Q", title="gap, percentage points: right is lost on the captured side"),
            y=alt.Y("model:N", sort=order, title=None),
            fillOpacity=alt.condition(real, alt.value(1), alt.value(0.12)),
            strokeDash=alt.condition(real, alt.value([1, 0]), alt.value([4, 3])),
            tooltip=["model:N", "task:N", "set:N", "kind:N", alt.Tooltip("gap:Q", format=".1f"), "captured_n:Q"],
        )
    )
    zero = alt.Chart().mark_rule(color="@muted").encode(x=alt.datum(0))
    header = alt.Header(orient="top", labelAnchor="start", labelColor="@ink", labelFontSize=11, labelLimit=420)
    return (
        alt.layer(bars, zero)
        .properties(width=420, height=alt.Step(18))
        .facet(row=alt.Row("panel:N", sort=panels, title=None, header=header), data=alt.NamedData(name=data))
        .resolve_scale(y="independent")
        .properties(spacing=8)
    )


def fields_of(made: Mapping[str, Any]) -> set[str]:
    """The columns that a specification reads of its data."""
    text = json.dumps(made)
    return {*re.findall(r'"field": "(\w+)"', text), *re.findall(r"datum\.(\w+)", text)}


def columns_of(rows: Rows, keys: Iterable[str]) -> dict[str, list[object]]:
    """Some columns of rows. Five digits are more than a picture shows, and a third of the bytes."""

    def short(cell: object) -> object:
        return float(f"{cell:.5g}") if isinstance(cell, float) else cell

    return {key: [short(row.get(key)) for row in rows] for key in sorted(keys) if any(key in row for row in rows)}


def spec(chart: alt.TopLevelMixin, description: str) -> dict[str, Any]:
    """A chart as Vega-Lite JSON in the page's variables; data that it names is not in it."""
    axis = {"labelColor": "@muted", "titleColor": "@ink", "domainColor": "@rule", "tickColor": "@rule"}
    config = {
        "font": "Liberation Sans, Arial, Helvetica, sans-serif",
        "background": None,
        "view": {"stroke": None},
        "axis": axis | {"gridColor": "@rule", "gridOpacity": 0.6, "labelFontSize": 11, "titleFontSize": 11,
                        "titleFontWeight": "normal", "labelLimit": 300},
        "title": {"color": "@ink", "fontSize": 12, "fontWeight": "normal", "anchor": "start"},
        "legend": {"labelColor": "@ink", "titleColor": "@muted", "titleFontWeight": "normal"},
    }  # fmt: skip
    text = json.dumps({**chart.to_dict(), "config": config, "description": description})
    for name in COLOURS:
        text = text.replace(f'"@{name}"', f'"var(--{name})"')
    made: dict[str, Any] = json.loads(text)
    return made


def paper(made: Mapping[str, Any], datasets: Mapping[str, Rows], drawn: Signs) -> dict[str, Any]:
    """A specification of ``spec`` with its data, in a paper's colours."""
    keys = fields_of(made)
    models = dict.fromkeys(str(row["model"]) for rows in datasets.values() for row in rows)
    text = json.dumps({**made, "config": {**made["config"], "background": COLOURS["ground"]}})
    for name, colour in COLOURS.items():
        text = text.replace(f'"var(--{name})"', f'"{colour}"')
    for name, values in scales([model for model in models if model in drawn], drawn).items():
        text = text.replace(json.dumps([name]), json.dumps(values))
    named = {name: columns_of(rows, keys) for name, rows in datasets.items()}
    tables = {
        name: [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        for name, columns in named.items()
    }
    content: dict[str, Any] = json.loads(text)
    return {**content, "datasets": {**content.get("datasets", {}), **tables}}
