"""Canonical JSON against RFC 8785's own examples; table hashes against everything that must not count."""

import io
import json
import math
import struct

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from common.hashing import canonical_json, content_hash, sha256, table_hash

# RFC 8785, appendix B: IEEE 754 bits and their form.
RFC_NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]


@pytest.mark.parametrize(("bits", "text"), RFC_NUMBERS)
def test_numbers_of_rfc_8785(bits, text):
    assert canonical_json(struct.unpack(">d", bytes.fromhex(bits))[0]).decode() == text


def test_example_of_rfc_8785():
    # Section 3.2.2, and its canonical form in section 3.2.3.
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"\u002f",
        "literals": [None, True, False],
    }
    text = '{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
    text += '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    assert canonical_json(value) == text.encode()


def test_keys_stand_in_the_order_of_utf_16_units():
    # RFC 8785, section 3.2.3: an emoji (two surrogates, d83d) goes before U+FB33.
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    found = list(json.loads(canonical_json(dict.fromkeys(keys, 0))))
    assert found == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_comes_back_as_itself(value):
    text = canonical_json(value).decode()
    assert float(text) == value
    assert text == text.lower()
    assert len(text) <= 25


FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=200)
def test_canonical_form_is_a_fixed_point_and_says_the_same(value):
    text = canonical_json(value)
    again = json.loads(text, parse_int=float)  # a whole number of JSON is the double nearest to it
    assert again == value
    assert canonical_json(again) == text


def test_numpy_scalars_and_tuples_hash_as_python_values():
    assert canonical_json({"a": (np.int64(1), np.float32(0.5), np.bool_(True))}) == b'{"a":[1,0.5,true]}'
    assert content_hash({"b": 1, "a": 2}) == content_hash({"a": 2.0, "b": 1.0})


def test_no_two_seeds_are_one():
    assert canonical_json(2**53 + 1) == b"9007199254740993"


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, {1: 2}, {None: 1}, b"ab", bytearray(b"a"), {1, 2}, 1j, "\ud800", object()]
)
def test_what_is_not_json_is_refused(value):
    with pytest.raises(ValueError):
        canonical_json([value])


IDS = ["c", "a", "b", "d"]
COLUMNS = {
    "number": pa.array([1.5, None, -2.0, 0.0]),
    "whole": pa.array([3, 1, None, 2], pa.int32()),
    "truth": pa.array([True, None, False, True]),
    "text": pa.array(["u", "", None, "ü"]),
    "list": pa.array([[1.0, 2.0], [], None, [3.0]], pa.list_(pa.float32())),
    "fixed": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], None], pa.list_(pa.float32(), 2)),
    "large": pa.array(["u", "", None, "w"], pa.large_string()),
    "words": pa.array([["a", None], [], None, ["b"]], pa.list_(pa.string())),
}


def table(**changes) -> pa.Table:
    return pa.table({"scene_id": IDS} | COLUMNS | changes)


def test_row_order_chunks_slices_and_metadata_do_not_count():
    wanted = table_hash(table())
    for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
        assert table_hash(table().take(order)) == wanted
    padded = pa.concat_tables([table(scene_id=["w", "x", "y", "z"]), table(), table(scene_id=["e", "f", "g", "h"])])
    assert padded.num_rows == 12
    assert table_hash(padded.slice(4, 4)) == wanted
    assert table_hash(padded.combine_chunks().slice(4, 4)) == wanted
    assert table_hash(pa.concat_tables([table().slice(row, 1) for row in range(4)])) == wanted
    assert table_hash(table().replace_schema_metadata({"a": "b"})) == wanted


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"store_schema": False},
        {"use_dictionary": False, "compression": "zstd"},
        {"row_group_size": 1},
        {"use_compliant_nested_type": False},
    ],
)
def test_a_turn_through_parquet_does_not_count(options):
    # Without its stored schema, Parquet knows neither large strings nor fixed sizes: those are types of their own.
    wanted = table().drop_columns(["fixed", "large"])
    buffer = io.BytesIO()
    pq.write_table(wanted, buffer, **options)
    assert table_hash(pq.read_table(buffer)) == table_hash(wanted)


def test_dictionary_encoding_does_not_count():
    encoded = table(text=COLUMNS["text"].dictionary_encode())
    assert table_hash(encoded) == table_hash(table())
    halves = [encoded.slice(0, 2), table(text=pa.array(["q", "", None, "ü"]).dictionary_encode()).slice(2)]
    assert table_hash(pa.concat_tables(halves)) == table_hash(table())


