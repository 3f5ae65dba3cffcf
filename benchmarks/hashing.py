"""Content hashing against hashlib's own SHA-256 of the same bytes."""

import hashlib

import numpy as np
import pyarrow as pa
from measuring import Figure, deliver, figure, in_turn, parser

from common.columns import matrix_to_lists
from common.hashing import sha256, table_hash
from emma.data.embeddings import EMBEDDING_SCHEMA
from emma.data.samples import Stored
from emma.data.scenes import METADATA_SCHEMA, identify_all


def embeddings(rows: int, width: int, runs: int) -> Figure:
    """A table of embeddings, rows in scene order."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((rows, width)).astype(np.float32)
    ids = pa.array([sha256(str(row).encode()) for row in range(rows)])
    table = pa.table([ids, matrix_to_lists(values)], schema=EMBEDDING_SCHEMA)
    ours, other = in_turn(
        lambda: table_hash(table),
        lambda: [hashlib.sha256(part).digest() for part in (values, "".join(ids.to_pylist()).encode())],
        runs,
    )
    return _figure(f"table hash, embeddings {rows} x {width}", ours, other, values.nbytes)


def scenes(count: int, antennas: int, samples: int, runs: int) -> Figure:
    """Scene ids of a chunk: metadata and samples of every scene."""
    rng = np.random.default_rng(0)
    pairs = rng.integers(-32767, 32768, (count, antennas, samples, 2), np.int16)
    stored = Stored(pairs, rng.random(count, np.float32))
    columns = {
        entry.name: rng.standard_normal(count) if entry.type == pa.float64() else [f"{entry.name}"] * count
        for entry in METADATA_SCHEMA
    }
    metadata = pa.table(columns, schema=METADATA_SCHEMA)
    ours, other = in_turn(
        lambda: identify_all(stored, metadata), lambda: [hashlib.sha256(scene).hexdigest() for scene in pairs], runs
    )
    return _figure(f"scene ids, {count} scenes of {antennas} x {samples} samples", ours, other, pairs.nbytes)


def _figure(what: str, ours: object, other: object, size: int) -> Figure:
    rate = {"mebibytes": size / 2**20}
    return figure("hashing", what, "hashlib", ours=ours, other=other, target=0.8, sense="at least", checks=rate)


def main() -> None:
    """Time a table and chunks of short and long scenes."""
    options = parser(__doc__, 7).parse_args()
    if options.tiny:
        made = [embeddings(10, 4, options.runs), scenes(4, 1, 16, options.runs)]
    else:
        made = [
            embeddings(20_000, 256, options.runs),
            scenes(200, 1, 1_024, options.runs),
            scenes(200, 8, 256, options.runs),
            scenes(100, 8, 16_384, options.runs),
        ]
    deliver(made, options)


if __name__ == "__main__":
    main()
