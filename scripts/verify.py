"""Verify finished results: every hash, fold, fit and number is computed again. Status 1 where anything differs."""

import argparse
import sys
from pathlib import Path

from threadpoolctl import threadpool_limits

from emma.files import run_script
from emma.tables import without_pandas
from emma.verify import CHECKS, Outcome, Results, verify

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the checks, print one line each and a verdict."""
    without_pandas()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, help="results/, the folder of another release")
    parser.add_argument("--project", type=Path, default=ROOT, help="project whose config made them (default: this one)")
    arguments = parser.parse_args()

    def tell(outcome: Outcome) -> None:
        sys.stdout.write(f"{outcome}\n")
        sys.stdout.flush()

    with threadpool_limits(1):
        outcomes = verify(Results(arguments.results, arguments.project), [kind() for kind in CHECKS], tell)
    faults = sum(len(outcome.faults) for outcome in outcomes)
    sys.stdout.write(f"{arguments.results}: {f'{faults} faults' if faults else 'verified'}\n")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    run_script(main)
