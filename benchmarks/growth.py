"""One task with 1, 5 and 25 times its scenes, from rays to a verified board: time and peak memory of every program.

Every job is a process of its own (``--no-hooks``), so that its peak is its own. The models are a deterministic one, a
network that is trained on the pool, which grows as well, and random features of width 2,048.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml
from measuring import BIN, ROOT, Figure, Runs, copy_project, deliver, figure, parser, process, snakemake

from emma.data.extends import read_extended

#: Most that a job of the largest release may hold, against the same job of the smallest, and in MiB.
GROWTH, PEAK = 1.15, 1_500.0

MODELS = ("dsp", "ssl_conv", "wide")
WIDE = {"name": "wide", "factory": "emma.backbones.random_features:random_features", "pretraining": {}}

#: Stands for ``scripts/run.py`` in the copy: runs a job's program, and adds what it used, its children's peak included.
MEASURE = """import json, os, sys, time
start, (program, *options) = time.perf_counter(), sys.argv[1:]
child = os.posix_spawn({python!r}, [{python!r}, f"{{os.environ['EMMA_HOME']}}/scripts/{{program}}.py", *options],
                       os.environ)
_, status, used = os.wait4(child, 0)
line = {{"program": program, "options": options, "wall": time.perf_counter() - start,
        "cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss / 1024}}
with open("jobs.jsonl", "a") as file:
    file.write(json.dumps(line) + "\\n")
sys.exit(os.waitstatus_to_exitcode(status))
"""


def write_release(tree: Path, task: str, times: int) -> str:
    """A release of one task of v0.1 with so many times its scenes, in every split and in the pool; its name."""
    whole = read_extended(ROOT / "config/releases/v0.1.yaml")
    made = whole["rfgen"]["tasks"][task]
    counts = "captures" if "captures" in made else "scenes"
    pool = made[counts].get("PRETRAIN") or whole["rfgen"]["tasks"]["E-LOC-AOA"]["scenes"]["PRETRAIN"]
    made[counts] = {split: times * count for split, count in (made[counts] | {"PRETRAIN": pool}).items()}
    whole["rfgen"]["tasks"], whole["tasks"] = {task: made}, {task: whole["tasks"][task]}
    whole |= {"release": f"times{times}", "stress_regimes": {}}
    (tree / f"config/releases/times{times}.yaml").write_text(yaml.safe_dump(whole))
    return f"times{times}"


def measured_run(tree: Path, release: str, models: Sequence[str]) -> tuple[list[dict], float]:
    """Run a release in a copy of the project: what every job used, and the elapsed seconds of all."""
    told = tree / "jobs.jsonl"
    told.unlink(missing_ok=True)
    (tree / "scripts/run.py").write_text(MEASURE.format(python=str(BIN / "python")))
    config = [f"release={release}", f"models=[{','.join(models)}]", "real_captures=none"]
    whole = snakemake(tree, "--no-hooks", "--config", *config)
    return [json.loads(line) for line in told.read_text().splitlines()], sum(whole.wall)


def run(tree: Path, task: str, times: int, width: int) -> tuple[dict[str, Runs], float, int]:
    """Runs by program and model, elapsed seconds of the whole run, bytes of its results."""
    release = write_release(tree, task, times)
    (tree / "config/models/wide.yaml").write_text(
        yaml.safe_dump(WIDE | {"options": {"width": width, "seed": 0}, "tasks": [task]})
    )
    jobs, elapsed = measured_run(tree, release, MODELS)
    runs: dict[str, Runs] = {}
    for job in jobs:
        runs.setdefault(_name(job), Runs()).add(job["wall"], job["cpu"], job["peak"])
    results = tree / "results/releases" / release
    size = sum(path.stat().st_size for path in results.rglob("*") if path.is_file())
    return runs, elapsed, size


def _name(job: Mapping) -> str:
    """The program of a job, with its model or split."""
    options = " ".join(job["options"])
    part = [model for model in MODELS if f"/{model}" in options] or [
        split for split in ("TRAIN", "DEV", "PRETRAIN") if f"--split {split}" in options
    ]
    return " ".join([job["program"], *part[:1]])


def growth(made: dict[int, tuple[dict[str, Runs], float, int]], task: str) -> list[Figure]:
    """A figure for the time, and for the peak of every program, of the largest release against the smallest."""
    small, large = min(made), max(made)
    cpu = {times: sum(sum(each.cpu) for each in runs.values()) for times, (runs, _, _) in made.items()}
    checks = {f"cpu_s_times{times}": cpu[times] for times in made} | {
        f"results_mb_times{times}": size / 1e6 for times, (_, _, size) in made.items()
    }
    # What every release pays alike, the starts of interpreters, is taken away.
    figures = [
        figure(
            "growth",
            f"processor time, {task} with {large} times the scenes",
            f"{small} times, in proportion",
            ours=Runs([cpu[large]], [cpu[large]]),
            other=Runs([cpu[small] * large / small], [cpu[small]]),
            target=1.0,
            sense="at most",
            checks=checks,
        )
    ]
    for name, runs in sorted(made[large][0].items()):
        before = made[small][0][name]
        peaks = [Runs([max(each.peak)], [sum(each.cpu)]) for each in (runs, before)]
        checks = {
            f"{what}_times{times}": value
            for times, (own, _, _) in made.items()
            if name in own
            for what, value in (("cpu_s", sum(own[name].cpu)), ("peak_mib", max(own[name].peak)))
        }
        shown = figure(
            "growth",
            f"peak of {name}, {task} with {large} times the scenes, MiB",
            f"{small} times",
            ours=peaks[0],
            other=peaks[1],
            target=GROWTH,
            sense="at most",
            checks=checks,
        )
        figures.append(shown.model_copy(update={"reached": shown.reached and shown.ours <= PEAK}))
    return figures


def main() -> None:
    """Run every size, verify the largest, say the figures."""
    made = parser(__doc__, 1)
    made.add_argument("--task", default="E-LOC-LOS", help="the task (default E-LOC-LOS)")
    made.add_argument("--times", type=int, nargs="+", default=[1, 5, 25], help="sizes (default 1 5 25)")
    made.add_argument("--width", type=int, default=2_048, help="width of the wide model (default 2,048)")
    made.add_argument("--tree", type=Path, help="work here, and leave it")
    options = made.parse_args()
    times, width = ([1, 2], 64) if options.tiny else (options.times, options.width)
    with tempfile.TemporaryDirectory() as folder:
        tree = options.tree or Path(folder)
        copy_project(tree)
        sizes = {each: run(tree, options.task, each, width) for each in times}
        verified = process([BIN / "python", "scripts/verify.py", f"results/releases/times{max(times)}"], tree)
    figures = growth(sizes, options.task)
    figures[0].checks["verify_s"] = sum(verified.wall)
    deliver(figures, options)


if __name__ == "__main__":
    main()
