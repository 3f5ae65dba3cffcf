"""What the clusters' profiles ask for, measured: ``workflow/profiles/measured.yaml``.

Peaks come from what growth.py reported (``--growth``, one file or more), the seconds of jobs from what Snakemake
recorded of a finished run (``--tree``). A rule of one task or model counts under the part of its name that all of its
kind share.
"""

import argparse
import json
import re
from collections import defaultdict
from pathlib import Path
from statistics import mean

import yaml
from measuring import ROOT

HEAD = """# Measured on two cores of an AMD EPYC by benchmarks/growth.py and in a run of v0.1; written by
# benchmarks/job_resources.py. Memory in MiB: the largest process of a program, at any size that growth.py made.
# Seconds: the longest job of a rule. The profiles' tests hold their requests to these.
"""
#: Rules that there are for every task, model or set of captures.
KINDS = ("fit", "score_captures", "score", "stress", "splits", "embed_captures", "make")


def kind(rule: str) -> str:
    """What a rule of one task or model is called here."""
    return next((name for name in KINDS if rule.startswith(f"{name}_")), rule)


def peaks(reports: list[Path]) -> dict[str, int]:
    """MiB of the largest process of each program."""
    found: dict[str, float] = defaultdict(float)
    for figure in (figure for path in reports for figure in json.loads(path.read_text())):
        if named := re.match(r"peak of (\w+)", figure["what"]):
            values = [value for name, value in figure["checks"].items() if name.startswith("peak_mib")]
            found[named[1]] = max(found[named[1]], *values)
    return {name: round(value) for name, value in sorted(found.items())}


def seconds(tree: Path) -> tuple[dict[str, float], float]:
    """Seconds of the longest job of each rule, and of a model and task's fits and scoring in the mean."""
    longest: dict[str, float] = defaultdict(float)
    jobs: dict[str, tuple[str, float]] = {}
    for path in (tree / ".snakemake/metadata").iterdir():
        told = json.loads(path.read_text())
        if told.get("endtime") and told["log"]:
            jobs[told["log"][0]] = (told["rule"], told["endtime"] - told["starttime"])
    groups: dict[tuple[str, str], float] = defaultdict(float)
    for log, (rule, taken) in jobs.items():
        longest[kind(rule)] = max(longest[kind(rule)], taken)
        if named := re.search(r"logs/(?:fit|score|stress)/([^/]+)/([^/.]+)", log):
            groups[named[1], named[2]] += taken
    return {rule: round(taken, 1) for rule, taken in sorted(longest.items())}, round(mean(groups.values()), 1)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--growth", type=Path, nargs="+", required=True, help="JSON files that growth.py wrote")
    parser.add_argument("--tree", type=Path, required=True, help="a project's folder with a finished run of v0.1")
    parser.add_argument("--out", type=Path, default=ROOT / "workflow/profiles/measured.yaml")
    options = parser.parse_args()
    longest, group = seconds(options.tree)
    content = {"peak_mib": peaks(options.growth), "seconds": longest, "group_seconds": group}
    options.out.write_text(HEAD + yaml.safe_dump(content, sort_keys=False))


if __name__ == "__main__":
    main()
