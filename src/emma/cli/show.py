"""Show a board as a table in the terminal: that of a release, or the file that is named."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from common.errors import InputError
from common.files import parse, read_json
from common.terminal import terminal_width
from emma.cli.project import add_release, add_root, chosen


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    parser.add_argument("board", nargs="?", type=Path, metavar="BOARD", help="a leaderboard.json, or the release's")
    add_release(parser)
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    """Read the board and print its table and caveats."""
    from emma.results.leaderboard import board_text
    from emma.results.records import Board

    path = arguments.board
    if path is None:
        release, layout = chosen(arguments)
        path = layout.board
        if not path.is_file():
            raise InputError(f"{path}: no such file; make it by: emma run --release {release}")
    sys.stdout.write(board_text(parse(Board, read_json(path), path), terminal_width()))
    return 0
