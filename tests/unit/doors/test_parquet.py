"""Tables from elsewhere: footers and pages that lie, texts without end, and types that are the same logically."""

import resource
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.data.foreign import foreign_schema, inspect_parquet, read_untrusted
from emma.data.tables import check_schema, read_table

from .lies import lists

NUMBERS = pa.schema([pa.field("scene_id", pa.string(), nullable=False), pa.field("scores", pa.list_(pa.float64()))])
SCORES = pa.schema([NUMBERS.field("scores")])
TEXTS = pa.schema([NUMBERS.field("scene_id"), pa.field("scores", pa.list_(pa.string()))])


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def refused(path, schema, match):
    """One line, within ten seconds and a gigabyte."""
    start, before = time.process_time(), peak()
    with pytest.raises(InputError, match=match) as error:
        read_untrusted(path, schema)
    assert time.process_time() - start < 10 and peak() - before < 2**30
    assert len(str(error.value)) < 500


def test_a_file_by_hand_is_read(tmp_path):
    (tmp_path / "t").write_bytes(lists())
    assert read_untrusted(tmp_path / "t", SCORES)["scores"].to_pylist() == [[0.0] * 10]


LIES = {
    "a list that its footer makes short": ({"values": 2**29}, "takes more than 768 MB to read"),
    "rows of a footer": ({"told_rows": 2**40}, "rows, expected at most"),
    "fewer rows than none": ({"told_rows": -1}, "-1 rows, expected at most"),
    "values of a footer": ({"told": 2**40}, "more values than a table"),
    "fewer values than none": ({"told": -1}, "more values than a table"),
    "bytes of a footer": ({"size": 2**40}, "more values than a table"),
    "one group 300,000 times": ({"groups": 300_000}, "pieces, expected|bytes, expected"),
    "5,000 columns": ({"names": [f"c{i}" for i in range(5_000)]}, "5000 columns, expected at most 256"),
}


@pytest.mark.parametrize("kind", LIES)
def test_a_file_that_lies_is_one_line(tmp_path, kind):
    told, match = LIES[kind]
    (tmp_path / "t").write_bytes(lists(**told))
    refused(tmp_path / "t", SCORES, match)
    with pytest.raises(InputError):
        inspect_parquet(tmp_path / "t") if "short" not in kind else read_untrusted(tmp_path / "t", SCORES)


def test_a_footer_of_half_a_file_is_refused_unread(tmp_path):
    with (tmp_path / "t").open("wb") as file:
        file.truncate(2**26)
        file.seek(0, 2)
        file.write((2**25).to_bytes(4, "little") + b"PAR1")
    refused(tmp_path / "t", SCORES, "a footer of 33554432 bytes")


def test_long_texts_by_few_bytes_are_one_line(tmp_path):
    text = pa.array(["n" * 2000])
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_500_000, np.int32)), text)
    offsets = pa.array(np.arange(0, 2_500_001, 500, dtype=np.int32))
    table = pa.table({"scene_id": [str(i) for i in range(5000)], "scores": pa.ListArray.from_arrays(offsets, column)})
    pq.write_table(table, tmp_path / "t", store_schema=False)
    assert (tmp_path / "t").stat().st_size < 100_000
    refused(tmp_path / "t", TEXTS, "scores: texts of more than 268435456 bytes")


def test_one_long_text_is_refused_by_its_length(tmp_path):
    pq.write_table(pa.table({"scene_id": ["x" * 2**23], "scores": [[1.0]]}), tmp_path / "t")
    refused(tmp_path / "t", NUMBERS, "scene_id: 8388608 bytes, expected at most 256")


def not_utf8(kind):
    return pa.array([b"\xff\xfe"], pa.binary()).view(kind)


def test_ids_that_are_not_utf8_are_one_line(tmp_path):
    pq.write_table(pa.table({"scene_id": not_utf8(pa.string()), "scores": [[1.0]]}), tmp_path / "t")
    refused(tmp_path / "t", NUMBERS, "Invalid UTF8")
    with pytest.raises(InputError, match="Invalid UTF8"):
        inspect_parquet(tmp_path / "t")
    with pytest.raises(InputError, match="scene_id: expected text in UTF-8"):
        read_table(tmp_path / "t", NUMBERS)


def test_a_schema_of_many_columns_is_compared_in_a_moment():
    many = pa.schema([pa.field(f"c{i}", pa.int8()) for i in range(20_000)])
    start = time.process_time()
    check_schema("t", many, many)
    assert time.process_time() - start < 5


IDS = {
    "large": pa.large_string(),
    "a dictionary": pa.dictionary(pa.int32(), pa.string()),
    "a large dictionary": pa.dictionary(pa.int8(), pa.large_string()),
    "a view": pa.string_view(),
}


@pytest.mark.parametrize("kind", IDS)
def test_equal_texts_are_accepted(tmp_path, kind):
    ids = pa.array(["a", "b", "a"]).cast(IDS[kind])
    pq.write_table(pa.table({"scene_id": ids, "scores": [[1.0]] * 3}), tmp_path / "t")
    found = read_untrusted(tmp_path / "t", NUMBERS)
    assert found.schema == NUMBERS and found["scene_id"].to_pylist() == ["a", "b", "a"]
    pq.write_table(
        pa.table({"scene_id": ["a"], "scores": pa.array([["no", "yes"]]).cast(pa.list_(IDS[kind]))}), tmp_path / "t"
    )
    assert read_untrusted(tmp_path / "t", TEXTS)["scores"].to_pylist() == [["no", "yes"]]


LISTS = {
    "large": pa.large_list(pa.float64()),
    "of a fixed size": pa.list_(pa.float64(), 2),
    "narrow": pa.list_(pa.float32()),
    "narrow and of a fixed size": pa.list_(pa.float32(), 2),
}


@pytest.mark.parametrize("kind", LISTS)
def test_equal_lists_are_accepted(tmp_path, kind):
    scores = pa.array([[1.0, 2.5], [0.0, -4.0]], LISTS[kind])
    pq.write_table(pa.table({"scene_id": ["a", "b"], "scores": scores}), tmp_path / "t")
    found = read_untrusted(tmp_path / "t", NUMBERS)
    assert found.schema == NUMBERS and found["scores"].to_pylist() == [[1.0, 2.5], [0.0, -4.0]]


def test_pandas_writes_what_is_accepted(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"scene_id": pandas.Categorical(["a", "b"]), "scores": [np.float32([1.5]), np.float32([2])]}
    )
    frame.to_parquet(tmp_path / "t")
    assert read_untrusted(tmp_path / "t", NUMBERS)["scores"].to_pylist() == [[1.5], [2.0]]


OTHERS = {
    "whole numbers": pa.array([[1]], pa.list_(pa.int32())),
    "no list": pa.array([1.0]),
    "lists of lists": pa.array([[[1.0]]]),
    "texts": pa.array([["a"]]),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_another_type_is_refused(tmp_path, kind):
    pq.write_table(pa.table({"scene_id": ["a"], "scores": OTHERS[kind]}), tmp_path / "t")
    refused(tmp_path / "t", NUMBERS, "scores: expected list")


def test_a_number_that_does_not_fit_is_one_line(tmp_path):
    pq.write_table(pa.table({"turn": [2**40]}), tmp_path / "t")
    refused(tmp_path / "t", pa.schema([pa.field("turn", pa.int32())]), "turn: expected int32, found int64")


def test_columns_are_told_before_any_value_is_read(tmp_path):
    (tmp_path / "t").write_bytes(lists(2**29))
    assert foreign_schema(tmp_path / "t").names == ["scores"]
