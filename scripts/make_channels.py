"""Write the propagation rays of one split: every link of every environment and band."""

import logging
from pathlib import Path

import pyarrow.parquet as pq

from common.errors import InputError, OneLineParser, run_script
from common.files import atomic, parse
from emma.data.holdout import split_seed
from emma.data.release import load_release_config
from rfgen.recipe import Recipe
from rfgen.scenes import SPLITS


def main() -> None:
    """Read the recipe, draw the rays, write one Parquet table."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml")
    parser.add_argument("--split", choices=SPLITS, required=True, help="which split")
    parser.add_argument("--out", type=Path, required=True, help="Parquet table of rays, one row per link")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    config = load_release_config(arguments.release_config)
    recipe = parse(Recipe, config.rfgen, f"{arguments.release_config}: rfgen")
    from rfgen.channels import SCHEMA, split_parts

    seed = split_seed(arguments.release_config, config.seed, arguments.split)
    with atomic(arguments.out) as temporary, pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
        try:
            for part in split_parts(recipe, arguments.split, seed):
                writer.write_table(part)
        except ValueError as error:
            raise InputError(f"{arguments.release_config}: rfgen: {error}") from None


if __name__ == "__main__":
    run_script(main)
