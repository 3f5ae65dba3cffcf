"""Write the scenes of one split of a capture set's twin."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import parse, read_yaml
from emma.captures.settings import CaptureSet
from emma.data.release import load_release_config
from emma.data.scenes import write_scenes
from emma.data.tables import without_pandas
from rfgen.captures.twins import TWIN_SPLITS, TwinRecipe, generate
from rfgen.scenes import scene_columns


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
    write_scenes(arguments.out, arguments.index, ((chunk.iq, scene_columns(chunk)) for chunk in chunks))


if __name__ == "__main__":
    run_script(main)