def test_equal_numbers_hash_equal():
    assert table_hash(table(number=pa.array([1.5, None, -2.0, -0.0]))) == table_hash(table())
    first, second = np.array([0x7FF8000000000000, 0xFFF8000000000001], np.uint64).view(np.float64)
    assert table_hash(table(number=[first, 1.0, 2.0, 3.0])) == table_hash(table(number=[second, 1.0, 2.0, 3.0]))


DIFFERENT = [
    {},
    {"number": pa.array([1.5, 0.0, -2.0, 0.0])},
    {"number": pa.array([1.5, math.nan, -2.0, 0.0])},
    {"number": pa.array([1.5, None, -2.0, 5e-324])},
    {"number": pa.array([1.5, None, -2.0, 0.0], pa.float32())},
    {"whole": pa.array([3, 1, 0, 2], pa.int32())},
    {"whole": pa.array([3, 1, None, 2], pa.int64())},
    {"truth": pa.array([True, False, False, True])},
    {"text": pa.array(["u", None, None, "ü"])},
    {"text": pa.array(["", "u", None, "ü"])},
    {"text": pa.array(["u", "", None, "u\u0308"])},
    {"list": pa.array([[1.0], [2.0], None, [3.0]], pa.list_(pa.float32()))},
    {"list": pa.array([[1.0, 2.0], None, [], [3.0]], pa.list_(pa.float32()))},
    {"list": pa.array([[1.0, 2.0], [], None, [3.0]], pa.list_(pa.float64()))},
    {"fixed": pa.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [0.0, 0.0]], pa.list_(pa.float32(), 2))},
    {"list": pa.array([[1.0, 1.0], [], None, [1.0]], pa.list_(pa.float32()))},
    {"list": pa.array([[1.0], [1.0], None, [1.0]], pa.list_(pa.float32()))},
    {"words": pa.array([["a", ""], [], None, ["b"]], pa.list_(pa.string()))},
    {"words": pa.array([["a"], [None], None, ["b"]], pa.list_(pa.string()))},
    {"other": pa.array([1, 2, 3, 4])},
    {"scene_id": ["c", "a", "b", "e"]},
]


def test_what_counts_tells_tables_apart():
    hashes = [table_hash(table(**changes)) for changes in DIFFERENT]
    hashes += [
        table_hash(table().slice(0, 3)),
        table_hash(table().slice(0, 0)),
        table_hash(table().rename_columns([*table().column_names[:-1], "renamed"])),
    ]
    assert len(set(hashes)) == len(hashes)


@given(
    st.lists(st.tuples(st.integers(0, 99), st.text(), st.floats(width=32)), unique_by=lambda row: row[0], max_size=8),
    st.randoms(),
)
@settings(max_examples=60, deadline=None)
def test_any_order_of_rows_hashes_the_same(rows, random):
    def hashed(values):
        ids, texts, numbers = ([row[column] for row in values] for column in range(3))
        return table_hash(
            pa.table(
                {
                    "scene_id": pa.array([str(i) for i in ids], pa.string()),
                    "t": pa.array(texts, pa.string()),
                    "n": pa.array(numbers, pa.float32()),
                }
            )
        )

    shuffled = list(rows)
    random.shuffle(shuffled)
    assert hashed(shuffled) == hashed(rows)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([b"a", b"b"]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([1, 2], pa.timestamp("s")),
        pa.array([None, None]),
        pa.array([1, 2], pa.decimal128(5, 2)),
        pa.array([[b"a"], []]),
    ],
)
def test_types_without_a_canonical_form_are_refused(column):
    with pytest.raises(ValueError, match="no canonical form"):
        table_hash(pa.table({"scene_id": ["b", "a"], "x": column}))


@pytest.mark.parametrize("keys", [["a", "a"], ["a", None], [None, None]])
def test_keys_must_be_present_and_unique(keys):
    with pytest.raises(ValueError, match="present and unique"):
        table_hash(pa.table({"scene_id": pa.array(keys, pa.string())}))


def test_hashes_that_were_published_stay():
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert content_hash({"a": [1, 2.5, "é"]}) == sha256('{"a":[1,2.5,"é"]}'.encode())
    assert table_hash(pa.table({"scene_id": ["b", "a"], "x": [1.0, None], "t": ["u", "v"]})) == PINNED


PINNED = "bfe002da6232657de04306ae107c4c6e71372845396f56efc9204a8ec17acf4e"
