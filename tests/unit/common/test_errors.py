"""How a program ends: one line for bad input, quiet for a reader that leaves; and what its help says."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InputError, OneLineParser, run_script, unknown

SOURCE = Path(__file__).resolve().parents[3] / "src"


@pytest.mark.parametrize("message", ["--rows 3: expected\nmore", "p.py: --rows 3: expected more"])
def test_a_line_begins_with_the_programs_name_once(message, capsys):
    def main():
        raise InputError(message)

    with pytest.raises(SystemExit) as stopped:
        run_script(main, "p.py")
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "p.py: --rows 3: expected more\n"


def test_an_interrupt_is_one_line(capsys):
    def main():
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as stopped:
        run_script(main)
    assert stopped.value.code == 130
    assert capsys.readouterr().err == "interrupted; no file is half-written\n"


@pytest.mark.parametrize(
    ("value", "most", "told"),
    [
        ("E_URBN", None, "E_URBN is unknown, did you mean E_URBAN?"),
        ("e_rural", None, "e_rural is unknown, did you mean E_RURAL?"),
        ("leave-one-planet-out", 1, "leave-one-planet-out is unknown, expected one of E_URBAN and 2 more"),
        ("leave-one-bnad-out", None, "leave-one-bnad-out is unknown, did you mean leave-one-band-out?"),
        ("moon", None, "moon is unknown, expected one of E_URBAN, E_RURAL"),
        ("moon", 1, "moon is unknown, expected one of E_URBAN and 1 more"),
        ("moon", 2, "moon is unknown, expected one of E_URBAN, E_RURAL"),
    ],
)
def test_an_unknown_name_is_told_what_was_meant_or_what_there_is(value, most, told):
    known = ["E_URBAN", "E_RURAL", *(["leave-one-band-out"] if "-" in value else [])]
    assert unknown(value, known, most) == told


def parser():
    options = OneLineParser("p.py", "What it does.")
    options.add_argument("--rows", type=int, default=0, help="frames")
    options.add_argument("--seed", type=int, default=3, help="whole number (default: three)")
    options.add_argument("--name", help="text")
    options.add_argument("--runs", action="append", default=[], help="names")
    options.add_argument("--quick", action="store_true", help="less")
    return options


def test_help_says_each_default_once():
    text = " ".join(parser().format_help().split())
    assert "frames (default: 0)" in text
    assert text.count("default") == 2


def test_options_are_not_abbreviated():
    assert parser().parse_args(["--rows", "4"]).rows == 4
    with pytest.raises(InputError, match="unrecognized arguments: --row 4"):
        parser().parse_args(["--row", "4"])


def program(body, unbuffered):
    text = f"import os\nfrom common.errors import run_script\ndef main():\n    {body}\nrun_script(main)"
    environment = {"PYTHONPATH": str(SOURCE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": unbuffered}
    pipe = subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", text], stdout=pipe, stderr=pipe, env=environment)


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_leaves_ends_it_quietly(unbuffered):
    with program("while True: print('line ' * 100)", unbuffered) as process:
        assert process.stdout.read(4) == b"line"
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_a_broken_pipe_elsewhere_is_a_fault():
    with program("r, w = os.pipe(); os.close(r); os.write(w, b'x')", "") as process:
        assert b"BrokenPipeError" in process.communicate()[1]
    assert process.returncode == 1
