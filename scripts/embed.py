"""Embed the scenes of one task by one frozen backbone."""

from pathlib import Path

from threadpoolctl import threadpool_limits

from common.errors import OneLineParser, run_script
from emma.backbones.config import load_model_config
from emma.backbones.dense import contracts_of
from emma.backbones.embed import write_embeddings
from emma.backbones.load import load_backbone
from emma.data.tables import without_pandas


def main() -> None:
    """Load the backbone, stream the scenes through it, write one Parquet table."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml")
    parser.add_argument("--scenes", type=Path, nargs="+", required=True, help="scene files TASK/SPLIT.parquet")
    parser.add_argument("--weights", type=Path, help="weights that a rule made, by training or as a control's")
    windows_help = "windows of the task, where each is embedded by itself: TASK=SAMPLES/HOP"
    parser.add_argument("--windows", nargs="*", default=[], help=windows_help)
    parser.add_argument("--out", type=Path, required=True, help="embeddings, one row per scene")
    arguments = parser.parse_args()
    config = load_model_config(arguments.model_config)
    backbone, provenance = load_backbone(config, trained=arguments.weights)
    own = contracts_of(config, arguments.windows)
    contract = next((own[task] for task in own if task == arguments.scenes[0].parent.name), config)
    with threadpool_limits(1):
        write_embeddings(arguments.out, backbone, arguments.scenes, contract=contract, provenance=provenance)


if __name__ == "__main__":
    run_script(main)
