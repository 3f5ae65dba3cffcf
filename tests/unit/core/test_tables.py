"""Tables that are not what a schema says, joins by id, and matrices in columns."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.columns import lists_to_matrix, matrix_to_lists
from common.errors import InputError
from emma.data.tables import metadata_of, read_table, rows_of, unique_ids, write_table

SCHEMA = pa.schema(
    [
        pa.field("scene_id", pa.string(), nullable=False),
        pa.field("note", pa.string()),
        pa.field("target", pa.float64(), nullable=False),
    ]
)
GOOD = {"scene_id": pa.array(["a", "b"]), "note": pa.array(["x", None]), "target": pa.array([1.0, 2.0])}


def saved(tmp_path, columns, **options):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path, **options)
    return path


BAD = {
    "a column missing": (
        {"scene_id": GOOD["scene_id"], "note": GOOD["note"]},
        "target: column missing, expected double",
    ),
    "one more": (GOOD | {"zeta": pa.array([1, 2])}, "zeta: column not expected"),
    "another type": (GOOD | {"target": pa.array([1, 2])}, "target: expected double, found int64"),
    "a narrower type": (GOOD | {"target": pa.array([1, 2], pa.float32())}, "target: expected double, found float"),
    "large strings": (GOOD | {"note": pa.array(["x", "y"], pa.large_string())}, "note: expected string, found large"),
    "a dictionary": (GOOD | {"note": pa.array(["x", "y"]).dictionary_encode()}, "note: expected string, found dict"),
    "null": (GOOD | {"target": pa.array([1.0, None])}, "target: null, expected a value in every row"),
    "NaN": (GOOD | {"target": pa.array([1.0, np.nan])}, "target: NaN or infinity"),
    "infinity": (GOOD | {"target": pa.array([1.0, -np.inf])}, "target: NaN or infinity"),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_table_of_another_shape_is_refused(tmp_path, kind):
    columns, message = BAD[kind]
    with pytest.raises(InputError, match=rf"t\.parquet: {message}"):
        read_table(saved(tmp_path, columns), SCHEMA)


def test_a_column_that_stands_twice_is_refused(tmp_path):
    doubled = pa.Table.from_arrays([*GOOD.values(), pa.array([3.0, 4.0])], [*GOOD, "target"])
    pq.write_table(doubled, tmp_path / "t.parquet")
    with pytest.raises(InputError, match="target: column occurs twice"):
        read_table(tmp_path / "t.parquet", SCHEMA)


@pytest.mark.parametrize("damage", ["cut", "cut inside", "empty", "text", "a flipped byte"])
def test_a_broken_file_is_refused(tmp_path, damage):
    path = saved(
        tmp_path, {name: pa.concat_arrays([column] * 500) for name, column in GOOD.items()}, compression="zstd"
    )
    data = path.read_bytes()
    cut = data[: len(data) // 2]
    flipped = bytes([*data[:8], data[8] ^ 0xFF, *data[9:]])
    path.write_bytes(
        {"cut": data[:-3], "cut inside": cut, "empty": b"", "text": b"PAR1", "a flipped byte": flipped}[damage]
    )
    with pytest.raises(InputError, match="expected a complete Parquet file"):
        read_table(path, SCHEMA)


def test_missing_files_and_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_table(tmp_path / "t.parquet", SCHEMA)
    with pytest.raises(InputError, match="a folder, expected a regular file"):
        read_table(tmp_path, SCHEMA)


def test_column_order_does_not_count_and_metadata_is_kept(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, pa.table(dict(reversed(GOOD.items()))), {"value": "é"})
    table = read_table(path, SCHEMA)
    assert table.column_names == SCHEMA.names
    assert metadata_of(table)["value"] == "é"
    assert table["note"].to_pylist() == ["x", None]


def test_an_empty_table_is_a_table(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(path, SCHEMA.empty_table())
    assert read_table(path, SCHEMA).num_rows == 0


def test_repeated_ids_are_named():
    unique_ids("t", pa.chunked_array([["a"], ["b"]]))
    unique_ids("t", pa.chunked_array([], pa.string()))
    with pytest.raises(InputError, match="t: scene_id: b occurs twice"):
        unique_ids("t", pa.chunked_array([["a", "b"], ["b"]]))


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_rows_are_joined_by_id_however_they_are_chunked(data):
    ids = data.draw(st.lists(st.text(max_size=3), unique=True, max_size=12))
    wanted = data.draw(st.permutations(ids).map(lambda order: order[: len(order) // 2]) if ids else st.just([]))
    cut = data.draw(st.integers(0, len(ids)))
    chunked = pa.chunked_array([pa.array(ids[:cut], pa.string()), pa.array(ids[cut:], pa.string())])
    padded = pa.array(["?", *wanted, "?"], pa.string()).slice(1, len(wanted))
    for asked in (padded, pa.chunked_array([padded]), pa.chunked_array([padded.slice(0, 1), padded.slice(1)])):
        assert [ids[row] for row in rows_of(chunked, asked, "t")] == wanted


def test_a_missing_id_is_named():
    with pytest.raises(InputError, match="t: scene_id: z is missing"):
        rows_of(pa.chunked_array([["a", "b"]]), pa.chunked_array([["a"], ["z"]]), "t")
    with pytest.raises(InputError, match="t: scene_id: z is missing"):
        rows_of(pa.chunked_array([], pa.string()), pa.array(["z"]), "t")


@given(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3))
@settings(deadline=None)
def test_a_matrix_comes_back_from_lists(rows, width, cut):
    matrix = np.arange(rows * width, dtype=np.float64).reshape(rows, width)
    column = matrix_to_lists(matrix)
    assert column.null_count == 0
    start = min(cut, rows)
    for chunks in ([column], [column.slice(0, start), column.slice(start)]):
        np.testing.assert_array_equal(lists_to_matrix(pa.chunked_array(chunks), width, "t"), matrix)
    np.testing.assert_array_equal(lists_to_matrix(pa.chunked_array([column.slice(start)]), width, "t"), matrix[start:])
    strided = np.repeat(matrix, 2, axis=1)[:, ::2]
    np.testing.assert_array_equal(lists_to_matrix(pa.chunked_array([matrix_to_lists(strided)]), width, "t"), matrix)


@pytest.mark.parametrize(
    "lists", [[[1.0, 2.0], [3.0]], [[1.0], []], [[1.0, 2.0], None], [[1.0, None], [2.0, 3.0]], [None]]
)
def test_lists_of_another_length_and_nulls_are_refused(lists):
    with pytest.raises(InputError, match="expected lists of 2 numbers"):
        lists_to_matrix(pa.chunked_array([pa.array(lists, pa.list_(pa.float64()))]), 2, "t")
