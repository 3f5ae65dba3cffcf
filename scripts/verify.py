"""Verify finished results: every hash, fold, fit and number is computed again.

Status 0: verified at the level asked for; 1: faults; 2: nothing to verify; 3: no fault, but not all could be checked.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from common.confine import limit_memory
from common.errors import InputError, OneLineParser, natural, run_script
from common.threads import one_thread
from emma.audit.verify import CHECKS, Check, Level, Outcome, Results, Verdict, verify
from emma.audit.verify.draws import Draw
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
    parser.add_argument("--deep", action="store_true", help="make a sample of scenes, embeddings and fits again, too")
    parser.add_argument("--deep=all", dest="every", action="store_true", help="make all of them again; takes long")
    parser.add_argument("--draw", type=natural, help="seed of the sample's places (default: fresh random bits)")
    trust = "let --deep run models of the project or archive; without it, those of this checkout alone"
    parser.add_argument("--trust-code", action="store_true", help=trust)
    arguments = parser.parse_args()
    deep = arguments.deep or arguments.every
    if not deep:
        # Deep, models run in processes with limits of their own; drivers of a GPU reserve more than there is.
        limit_memory()
    draw = Draw(every=arguments.every) if arguments.draw is None else Draw(arguments.draw, arguments.every)
    checks = _checks(draw if deep else None)
    outcomes: list[Outcome] = []

    def tell(outcome: Outcome, archive: Path | None = None) -> None:
        outcomes.append(outcome)
        text = str(outcome)
        sys.stdout.write((text if archive is None else text.replace(f"{archive}/", f"{arguments.results}: ")) + "\n")
        sys.stdout.flush()

    with one_thread():
        if arguments.results.is_file():
            _archive(arguments, checks, tell)
        else:
            verify(_finished(arguments), checks, tell)
    verdict = Verdict.of(outcomes, Level.REPRODUCED if deep else Level.RESCORED, str(draw))
    sys.stdout.write(f"{arguments.results}: {verdict}\n")
    sys.stdout.flush()
    raise SystemExit(verdict.status)


def _finished(arguments: argparse.Namespace) -> Results:
    """The results in a folder; InputError where there are none, not even broken ones."""
    project = arguments.project or ROOT
    results = Results(arguments.results, project, project if arguments.trust_code else ROOT)
    if not results.layout.started():
        others = [folder.as_posix() for folder in results.layout.other_releases()]
        hint = f", those of another release are in {', '.join(others)}" if others else ""
        raise InputError(f"{arguments.results}: no results here, expected what the workflow wrote{hint}")
    return results


def _archive(arguments: argparse.Namespace, checks: list[Check], tell: Callable[..., None]) -> None:
    """Unpack an archive within bounds, compare its sums, verify its results."""
    from emma.audit.archive import check_sums, find_results, unpack

    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        unpack(arguments.results, root)
        sums = tuple(check_sums(root))
        note = "" if arguments.project else "compared below with the config inside; --project names another"
        tell(Outcome("sums", sum(path.is_file() for path in root.rglob("*")), sums, note), root)
        project = arguments.project or root
        code = project if arguments.trust_code else ROOT
        results = Results(find_results(root, arguments.results), project, code)
        verify(results, checks, lambda outcome: tell(outcome, root))


def _checks(draw: Draw | None) -> list[Check]:
    """All checks; the deep ones, at the places of a draw, load the generator."""
    checks = [kind() for kind in CHECKS]
    if draw is not None:
        from generator import Remade

        from emma.audit.verify.deep import Rays, Refitted, Regenerated
        from emma.audit.verify.embedded import Counted, Reembedded, TrueParameters
        from emma.audit.verify.samples import Samples

        samples, remade = Samples(draw), Remade(draw)
        embedded = Reembedded(samples)
        checks += [Rays(remade.rays), Regenerated(remade.chunks, samples), embedded, TrueParameters(remade.truths)]
        checks += [Counted(embedded), Refitted(draw)]
    return checks


if __name__ == "__main__":
    run_script(main)
