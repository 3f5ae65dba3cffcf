"""One more network with its control on a finished tree, against its own embedding programs alone, in turn.

The network is ``ssl_conv`` again under another name, with the tree's weights: a trained one, so that the workflow adds
the same network untrained.
"""

import hashlib
import shutil

from measuring import deliver, figure, job, parser, processes_in_turn, results_of, snakemake

from common.files import read_yaml

NAME = "bench_conv"
CONFIG = """name: {name}
factory: emma.backbones.conv:ssl_conv
weights: {weights}
weights_sha256: {sha256}
pretraining: {{}}
"""


def main() -> None:
    """Add the model, time both sides, take it away again."""
    options = parser(__doc__, 3, tree=True).parse_args()
    tree, results = options.tree, results_of(options.tree, options.release)
    config, weights = tree / f"config/models/{NAME}.yaml", tree / f"weights/{NAME}.safetensors"
    tasks = sorted(path.name for path in (results / "scenes").iterdir())
    models = [*read_yaml(tree / "config/config.yaml")["models"], NAME]
    kept = {path: path.read_bytes() for path in (results / "leaderboard.json", results / "reports/sim_to_real.json")}

    def clear() -> None:
        # Without the board: a finished one would hide that its run records are gone.
        for path in [*results.rglob(f"{NAME}*"), *kept]:
            if path.is_dir():
                shutil.rmtree(path)
            else:
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
            command = ["python", "scripts/embed.py", "--model-config", config.relative_to(tree), "--scenes", *scenes]
            one = job([*command, "--out", tree / f"bench_{task}.parquet"], tree)
            (tree / f"bench_{task}.parquet").unlink()
            if total is None:
                total = one
            else:
                total.add(one.wall[0], one.cpu[0], one.peak[0])
        return total

    try:
        weights.parent.mkdir(exist_ok=True)
        shutil.copy2(results / "weights/ssl_conv.safetensors", weights)
        digest = hashlib.sha256(weights.read_bytes()).hexdigest()
        config.write_text(CONFIG.format(name=NAME, weights=weights.relative_to(tree), sha256=digest))
        ours, other = processes_in_turn([more, embedding], options.runs, warm=False)
    finally:
        clear()
        for path, content in kept.items():
            path.write_bytes(content)
        for path in (config, weights):
            path.unlink(missing_ok=True)
    what = f"one more network with its control, {len(tasks)} tasks, release {options.release}, 2 cores"
    against = "its embedding programs alone, in turn"
    deliver([figure("one_more", what, against, ours=ours, other=other, target=1.3, sense="at most")], options)


if __name__ == "__main__":
    main()
