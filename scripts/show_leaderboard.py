"""Show a leaderboard as a table in the terminal."""

import sys
from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import parse, read_json
from common.terminal import terminal_width
from emma.results.leaderboard import board_text
from emma.results.records import Board


def main() -> None:
    """Read the board and print its table and caveats."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("board", type=Path, help="leaderboard.json")
    arguments = parser.parse_args()
    sys.stdout.write(board_text(parse(Board, read_json(arguments.board), arguments.board), terminal_width()))


if __name__ == "__main__":
    run_script(main)
