"""Make a small synthetic floor-event study: targets, raw baseline scores, and a baseline and a candidate run."""

from __future__ import annotations

import sys
from pathlib import Path

# Runs from a bare checkout, from any folder; an installed copy of the library does not shadow this one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from common.errors import InputError, OneLineParser, run_script
from common.files import write_files
from floor_events.protocol import check_count
from floor_events.synthetic import synthetic_files

PROGRAM = Path(__file__).name


def parser() -> OneLineParser:
    """The options, each with its unit."""
    options = OneLineParser(prog=PROGRAM, description=__doc__)
    options.add_argument("--output-dir", type=Path, required=True, metavar="DIR", help="folder to fill")
    options.add_argument("--rows", type=int, default=6000, help="length of a session, in frames of 0.2 s, at least 50")
    options.add_argument("--seed", type=int, default=0, help="seed of everything drawn, a whole number, at least 0")
    return options


def main() -> None:
    """Parse, draw, write."""
    args = parser().parse_args()
    check_count("--seed", args.seed)
    if args.rows < 50:
        raise InputError(f"--rows {args.rows}: expected at least 50 frames")
    write_files(synthetic_files(args.output_dir, args.rows, args.seed))
    print(f"wrote synthetic sessions of {args.rows} rows to {args.output_dir}")


if __name__ == "__main__":
    run_script(main, PROGRAM)
