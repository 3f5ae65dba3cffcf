"""Whatever is no regular file of a size that its kind can have is one line at once: nothing waits, nothing is read."""

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from common.doors import bounded_memory, files_below, read_bytes, require_regular
from common.errors import InputError, run_script
from common.files import LARGEST_TEXT, LARGEST_YAML, MOST_VALUES, parse_json, read_json, read_text, read_yaml
from emma.backbones.load import load_weights
from emma.data.foreign import inspect_parquet
from emma.data.holdout import holdout_seed
from emma.data.tables import open_parquet

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def in_time():
    """What waits is ended, and the test with it."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(20)
    yield
    signal.alarm(0)


def pipe(path):
    os.mkfifo(path)


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


IRREGULAR = {
    "a named pipe": pipe,
    "a socket": unix_socket,
    "a folder": lambda path: path.mkdir(),
    "a device": lambda path: path.symlink_to("/dev/zero"),
}
READERS = [read_bytes, read_text, read_json, read_yaml, open_parquet, inspect_parquet, load_weights]


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("kind", IRREGULAR)
def test_no_regular_file_is_one_line(tmp_path, monkeypatch, kind, read):
    monkeypatch.chdir(tmp_path)
    IRREGULAR[kind](tmp_path / "it")
    with pytest.raises(InputError, match=rf"it: .*cannot be read \({kind}, expected a regular file\)"):
        read("it")


def test_a_pipe_for_the_seed_is_one_line(tmp_path, monkeypatch):
    pipe(tmp_path / "seed")
    monkeypatch.setenv("EMMA_HOLDOUT_SEED_FILE", str(tmp_path / "seed"))
    with pytest.raises(InputError, match="cannot be read, expected a text file"):
        holdout_seed("tiny", None)


@pytest.mark.parametrize(
    ("name", "said"), [("a\0b", "null"), ("x" * 300, "too long"), ("a/b/" * 2000, "too long"), ("\udcff", "no such")]
)
def test_a_path_that_no_file_has_is_one_line(tmp_path, monkeypatch, name, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said) as error:
        require_regular(name)
    assert len(str(error.value)) < 300 and "\0" not in str(error.value)


@pytest.mark.parametrize(
    ("read", "most"), [(read_text, LARGEST_TEXT), (read_json, LARGEST_TEXT), (read_yaml, LARGEST_YAML)]
)
def test_a_size_beyond_its_kind_is_refused_unread(tmp_path, read, most):
    path = tmp_path / "it"
    with path.open("wb") as file:
        file.truncate(most + 1)
    start = time.perf_counter()
    with pytest.raises(InputError, match=f"it: {most + 1} bytes, expected at most {most}"):
        read(path)
    assert time.perf_counter() - start < 1


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize("unit", ['{"a":{}},', "[[]],", '"",', "0,"])
def test_json_of_too_many_values_is_refused_before_it_is_read(unit):
    text, before = "[" + unit * (MOST_VALUES + 1) + "0]", peak()
    with pytest.raises(InputError, match="brackets, commas and colons, expected at most"):
        parse_json(text, "it")
    assert peak() - before < 2**26


def test_a_board_of_200_models_and_12_tasks_passes():
    rows = [{"model": f"m{i}", "tasks": {f"t{j}": {"v": list(range(330))} for j in range(12)}} for i in range(200)]
    assert len(parse_json(json.dumps(rows), "it")) == 200


MERGES = {
    "merge keys that repeat all before": "a0: &a0 {x: 1}\n"
    + "".join(f"a{i}: &a{i} {{<<: *a{i - 1}, k{i}: 1}}\n" for i in range(1, 1600)),
    "pairs": "a0: &a0 !!pairs [x: 1, x: 1]\n"
    + "".join(f"a{i}: &a{i} !!pairs [x: *a{i - 1}, x: *a{i - 1}]\n" for i in range(1, 40)),
}


@pytest.mark.parametrize("kind", MERGES)
def test_yaml_that_grows_as_it_is_read_is_refused(tmp_path, kind):
    path = tmp_path / "it"
    path.write_text(MERGES[kind])
    with pytest.raises(InputError, match="it: "):
        read_yaml(path)


def test_files_of_a_tree_are_found_within_bounds(tmp_path):
    (tmp_path / "b/c").mkdir(parents=True)
    for name in ("b/c/one", "a"):
        (tmp_path / name).touch()
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "b/loop").symlink_to(tmp_path)
    pipe(tmp_path / "pipe")
    assert files_below(tmp_path) == [tmp_path / "a", tmp_path / "b/c/one", tmp_path / "link"]
    with pytest.raises(InputError, match="cannot be read"):
        files_below(tmp_path / "nothing")


def test_folders_within_one_another_without_end_are_one_line(tmp_path):
    tmp_path.joinpath(*["d"] * 40).mkdir(parents=True)
    with pytest.raises(InputError, match="nested more than 32 deep"):
        files_below(tmp_path)


def test_a_name_that_is_not_utf8_is_one_line(tmp_path):
    (tmp_path / os.fsdecode(b"\xff")).touch()
    with pytest.raises(InputError, match="expected file names in UTF-8"):
        files_below(tmp_path)


def test_memory_beyond_the_bound_is_one_line_and_the_bound_ends(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(InputError, match="it: takes more than 64 MB to read"), bounded_memory("it", 2**26):
        np.zeros(2**27, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before
    assert len(np.zeros(2**27, np.uint8)) == 2**27


def test_a_program_that_runs_out_of_memory_ends_in_one_line(capsys):
    def main():
        raise MemoryError

    with pytest.raises(SystemExit) as stopped:
        run_script(main)
    assert stopped.value.code == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize(
    "program", ["check_captures", "check_submission", "convert_captures", "score_submission", "verify"]
)
def test_a_program_that_reads_files_of_strangers_takes_no_more_than_the_machine_has(program):
    """A reader that lacks a bound of its own ends in a line, not in another process's end."""
    code = (
        "import contextlib, importlib, resource, sys\n"
        "import common.confine as confine\n"
        "confine.machine_memory = lambda: 2**33 + 1\n"
        "sys.path.insert(0, 'scripts')\n"
        f"sys.argv = [{program!r}, 'nowhere']\n"
        "with contextlib.suppress(Exception):\n"
        f"    importlib.import_module({program!r}).main()\n"
        "print(resource.getrlimit(resource.RLIMIT_DATA)[0])"
    )
    told = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == f"{2**33 + 1}\n"


def test_the_memory_of_a_process_can_be_held():
    code = (
        "from common.confine import limit_memory; from common.errors import run_script; limit_memory(2**28);"
        "run_script(lambda: bytearray(2**30))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "memory: less than the input takes; give it more, or smaller input\n",
    )
