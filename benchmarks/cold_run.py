"""Measure the main job: a cold leaderboard, its largest job, and a dry run on finished results.

Works in a temporary copy of the tracked files, so that the project's own results stay as they are.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def copy_tree(target: Path) -> None:
    """Copy the files that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        destination = target / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_symlink():
            destination.symlink_to((ROOT / name).readlink())
        elif (ROOT / name).is_file():
            shutil.copy2(ROOT / name, destination)


def timed(command: list[str], folder: Path) -> float:
    """Run a command to its end and return its wall time in seconds."""
    start = time.perf_counter()
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if result.returncode:
        sys.exit(f"{' '.join(command)} ended with {result.returncode}:\n{result.stdout[-3000:]}{result.stderr[-3000:]}")
    return time.perf_counter() - start


def main() -> None:
    """Run once cold and some times dry, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=2, help="cores for the cold run (default 2)")
    parser.add_argument("--release", default="v0.1", help="release to build (default v0.1)")
    parser.add_argument("--dry-runs", type=int, default=3, help="dry runs, of which the median counts (default 3)")
    arguments = parser.parse_args()
    snakemake = str(Path(sys.executable).parent / "snakemake")
    options = ["--config", f"release={arguments.release}"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        copy_tree(folder)
        cold = timed([snakemake, "--cores", str(arguments.cores), *options], folder)
        largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        dry = [timed([snakemake, "--dry-run", *options], folder) for _ in range(arguments.dry_runs)]
    figures = {
        "release": arguments.release,
        "cores": arguments.cores,
        "cold_leaderboard_s": round(cold, 1),
        "largest_resident_mib": round(largest),
        "dry_run_median_s": round(statistics.median(dry), 2),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    print(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
