"""What a release of a hundred times the scenes of v1.0 would take, task by task, projected from a run of v1.0.

Processor time and bytes are taken in proportion to scenes. For time that is a bound from above: ``growth.py`` measures
less than in proportion. The figures are for the scenes and two models without training, one of them a network.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path

from growth import measured_run
from measuring import Runs, copy_project, deliver, figure, parser, results_of

MODELS, TIMES = ("dsp", "random_conv"), 100


def task_of(job: Mapping, tasks: list[str]) -> str | None:
    """The task whose files a job names; None for one that names several, or none."""
    words = " ".join(job["options"])
    named = [task for task in tasks if f"{task}/" in words or f"--task {task}" in words]
    return named[0] if len(named) == 1 else None


def main() -> None:
    """Run the release and add up what each task took."""
    made = parser(__doc__, 1)
    made.add_argument("--release", default="v1.0", help="release to run (default v1.0)")
    options = made.parse_args()
    release = "tiny" if options.tiny else options.release
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_project(tree)
        jobs, _ = measured_run(tree, release, MODELS)
        results = results_of(tree, release)
        tasks = sorted(path.name for path in (results / "scenes").iterdir())
        sizes = {
            task: {
                part: sum(path.stat().st_size for path in results.glob(pattern) if path.is_file()) / 1e9 * TIMES
                for part, pattern in (
                    ("scenes", f"scenes/{task}/*"),
                    ("embeddings", f"embeddings/*/{task}.parquet"),
                    ("folds", f"folds/*/{task}/**/*"),
                )
            }
            for task in tasks
        }
    figures = []
    for task in tasks:
        own = [job for job in jobs if task_of(job, tasks) == task]
        hours = sum(job["cpu"] for job in own) * TIMES / 3600
        programs = {job["program"] for job in own}
        checks = (
            {f"{part}_gb": size for part, size in sizes[task].items()}
            | {
                f"{program}_core_hours": sum(job["cpu"] for job in own if job["program"] == program) * TIMES / 3600
                for program in sorted(programs)
            }
            | {"largest_peak_mib_at_1": max(job["peak"] for job in own)}
        )
        figures.append(
            figure(
                "hundredfold",
                f"core hours of {TIMES} times {task}, {len(MODELS)} models",
                "24 hours",
                ours=Runs([hours], [hours]),
                value=hours,
                unit="h",
                target=24.0,
                sense="at most",
                checks=checks,
            )
        )
    deliver(figures, options)


if __name__ == "__main__":
    main()
