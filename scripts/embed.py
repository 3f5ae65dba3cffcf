"""Embed the scenes of one task by one frozen backbone."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from emma.backbones.apart import ApartBackbone
from emma.backbones.config import load_model_config
from emma.backbones.dense import contracts_of
from emma.backbones.embed import write_rows
from emma.data.tables import without_pandas


def main() -> None:
    """Load the backbone in a process of its own, stream the scenes through it, write one Parquet table."""
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
    own = contracts_of(config, arguments.windows)
    contract = next((own[task] for task in own if task == arguments.scenes[0].parent.name), config)
    hidden = tuple(path.parent for path in (*arguments.scenes, arguments.out))
    with ApartBackbone(config, contract, trained=arguments.weights, hidden=hidden) as model:
        write_rows(arguments.out, model, arguments.scenes, model.provenance)


if __name__ == "__main__":
    run_script(main)
