"""The manual audit: a random sample of event timelines drawn to time on one self-contained HTML page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape

import numpy as np

from floor_events.protocol import FRAME_RATE_HZ, HEADS, HORIZON_SECONDS, Protocol
from floor_events.sessions import Session
from floor_events.tables import Row
from floor_events.timelines import Timeline, build_timeline

CHECKS = (
    "the anchor row is the intended boundary of the others",
    "no outcome at or after C/excluded is attributed to this event",
    "fixed-source scores and valid mask line up with physical time",
    "no transition is made by a session or recording boundary",
    "right-censored and invalid counts are plausible",
)
_ROWS_BEFORE, _ROWS_AFTER = 6, 6
_LEFT, _PITCH, _TRACK, _SCORE = 110, 26, 16, 70
_COLOURS = ("#1b6ca8", "#b5532a", "#3a7d44", "#7a4b94", "#8a6d1d", "#555555")
_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:13px}td,th{padding:1px 8px;text-align:right;border-bottom:1px solid #ddd}
section{border-top:2px solid #888;margin-top:1.5em}svg{display:block;width:100%;height:auto}
svg text{font:11px sans-serif}label{display:block}.key{font-size:13px;color:#444}
"""


def sample_candidates(sessions: Sequence[Session], count: int, seed: int) -> tuple[list[tuple[Session, str, int]], int]:
    """A simple random sample of `count` candidates (or all) without replacement, in session order, and their total.

    Every candidate counts, the censored and invalid ones too; the draw depends on `seed` and the candidates alone.
    """
    places = [(s, head, i) for s in sessions for head in HEADS for i in range(len(s.candidates[head].anchor))]
    chosen = np.random.default_rng(seed).choice(len(places), size=min(count, len(places)), replace=False)
    return [places[i] for i in sorted(chosen.tolist())], len(places)


def audit_page(sessions: Sequence[Session], protocol: Protocol, event_rows: Sequence[Row], count: int) -> str:
    """The page: counts of omitted events for check 5, then each sampled candidate as a drawing and a table of its rows.

    `event_rows` are the rows of the events table. The page refers to nothing outside itself.
    """
    places, total = sample_candidates(sessions, count, protocol.seed)
    runs = [run.name for run in protocol.runs]
    body = [
        "<h1>Floor-event audit</h1>",
        f"<p>{len(places)} of {total} candidates drawn at random (seed {protocol.seed}), sources"
        f" {escape(protocol.decision_timing)}, horizon 2.0 s, one row = 0.2 s.</p>",
        '<p class="key">Shaded: the pooled window. Solid line: anchor A. Dashed line: competing boundary C, excluded.'
        " Triangle: source of every score. Dots: scores said at the source, hollow outside the window; squares below"
        " them: the valid mask (filled true, empty false). Double line: start of a recording.</p>",
        *_omitted_table(event_rows),
    ]
    for number, (session, head, index) in enumerate(places, 1):
        timeline = build_timeline(session, head, index, runs, before=_ROWS_BEFORE, after=_ROWS_AFTER)
        body += _event(timeline, number, session, runs)
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Floor-event audit</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(body) + "\n</body></html>\n"
    )


def _omitted_table(event_rows: Sequence[Row]) -> Iterator[str]:
    yield "<h2>Scored and omitted candidates</h2><table><tr><th>run</th><th>horizon, s</th>"
    kinds = ["response", "no_response", "response_censored", "response_invalid"]
    kinds += ["yield", "continue", "yield_censored", "yield_invalid"]
    yield "".join(f"<th>{kind.replace('_', ' ')}</th>" for kind in kinds) + "</tr>"
    for row in event_rows:
        if row["horizon_seconds"] in (HORIZON_SECONDS[0], HORIZON_SECONDS[4], HORIZON_SECONDS[-1]):
            cells = "".join(f"<td>{row[f'{kind}_count']}</td>" for kind in kinds)
            yield f"<tr><td>{escape(str(row['run']))}</td><td>{row['horizon_seconds']}</td>{cells}</tr>"
    yield "</table>"


def _event(timeline: Timeline, number: int, session: Session, runs: Sequence[str]) -> Iterator[str]:
    start, end = timeline.recording
    competing = "none" if timeline.competing is None else timeline.competing
    outcome = "none" if timeline.outcome is None else timeline.outcome
    yield (
        f'<section id="event-{number}" data-session="{escape(timeline.session)}" data-head="{timeline.head}"'
        f' data-anchor="{timeline.anchor}" data-source="{timeline.source}" data-window-end="{timeline.window_end}"'
        f' data-competing="{competing}" data-outcome="{outcome}">'
        f"<h3>{number}. {escape(timeline.session)}, {timeline.head} candidate at row {timeline.anchor}"
        f" ({timeline.anchor / FRAME_RATE_HZ:.1f} s){', short resume' if timeline.short_resume else ''}</h3>"
    )
    yield f"<p>Recording rows {start}..{end - 1}; attributed outcome: {outcome}; competing boundary: {competing}. "
    yield "; ".join(
        f"{escape(run)}: {timeline.kind[run]}"
        + ("" if timeline.pooled[run] is None else f", pooled score {timeline.pooled[run]:.4f}")
        for run in runs
    )
    yield ".</p>"
    yield from _drawing(timeline, [0, *session.cuts], runs)
    yield "".join(f'<label><input type="checkbox"> {check}</label>' for check in CHECKS)
    yield from _row_table(timeline, runs)
    yield "</section>"


