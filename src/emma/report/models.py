"""What models are, beside what they score: what pretraining bought, and what they cost."""

from __future__ import annotations

from emma.report.data import ARROW, KINDS, Cells, digits_of, number, span
from emma.results.records import Board, Difference, RowCost


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
    """One row per model and task whose multiply-accumulates were counted: them, and the score on the anchors' scale."""
    return [
        {
            "model": row.control_of or row.model,
            "weights": "permuted" if row.control_of else "as they are",
            "task": task.value,
            "macs": row.cost.tasks[task].macs,
            "skill": block.normalized,
            "text": number(block.score, digits_of(block.unit)),
        }
        for row in board.models
        for task, block in row.tasks.items()
        if row.cost is not None and (row.cost.tasks[task].macs or 0) > 0 and block.normalized is not None
    ]
