"""What the benchmarks share: the machine, pairs of runs in turn, whole processes, the record of a figure."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent
#: One thread per library, in this process (if nothing is loaded yet) and in those that it starts.
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
os.environ.update(THREADS)

_LIBRARIES = (
    "numpy",
    "scipy",
    "torch",
    "torchmetrics",
    "pyarrow",
    "pandas",
    "snakemake",
    "scikit-learn",
    "sionna-no-rt",
)


class Strict(BaseModel):
    """Refuses keys that it does not know."""

    model_config = ConfigDict(extra="forbid")


class Figure(Strict):
    """One row: what was measured, against what, and whether the target is reached.

    ``value`` is what ``target`` bounds: a ratio of medians over pairs, or the median in ``unit``. ``ours`` and
    ``other`` are medians of wall time in seconds (or of what ``unit`` says), ``*_least`` the best of the runs,
    ``*_cpu`` medians of processor time.
    """

    row: str
    what: str
    against: str
    unit: str
    value: float
    target: float
    sense: Literal["at most", "at least"]
    reached: bool
    runs: int
    ours: float
    ours_least: float | None = None
    ours_cpu: float | None = None
    other: float | None = None
    other_least: float | None = None
    other_cpu: float | None = None
    checks: dict[str, float | str | bool] = {}


class Report(Strict):
    """Every figure of one run of the benchmarks, on one machine."""

    machine: dict[str, str | int | float]
    versions: dict[str, str]
    figures: list[Figure]
    failed: dict[str, str]


@dataclass
class Runs:
    """Wall times, processor times [s] and peaks [MiB] of one side."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: list[float] = field(default_factory=list)

    def add(self, wall: float, cpu: float, peak: float = 0.0) -> None:
        """Record one run."""
        self.wall.append(wall)
        self.cpu.append(cpu)
        self.peak.append(peak)


def machine() -> dict[str, str | int | float]:
    """Processor, count, memory [GiB], load at this moment."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        "processor": names[0] if names else platform.machine(),
        "cpus": os.cpu_count() or 1,
        "memory_gib": round(memory, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_at_start": round(os.getloadavg()[0], 2),
    }


def versions() -> dict[str, str]:
    """Python and the libraries that decide the times."""
    found = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def in_turn(ours: Callable[[], Any], other: Callable[[], Any] | None, runs: int, *, warm: bool = True) -> list[Runs]:
    """Run the sides in this process, A B A B; a first pair is not counted. ``[ours, other]``."""
    sides = [(ours, Runs()), *([(other, Runs())] if other else [])]
    for number in range(runs + warm):
        for side, record in sides:
            wall, cpu = time.perf_counter(), time.process_time()
            side()
            if number >= warm:
                record.add(time.perf_counter() - wall, time.process_time() - cpu)
    return [record for _, record in sides]


def process(command: Iterable[str | Path], folder: Path, environment: dict[str, str] | None = None) -> Runs:
    """Run one whole process to its end: wall and processor time of it and its children, peak of the largest.

    Raises:
        RuntimeError: it ended with another status than 0; the message ends with what it wrote.
    """
    runs, words = Runs(), [str(word) for word in command]
    search = os.pathsep.join([str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings = os.environ | {"PYTHONPATH": search, "PATH": f"{BIN}:{os.environ['PATH']}"} | (environment or {})
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        child = subprocess.Popen(words, cwd=folder, stdout=said, stderr=said, stdin=subprocess.DEVNULL, env=settings)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        if child.returncode:
            tail = said.read().decode(errors="replace")[-2000:]
            raise RuntimeError(f"{' '.join(words)[:300]} ended with {child.returncode}: {tail}")
    runs.add(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
    return runs


def job(command: Iterable[str | Path], folder: Path) -> Runs:
    """Run one program to its end as the workflow's jobs are, which keep the memory that arrays gave back."""
    from workflow_support.plan import job_environment

    kept = {name: value for name, value in job_environment(folder).items() if name.startswith("MALLOC")}
    return process(command, folder, kept)


def processes_in_turn(sides: list[Callable[[], Runs]], runs: int, *, warm: bool = True) -> list[Runs]:
    """Run whole processes in turn, A B A B; a first round is not counted."""
    records = [Runs() for _ in sides]
    for number in range(runs + warm):
        for side, record in zip(sides, records, strict=True):
            one = side()
            if number >= warm:
                record.add(sum(one.wall), sum(one.cpu), max(one.peak))
    return records


def ratio_of_pairs(above: list[float], below: list[float]) -> float:
    """Median over pairs of the quotient."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def figure(
    row: str,
    what: str,
    against: str,
    *,
    ours: Runs,
    target: float,
    sense: Literal["at most", "at least"],
    other: Runs | None = None,
    value: float | None = None,
    unit: str = "ratio",
    checks: dict[str, Any] | None = None,
) -> Figure:
    """A Figure from runs. Without ``value``: the median of ours, or the median over pairs of ours to other.

    For ``at least``, the quotient is the other's time to ours.
    """
    if value is None and other is None:
        value, unit = statistics.median(ours.wall), "s"
    elif value is None:
        pair = (ours.wall, other.wall) if sense == "at most" else (other.wall, ours.wall)
        value = ratio_of_pairs(*pair)
    numbers: dict[str, Any] = {}
    for name, runs in (("ours", ours), ("other", other)):
        if runs is not None:
            numbers |= {name: statistics.median(runs.wall), f"{name}_least": min(runs.wall)}
            numbers |= {f"{name}_cpu": statistics.median(runs.cpu)}
    reached = value <= target if sense == "at most" else value >= target
    return Figure(
        row=row,
        what=what,
        against=against,
        unit=unit,
        value=_short(value),
        target=target,
        sense=sense,
        reached=bool(reached),
        runs=len(ours.wall),
        checks={name: _short(check) for name, check in (checks or {}).items()},
        **{name: _short(number) for name, number in numbers.items()},
    )


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, float) else value


def parser(description: str | None, runs: int, *, tree: bool = False) -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--runs", type=int, default=runs, help=f"runs of each side that count (default {runs})")
    made.add_argument("--tiny", action="store_true", help="a size that only shows that the benchmark runs")
    made.add_argument("--out", type=Path, help="JSON file of the figures (default: standard output)")
    if tree:
        made.add_argument("--tree", type=Path, required=True, help="a project's folder with finished results")
        made.add_argument("--release", default="v0.1", help="the release of its results (default v0.1)")
    return made


def deliver(figures: list[Figure], options: argparse.Namespace) -> None:
    """Write the figures where they are wanted."""
    text = json.dumps([each.model_dump() for each in figures], indent=1)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")
    else:
        print(text)


def copy_project(target: Path) -> None:
    """Copy the files that git tracks, or would; the results stay behind."""
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


def snakemake(tree: Path, *options: str | Path, cores: int = 2) -> Runs:
    """Run Snakemake in a project's folder."""
    return process([BIN / "snakemake", "--quiet", "all", "--cores", str(cores), *options], tree)


def results_of(tree: Path, release: str) -> Path:
    """Where a release's results stand."""
    return tree / "results" if release == "v0.1" else tree / "results" / "releases" / release
