"""Write the scenes of one split of a matched synthetic set (a twin), with their index and the labels beside it."""

from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.files import parse, read_yaml
from emma.captures.settings import CaptureSet
from emma.data.labels import label_field
from emma.data.release import load_release_config
from emma.data.scenes import SceneChunk, write_scenes
from emma.data.tables import without_pandas
from rfgen.captures.twins import TWIN_SPLITS, generate
from workflow_support.matched import matched_set


def main() -> None:
    """Generate a twin's scenes and write them with their index."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument(
        "--captures", type=Path, required=True, help="config/captures/NAME.yaml, with a twin of its own"
    )
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml: seed, tasks")
    parser.add_argument("--split", choices=TWIN_SPLITS, required=True, help="which split")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file of scenes with samples")
    parser.add_argument(
        "--index",
        type=Path,
        required=True,
        help="their SPLIT.index.parquet, no samples; labels beside",
    )
    arguments = parser.parse_args()
    declared = parse(CaptureSet, read_yaml(arguments.captures), arguments.captures)
    twin = matched_set(declared, arguments.captures)
    release = load_release_config(arguments.release_config)
    if declared.task not in release.tasks:
        raise InputError(f"{arguments.release_config}: tasks: no {declared.task}, the task of {arguments.captures}")
    chunks = generate(twin, declared.name, arguments.split, release.seed)
    scenes = map(SceneChunk.of, chunks)
    write_scenes(arguments.out, arguments.index, scenes, label_field(release.tasks[declared.task]))


if __name__ == "__main__":
    run_script(main)
