"""Verify finished results: every hash, fold, fit and number is computed again.

Status 0: verified at the level asked for; 1: faults; 2: nothing to verify; 3: no fault, but not all could be checked.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.threads import one_thread
from emma.audit.verify import CHECKS, Check, Level, Outcome, Results, Verdict, verify
from emma.data.tables import without_pandas

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the checks, print one line each and a verdict."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("results", type=Path, help="results/, the folder of another release, or a release archive")
    parser.add_argument(
        "--project", type=Path, help="project whose config made them (default: this one, or the archive)"
    )
    deep = "make a sample of scenes, embeddings and fits again, too"
    parser.add_argument("--deep", action="store_true", help=deep)
    arguments = parser.parse_args()
    outcomes: list[Outcome] = []

    def tell(outcome: Outcome, archive: Path | None = None) -> None:
        outcomes.append(outcome)
        text = str(outcome)
        sys.stdout.write((text if archive is None else text.replace(f"{archive}/", f"{arguments.results}: ")) + "\n")
        sys.stdout.flush()

    with one_thread():
        if arguments.results.is_file():
            _archive(arguments, tell)
        else:
            verify(_finished(arguments), _checks(arguments.deep), tell)
    verdict = Verdict.of(outcomes, Level.REPRODUCED if arguments.deep else Level.RESCORED)
    sys.stdout.write(f"{arguments.results}: {verdict}\n")
    sys.stdout.flush()
    raise SystemExit(verdict.status)


def _finished(arguments: argparse.Namespace) -> Results:
    """The results in a folder; InputError where there are none, not even broken ones."""
    results = Results(arguments.results, arguments.project or ROOT)
    if not results.layout.started():
        others = [folder.as_posix() for folder in results.layout.other_releases()]
        hint = f", those of another release are in {', '.join(others)}" if others else ""
        raise InputError(f"{arguments.results}: no results here, expected what the workflow wrote{hint}")
    return results


def _archive(arguments: argparse.Namespace, tell: Callable[..., None]) -> None:
    """Unpack an archive within bounds, compare its sums, verify its results."""
    from emma.audit.archive import check_sums, find_results, unpack

    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        unpack(arguments.results, root)
        sums = tuple(check_sums(root))
        note = "" if arguments.project else "compared below with the config inside; --project names another"
        tell(Outcome("sums", sum(path.is_file() for path in root.rglob("*")), sums, note), root)
        results = Results(find_results(root, arguments.results), arguments.project or root)
        verify(results, _checks(arguments.deep), lambda outcome: tell(outcome, root))


def _checks(deep: bool) -> list[Check]:
    """All checks; the deep ones load the generator and the backbones."""
    checks = [kind() for kind in CHECKS]
    if deep:
        from generator import sampled_chunks

        from emma.audit.verify.deep import Counted, Reembedded, Refitted, Regenerated

        checks += [Regenerated(sampled_chunks), Reembedded(), Counted(), Refitted()]
    return checks


if __name__ == "__main__":
    run_script(main)
