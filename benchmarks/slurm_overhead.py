"""The folds of one model in groups on a Slurm of one node, against the same run without Slurm, to the last fold's file.

Needs root, Debian's Slurm and munge, and the executor (``make cluster``); ``tests/slurm_node.py`` starts and ends the
Slurm. What Snakemake waits after the last file, until it looks at the queue again, is told and not counted.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from measuring import BIN, ROOT, Runs, copy_project, deliver, figure, parser, process, results_of

sys.path.insert(0, str(ROOT / "tests"))

import slurm_node

#: Most that a fold may take longer, in seconds.
TARGET = 0.3
CONFIG = ("real_captures=none", "models=[dsp]")
PROFILE = ("--profile", "workflow/profiles/slurm", "--slurm-status-command", "squeue")
HERE = ("--slurm-init-seconds-before-status-checks", "2", "--default-resources", "slurm_account=root", "mem_mb=500")


def run(tree: Path, release: str, *options: str) -> tuple[Runs, float, dict[str, bytes]]:
    """Make the folds anew: the whole run, seconds to their last file, their bytes by path."""
    folds = results_of(tree, release) / "folds"
    shutil.rmtree(folds, ignore_errors=True)
    start = tree / "start"
    start.touch()
    command = [BIN / "snakemake", *options, "--config", f"release={release}", *CONFIG, "--", "folds"]
    whole = process(command, tree)
    files = sorted(path for path in folds.rglob("*") if path.is_file())
    last = max(path.stat().st_mtime for path in files) - start.stat().st_mtime
    return whole, last, {path.relative_to(folds).as_posix(): path.read_bytes() for path in files}


def main() -> None:
    """Both sides in turn, on embeddings and splits that are there."""
    made = parser(__doc__, 1)
    made.add_argument("--release", default="tiny", help="release to build (default tiny)")
    # Tiny has twelve groups of one model: six for each CPU, as the profile's eight are of hundreds.
    made.add_argument("--components", type=int, default=6, help="groups per Slurm job (default 6)")
    options = made.parse_args()
    slurm_node.check_machine()
    more = ["--group-components", f"folds={options.components}"]
    ours, other, whole, boards = Runs(), Runs(), Runs(), []
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as node:
        tree = Path(folder)
        copy_project(tree)
        run(tree, options.release, "--cores", "2")
        Path(node).chmod(0o755)
        with slurm_node.slurm(Path(node)):
            for _ in range(options.runs):
                local, seconds, files = run(tree, options.release, "--cores", "2")
                other.add(seconds, local.cpu[0])
                boards.append(files)
                remote, seconds, files = run(tree, options.release, *PROFILE, *HERE, *more)
                ours.add(seconds, remote.cpu[0])
                whole.add(remote.wall[0], remote.cpu[0])
                boards.append(files)
        logs = results_of(tree, options.release) / "logs/fit"
        folds = len(list(logs.rglob("*.log")))
    if any(files != boards[0] for files in boards):
        raise SystemExit("folds: Slurm made other bytes")
    value = sum(a - b for a, b in zip(ours.wall, other.wall, strict=True)) / len(ours.wall) / folds
    checks = {"fits": folds, "bytes_equal": True, "whole_run_s": sum(whole.wall) / len(whole.wall)}
    deliver(
        [
            figure(
                "slurm_overhead",
                f"Slurm's share of a fold, {options.components} groups a job, release {options.release}, 2 CPUs",
                "the same run without Slurm, 2 cores",
                ours=ours,
                other=other,
                value=value,
                unit="s",
                target=TARGET,
                sense="at most",
                checks=checks,
            )
        ],
        options,
    )


if __name__ == "__main__":
    main()