def _row_table(timeline: Timeline, runs: Sequence[str]) -> Iterator[str]:
    heads = "".join(f"<th>{escape(run)} score</th><th>{escape(run)} valid</th>" for run in runs)
    yield "<details><summary>rows</summary><table>"
    yield f"<tr><th>t</th><th>seconds</th><th>o</th><th>w</th>{heads}<th>mark</th></tr>"
    for place, row in enumerate(timeline.rows):
        cells = [row, f"{row / FRAME_RATE_HZ:.1f}", timeline.others[place], timeline.wearer[place]]
        for run in runs:
            score, valid = timeline.scores[run][place], timeline.valid[run][place]
            cells += ["" if score is None else repr(score), "" if valid is None else "yes" if valid else "no"]
        cells.append(timeline.mark(row))
        yield "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
    yield "</table></details>"


def _drawing(timeline: Timeline, starts: Sequence[int], runs: Sequence[str]) -> Iterator[str]:
    """An SVG whose x axis is time: row t spans x(t)..x(t + 1)."""

    def x(row: float) -> float:
        return _LEFT + _PITCH * (row - timeline.first)

    top, score_top = 18, 18 + 2 * (_TRACK + 6)
    mask_top = score_top + _SCORE + 10
    bottom = mask_top + 14 * len(runs)
    yield f'<svg viewBox="0 0 {x(timeline.last + 1) + 12} {bottom + 24}" role="img">'
    window = timeline.window_end - timeline.source
    yield (
        f'<rect class="window" x="{x(timeline.source + 1)}" y="{top}" width="{_PITCH * window}" height="{bottom - top}"'
        ' fill="#f3ecc8"/>'
    )
    for track, (name, values) in enumerate((("others", timeline.others), ("wearer", timeline.wearer))):
        y = top + track * (_TRACK + 6)
        yield f'<text x="4" y="{y + 12}">{name}</text>'
        for row, value in zip(timeline.rows, values, strict=True):
            fill = "#444" if value else "#fff"
            box = f'x="{x(row)}" y="{y}" width="{_PITCH}" height="{_TRACK}"'
            yield f'<rect class="{name}" data-row="{row}" {box} fill="{fill}" stroke="#ccc"/>'
    yield f'<text x="4" y="{score_top + 10}">score 1</text><text x="4" y="{score_top + _SCORE}">score 0</text>'
    right = x(timeline.last + 1)
    yield f'<path d="M{_LEFT} {score_top + _SCORE}H{right}M{_LEFT} {score_top}H{right}" stroke="#ccc"/>'
    for number, run in enumerate(runs):
        yield from _run_marks(
            timeline, run, _COLOURS[number % len(_COLOURS)], x=x, score_top=score_top, mask_y=mask_top + 14 * number
        )
    for start in starts:
        if timeline.first <= start <= timeline.last:
            lines = f"M{x(start) - 2} {top}V{bottom}M{x(start) + 2} {top}V{bottom}"
            yield f'<path class="recording" data-row="{start}" d="{lines}" stroke="#a00"/>'
    source = x(timeline.source) + _PITCH / 2
    yield f'<path class="source" d="M{source - 5} {top - 12}h10l-5 8z" fill="#222"/>'
    yield f'<path class="anchor" d="M{x(timeline.anchor)} {top - 4}V{bottom}" stroke="#000" stroke-width="2"/>'
    yield f'<text x="{x(timeline.anchor) + 3}" y="{top - 5}">A</text>'
    if timeline.competing is not None and timeline.competing <= timeline.last:
        place = x(timeline.competing)
        dashes = 'stroke="#000" stroke-width="2" stroke-dasharray="5 3"'
        yield f'<path class="competing" d="M{place} {top - 4}V{bottom}" {dashes}/>'
        yield f'<text x="{place + 3}" y="{top - 5}">C/excluded</text>'
    if timeline.outcome is not None:
        place = x(timeline.outcome)
        yield f'<path class="outcome" d="M{place} {top + _TRACK + 6}v{_TRACK}" stroke="#0a0" stroke-width="4"/>'
        yield f'<text x="{place + 3}" y="{top + 2 * _TRACK + 4}" fill="#0a0">{timeline.head}</text>'
    for row in timeline.rows:
        if row % FRAME_RATE_HZ == 0:
            yield f'<text x="{x(row)}" y="{bottom + 14}">{row // FRAME_RATE_HZ} s</text>'
    yield "</svg>"


def _run_marks(
    timeline: Timeline, run: str, colour: str, *, x: Callable[[float], float], score_top: float, mask_y: float
) -> Iterator[str]:
    yield f'<text x="4" y="{mask_y + 9}" fill="{colour}">{escape(run[:16])}</text>'
    for place, row in enumerate(timeline.rows):
        score, valid = timeline.scores[run][place], timeline.valid[run][place]
        middle = x(row) + _PITCH / 2
        if valid is not None:
            fill = colour if valid else "none"
            yield f'<rect class="mask" data-run="{escape(run)}" data-row="{row}" data-valid="{int(valid)}"'
            yield f' x="{middle - 4}" y="{mask_y}" width="8" height="8" fill="{fill}" stroke="{colour}"/>'
        if score is not None:
            fill = colour if timeline.source < row <= timeline.window_end else "#fff"
            y = score_top + _SCORE * (1 - score)
            place_on_page = f'cx="{middle}" cy="{y:.2f}" r="4" fill="{fill}" stroke="{colour}"'
            yield f'<circle data-run="{escape(run)}" data-row="{row}" {place_on_page}/>'
