"""What is written for a terminal: as wide as it is; elsewhere nothing is folded."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence


def terminal_width() -> int | None:
    """Characters of a line of standard output where that is a terminal; None in a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def folded(rows: Sequence[Sequence[str]], first: Sequence[int], width: int | None) -> list[list[str]]:
    """Lines of a table, in blocks of as many columns as a width takes.

    Args:
        rows: cells, the same number in each row.
        first: columns that begin every block but the first, which has all columns from the first one on.
        width: characters of a line; None for one block of any width. A column that is too wide alone is cut.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    if width is not None:
        taken = sum(widths[column] + 2 for column in first)
        widths = [size if column in first else min(size, max(width - taken, 8)) for column, size in enumerate(widths)]
    blocks: list[list[int]] = [[]]
    for column, size in enumerate(widths):
        if width is not None and blocks[-1] and sum(widths[c] + 2 for c in blocks[-1]) + size > width:
            blocks.append([*first])
        if column not in blocks[-1]:
            blocks[-1].append(column)
    return [["  ".join(_cut(row[c], widths[c]) for c in block).rstrip() for row in rows] for block in blocks]


def _cut(cell: str, width: int) -> str:
    return cell.ljust(width) if len(cell) <= width else f"{cell[: width - 1]}…"


def item(text: str, width: int | None) -> str:
    """An item of a list, in lines of at most ``width`` characters."""
    return f"- {text}" if width is None else textwrap.fill(f"- {text}", max(width, 20), subsequent_indent="  ")
