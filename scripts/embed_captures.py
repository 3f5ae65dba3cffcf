"""Embed the scenes of every capture set, and of its twin, by one frozen backbone."""

from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from emma.backbones.apart import ApartBackbone
from emma.backbones.config import load_model_config
from emma.backbones.embed import UnsuitedError, write_rows, write_unsuited
from emma.data.tables import without_pandas
from emma.results.layout import Layout


def main() -> None:
    """Write one table per set; where the model does not take the scenes' shape, one that says so."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml")
    parser.add_argument("--weights", type=Path, help="weights that the model's pretrain rule made")
    parser.add_argument("--scenes", type=Path, nargs="+", required=True, help="scene files in captures/SET/")
    parser.add_argument(
        "--out", type=Path, nargs="+", required=True, help="files captures/SET/MODEL/embeddings.parquet"
    )
    arguments = parser.parse_args()
    config = load_model_config(arguments.model_config)
    hidden = tuple(path.parent for path in (*arguments.scenes, *arguments.out))
    with ApartBackbone(config, config, trained=arguments.weights, hidden=hidden) as model:
        for out in arguments.out:
            scenes = [path for path in arguments.scenes if Layout.capture_set_of(path) == Layout.capture_set_of(out)]
            if not scenes:
                raise InputError(f"{out}: no scene file of its set among --scenes")
            try:
                write_rows(out, model, scenes, model.provenance)
            except UnsuitedError as error:
                write_unsuited(out, str(error), model.provenance)


if __name__ == "__main__":
    run_script(main)
