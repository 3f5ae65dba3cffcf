"""Bytes of a release's scene files, against the same samples as pairs of 32-bit floats."""

from pathlib import Path

import pyarrow.parquet as pq
from measuring import Runs, deliver, figure, parser, results_of


def samples_of(path: Path) -> int:
    """Complex samples of a scene file."""
    file = pq.read_metadata(path)
    about = pq.read_schema(path).metadata
    return file.num_rows * int(about[b"antennas"]) * int(about[b"samples"])


def main() -> None:
    """Add up the files of a finished tree."""
    options = parser(__doc__, 1, tree=True).parse_args()
    folder = results_of(options.tree, options.release) / "scenes"
    files = [path for path in folder.glob("*/*.parquet") if path.stem in {"TRAIN", "DEV", "PRETRAIN", "HOLDOUT"}]
    size, floats = sum(path.stat().st_size for path in files), 8 * sum(map(samples_of, files))
    sides = [Runs([total / 1e6], [0.0]) for total in (size, floats)]
    what = f"scene files of {options.release}, MB"
    deliver(
        [figure("scene_bytes", what, "samples as float32", ours=sides[0], other=sides[1], target=0.5, sense="at most")],
        options,
    )


if __name__ == "__main__":
    main()
