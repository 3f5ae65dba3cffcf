"""Write an oracle's embeddings of one task: the true parameters of its scenes, as the generator knows them."""

import itertools
from pathlib import Path

from generator import true_parameters

from common.errors import InputError, OneLineParser, run_script
from emma.backbones.config import load_model_config
from emma.backbones.embed import write_parts
from emma.data.provenance import Provenance
from emma.data.release import load_release_config
from emma.data.scenes import read_index
from emma.data.tables import open_dataset, without_pandas
from emma.tasks import TaskID


def main() -> None:
    """Draw the parameters of every scene again, in the scenes' order, and write one Parquet table."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml")
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml, of kind oracle")
    parser.add_argument("--task", required=True, help="a task of the release, such as E-LOC-AOA")
    parser.add_argument("--splits", nargs="+", required=True, help="splits, in the order of the two lists that follow")
    parser.add_argument("--channels", type=Path, nargs="+", required=True, help="tables of rays")
    parser.add_argument("--indexes", type=Path, nargs="+", required=True, help="scene indexes TASK/SPLIT.index.parquet")
    parser.add_argument("--out", type=Path, required=True, help="embeddings, one row per scene")
    arguments = parser.parse_args()
    config, model = load_release_config(arguments.release_config), load_model_config(arguments.model_config)
    if not model.truth:
        raise InputError(f"{arguments.model_config}: truth: expected true")
    if not len(arguments.splits) == len(arguments.channels) == len(arguments.indexes):
        raise InputError("--splits, --channels, --indexes: expected as many of each")
    if arguments.task not in config.tasks:
        raise InputError(f"{arguments.release_config}: tasks: {arguments.task} is none of them")
    rays = {split: open_dataset(path) for split, path in zip(arguments.splits, arguments.channels, strict=True)}
    indexes = zip(arguments.splits, arguments.indexes, strict=True)
    ids = {split: read_index(path)["scene_id"] for split, path in indexes}
    parts = true_parameters(config, arguments.release_config, TaskID(arguments.task), rays, ids)
    first = next(parts)
    provenance = Provenance.of(model.name, model, model.pretraining)
    write_parts(arguments.out, itertools.chain([first], parts), first[1].shape[1], provenance)


if __name__ == "__main__":
    run_script(main)
