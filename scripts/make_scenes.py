"""Write the scenes of one task and split, chunk by chunk, with their index and the labels beside it."""

import logging
from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.files import parse
from emma.data.holdout import split_seed
from emma.data.labels import label_field
from emma.data.release import load_release_config
from emma.data.scenes import SceneChunk, write_scenes
from emma.data.tables import open_dataset, without_pandas
from emma.tasks import Split, TaskID
from rfgen.recipe import Recipe
from rfgen.scenes import SPLITS, generate


def main() -> None:
    """Generate scenes and write them with their content hashes."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml")
    parser.add_argument("--task", required=True, help="a task of the release, such as E-LOC-AOA")
    parser.add_argument("--split", choices=SPLITS, required=True, help="which split")
    parser.add_argument("--channels", type=Path, required=True, help="the split's table of rays")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file of scenes with samples")
    parser.add_argument(
        "--index",
        type=Path,
        required=True,
        help="their SPLIT.index.parquet, no samples; labels beside",
    )
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = load_release_config(arguments.release_config)
    recipe = parse(Recipe, config.rfgen, f"{arguments.release_config}: rfgen")
    # The pool is of no split that is scored, and has no labels.
    scored = arguments.split in list(Split) and arguments.task in list(config.tasks)
    label = label_field(config.tasks[TaskID(arguments.task)]) if scored else None
    rays = open_dataset(arguments.channels)
    seed = split_seed(arguments.release_config, config.seed, arguments.split)
    try:
        chunks = generate(recipe, arguments.task, arguments.split, rays, seed)
        scenes = map(SceneChunk.of, chunks)
        write_scenes(arguments.out, arguments.index, scenes, label)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{arguments.release_config}: rfgen: {error}") from None


if __name__ == "__main__":
    run_script(main)
