"""Rows of the sim-to-real gap: by model and set where the report is at hand, else by model and task off the board."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from common.errors import InputError
from emma.captures.records import InDomain, ModelSet, SetRecord, SideScore, SimToRealReport
from emma.captures.report import read_report as read_gap_report
from emma.report.data import Cells, digits_of, number
from emma.results.records import Board, TaskGap

#: What a set is called, wherever it is shown.
KINDS = {"real": "real captures", "surrogate": "surrogate (not real captures)"}


_Row = dict[str, str | int | float | bool | None]


def read_report(path: Path, board: Board) -> SimToRealReport:
    """The report that the board's gaps were taken from.

    Raises:
        InputError: no such report, one of another release, split or seed, or one whose gaps are not the board's.
    """
    report = read_gap_report(path, board.data_release_hash, board.seed, board.eval_split)
    for row in board.models:
        gaps = report.models.get(row.model)
        if (None if gaps is None else gaps.block) != row.sim_to_real:
            raise InputError(f"{path}: models.{row.model}: expected the gaps that stand on the leaderboard")
    return report


def _kind(kind: str, demonstration: bool = False) -> str:
    return KINDS[kind] + (", a demonstration: in no mean" if demonstration else "")


def gap_rows(board: Board, report: SimToRealReport | None) -> list[Cells]:
    """One row per model and set, in the order of tasks, sets and the board, and one for each task without a set."""
    rows: list[Cells] = []
    for row in board.models:
        if row.sim_to_real is None:
            continue
        for task, block in row.sim_to_real.tasks.items():
            own = {} if report is None else {n: r for n, r in report.sets.items() if r.task is task}
            for name, record in own.items():
                scores = None if report is None else report.models[row.model].sets.get(name)
                if scores is None and task not in row.tasks:
                    continue
                rows.append({"model": row.model, "task": task.value, "set": name, **_scored(record, scores, block)})
            if not own:
                shown = block if block.over else block.matched
                names = ", ".join(shown.over) or None
                kind = None if names is None else _kind(row.sim_to_real.kind)
                head: _Row = {"model": row.model, "task": task.value, "set": names, "kind": kind}
                rows.append(head | {"gap": shown.gap_percentage_points, "reason": block.undefined})
    places = {key: place for place, key in enumerate(dict.fromkeys((row["task"], row["set"]) for row in rows))}
    return sorted(rows, key=lambda row: places[row["task"], row["set"]])


def _scored(record: SetRecord, scores: ModelSet | None, block: TaskGap) -> _Row:
    kind: _Row = {"kind": _kind(record.kind, record.demonstration)}
    if scores is None:
        return kind | {"gap": None, "reason": block.undefined or "the model has no score here"}
    sides = [side for side in (scores.synth, scores.captured) if side is not None]
    reasons = [scores.undefined_reason, *(side.undefined_reason for side in sides)]
    gap: _Row = {"gap": scores.gap_percentage_points, "reason": next((text for text in reasons if text), None)}
    digits = digits_of(record.unit)
    alone = [f"{name}: {a.metric} {number(a.score, digits)}, n {a.n}" for name, a in scores.apart.items()]
    balanced = None if scores.captured is None else scores.captured.balanced_accuracy
    more: _Row = {"captured_balanced_accuracy": None if balanced is None else number(balanced)}
    for key, side in () if scores.in_domain is None else _references(scores.in_domain):
        more[key] = None if side is None else number(side.score, digits)
    more |= {"of_these_alone": "; ".join(alone) or None}
    return kind | gap | _sides(scores.synth, scores.captured, record.unit) | more


def _references(within: InDomain) -> Iterator[tuple[str, SideScore | None]]:
    yield "fit_on_captured", within.captured
    yield "fit_on_as_many_synthetic", within.synthetic


def _sides(synth: SideScore | None, captured: SideScore | None, unit: str) -> _Row:
    digits = digits_of(unit)
    row: _Row = {}
    for name, side in (("synthetic", synth), ("captured", captured)):
        text = None if side is None else number(side.score, digits)
        if side is not None and side.ci95 is not None:
            text = f"{text} ({number(side.ci95[0], digits)} to {number(side.ci95[1], digits)})"
        row |= {name: text, f"{name}_n": None if side is None else side.n}
    return row | {"sessions": None if captured is None else captured.sessions}


def side_rows(report: SimToRealReport | None) -> list[Cells]:
    """One row per model and set with both sides: what they reach on the anchors' scale, and the in-domain reference."""
    rows: list[Cells] = []
    for model, gaps in ({} if report is None else report.models).items():
        for name, scores in gaps.sets.items():
            synth, captured, within = scores.synth, scores.captured, scores.in_domain
            if synth is None or captured is None or synth.normalized is None or captured.normalized is None:
                continue
            own, other = (None, None) if within is None else (within.captured, within.synthetic)
            rows.append(
                {
                    "model": model,
                    "set": name,
                    "synthetic": synth.normalized,
                    "captured": captured.normalized,
                    "fit_on_captured": None if own is None else own.normalized,
                    "fit_on_as_many_synthetic": None if other is None else other.normalized,
                }
            )
    return rows


def mean_gaps(board: Board) -> list[Cells]:
    """One row per model with a sim-to-real block: its mean gap, the tasks behind it, or why there is none."""
    return [
        {
            "model": row.model,
            "kind": _kind(row.sim_to_real.kind),
            "gap": row.sim_to_real.gap_percentage_points,
            "tasks": ", ".join(row.sim_to_real.over) or None,
            "matched_gap": row.sim_to_real.matched.gap_percentage_points,
            "matched_tasks": ", ".join(row.sim_to_real.matched.over) or None,
            "reason": row.sim_to_real.undefined,
        }
        for row in board.models
        if row.sim_to_real is not None
    ]


def set_rows(report: SimToRealReport | None) -> list[Cells]:
    """What each set is."""
    sets = {} if report is None else report.sets
    return [
        {
            "set": name,
            "task": record.task.value,
            "kind": _kind(record.kind, record.demonstration),
            "metric": record.metric,
            "scenes": record.scenes,
            "sessions": record.sessions,
            "licence": record.licence,
        }
        for name, record in sets.items()
    ]


def caveats(report: SimToRealReport | None) -> dict[str, str]:
    """Sets by caveat, each caveat once."""
    sets_of: dict[str, list[str]] = {}
    for name, record in ({} if report is None else report.sets).items():
        for text in record.caveats:
            sets_of.setdefault(text, []).append(name)
    return {text: ", ".join(names) for text, names in sets_of.items()}


def without_gap(board: Board) -> dict[str, str]:
    """Tasks that have no gap in any row, with the reasons."""
    reasons_of: dict[str, dict[str | None, None]] = {}
    blocks = [row.sim_to_real.tasks for row in board.models if row.sim_to_real is not None]
    for tasks in blocks:
        for task, block in tasks.items():
            reason = block.undefined if block.matched.undefined else None
            reasons_of.setdefault(task.value, {})[reason] = None
    return {
        task: "; ".join(reason for reason in reasons if reason)
        for task, reasons in reasons_of.items()
        if None not in reasons
    }


def in_points(rows: Sequence[Cells]) -> list[Cells]:
    """Rows with their gaps as text: percentage points, to a tenth."""
    return [
        {**row, **{key: number(cell, 1) for key, cell in row.items() if "gap" in key and isinstance(cell, float)}}
        for row in rows
    ]
