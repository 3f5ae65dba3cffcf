"""What Snakemake takes to find that nothing is to do, and to plan the jobs of 200 models on the twelve tasks."""

import re
import subprocess

from measuring import BIN, Runs, deliver, figure, parser, process, processes_in_turn

CONFIG = """name: {name}
factory: emma.backbones.conv:random_conv
options: {{seed: {seed}}}
pretraining: {{}}
"""


def main() -> None:
    """Time dry runs on finished results, and with configs of models that nobody has run."""
    options = parser(__doc__, 3, tree=True).parse_args()
    tree, count = options.tree, 3 if options.tiny else 200
    base = [BIN / "snakemake", "--dry-run", "--cores", "2", "--config"]
    own, every = f"release={options.release}", f"release={'tiny' if options.tiny else 'v1.0'}"
    names = [f"bench_{number:03d}" for number in range(count)]
    paths = [tree / f"config/models/{name}.yaml" for name in names]

    def dry(*more: str) -> Runs:
        return process([*base, *more], tree)

    idle = subprocess.run([*base, own], cwd=tree, capture_output=True, text=True, check=True)
    nothing = "Nothing to be done" in idle.stdout + idle.stderr
    models = f"models=[{','.join(names)}]"
    try:
        for seed, (name, path) in enumerate(zip(names, paths, strict=True)):
            path.write_text(CONFIG.format(name=name, seed=seed))
        said = subprocess.run(
            [*base, every, models, "--quiet", "rules"], cwd=tree, capture_output=True, text=True, check=True
        )
        jobs = int(re.search(r"^total\s+(\d+)", said.stdout + said.stderr, re.M)[1])
        finished, many = (
            processes_in_turn([side], runs)[0]
            for side, runs in ((lambda: dry(own), options.runs), (lambda: dry(every, models), 1))
        )
    finally:
        for path in paths:
            path.unlink(missing_ok=True)
    deliver(
        [
            figure(
                "dry_run",
                f"dry run, finished results, release {options.release}",
                "6 s",
                ours=finished,
                target=6.0,
                sense="at most",
                checks={"nothing_to_do": nothing},
            ),
            figure(
                "dry_run",
                f"dry run, {count} models, {every}",
                "60 s",
                ours=many,
                target=60.0,
                sense="at most",
                checks={"jobs": jobs},
            ),
        ],
        options,
    )


if __name__ == "__main__":
    main()
