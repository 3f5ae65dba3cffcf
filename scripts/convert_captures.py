"""Convert a capture set to canonical scenes, with a record of what was converted."""

import json
from pathlib import Path

from common.confine import limit_memory
from common.errors import InputError, OneLineParser, run_script
from common.files import parse
from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, load_capture_set
from emma.data.release import load_release_config
from emma.data.tables import without_pandas
from rfgen.recipe import Recipe
from workflow_support.captures import fitted_scenes


def main() -> None:
    """Read the set by its adapter and write scenes, index, labels and record; all or none."""
    without_pandas()
    limit_memory()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--entry", required=True, help="the set's entry of real_captures, as JSON")
    parser.add_argument(
        "--release-config", type=Path, required=True, help="config/releases/NAME.yaml, whose scenes a set may have"
    )
    parser.add_argument("--root", type=Path, required=True, help="the folder of the set")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file of scenes with samples")
    parser.add_argument("--index", type=Path, required=True, help="their index.parquet, no samples; labels beside it")
    parser.add_argument("--record", type=Path, required=True, help="the conversion record, JSON")
    arguments = parser.parse_args()
    try:
        content = json.loads(arguments.entry)
    except ValueError:
        raise InputError("--entry: expected an entry of real_captures as JSON") from None
    entry = parse(CaptureEntry, content, "--entry")
    release = load_release_config(arguments.release_config)
    declared = load_capture_set(Path(), entry, release.tasks)
    recipe = parse(Recipe, release.rfgen, f"{arguments.release_config}: rfgen")
    fitted = fitted_scenes(declared, recipe, release.release, f"config/captures/{entry.name}.yaml")
    made = adapter(arguments.root, entry, declared.scene)
    made.convert(arguments.out, arguments.index, arguments.record, fitted)


if __name__ == "__main__":
    run_script(main)
