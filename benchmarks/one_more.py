"""One more backbone on a finished tree, against its own embedding programs run alone, one after another."""

import shutil

from common import deliver, figure, parser, process, processes_in_turn, results_of, snakemake

from emma.files import read_yaml

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
    board = (results / "leaderboard.json").read_bytes()

    def clear() -> None:
        for place in ("embeddings", "folds"):
            shutil.rmtree(results / place / NAME, ignore_errors=True)
        (results / f"runs/{NAME}.json").unlink(missing_ok=True)
        (results / "leaderboard.json").write_bytes(board)

    def more():
        clear()
        return snakemake(tree, "--config", f"release={options.release}", f"models=[{','.join(models)}]")

    def embedding():
        total = None
        for task in tasks:
            scenes = [results / "scenes" / task / f"{split}.parquet" for split in ("TRAIN", "DEV")]
            command = ["python", "scripts/embed.py", "--model-config", config, "--scenes", *scenes]
            one = process([*command, "--out", tree / f"bench_{task}.parquet"], tree)
            (tree / f"bench_{task}.parquet").unlink()
            if total is None:
                total = one
            else:
                total.add(one.wall[0], one.cpu[0], one.peak[0])
        return total

    try:
        config.write_text(CONFIG)
        ours, other = processes_in_turn([more, embedding], options.runs, warm=False)
        ranked = NAME in (results / "leaderboard.json").read_text()
    finally:
        clear()
        config.unlink(missing_ok=True)
    what = f"one more backbone (random_conv), {len(tasks)} tasks, release {options.release}, 2 cores"
    checks = {"on_the_board": ranked}
    against = "its embedding programs alone, in turn"
    deliver(
        [figure("one_more", what, against, ours=ours, other=other, target=2.0, sense="at most", checks=checks)], options
    )


if __name__ == "__main__":
    main()
