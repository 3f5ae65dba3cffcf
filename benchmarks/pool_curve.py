"""The score of ssl_conv on E-LOC-AOA against the size of its unlabelled pool, training time beside it.

    python benchmarks/pool_curve.py [--release NAME] [--sizes 0 75 150 300 600]

Size 0 is the untrained network. Every size takes the same number of steps, that of the whole pool at the config's
epochs, so that the curve shows scenes and not steps.
"""

import math
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from common.errors import OneLineParser, run_script  # noqa: E402
from common.files import parse  # noqa: E402
from emma.backbones.config import load_model_config  # noqa: E402
from emma.backbones.contrastive import train  # noqa: E402
from emma.backbones.conv import random_conv, ssl_conv  # noqa: E402
from emma.backbones.embed import embed_batch  # noqa: E402
from emma.data.release import load_release_config  # noqa: E402
from emma.evaluation.probes import TaskFolds  # noqa: E402
from rfgen import scenes  # noqa: E402
from rfgen.channels import split_table  # noqa: E402
from rfgen.recipe import Recipe  # noqa: E402

TASK = "E-LOC-AOA"


def main() -> None:
    """Make the scenes, train and score at each size, print one line each."""
    import pyarrow as pa

    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release", default="v0.1", help="a release of config/releases")
    parser.add_argument("--sizes", type=int, nargs="+", default=[0, 75, 150, 300, 600], help="scenes of the pool")
    arguments = parser.parse_args()
    path = ROOT / f"config/releases/{arguments.release}.yaml"
    release, model = load_release_config(path), load_model_config(ROOT / "config/models/ssl_conv.yaml")
    recipe, spec = parse(Recipe, release.rfgen, path), release.tasks[TASK]
    made = {}
    for split in ("TRAIN", "DEV", "PRETRAIN"):
        rays = split_table(recipe, split, release.seed)
        chunks = list(scenes.generate(recipe, TASK, split, rays, release.seed))
        columns = {name: [x for chunk in chunks for x in chunk.metadata[name]] for name in chunks[0].metadata}
        columns |= {name: [x for chunk in chunks for x in chunk.labels[name]] for name in chunks[0].labels}
        columns["scene_id"] = [f"{split}{row:06d}" for row in range(len(columns["task"]))]
        made[split] = pa.table(columns), np.concatenate([chunk.iq for chunk in chunks])
    folds = TaskFolds(spec, made["TRAIN"][0], made["DEV"][0])
    options, pool = dict(model.pretrain.options), made["PRETRAIN"][1]
    steps = options.pop("epochs") * math.ceil(len(pool) / options["batch"])
    for size in arguments.sizes:
        start = time.process_time()
        if size:
            epochs = max(1, round(steps / math.ceil(min(size, len(pool)) / options["batch"])))
            picked = pool[:: max(1, len(pool) // size)][:size]
            backbone = ssl_conv(train({TASK: picked}, 0, epochs=epochs, **options))
        else:
            backbone = random_conv(antennas="8")
        seconds = time.process_time() - start
        embedded = tuple(embed_batch(backbone, made[s][1], made[s][0], model) for s in ("TRAIN", "DEV"))
        score = folds.score(embedded, folds.readout).score
        print(f"{size:5d} scenes: {score:.2f} {spec.unit}, {seconds:.0f} s of one core for 8 antennas", flush=True)


if __name__ == "__main__":
    run_script(main)
