"""The tables of docs/results.md from a finished board: scores, differences from controls, sizes, hashes.

python benchmarks/results_tables.py results/releases/v1.0 prior random_conv ssl_conv dsp radioml_vgg10 lwm_v1
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

#: Digits behind the point by unit, and what to call it.
_DIGITS, _SHORT = {"degrees": 1, "dB": 2}, {"degrees": "deg"}


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:.{_DIGITS.get(unit, 3)}f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], right: bool = True) -> list[str]:
    rule = ["---", *(["--:" if right else "---"] * (len(names) - 1))]
    return [
        "| " + " | ".join(names) + " |",
        "|" + "|".join(rule) + "|",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]


def tables(board: Mapping[str, Any], models: Sequence[str]) -> list[str]:
    """Lines of the four tables.

    Raises:
        KeyError: a model that the board lacks.
    """
    rows = {row["model"]: row for row in board["models"]}
    chosen = [rows[name] for name in models]
    tasks = {task: block for row in board["models"] for task, block in row["tasks"].items()}
    units = {task: tasks[task]["unit"] for task in tasks}
    order = [task for task in rows[models[0]]["tasks"] if task in tasks]
    arrows = {task: "↑" if tasks[task]["direction"] == "higher" else "↓" for task in order}
    named = {task: task if units[task] == "1" else f"{task}, {_SHORT.get(units[task], units[task])}" for task in order}

    def score(row: Mapping[str, Any], task: str) -> str:
        return _number(row["tasks"].get(task, {}).get("score"), units[task])

    lines = _table(
        ["model", "OOD-avg ↑", *(f"{named[task]} {arrows[task]}" for task in order)],
        [[row["model"], _number(row["ood_avg"], "1"), *(score(row, task) for task in order)] for row in chosen],
    )

    def difference(block: Mapping[str, Any] | None, unit: str) -> str:
        if not block or block.get("difference") is None:
            return "-"
        low, high = (_number(end, unit) for end in block["ci95"])
        return f"{_number(block['difference'], unit)} [{low}, {high}]"

    controlled = [row for row in chosen if row["control"]]
    lines += ["", *_table(
        ["model less control", "OOD-avg", *(named[task] for task in order)],
        [
            [
                row["model"],
                difference(row["control"]["ood_avg"], "1"),
                *(difference(row["control"]["tasks"].get(task), units[task]) for task in order),
            ]
            for row in controlled
        ],
    )]  # fmt: skip

    def dead(row: Mapping[str, Any]) -> int:
        return max(block["dead_features"] for block in row["cost"]["tasks"].values())

    lines += ["", *_table(
        ["model", "parameters", "multiply-accumulates per scene, most", "width", "constant features, most (control)"],
        [
            [
                row["model"],
                f"{row['cost']['parameters']:,}",
                f"{row['cost']['macs']:,}",
                str(row["cost"]["width"]),
                f"{dead(row)} ({dead(rows[row['control']['model']])})",
            ]
            for row in controlled
        ],
    )]  # fmt: skip
    lines += ["", *_table(
        ["model", "weights, SHA-256", "prediction bundles, SHA-256 by task"],
        [
            [
                row["model"],
                f"`{row['run_manifest']['model_provenance']['weights_sha256'][:16]}`",
                ", ".join(
                    f"{task} `{digest[:12]}`"
                    for task, digest in sorted(row["run_manifest"]["prediction_bundle_hashes"].items())
                ),
            ]
            for one in controlled
            for row in (one, rows[one["control"]["model"]])
        ],
        right=False,
    )]  # fmt: skip
    return lines


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, help="a finished release, results/releases/NAME")
    parser.add_argument("models", nargs="+", help="rows of the board, in this order")
    arguments = parser.parse_args()
    board = json.loads((arguments.results / "leaderboard.json").read_text())
    sys.stdout.write("\n".join(tables(board, arguments.models)) + "\n")


if __name__ == "__main__":
    main()
