"""One more backbone on a finished tree, against its own embedding programs run alone, one after another."""

import shutil

from measuring import deliver, figure, job, parser, processes_in_turn, results_of, snakemake

from common.files import read_yaml

NAME = "bench_conv"
CONFIG = f"""name: {NAME}
factory: emma.backbones.conv:random_conv
options: {{seed: 12345}}
pretraining: {{}}
"""


def main() -> None:
    """Add the model, time both sides, take it away again."""
    options = parser(__doc__, 3, tree=True).parse_args()
    tree, results = options.tree, results_of(options.tree, options.release)
    config = tree / f"config/models/{NAME}.yaml"
    tasks = sorted(path.name for path in (results / "scenes").iterdir())
    models = [*read_yaml(tree / "config/config.yaml")["models"], NAME]
    kept = {path: path.read_bytes() for path in (results / "leaderboard.json", results / "reports/sim_to_real.json")}

    def clear() -> None:
        for folder in [results / "embeddings" / NAME, results / "folds" / NAME, *results.glob(f"captures/*/{NAME}")]:
            shutil.rmtree(folder, ignore_errors=True)
        # Without the board: a finished one would hide that its run records are gone.
        for path in (results / f"runs/{NAME}.json", *kept):
            path.unlink(missing_ok=True)

    def more():
        clear()
        run = snakemake(tree, "--config", f"release={options.release}", f"models=[{','.join(models)}]")
        if NAME not in (results / "leaderboard.json").read_text():
            raise SystemExit(f"leaderboard.json: no row of {NAME}")
        return run

    def embedding():
        total = None
        for task in tasks:
            scenes = [results / "scenes" / task / f"{split}.parquet" for split in ("TRAIN", "DEV")]
            command = ["python", "scripts/embed.py", "--model-config", config, "--scenes", *scenes]
            one = job([*command, "--out", tree / f"bench_{task}.parquet"], tree)
            (tree / f"bench_{task}.parquet").unlink()
            if total is None:
                total = one
            else:
                total.add(one.wall[0], one.cpu[0], one.peak[0])
        return total

    try:
        config.write_text(CONFIG)
        ours, other = processes_in_turn([more, embedding], options.runs, warm=False)
    finally:
        clear()
        for path, content in kept.items():
            path.write_bytes(content)
        config.unlink(missing_ok=True)
    what = f"one more backbone (random_conv), {len(tasks)} tasks, release {options.release}, 2 cores"
    against = "its embedding programs alone, in turn"
    deliver([figure("one_more", what, against, ours=ours, other=other, target=2.0, sense="at most")], options)


if __name__ == "__main__":
    main()
