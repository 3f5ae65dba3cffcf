"""Finished results as charts for a notebook (altair), from the tables that ``emma.results.load`` gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.errors import InputError, unknown
from emma.results.frames import BoardFrames

if TYPE_CHECKING:
    import altair as alt

#: Blue and vermilion of Okabe and Ito's palette, safe for colour-blind readers, and greys.
_ACCENT, _OTHER, _MUTED, _INK = "#0072b2", "#d55e00", "#8a949c", "#1c2126"


def ranking(results: BoardFrames) -> alt.LayerChart | alt.FacetChart:
    """OOD averages, on the anchors' scale from 0 to 1, with 95 % intervals, in board order.

    A model without a rank (a reference, a control) has a hollow point.

    Raises:
        InputError: no model has an OOD average.
    """
    import altair as alt

    rows = results.models.dropna(subset=["ood_avg"])
    if rows.empty:
        raise InputError("results: no model has an OOD average; expected one that answers every scored task")
    rows = rows.assign(standing=rows["rank"].notna().map({True: "ranked", False: "not ranked"}))
    rows = rows[["model", "kind", "rank", "standing", "ood_avg", "ood_avg_low", "ood_avg_high"]]
    base = alt.Chart(rows).encode(y=alt.Y("model:N", sort=list(rows["model"]), title=None))
    scale = alt.Scale(domain=[0, 1])
    bars = base.mark_rule(color=_MUTED, strokeWidth=2).encode(
        x=alt.X("ood_avg_low:Q", scale=scale, title="OOD average, 95 % interval"), x2="ood_avg_high:Q"
    )
    fills = alt.Scale(domain=["ranked", "not ranked"], range=[_ACCENT, "white"])
    points = base.mark_point(color=_ACCENT, size=60, opacity=1).encode(
        x="ood_avg:Q",
        fill=alt.Fill("standing:N", scale=fills, title=None),
        tooltip=["model:N", "kind:N", "rank:Q", alt.Tooltip("ood_avg:Q", format=".3f")],
    )
    return alt.layer(bars, points).properties(width=420, height=alt.Step(24))


def held_out(results: BoardFrames, task: str, metric: str | None = None, protocol: str | None = None) -> alt.FacetChart:
    """Scores of one task on each held-out value, with 95 % intervals; a tick is the score in distribution.

    Args:
        results: the tables.
        task: a task's name, such as ``E-LOC-AOA``.
        metric: one of its metrics; the task's own by default.
        protocol: one of the protocols that hold values out under that metric; the task's own by default, where it is.

    Raises:
        InputError: no such task, metric or protocol.
    """
    import altair as alt

    scores = results.scores[results.scores["task"] == task]
    if scores.empty:
        raise InputError(f"task: {unknown(str(task), list(dict.fromkeys(results.scores['task'])))}")
    own = scores[scores["primary"]].iloc[0]
    for column, asked in (("metric", metric), ("protocol", protocol)):
        if asked is not None and asked not in set(scores[column]):
            raise InputError(f"{task}: {column}: {unknown(asked, list(dict.fromkeys(scores[column])))}")
        value = asked or (own[column] if own[column] in set(scores[column]) else scores[column].iloc[0])
        scores = scores[scores[column] == value]
    metric, protocol, unit, direction = scores.iloc[0][["metric", "protocol", "unit", "direction"]]
    rows = results.held_out_values
    rows = rows[(rows["task"] == task) & (rows["metric"] == metric) & (rows["protocol"] == protocol)]
    rows = rows[["model", "held_out_value", "score", "ci95_low", "ci95_high", "in_distribution", "n"]]
    title = f"{task}, {protocol}: {metric}{'' if unit == '1' else f' in {unit}'}, {direction} is better"
    base = alt.Chart().encode(
        y=alt.Y("model:N", sort=list(dict.fromkeys(rows["model"])), title=None),
        tooltip=["model:N", "held_out_value:N", *(alt.Tooltip(f"{name}:Q", format=".3g") for name in ("score", "in_distribution", "n"))],
    )
    near = alt.Scale(zero=False)
    bars = base.mark_rule(color=_MUTED, strokeWidth=2).encode(
        x=alt.X("ci95_low:Q", scale=near, title=None), x2="ci95_high:Q"
    )
    ticks = base.mark_tick(color=_INK, thickness=2, size=12).encode(x="in_distribution:Q")
    points = base.mark_point(filled=True, color=_ACCENT, size=50, opacity=1).encode(x="score:Q")
    values = list(dict.fromkeys(rows["held_out_value"]))
    return (
        alt.layer(bars, ticks, points)
        .properties(width=180, height=alt.Step(20))
        .facet(facet=alt.Facet("held_out_value:N", sort=values, title=title), columns=3, data=rows)
    )


def sim_to_real(results: BoardFrames) -> alt.LayerChart | alt.FacetChart:
    """Gaps between synthetic and captured scenes, in percentage points: right is lost on the captured side.

    Gaps are over sets in the release's format, and over sets with a matched synthetic one.

    Raises:
        InputError: no model has a gap, as without captured scenes.
    """
    import altair as alt

    sides = {"release's format": "sim_to_real_points", "matched set": "sim_to_real_matched_points"}
    named = results.models.rename(columns={column: side for side, column in sides.items()})
    rows = named.melt(["model", "sim_to_real_kind"], list(sides), "synthetic side", "points").dropna(subset=["points"])
    if rows.empty:
        raise InputError("results: no model has a sim-to-real gap; expected a run with captured scenes")
    order = [model for model in results.models["model"] if model in set(rows["model"])]
    colours = alt.Scale(domain=list(sides), range=[_ACCENT, _OTHER])
    bars = (
        alt.Chart()
        .mark_bar(height={"band": 0.8})
        .encode(
            x=alt.X("points:Q", title="synthetic minus captured, percentage points"),
            y=alt.Y("model:N", sort=order, title=None),
            yOffset=alt.YOffset("synthetic side:N", sort=list(sides)),
            color=alt.Color("synthetic side:N", scale=colours, title="synthetic side"),
            tooltip=["model:N", "sim_to_real_kind:N", "synthetic side:N", alt.Tooltip("points:Q", format=".1f")],
        )
    )
    zero = alt.Chart().mark_rule(color=_INK).encode(x=alt.datum(0))
    kinds = " and ".join(dict.fromkeys(rows["sim_to_real_kind"]))
    return alt.layer(bars, zero, data=rows).properties(width=420, height=alt.Step(12), title=f"sim-to-real gap ({kinds} captures)")
