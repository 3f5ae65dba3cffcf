"""Convert a capture set to canonical scenes, with a record of what was converted."""

import json
from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.files import parse
from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, load_capture_set
from emma.data.release import load_release_config
from emma.data.tables import without_pandas


def main() -> None:
    """Read the set by its adapter and write scenes, index, labels and record; all or none."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--entry", required=True, help="the set's entry of real_captures, as JSON")
    parser.add_argument("--root", type=Path, required=True, help="the folder of the set")
    parser.add_argument("--release-config", type=Path, help="config/releases/NAME.yaml, whose tasks the labels fit")
    parser.add_argument("--out", type=Path, required=True, help="Parquet file of scenes with samples")
    parser.add_argument("--index", type=Path, required=True, help="their index.parquet, no samples; labels beside it")
    parser.add_argument("--record", type=Path, required=True, help="the conversion record, JSON")
    arguments = parser.parse_args()
    try:
        content = json.loads(arguments.entry)
    except ValueError:
        raise InputError("--entry: expected an entry of real_captures as JSON") from None
    entry = parse(CaptureEntry, content, "--entry")
    tasks = load_release_config(arguments.release_config).tasks if arguments.release_config else None
    declared = load_capture_set(Path(), entry, tasks)
    adapter(arguments.root, entry, declared.scene).convert(arguments.out, arguments.index, arguments.record)


if __name__ == "__main__":
    run_script(main)
