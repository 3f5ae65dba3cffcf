"""The main job from nothing on two cores, against the same programs in one process without Snakemake.

The one process runs, in turn, the command lines that Snakemake's dry run lists, so that it imports every library once
and does the same arithmetic; its time, divided by the cores, is what the job cannot beat. Both boards must be the same
bytes. Works in temporary copies; ``--keep`` leaves the finished tree for the benchmarks that need one.
"""

import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import BIN, ROOT, Runs, copy_project, deliver, figure, job, parser, results_of, snakemake

#: Longest that the board of a release may take, in seconds.
LIMITS = {"v0.1": 360.0, "v1.0": 2_400.0}


def command_lines(tree: Path, release: str) -> list[list[str]]:
    """The programs of a cold run in an order that serves their inputs."""
    said = subprocess.run(
        [BIN / "snakemake", "--dry-run", "--printshellcmds", "--config", f"release={release}"],
        cwd=tree,
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": f"{BIN}:/usr/bin:/bin", "PYTHONPATH": str(tree / "src"), "HOME": str(tree)},
    ).stdout
    lines = [line.partition("Shell command: ")[2].strip() for line in said.splitlines()]
    # The tree is its own home; what a job's start would run is run here.
    start = "python -IS $EMMA_HOME/scripts/run.py "
    lines = [re.sub(r"^(\w+)", r"python scripts/\1.py", line[len(start) :]) for line in lines if line.startswith(start)]
    # The one substitution that the rules leave to the shell, also within itself.
    for _ in range(3):
        lines = [re.sub(r"\$\(dirname ([^()\s]+)\)", lambda found: str(Path(found[1]).parent), line) for line in lines]
    return [shlex.split(line.partition(" 2> ")[0]) for line in dict.fromkeys(lines)]


def main() -> None:
    """Run both sides in turn, each from nothing."""
    made = parser(__doc__, 3)
    made.add_argument("--cores", type=int, default=2, help="cores for Snakemake (default 2)")
    made.add_argument("--release", default="v0.1", help="release to build (default v0.1)")
    made.add_argument("--keep", type=Path, help="leave Snakemake's last tree here")
    options = made.parse_args()
    release = "tiny" if options.tiny else options.release
    ours, other, boards, jobs = Runs(), Runs(), set(), 0
    for number in range(options.runs):
        with tempfile.TemporaryDirectory() as left, tempfile.TemporaryDirectory() as right:
            last = options.keep if options.keep and number == options.runs - 1 else Path(left)
            trees = [last, Path(right)]
            for tree in trees:
                copy_project(tree)
            one = snakemake(trees[0], "--config", f"release={release}", cores=options.cores)
            ours.add(one.wall[0], one.cpu[0], one.peak[0])
            commands = command_lines(trees[1], release)
            (trees[1] / "commands.json").write_text(json.dumps(commands))
            two = job([sys.executable, ROOT / "benchmarks/one_process.py", "commands.json"], trees[1])
            other.add(two.wall[0] / options.cores, two.cpu[0] / options.cores, two.peak[0])
            boards |= {(results_of(tree, release) / "leaderboard.json").read_bytes() for tree in trees}
            jobs = len(commands)
    if len(boards) != 1:
        raise SystemExit("leaderboard.json: the two sides made different boards")
    checks = {"jobs": jobs, "boards_equal": True, "largest_process_mib": max(ours.peak)}
    what = f"cold leaderboard, release {release}, {options.cores} cores"
    against = f"the same programs in one process, divided by {options.cores}"
    limit = LIMITS.get(release, LIMITS["v0.1"])
    deliver(
        [
            figure("cold_run", what, against, ours=ours, other=other, target=1.4, sense="at most", checks=checks),
            figure("cold_run", what, f"{limit:g} s", ours=ours, target=limit, sense="at most", checks=checks),
        ],
        options,
    )


if __name__ == "__main__":
    main()
