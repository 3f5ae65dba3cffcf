"""Freeze generated scenes into the DataReleaseManifest."""

from pathlib import Path

import rfgen
from common.errors import InputError, OneLineParser, run_script
from common.files import write_json
from emma.data.freezing import freeze
from emma.data.holdout import load_commitment
from emma.data.release import load_release_config, manifest_record
from emma.data.tables import without_pandas
from emma.results.layout import Layout
from emma.tasks import Split, TaskID


def main() -> None:
    """Check the scenes of every task against its TaskSpec and write the manifest with its hash."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml")
    parser.add_argument(
        "--indexes", type=Path, nargs="+", required=True, help="files TASK/SPLIT.index.parquet, labels beside"
    )
    parser.add_argument("--out", type=Path, required=True, help="the manifest, JSON")
    arguments = parser.parse_args()
    config = load_release_config(arguments.release_config)
    paths: dict[TaskID, dict[Split, Path]] = {}
    for path in arguments.indexes:
        try:
            names = Layout.split_of(path)
            task, split = TaskID(names[0]), Split(names[1])
        except ValueError as error:
            raise InputError(f"{path}: {error}, expected a path TASK/SPLIT.index.parquet") from None
        paths.setdefault(task, {})[split] = path
    opened = any(Split.HOLDOUT in own for own in paths.values())
    commitment = load_commitment(arguments.release_config) if opened else None
    manifest = freeze(config, paths, rfgen.__version__, rfgen.source_digest(), commitment)
    write_json(arguments.out, manifest_record(manifest))


if __name__ == "__main__":
    run_script(main)
