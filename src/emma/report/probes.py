"""The curves of the probe report: the score against the regularisation, and against the number of fit scenes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import altair as alt

from common.errors import InputError
from common.files import parse, read_json
from emma.metrics import METRICS
from emma.report.data import Cells, digits_of, number
from emma.report.figures import paper, spec
from emma.report.signs import signs
from emma.report.terms import title_of
from emma.results.probes import ProbesReport
from emma.results.records import Board

_DESCRIPTION = (
    "Scores of frozen embeddings under the pinned head: left against the value of its regularisation, right against "
    "the number of fit scenes, mean over five draws."
)


def curves(report: ProbesReport) -> dict[str, Any]:
    """The figure as Vega-Lite JSON: a row of two panels per task, one line per model."""
    models = list(report.models)
    tasks = sorted({task for record in report.models.values() for task in record.tasks})
    rows = list(_rows(report))
    panels = [
        alt.hconcat(*(_panel(rows, task, kind, models) for kind in ("regularisation", "scenes"))) for task in tasks
    ]
    return paper(spec(alt.vconcat(*panels), _DESCRIPTION), {}, {})


def read_probes(path: Path, board: Board) -> ProbesReport:
    """The probe report of a board; InputError for one of another release, split or seed, or of other models."""
    report = parse(ProbesReport, read_json(path), path)
    for key in ("data_release_hash", "eval_split", "seed"):
        if getattr(report, key) != getattr(board, key):
            raise InputError(
                f"{path}: {key}: {getattr(report, key)}, expected {getattr(board, key)}, the leaderboard's"
            )
    if strange := sorted(report.models.keys() - {row.model for row in board.models}):
        raise InputError(f"{path}: models: {strange[0]} is not on the leaderboard")
    return report


def efficiency_rows(report: ProbesReport) -> dict[str, list[Cells]]:
    """By task, one row per model and number of fit scenes: ``at`` is where it is drawn, ``deviation`` over draws."""
    rows: dict[str, list[Cells]] = {}
    for row in _rows(report):
        if row["kind"] == "scenes":
            digits = digits_of(METRICS[row["metric"]].unit)
            scenes = "all" if row["whole"] else f"{row['at']:,}"
            cells = {"model": row["model"], "metric": row["metric"], "at": row["at"], "score": row["score"]}
            more = {"scenes": scenes, "text": number(row["score"], digits), "deviation": row["deviation"]}
            rows.setdefault(row["task"], []).append(cells | more)
    return rows


def _panel(rows: list[dict[str, Any]], task: str, kind: str, models: list[str]) -> alt.LayerChart:
    own = [row for row in rows if row["task"] == task and row["kind"] == kind and row["score"] is not None]
    drawn = signs(models)
    colours = alt.Scale(domain=models, range=[drawn[model].colour for model in models])
    shapes = alt.Scale(domain=models, range=[drawn[model].shape for model in models])
    dashes = alt.Scale(domain=models, range=[list(drawn[model].dash) for model in models])
    title = {"regularisation": "regularisation of the head", "scenes": "fit scenes"}[kind]
    base = alt.Chart(alt.Data(values=own)).encode(
        x=alt.X("at:Q", scale=alt.Scale(type="log"), title=title),
        y=alt.Y("score:Q", scale=alt.Scale(zero=False), title=own[0]["metric"] if own else None),
        color=alt.Color("model:N", scale=colours, title=None),
        tooltip=["model:N", "at:Q", "score:Q", "deviation:Q"],
    )
    lines = base.mark_line(strokeWidth=1.5).encode(strokeDash=alt.StrokeDash("model:N", scale=dashes, title=None))
    points = base.mark_point(filled=True, size=40).encode(shape=alt.Shape("model:N", scale=shapes, title=None))
    return (lines + points).properties(title=title_of(task), width=300, height=200)


def _rows(report: ProbesReport) -> Iterator[dict[str, Any]]:
    """Points of the curves; that of all fit scenes stands at twice the greatest number drawn."""
    for name, record in report.models.items():
        for task, probes in record.tasks.items():
            head: Mapping[str, Any] = {"model": name, "task": task.value, "metric": probes.metric}
            for each in probes.strengths:
                place = {"kind": "regularisation", "at": each.regularisation}
                yield {**head, **place, "score": each.probed.score, "deviation": None}
            most = max((draws.scenes for draws in probes.label_efficiency if draws.scenes is not None), default=1)
            for draws in probes.label_efficiency:
                place = {
                    "kind": "scenes",
                    "whole": draws.scenes is None,
                    "at": draws.scenes if draws.scenes is not None else 2 * most,
                }
                score = None if draws.mean is None or not math.isfinite(draws.mean) else draws.mean
                yield {**head, **place, "score": score, "deviation": draws.deviation}
