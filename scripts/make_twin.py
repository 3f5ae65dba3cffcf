"""Write the scenes of one split of a capture set's twin."""

from pathlib import Path

from emma.files import OneLineParser, parse, read_yaml, run_script
from emma.real.settings import CaptureSet
from emma.release import load_release_config
from emma.scenes import write_scenes
from emma.tables import without_pandas
from rfgen.captures.twins import TWIN_SPLITS, TwinRecipe, generate


def main() -> None:
    """Generate a twin's scenes and write them with their index."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument(
        "--captures", type=Path, required=True, help="config/captures/NAME.yaml, with a twin of its own"
    )
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml, for its seed")
    parser.add_argument("--split", choices=TWIN_SPLITS, required=True, help="which split")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file of scenes with samples")
    parser.add_argument("--index", type=Path, required=True, help="Parquet file of scenes without samples")
    arguments = parser.parse_args()
    declared = parse(CaptureSet, read_yaml(arguments.captures), arguments.captures)
    recipe = {"twin": {**dict(declared.twin), "task": declared.task.value}} if declared.twin != "release" else {}
    twin = parse(TwinRecipe, recipe, arguments.captures).twin
    chunks = generate(twin, declared.name, arguments.split, load_release_config(arguments.release_config).seed)
    write_scenes(arguments.out, arguments.index, ((chunk.iq, chunk.metadata) for chunk in chunks))


if __name__ == "__main__":
    run_script(main)
