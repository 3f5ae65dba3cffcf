"""Align raw EgoSpeak MiniROADA scores to target time, with an explicit valid mask, for the floor-event evaluation."""

from __future__ import annotations

import sys
from pathlib import Path

# Runs from a bare checkout, from any folder; an installed copy of the library does not shadow this one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from common.errors import OneLineParser, run_script
from common.files import write_files
from floor_events.converter import convert

PROGRAM = Path(__file__).name


def parser() -> OneLineParser:
    """The options."""
    options = OneLineParser(prog=PROGRAM, description=__doc__)
    add = options.add_argument
    add(
        "--prediction-root",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of raw <session>.npy probabilities [T-10, 10, 3]: row s, step k is said at row s of row s+1+k",
    )
    add(
        "--target-root",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of <session>.npy targets [T, 3] of 0 and 1 at 5 Hz; gives each session's length T in rows",
    )
    add(
        "--output-dir",
        type=Path,
        required=True,
        metavar="DIR",
        help="where pred/<session>.npy [T, 10, 3], valid/<session>.npy [T, 10] and conversion.json go",
    )
    add("--sessions", nargs="*", required=True, metavar="NAME", help="sessions to convert")
    return options  # fmt: skip


def main() -> None:
    """Parse, convert all sessions, then write."""
    args = parser().parse_args()
    files = convert(args.prediction_root, args.target_root, args.output_dir, args.sessions)
    write_files(files)
    print(f"wrote {len(args.sessions)} sessions to {args.output_dir}")


if __name__ == "__main__":
    run_script(main, PROGRAM)
