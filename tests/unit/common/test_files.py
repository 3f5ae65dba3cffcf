"""Files at the door: one line for whatever is wrong, and nothing half-written."""

import json
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from common.errors import InputError, OneLineParser, natural, run_script
from common.files import atomic, parse, read_json, read_yaml, write_files, write_json, write_text

BAD_JSON = {
    "cut off": b'{"a": 1',
    "empty": b"",
    "a key twice": b'{"a": {"b": 1, "b": 2}}',
    "NaN": b'{"a": NaN}',
    "infinity": b"[-Infinity]",
    "too large": b"[1e999]",
    "5000 digits": b"[" + b"9" * 5000 + b"]",
    "100,000 brackets": b"[" * 100_000,
    "Latin-1": '"é"'.encode("latin-1"),
}


@pytest.mark.parametrize("kind", BAD_JSON)
def test_bad_json_is_refused(tmp_path, kind):
    path = tmp_path / "a.json"
    path.write_bytes(BAD_JSON[kind])
    with pytest.raises(InputError, match=r"a\.json: expected"):
        read_json(path)


BAD_YAML = {
    "broken": b"a: [1",
    "a key twice": b"a: 1\na: 2\n",
    "a nested key twice": b"x:\n  a: 1\n  a: 2\n",
    "a list as key": b"? [a]\n: 1\n",
    "a number as key": b"1: 2\n",
    "no such day": b"a: 2020-13-45\n",
    "no mapping": b"- a\n",
    "empty": b"",
    "a Python object": b"a: !!python/object/apply:os.getcwd []\n",
    "NUL": b"a: \0\n",
    "Latin-1": "a: é".encode("latin-1"),
    "100,000 brackets": b"a: " + b"[" * 100_000,
}


@pytest.mark.parametrize("kind", BAD_YAML)
def test_bad_yaml_is_refused(tmp_path, kind):
    path = tmp_path / "a.yaml"
    path.write_bytes(BAD_YAML[kind])
    with pytest.raises(InputError, match=r"a\.yaml: expected"):
        read_yaml(path)


@pytest.mark.parametrize("read", [read_json, read_yaml])
def test_missing_files_and_folders_are_refused(tmp_path, read):
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nothing")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "file" / "below")


def test_merge_keys_of_yaml_are_no_repetition(tmp_path):
    (tmp_path / "a.yaml").write_text("x: &x {a: 1, b: 2}\ny: {<<: *x, b: 3}\n")
    assert read_yaml(tmp_path / "a.yaml")["y"] == {"a": 1, "b": 3}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
@settings(max_examples=50, deadline=None)
def test_json_comes_back_as_it_was_written(tmp_path_factory, value):
    path = tmp_path_factory.mktemp("json") / "a.json"
    write_json(path, value)
    assert read_json(path) == value
    assert list(path.parent.iterdir()) == [path]


def test_several_files_are_written_all_or_none(tmp_path):
    first, second = tmp_path / "new" / "first.csv", tmp_path / "second.csv"
    write_files({first: b"1", second: b"2"})
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"file/third\.csv: cannot be written .*; expected a writable path"):
        write_files({first: b"3", tmp_path / "file" / "third.csv": b"4"})
    with pytest.raises(InputError, match=r"new: a folder; expected a file name"):
        write_files({second: b"3", tmp_path / "new": b"4"})
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["file", "first.csv", "new", "second.csv"]


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {1, 2}, object()])
def test_what_is_not_json_is_not_written(tmp_path, value):
    path = tmp_path / "a.json"
    write_text(path, "before")
    with pytest.raises((ValueError, TypeError)):
        write_json(path, value)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_writer_that_fails_leaves_what_was_there(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with pytest.raises(KeyboardInterrupt), atomic(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert list(path.parent.iterdir()) == []
    with atomic(path) as temporary:
        temporary.write_text("whole")
        assert not path.exists()
    assert path.read_text() == "whole"


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path):
    path, others = tmp_path / "a[1].json", tmp_path / ".tmp-a1.json-12345678"
    left_behind = tmp_path / ".tmp-a[1].json-12345678"
    left_behind.touch()
    others.touch()
    write_text(path, "whole")
    assert sorted(tmp_path.iterdir()) == sorted([path, others])


class Record(BaseModel, extra="forbid"):
    number: int
    share: float = 0.5
    flag: bool = False
    names: tuple[str, ...] = ()
    anything: Any = None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"number": "5"}, "number: Input should be a valid integer"),
        ({"number": True}, "number: Input should be a valid integer"),
        ({"number": 1.5}, "number: Input should be a valid integer"),
        ({"number": 1, "share": "0.5"}, "share: Input should be a valid number"),
        ({"number": 1, "flag": 1}, "flag: Input should be a valid boolean"),
        ({"number": 1, "names": [1]}, "names.0: Input should be a valid string"),
        ({"number": 1, "names": "ab"}, "names: Input should be a valid array"),
        ({"number": 1, "numbr": 1}, "numbr: unknown key"),
        ({"a": 1, "b": 2}, r"number: Field required \(and 2 more\)"),
        ({"number": 1, "share": float("nan")}, "expected finite numbers"),
        ({"number": 1, "anything": [float("inf")]}, "expected finite numbers"),
        ([], r"\(top level\)"),
        (None, r"\(top level\)"),
    ],
)
def test_parse_names_source_key_and_expectation(value, message):
    with pytest.raises(InputError, match=f"a.yaml: {message}") as caught:
        parse(Record, value, "a.yaml")
    assert "\n" not in str(caught.value)


