"""What models are, beside what they score: what pretraining bought, and what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from emma.report.data import ARROW, KINDS, Cells, digits_of, number, span, tasks_of
from emma.report.terms import title_of
from emma.results.components import headroom
from emma.results.records import Board, Difference, Row, RowCost


def control_rows(board: Board) -> list[Cells]:
    """One row per model with a control and task, the OOD average first: both scores, and their paired difference."""
    rows: list[Cells] = []
    for row in board.models:
        if row.control is None:
            continue
        average = row.control.ood_avg
        if average.difference is not None:
            rows.append(_control_row(row.model, "OOD-avg", "", number(row.ood_avg), average, 3))
        for task, difference in row.control.tasks.items():
            block = row.tasks[task]
            digits = digits_of(block.unit)
            metric = f"{block.metric} {ARROW[block.direction]}"
            rows.append(_control_row(row.model, task.value, metric, number(block.score, digits), difference, digits))
    return rows


def _control_row(model: str, task: str, metric: str, score: str, difference: Difference, digits: int) -> Cells:
    return {
        "model": model,
        "task": task,
        "metric": metric or None,
        "score": score,
        "permuted weights": number(difference.score, digits),
        "better by": number(difference.difference, digits),
        "95 % interval": span(difference.ci95, digits),
    }


def cost_rows(board: Board) -> list[Cells]:
    """One row per model whose cost was counted: what it is, its parameters, the most of each cost over its tasks."""
    rows: list[Cells] = []
    controls = {row.control_of: row.cost for row in board.models if row.control_of is not None}
    for row in board.models:
        if (cost := row.cost) is None or row.control_of is not None:
            continue
        rows.append(
            {
                "model": row.model,
                "what it is": cost.description,
                "kind": KINDS.get(row.kind, row.kind),
                "parameters": f"{cost.parameters:,}",
                "multiply-accumulates per scene": None if cost.macs is None else f"{cost.macs:,}",
                "width": str(cost.width),
                "constant features": _dead(cost),
                "constant features of its control": _dead(controls.get(row.model)),
                "file, bytes": None if cost.weights_bytes is None else f"{cost.weights_bytes:,}",
                "licence": cost.licence,
                "link": cost.link,
            }
        )
    return rows


def _dead(cost: RowCost | None) -> str | None:
    """The most constant features over the tasks."""
    if cost is None:
        return None
    return str(max((task.dead_features or 0 for task in cost.tasks.values()), default=0))


def cost_points(board: Board) -> list[Cells]:
    """One row per model and task whose multiply-accumulates were counted: them, and the score on the anchors' scale.

    ``pair`` is the same for a model and its control.
    """
    return [
        {
            "model": row.model,
            "pair": row.control_of or row.model,
            "task": task.value,
            "macs": row.cost.tasks[task].macs,
            "skill": block.normalized,
            "text": number(block.score, digits_of(block.unit)),
        }
        for row in board.models
        for task, block in row.tasks.items()
        if row.cost is not None and (row.cost.tasks[task].macs or 0) > 0 and block.normalized is not None
    ]


def average_points(board: Board) -> list[Cells]:
    """One row per model with an OOD average whose multiply-accumulates were counted: the most over its tasks."""
    return [
        {
            "model": row.model,
            "pair": row.control_of or row.model,
            "macs": row.cost.macs,
            "skill": row.ood_avg,
            "text": number(row.ood_avg),
        }
        for row in board.models
        if row.ood_avg is not None and row.cost is not None and (row.cost.macs or 0) > 0
    ]


def headroom_points(board: Board) -> list[Cells]:
    """One row per model and task with a floor and an oracle: the share of the way between them."""
    return [
        {
            "model": row.model,
            "task": title_of(task),
            "share": share,
            "text": number(block.score, digits_of(block.unit)),
        }
        for task in tasks_of(board)
        for row in board.models
        if (block := row.tasks.get(task)) is not None and (share := headroom(board, row, task)) is not None
    ]


def facts(row: Row) -> Iterator[tuple[str, str]]:
    """What a model is, as name and text: what its config and its costs say, and what it is declared to have seen."""
    yield "Standing", row.standing
    if row.undefined:
        yield "No OOD-avg", row.undefined
    if row.unranked:
        yield "No rank", row.unranked
    if row.control_of:
        yield "Control of", row.control_of
    cost = row.cost
    if cost is not None:
        yield "Description", cost.description or "none given"
        yield "Licence", cost.licence or "none given"
        if cost.link:
            yield "Link", cost.link
        yield "Parameters", f"{cost.parameters:,}"
        macs = {task.value: "not counted" if own.macs is None else f"{own.macs:,}" for task, own in cost.tasks.items()}
        yield "Multiply-accumulates per scene", _by_value(macs)
        yield "Width of the embedding", _by_value({task.value: str(own.width) for task, own in cost.tasks.items()})
        if cost.weights_bytes is not None:
            yield "File of weights", f"{cost.weights_bytes:,} bytes"
    pretraining = row.run_manifest.model_provenance.pretraining
    if isinstance(pretraining, str):
        yield "Pretraining", f"{pretraining}: nobody declared what it saw"
    else:
        seen = {key: value for key, value in pretraining.model_dump(mode="json").items() if value}
        yield "Pretraining", "; ".join(f"{key}: {_listed(value)}" for key, value in seen.items()) or "saw nothing"


def _listed(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_listed(item)}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _by_value(texts: Mapping[str, str]) -> str:
    """Texts by task in one line, each text once."""
    tasks: dict[str, list[str]] = {}
    for task, text in texts.items():
        tasks.setdefault(text, []).append(task)
    if len(tasks) == 1:
        return next(iter(tasks))
    return "; ".join(f"{text} ({', '.join(names)})" for text, names in tasks.items())
