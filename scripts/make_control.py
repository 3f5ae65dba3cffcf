"""Make the weights of a model's control: every tensor permuted, running statistics estimated on the PRETRAIN pools."""

import logging
from pathlib import Path

from common.errors import InputError, OneLineParser, natural, run_script
from common.files import atomic
from common.threads import one_thread
from emma.backbones.apart import made_apart
from emma.backbones.config import ControlConfig, load_model_config
from emma.backbones.controls import control_weights, original_weights, read_pool
from emma.backbones.load import weights_bytes, weights_file
from emma.data.tables import without_pandas


def main() -> None:
    """Read the model's weights and the pools, without their labels, and write safetensors."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.control.yaml, no file")
    parser.add_argument("--weights", type=Path, help="weights that the model's pretrain rule made")
    parser.add_argument("--pools", type=Path, nargs="*", default=[], help="scene files TASK/PRETRAIN.parquet")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed")
    parser.add_argument("--out", type=Path, required=True, help="weights, safetensors")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = load_model_config(arguments.model_config)
    if not isinstance(config, ControlConfig):
        raise InputError(f"{arguments.model_config}: expected the name of a control, NAME.control.yaml")
    pools = {path.parent.name: read_pool(path) for path in arguments.pools}
    weights = original_weights(config, trained=arguments.weights)

    def make(root: Path) -> bytes:
        with one_thread():
            return weights_bytes(control_weights(config, weights, pools, arguments.seed, root))

    made = made_apart(config, make, weights=weights_file(config, Path.cwd(), arguments.weights))
    with atomic(arguments.out) as temporary:
        temporary.write_bytes(made)


if __name__ == "__main__":
    run_script(main)
