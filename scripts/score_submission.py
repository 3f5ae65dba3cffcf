"""Validate a submitted bundle of predictions and score it: one line per fault and status 2, or a run record."""

import sys
from pathlib import Path

from common.confine import limit_memory
from common.errors import OneLineParser, natural, one_of, run_script
from emma.audit.submissions import Bundle, Expected, require_own, score, validate, write_scored
from emma.data.tables import without_pandas
from emma.tasks import Split


def main() -> None:
    """Check everything, then write predictions with frozen targets, metrics, replicates and the run record."""
    without_pandas()
    limit_memory()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("bundle", type=Path, help="folder with submission.yaml and predictions/")
    parser.add_argument("--results", type=Path, default=Path("results"), help="finished results of the release")
    parser.add_argument("--eval-split", type=one_of(Split), default=Split.DEV, help="DEV (default) or HOLDOUT")
    parser.add_argument("--seed", type=natural, default=0, help="the run's seed (default 0)")
    parser.add_argument("--taken", nargs="*", default=[], help="names that other models have")
    parser.add_argument(
        "--out", type=Path, help="where runs/ and folds/ are written; without it, only the scores are shown"
    )
    arguments = parser.parse_args()
    bundle = Bundle(arguments.bundle)
    if arguments.out is not None:
        require_own(arguments.out, bundle.manifest.model)
    expected = Expected.read(arguments.results, arguments.eval_split, arguments.seed, arguments.taken)
    faults = validate(bundle, expected)
    if faults:
        sys.stderr.write("".join(f"{' '.join(fault.split())}\n" for fault in faults))
        raise SystemExit(2)
    scored = score(bundle, expected)
    model = bundle.manifest.model
    if arguments.out is None:
        for task, record in scored.record.tasks.items():
            sys.stdout.write(f"{model} {task} {record.metric} {record.score} {record.unit}\n")
        told = (
            f"{len(scored.record.tasks)} of {len(expected.manifest.tasks)} tasks of release {expected.manifest.release}"
        )
        sys.stdout.write(f"{arguments.bundle}: valid, {told}; it would stand on the board as submitted\n")
        return
    write_scored(scored, expected, arguments.out)


if __name__ == "__main__":
    run_script(main)
