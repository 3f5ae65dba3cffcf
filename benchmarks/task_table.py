"""The table of docs/tasks.md from a finished board: floor, textbook, dsp, best backbone and oracle of every task.

python benchmarks/task_table.py results/releases/v1.0
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: Columns of the table, and which rows of the board compete for each.
COLUMNS = ("floor", "textbook", "dsp", "best backbone", "oracle")

_OF_KIND = {"chance": "floor", "reference": "textbook", "backbone": "best backbone", "oracle": "oracle"}


def column_of(row: Mapping[str, Any]) -> str | None:
    """The column that a row of the board stands in; None for a control or a submission."""
    if row["model"] == "dsp":
        return "dsp"
    return {"backbone": "best backbone", "reference": "textbook", "oracle": "oracle", "chance": "floor"}.get(
        row["kind"]
    )


def table(board: Mapping[str, Any]) -> list[str]:
    """Lines of Markdown: per task the best score in each column, with its row's name where several compete."""
    best: dict[tuple[str, str], tuple[float, str]] = {}
    facts: dict[str, tuple[str, str, int]] = {}
    for row in board["models"]:
        column = column_of(row)
        for task, scored in row["tasks"].items():
            facts.setdefault(task, (scored["metric"], scored["axis"], len(scored["values"])))
            if column is None or scored["score"] is None:
                continue
            sign = 1.0 if scored["direction"] == "higher" else -1.0
            held = best.get((task, column))
            if held is None or sign * scored["score"] > sign * held[0]:
                best[task, column] = scored["score"], row["model"]
    lines = [f"| task | metric | held out | {' | '.join(COLUMNS)} |", "|---" * (3 + len(COLUMNS)) + "|"]
    for task, (metric, axis, values) in facts.items():
        cells = []
        for column in COLUMNS:
            score, name = best.get((task, column), (None, ""))
            named = f" `{name}`" if column in ("textbook", "best backbone") else ""
            cells.append("-" if score is None else f"{score:.3f}{named}")
        lines.append(f"| {task} | {metric} | {values} of {axis} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Read the board and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="folder with leaderboard.json")
    board = json.loads((parser.parse_args().results / "leaderboard.json").read_text(encoding="utf-8"))
    sys.stdout.write("\n".join(table(board)) + "\n")


if __name__ == "__main__":
    main()
