"""Show a leaderboard as a table in the terminal."""

import sys
from pathlib import Path

from emma.board import Board
from emma.files import OneLineParser, parse, read_json, run_script
from emma.leaderboard import board_text


def main() -> None:
    """Read the board and print its table and caveats."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("board", type=Path, help="leaderboard.json")
    arguments = parser.parse_args()
    sys.stdout.write(board_text(parse(Board, read_json(arguments.board), arguments.board)))


if __name__ == "__main__":
    run_script(main)
