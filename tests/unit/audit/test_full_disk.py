"""A full disk, and files limited in size: one line, status 2, no file, no temporary, and the next run goes through."""

import os
import resource
import subprocess

import numpy as np
import pyarrow as pa
import pytest

from common.errors import run_script
from common.files import write_text
from emma.data.tables import write_table


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB, which only root can mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def numbers(path, rows):
    write_table(path, pa.table({"x": pa.array(np.random.default_rng(0).random(4 * rows))}))


WRITERS = {
    "text": lambda path, n: write_text(path, "x" * 32 * n),
    "table": numbers,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk_ends_in_one_line_and_can_be_resumed(kind, small_disk, capsys):
    path = small_disk / "out"
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: WRITERS[kind](path, 40_000))
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "output: no space left on its disk; free some and run again\n"
    assert list(small_disk.iterdir()) == []
    run_script(lambda: WRITERS[kind](path, 100))
    assert [child.name for child in small_disk.iterdir()] == ["out"]


@pytest.mark.parametrize("kind", WRITERS)
def test_a_limit_on_files_ends_in_one_line(kind, tmp_path, capsys):
    path = tmp_path / "out"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**18, before[1]))
    try:
        with pytest.raises(SystemExit) as stopped:
            run_script(lambda: WRITERS[kind](path, 40_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert stopped.value.code == 2
    assert capsys.readouterr().err == "output: larger than the limit on files (ulimit -f); raise it and run again\n"
    assert list(tmp_path.iterdir()) == []
    run_script(lambda: WRITERS[kind](path, 40_000))
    assert path.stat().st_size > 2**18
