"""Say of a submission what a maintainer would say: every fault in one line, or its scores and its standing.

Given a folder, or two commits of a pull request, of which only data is read.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from common.confine import limit_memory
from common.errors import InputError, OneLineParser, natural, one_of, run_script
from common.files import parse, read_json, write_json
from emma.audit.submissions import Bundle, Expected, score, validate
from emma.audit.submissions.changes import extract
from emma.audit.submissions.pull_request import (
    PULL_REQUEST_CHECKS,
    STANDING_NAME,
    Standing,
    results_of,
    taken_names,
)
from emma.data.tables import without_pandas
from emma.results.caveats import row_caveats
from emma.results.layout import Layout
from emma.results.records import RunRecord
from emma.tasks import Split


def main() -> None:
    """Check a folder, or what a pull request would merge."""
    without_pandas()
    limit_memory()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("bundle", type=Path, nargs="?", help="folder submissions/NAME")
    parser.add_argument("--base", help="commit that a pull request would be merged into, with --head and no folder")
    parser.add_argument("--head", help="the pull request's own commit")
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    parser.add_argument(
        "--results", type=Path, help="results of the release (default: those below results/ of the release it names)"
    )
    parser.add_argument("--eval-split", type=one_of(Split), default=Split.DEV, help="DEV (default) or HOLDOUT")
    parser.add_argument("--seed", type=natural, default=0, help="the run's seed (default 0)")
    parser.add_argument("--record", action="store_true", help=f"write {STANDING_NAME} into the folder")
    arguments = parser.parse_args()
    commits = [arguments.base, arguments.head]
    if (arguments.bundle is None) == (None in commits) or commits.count(None) == 1:
        raise InputError("expected a folder, or both --base and --head")
    if arguments.bundle is not None:
        _check(arguments.bundle, arguments)
        return
    if arguments.record:
        raise InputError("--record: expected a folder, not commits")
    with tempfile.TemporaryDirectory(prefix="emma-") as place:
        _check(extract(arguments.root, arguments.base, arguments.head, Path(place)), arguments, Path(place))


def _check(folder: Path, arguments: argparse.Namespace, place: Path | None = None) -> None:
    """Say what is found, or exit with 2; ``place`` is where a pull request's files lie for the time being."""

    def shown(text: str) -> str:
        return " ".join(text.split()).replace(f"{place}/", "") if place else " ".join(text.split())

    try:
        bundle = Bundle(folder)
        results = arguments.results or results_of(
            arguments.root, bundle.manifest.data_release_hash, arguments.eval_split
        )
        taken = taken_names(arguments.root, bundle.manifest.model)
        expected = Expected.read(results, arguments.eval_split, arguments.seed, taken)
    except InputError as error:
        raise InputError(shown(str(error))) from None
    faults = validate(bundle, expected)
    faults += [fault for check in PULL_REQUEST_CHECKS for fault in check().faults(bundle, expected)]
    if not faults:
        scored = score(bundle, expected)
        standing = Standing.of(bundle, scored, expected)
        path = folder / STANDING_NAME
        if path.exists() and not arguments.record:
            faults = list(standing.faults(path))
    if faults:
        sys.stderr.write("".join(f"{shown(fault)}\n" for fault in faults))
        raise SystemExit(2)
    if arguments.record:
        write_json(path, standing.model_dump(mode="json"))
    model = bundle.manifest.model
    for task, told in standing.tasks.items():
        sys.stdout.write(f"{model} {task} {told.metric} {told.score} {told.unit}\n")
    others = [parse(RunRecord, read_json(path), path) for path in sorted(Layout(results).runs.glob("*.json"))]
    rows = [run for run in others if run.model != model and run.eval_split == scored.record.eval_split]
    for caveat in row_caveats([*rows, scored.record])[model]:
        sys.stdout.write(f"{model}: {caveat}\n")
    count = f"{len(standing.tasks)} of {len(expected.manifest.tasks)} tasks of release {standing.release}"
    sys.stdout.write(f"{shown(str(folder))}: valid, {count}; it would stand on the board as {standing.standing}\n")


if __name__ == "__main__":
    run_script(main)