class Inner(BaseModel, extra="forbid"):
    sample_rate_hz: float
    kind: Literal["circular", "linear"] = "linear"


class Other(BaseModel, extra="forbid"):
    spacing_m: float
    kind: Literal["other"] = "other"


class Outer(BaseModel, extra="forbid"):
    scenes: dict[Literal["TRAIN", "DEV"], list[Annotated[Inner | Other, Field(discriminator="kind")] | None]] = {}
    plain: Inner | None = None


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"scens": {}}, "scens: unknown key, did you mean scenes?"),
        ({"SCENES": {}}, "SCENES: unknown key, did you mean scenes?"),
        ({"other": {}}, "other: unknown key"),
        ({"plain": {"sample_rate_hz": 1.0, "sample_rate": 1.0}}, "plain.sample_rate: unknown key, did you mean "),
        ({"plain": {"sample_rate_hz": 1.0, "spacing": 1.0}}, "plain.spacing: unknown key"),
        (
            {"scenes": {"DEV": [{"kind": "linear", "sample_rate_hz": 1.0, "samplerate_hz": 1.0}]}},
            "scenes.DEV.0.linear.samplerate_hz: unknown key, did you mean sample_rate_hz?",
        ),
        ({"scenes": {"TRIAN": []}}, "scenes.TRIAN.[key]: Input should be 'TRAIN' or 'DEV', did you mean TRAIN?"),
        ({"plain": {"sample_rate_hz": 1.0, "kind": "circulr"}}, "should be 'circular' or 'linear', did you mean "),
        ({"plain": {"sample_rate_hz": 1.0, "kind": 3}}, "plain.kind: Input should be 'circular' or 'linear'"),
    ],
)
def test_parse_says_what_may_have_been_meant(value, message):
    with pytest.raises(InputError) as caught:
        parse(Outer, value, "a.yaml")
    told = str(caught.value)
    assert message in told
    assert told.endswith("?") == ("did you mean" in message)


def test_parse_refuses_a_value_that_holds_itself():
    value = {"number": 1}
    value["anything"] = value
    with pytest.raises(InputError, match=r"a\.yaml: expected finite numbers"):
        parse(Record, value, "a.yaml")


def test_parse_takes_whole_numbers_for_real_ones_and_keeps_every_digit():
    record = parse(Record, {"number": 2**70, "share": 1, "anything": {"a": 0.1 + 0.2, "b": 2**70}}, "a.yaml")
    assert record.number == 2**70
    assert record.anything == {"a": 0.1 + 0.2, "b": 2**70}


def test_a_program_says_bad_input_in_one_line(capsys):
    def main():
        raise InputError("a.yaml: key:\n  expected\tmore")

    with pytest.raises(SystemExit) as caught:
        run_script(main)
    assert caught.value.code == 2
    assert capsys.readouterr().err == "a.yaml: key: expected more\n"


def test_a_programs_own_faults_keep_their_traceback():
    with pytest.raises(ZeroDivisionError):
        run_script(lambda: 1 / 0)


def test_json_is_utf_8_in_its_own_order(tmp_path):
    write_json(tmp_path / "a.json", {"b": "é", "a": 1})
    text = (tmp_path / "a.json").read_bytes()
    assert "é".encode() in text
    assert list(json.loads(text)) == ["b", "a"]


@pytest.mark.parametrize("text", ["-1", "1.0", "x", "", "+1", "²"])
def test_a_seed_below_zero_is_one_line(text, capsys):
    def main():
        parser = OneLineParser(prog="p")
        parser.add_argument("--seed", type=natural)
        parser.parse_args(["--seed", text])

    with pytest.raises(SystemExit) as stopped:
        run_script(main)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"p: argument --seed: {text}: expected a whole number of 0 or more\n"
