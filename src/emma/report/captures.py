"""Rows of the sim-to-real gap: by model and set where the report is at hand, else by model and task off the board."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from common.errors import InputError
from common.files import parse, read_json
from emma.report.data import digits_of, number
from emma.results.records import Board, Interval, SimToReal, TaskGap

#: What a set is called, wherever it is shown.
KINDS = {"real": "real captures", "surrogate": "surrogate (not real captures)"}


class _Read(BaseModel):
    """What the page reads of a record that holds more."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Side(_Read):
    """One side of a set: its score, on the anchors' scale in ``normalized``; ``sessions`` of captures alone."""

    value: float | None
    normalized: float | None
    n: int
    ci95: Interval | None
    sessions: int | None
    undefined: str | None
    balanced_accuracy: float | None = None


class Apart(_Read):
    """The captured score of one group of a set, shown alone."""

    metric: str
    value: float | None
    n: int


class Scored(_Read):
    """One model on one set; ``undefined`` says why there are no sides."""

    synth: Side | None
    captured: Side | None
    apart: dict[str, Apart]
    gap_percentage_points: float | None
    undefined: str | None


class CaptureRecord(_Read):
    """What a set is."""

    kind: Literal["real", "surrogate"]
    task: str
    licence: str
    demonstration: bool
    caveats: tuple[str, ...]
    metric: str
    unit: str
    scenes: int
    sessions: int


class ModelGaps(SimToReal):
    """A model's block of the board, and the sets behind it."""

    sets: dict[str, Scored]

    model_config = ConfigDict(extra="ignore", frozen=True)


class GapReport(_Read):
    """``results/reports/sim_to_real.json``, as far as the page shows it."""

    data_release_hash: str
    eval_split: str
    seed: int
    sets: dict[str, CaptureRecord]
    models: dict[str, ModelGaps]


def read_report(path: Path, board: Board) -> GapReport:
    """The report that the board's gaps were taken from.

    Raises:
        InputError: no such report, one of another release, split or seed, or one whose gaps are not the board's.
    """
    report = parse(GapReport, read_json(path), path)
    for key in ("data_release_hash", "eval_split", "seed"):
        if getattr(report, key) != getattr(board, key):
            raise InputError(f"{path}: {key}: expected {getattr(board, key)}, that of the leaderboard")
    for row in board.models:
        own = report.models.get(row.model)
        block = None if own is None else SimToReal(**{key: getattr(own, key) for key in SimToReal.model_fields})
        if block != row.sim_to_real:
            raise InputError(f"{path}: models.{row.model}: expected the gaps that stand on the leaderboard")
    return report


def _kind(kind: str, demonstration: bool = False) -> str:
    return KINDS[kind] + (", a demonstration: in no mean" if demonstration else "")


def gap_rows(board: Board, report: GapReport | None) -> list[dict[str, Any]]:
    """One row a model and set, in the order of tasks, sets and the board, and one for each task that has no set."""
    rows = []
    for row in board.models:
        if row.sim_to_real is None:
            continue
        for task, block in row.sim_to_real.tasks.items():
            own = {} if report is None else {n: r for n, r in report.sets.items() if r.task == task.value}
            for name, record in own.items():
                found = report.models[row.model].sets.get(name)
                if found is None and task not in row.tasks:
                    continue
                rows.append({"model": row.model, "task": task.value, "set": name, **_scored(record, found, block)})
            if not own:
                names = ", ".join(block.sets) or None
                kind = None if names is None else _kind(row.sim_to_real.kind)
                head = {"model": row.model, "task": task.value, "set": names, "kind": kind}
                rows.append(head | {"gap": block.gap_percentage_points, "reason": block.undefined})
    places = {key: place for place, key in enumerate(dict.fromkeys((row["task"], row["set"]) for row in rows))}
    return sorted(rows, key=lambda row: places[row["task"], row["set"]])


def _scored(record: CaptureRecord, found: Scored | None, block: TaskGap) -> dict[str, Any]:
    kind = {"kind": _kind(record.kind, record.demonstration)}
    if found is None:
        return kind | {"gap": None, "reason": block.undefined or "the model has no score here"}
    reasons = [found.undefined, *(side.undefined for side in (found.synth, found.captured) if side is not None)]
    gap = {"gap": found.gap_percentage_points, "reason": next((text for text in reasons if text), None)}
    digits = digits_of(record.unit)
    alone = [f"{name}: {a.metric} {number(a.value, digits)}, n {a.n}" for name, a in found.apart.items()]
    balanced = None if found.captured is None else found.captured.balanced_accuracy
    more = {"captured_balanced_accuracy": None if balanced is None else number(balanced)}
    more |= {"of_these_alone": "; ".join(alone) or None}
    return kind | gap | _sides(found.synth, found.captured, record.unit) | more


def _sides(synth: Side | None, captured: Side | None, unit: str) -> dict[str, Any]:
    row, digits = {}, digits_of(unit)
    for name, side in (("synthetic", synth), ("captured", captured)):
        text = None if side is None else number(side.value, digits)
        if side is not None and side.ci95 is not None:
            text += f" ({number(side.ci95[0], digits)} to {number(side.ci95[1], digits)})"
        row |= {name: text, f"{name}_n": None if side is None else side.n}
    return row | {"sessions": None if captured is None else captured.sessions}


def mean_gaps(board: Board) -> list[dict[str, Any]]:
    """One row a model with a sim-to-real block: its mean gap, the tasks behind it, or why there is none."""
    return [
        {
            "model": row.model,
            "kind": _kind(row.sim_to_real.kind),
            "gap": row.sim_to_real.gap_percentage_points,
            "tasks": ", ".join(t.value for t, b in row.sim_to_real.tasks.items() if b.undefined is None) or None,
            "reason": row.sim_to_real.undefined,
        }
        for row in board.models
        if row.sim_to_real is not None
    ]


def set_rows(report: GapReport | None) -> list[Mapping[str, Any]]:
    """What each set is."""
    sets = {} if report is None else report.sets
    return [
        {
            "set": name,
            "task": record.task,
            "kind": _kind(record.kind, record.demonstration),
            "metric": record.metric,
            "scenes": record.scenes,
            "sessions": record.sessions,
            "licence": record.licence,
        }
        for name, record in sets.items()
    ]


def caveats(report: GapReport | None) -> dict[str, str]:
    """Sets by caveat, each caveat once."""
    found: dict[str, list[str]] = {}
    for name, record in ({} if report is None else report.sets).items():
        for text in record.caveats:
            found.setdefault(text, []).append(name)
    return {text: ", ".join(names) for text, names in found.items()}


def without_gap(board: Board) -> dict[str, str]:
    """Tasks that have no gap in any row, with the reasons."""
    found: dict[str, dict[str, None]] = {}
    blocks = [row.sim_to_real.tasks for row in board.models if row.sim_to_real is not None]
    for tasks in blocks:
        for task, block in tasks.items():
            found.setdefault(task.value, {})[block.undefined] = None
    return {task: "; ".join(reasons) for task, reasons in found.items() if None not in reasons}
