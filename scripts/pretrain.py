"""Train the weights of one model on the release's PRETRAIN pool, by the function that its config names."""

import logging
from pathlib import Path

from common.errors import InputError, OneLineParser, natural, run_script
from common.files import atomic
from common.rows import RowFile
from emma.backbones.apart import made_apart
from emma.backbones.config import load_model_config
from emma.backbones.load import load_function, weights_bytes
from emma.data.scenes import iterate_scenes
from emma.data.tables import without_pandas

#: Seconds that training may take: a month.
LONGEST = 30 * 86400.0


def main() -> None:
    """Read the pools, without their labels, train, and write safetensors."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml")
    parser.add_argument("--pools", type=Path, nargs="+", required=True, help="scene files TASK/PRETRAIN.parquet")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed")
    parser.add_argument("--out", type=Path, required=True, help="weights, safetensors")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = load_model_config(arguments.model_config)
    if config.pretrain is None:
        raise InputError(f"{arguments.model_config}: pretrain: expected the function that trains the model")
    rule, pools = config.pretrain, dict(map(_pool, arguments.pools))
    kept = [pool.fileno() for pool in pools.values()]

    def train(root: Path) -> bytes:
        function = load_function(rule.function, f"{arguments.model_config}: pretrain.function", root)
        try:
            return weights_bytes(function(pools, arguments.seed, **rule.options))
        except TypeError as error:
            raise InputError(f"{arguments.model_config}: pretrain.options: {error}") from None

    made = made_apart(config, train, patience=LONGEST, kept=kept)
    with atomic(arguments.out) as temporary:
        temporary.write_bytes(made)


def _pool(path: Path) -> tuple[str, RowFile]:
    """Task and samples of a pool's scenes, complex64 ``[N, A, T]``."""
    pool: RowFile | None = None
    for table, samples in iterate_scenes(path):
        if pool is None:
            task, pool = table["task"][0].as_py(), RowFile(samples.shape[1:], samples.dtype)
        pool.append(samples)
    assert pool is not None, "a scene file has a scene"
    return task, pool


if __name__ == "__main__":
    run_script(main)
