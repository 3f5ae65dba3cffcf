"""Work lost to a kill: a run whose process group is killed (SIGKILL) and that is started again, beside one left alone.

Counts the jobs that were started twice. Both runs must end in the same bytes, the board's and all others.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections import Counter
from pathlib import Path

from measuring import BIN, Runs, copy_project, deliver, figure, parser, process, results_of

CORES = 2
#: Parts of the undisturbed run's jobs after which a run is killed: scenes, fits, the last scorings.
KILLS = (0.3, 0.6, 0.85)
#: Every job says that it starts.
TELL = """import sys
with open("started.txt", "a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
"""


def prepare(tree: Path) -> None:
    """A copy of the project whose jobs tell."""
    copy_project(tree)
    start = tree / "scripts/run.py"
    start.write_text(TELL + start.read_text())


def started(tree: Path) -> list[str]:
    """The jobs that were started so far, each by its program and options."""
    told = tree / "started.txt"
    return told.read_text().splitlines() if told.exists() else []


def killed(command: list[str | Path], tree: Path, count: int) -> bool:
    """Start the run, kill it once so many jobs were started; whether the kill met it at work."""
    environment = os.environ | {"PYTHONPATH": f"{tree}/src", "PATH": f"{BIN}:{os.environ['PATH']}"}
    run = subprocess.Popen(
        command,
        cwd=tree,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while run.poll() is None and len(started(tree)) < count:
        time.sleep(0.02)
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
    return run.wait() == -signal.SIGKILL


def contents(tree: Path, release: str) -> dict[str, bytes]:
    """Bytes of every result but logs, by path."""
    results = results_of(tree, release)
    named = {path.relative_to(results).as_posix(): path for path in results.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in named.items() if not name.startswith("logs/")}


def main() -> None:
    """One run left alone, one that is killed three times."""
    made = parser(__doc__, 1)
    made.add_argument("--release", default="tiny", help="release to build (default tiny)")
    options = made.parse_args()
    board = results_of(Path(), options.release) / "leaderboard.json"
    command = [BIN / "snakemake", "--quiet", "all", "--cores", str(CORES), board]
    command += ["--config", f"release={options.release}", "real_captures=none", "models=[dsp]"]
    with tempfile.TemporaryDirectory() as left, tempfile.TemporaryDirectory() as right:
        alone, disturbed = Path(left), Path(right)
        for tree in (alone, disturbed):
            prepare(tree)
        other = process(command, alone)
        jobs = len(started(alone))
        kills = sum(killed(command, disturbed, round(part * jobs)) for part in KILLS)
        ours = process(command, disturbed)
        again = sum(count - 1 for count in Counter(started(disturbed)).values())
        wanted, found = contents(alone, options.release), contents(disturbed, options.release)
    if kills != len(KILLS):
        raise SystemExit(f"a kill came too late: {kills} of {len(KILLS)} met a run at work")
    if wanted != found:
        names = [name for name in {*wanted, *found} if wanted.get(name) != found.get(name)]
        raise SystemExit(f"{sorted(names)[0]}: the run that was killed ended in other bytes ({len(names)} files)")
    deliver(
        [
            figure(
                "restart",
                f"jobs started again after a kill, release {options.release}, {CORES} cores",
                "the jobs that ran at that moment",
                ours=Runs([again / kills], ours.cpu),
                value=again / kills,
                unit="jobs",
                target=float(CORES),
                sense="at most",
                checks={"jobs": jobs, "kills": kills, "files_equal": len(wanted), "alone_s": sum(other.wall)},
            )
        ],
        options,
    )


if __name__ == "__main__":
    main()
