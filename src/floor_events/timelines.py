"""Event timelines: the rows around one candidate, as data, and as text for an 80-column terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from floor_events.events import LABEL_NAMES, NEGATIVE, NEVER, POSITIVE, STATUS_NAMES, fixed_source_path
from floor_events.protocol import FRAME_RATE_HZ, HORIZON_STEPS, OTHERS, RESPONSE, WEARER, YIELD
from floor_events.sessions import Session

STEP = HORIZON_STEPS - 1  # timelines show the longest horizon, 2.0 s
KINDS = (
    (RESPONSE, "response"),
    (RESPONSE, "no_response"),
    (RESPONSE, "short_resume"),
    (YIELD, "yield"),
    (YIELD, "continue"),
)


@dataclass(frozen=True)
class Timeline:
    """One candidate at the 2.0 s horizon with the rows `first`..`last` around it (row t is t / 5 s).

    `outcome` is the attributed wearer transition only; `competing` the next aggregate-other boundary; both None where
    there is none. The window is rows source + 1..window_end. Per run, `scores` are those said at the source (None
    where the mask is false or the row is not within ten of the source), `valid` the mask along that fixed source.
    """

    session: str
    head: str
    short_resume: bool
    anchor: int
    source: int
    outcome: int | None
    competing: int | None
    window_end: int
    recording: tuple[int, int]
    first: int
    last: int
    others: list[int]
    wearer: list[int]
    scores: dict[str, list[float | None]]
    valid: dict[str, list[bool | None]]
    kind: dict[str, str]
    pooled: dict[str, float | None]

    @property
    def rows(self) -> range:
        """The rows shown."""
        return range(self.first, self.last + 1)

    def mark(self, row: int) -> str:
        """What happens at a row: `A` anchor, the attributed outcome's name, `C/excluded` competing boundary."""
        marks = []
        if row == self.source:
            marks.append("source")
        if row == self.anchor:
            marks.append("A")
        if row == self.outcome:
            marks.append(self.head)
        if row == self.competing:
            marks.append("C/excluded")
        return " ".join(marks)


def build_timeline(
    session: Session, head: str, index: int, runs: Sequence[str], *, before: int, after: int
) -> Timeline:
    """The timeline of candidate `index` with `before` rows ahead of its anchor's and `after` behind its horizon's end.

    A competing boundary beyond the horizon is in `competing` but does not stretch the rows shown.
    """
    candidates = session.candidates[head]
    anchor, source = int(candidates.anchor[index]), int(candidates.source[index])
    competing, outcome = int(candidates.competing[index]), int(candidates.outcome[index])
    first = max(0, anchor - before)
    last = min(len(session.target) - 1, source + HORIZON_STEPS + after)
    scores, valid, kind, pooled = {}, {}, {}, {}
    for run in runs:
        path, usable = _path(session, head, index, run)
        shown = range(first, last + 1)
        offsets = [row - source - 1 for row in shown]
        inside = [0 <= j < HORIZON_STEPS and row < candidates.end[index] for j, row in zip(offsets, shown, strict=True)]
        valid[run] = [bool(usable[j]) if ok else None for j, ok in zip(offsets, inside, strict=True)]
        scores[run] = [float(path[j]) if ok else None for j, ok in zip(offsets, valid[run], strict=True)]
        status = int(session.events[run][head].status[index, STEP])
        kind[run] = LABEL_NAMES[head][status] if status in {NEGATIVE, POSITIVE} else STATUS_NAMES[status]
        score = float(session.events[run][head].score[index, STEP])
        pooled[run] = score if status in {NEGATIVE, POSITIVE} else None
    positive = candidates.label[index, STEP] == POSITIVE
    return Timeline(
        session.name,
        head,
        bool(candidates.short_pause[index] and candidates.label[index, STEP] == NEGATIVE),
        anchor,
        source,
        outcome if positive else None,
        None if competing == NEVER else competing,
        int(candidates.window_end[index, STEP]),
        (int(candidates.start[index]), int(candidates.end[index])),
        first,
        last,
        session.target[first : last + 1, OTHERS].tolist(),
        session.target[first : last + 1, WEARER].tolist(),
        scores,
        valid,
        kind,
        pooled,
    )


def timeline_text(sessions: Sequence[Session], runs: Sequence[str], count: int) -> Iterator[str]:
    """Lines of the first `count` scored events of each run and kind at 2.0 s, in session and anchor order."""
    for run in runs:
        for head, kind in KINDS:
            places = list(_first(sessions, run, head, kind, count))
            if count and not places:
                yield f"{run[:30]}: no {kind} event at 2.0 s"
            for number, (session, index) in enumerate(places, 1):
                yield from _lines(build_timeline(session, head, index, [run], before=3, after=1), run, kind, number)
                yield ""


def _path(session: Session, head: str, index: int, run: str) -> tuple[Sequence[float], Sequence[bool]]:
    scores = session.scores[run]
    path, usable = fixed_source_path(session.candidates[head].only(index), scores.values, scores.valid)
    return path[0], usable[0]


def _first(sessions: Sequence[Session], run: str, head: str, kind: str, count: int) -> Iterator[tuple[Session, int]]:
    wanted = POSITIVE if kind in {"response", "yield"} else NEGATIVE
    for session in sessions:
        chosen = session.events[run][head].status[:, STEP] == wanted
        if kind == "short_resume":
            chosen = chosen & session.candidates[head].short_pause
        for index in chosen.nonzero()[0][:count]:
            yield session, int(index)
        count -= min(count, int(chosen.sum()))


def _lines(timeline: Timeline, run: str, kind: str, number: int) -> Iterator[str]:
    start, end = timeline.recording
    yield f"{run[:30]}: {kind} {number}, {timeline.session[:25]}"
    competing = "none" if timeline.competing is None else f"row {timeline.competing}"
    yield (
        f"  anchor {timeline.anchor}, source {timeline.source}, window {timeline.source + 1}..{timeline.window_end},"
        f" competing {competing}"
    )
    yield f"  recording {start}..{end - 1}, pooled score {timeline.pooled[run]:.4f} over rows marked *"
    yield f"  {'t':>8} {'seconds':>9}  o  w   {'score':>6}  valid  mark"
    for place, row in enumerate(timeline.rows):
        score, valid = timeline.scores[run][place], timeline.valid[run][place]
        pooled = "*" if timeline.source < row <= timeline.window_end else " "
        boundary = "recording starts " if row == start else ""
        shown = "-" if score is None else f"{score:.4f}"
        mask = "-" if valid is None else "yes" if valid else "no"
        yield (
            f"  {row:>8} {row / FRAME_RATE_HZ:>9.1f}  {timeline.others[place]}  {timeline.wearer[place]} {pooled}"
            f" {shown:>6}  {mask:<5}"
            f"  {boundary}{timeline.mark(row)}"
        ).rstrip()
