"""Run every benchmark, one after another, and write results/benchmarks.json; one that fails loses no other.

The benchmarks of the workflow share one finished tree, the one that the cold run makes. Run it on a quiet machine.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from measuring import ROOT, Figure, Report, machine, versions


class Row(NamedTuple):
    """A program of this folder: its limit in seconds, whether it needs the finished tree, and its own options."""

    limit: float
    tree: bool = False
    program: str | None = None
    options: tuple[str, ...] = ()


#: What ``make bench`` runs, in order: ``cold_run`` makes the tree that those after it need.
ROWS = {
    "fits": Row(120),
    "hashing": Row(60),
    "bootstrap": Row(90),
    "embedding": Row(90),
    "memory": Row(180),
    "scene_rates": Row(180),
    "many_models": Row(180),
    "restart": Row(300),
    "slurm_overhead": Row(600),
    "cold_run": Row(2_400),
    "scene_bytes": Row(30, tree=True),
    "inner_validation": Row(120, tree=True),
    "fit_job": Row(240, tree=True),
    "stale_fold": Row(120, tree=True),
    "one_more": Row(300, tree=True),
    "dry_run": Row(300, tree=True),
}

#: What ``make bench-scale`` runs: each takes more than a quarter of an hour.
SCALE = {
    "growth": Row(7_200),
    "hundredfold": Row(3_600),
    "cold_run_later": Row(7_200, program="cold_run", options=("--release", "v1.0", "--runs", "1")),
}


def run(program: str, options: list[str], limit: float) -> tuple[list[Figure], str | None]:
    """The figures of one program, and why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "figures.json"
        command = [sys.executable, ROOT / f"benchmarks/{program}.py", *options, "--out", out]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return [], f"not done after {limit:g} s"
        if done.returncode or not out.exists():
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            return [], lines[-1] if lines else f"ended with {done.returncode}"
        return [Figure.model_validate(each) for each in json.loads(out.read_text())], None


def write(report: Report, path: Path) -> None:
    """Write the report as it stands, so that a run that is stopped keeps what it has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(report.model_dump_json(indent=1) + "\n")


def main() -> None:
    """Run the rows that are asked for, say each figure in a line, write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    every = ROWS | SCALE
    parser.add_argument("--only", nargs="+", choices=every, metavar="ROW", help=f"of {', '.join(every)}")
    parser.add_argument("--scale", action="store_true", help="the long rows in place of the others")
    parser.add_argument("--tiny", action="store_true", help="sizes that only show that the benchmarks run")
    parser.add_argument("--tree", type=Path, help="a finished tree, if cold_run is not to make one")
    parser.add_argument("--release", default="v0.1", help="release of the tree and of the cold run (default v0.1)")
    parser.add_argument("--runs", type=int, help="runs of each side, in place of each program's own number")
    parser.add_argument("--out", type=Path, default=ROOT / "results/benchmarks.json", help="the report")
    options = parser.parse_args()
    release = "tiny" if options.tiny else options.release
    report = Report(machine=machine(), versions=versions(), figures=[], failed={})
    with tempfile.TemporaryDirectory() as folder:
        tree = options.tree or Path(folder) / "tree"
        for row in options.only or (SCALE if options.scale else ROWS):
            own = every[row]
            if row == "cold_run" and options.tree and not options.only:
                continue
            if own.tree and not tree.exists():
                report.failed[row] = "no finished tree: run cold_run first, or name one by --tree"
                continue
            more = ["--tiny"] * options.tiny + (["--runs", str(options.runs)] if options.runs else [])
            more += ["--tree", str(tree), "--release", release] if own.tree else []
            more += ["--release", release, "--keep", str(tree)] if row == "cold_run" else []
            figures, reason = run(own.program or row, [*more, *own.options], own.limit)
            report.figures += figures
            if reason:
                report.failed[row] = reason
                print(f"{row}: {reason}", flush=True)
            for each in figures:
                print(f"{row}: {each.what}: {each.value:g} {each.unit}, {each.sense} {each.target:g}", flush=True)
            write(report, options.out)
    write(report, options.out)
    missed = [f"{each.row}: {each.what}" for each in report.figures if not each.reached]
    print(f"{len(report.figures)} figures, {len(missed)} below their target, {len(report.failed)} rows without figures")


if __name__ == "__main__":
    main()
