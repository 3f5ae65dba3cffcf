"""Where files will be made is looked at before the work: no folder, none that can be written, a disk without room."""

import os
import re
import subprocess

import pytest

from common.errors import InputError, OneLineParser, run_script
from common.places import check_place, check_places


def test_a_place_whose_folders_are_yet_to_come_is_fine(tmp_path):
    assert check_place(tmp_path / "a/b/file") == tmp_path
    check_places([tmp_path / "a/b/file", tmp_path / "c"])
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_must_be_is_refused(tmp_path):
    (tmp_path / "a").write_text("")
    for path in (tmp_path / "a/file", tmp_path / "a/b/c/file"):
        with pytest.raises(InputError, match=f"^{re.escape(str(tmp_path))}/a: a file, expected a folder$"):
            check_places([path])
    (tmp_path / "gone").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="gone: a link that leads nowhere"):
        check_place(tmp_path / "gone/file")


def test_a_folder_in_a_files_place_is_refused(tmp_path):
    (tmp_path / "board.json").mkdir()
    with pytest.raises(InputError, match=r"board\.json: a folder, expected a file's name"):
        check_places([tmp_path / "board.json"])


@pytest.fixture(params=["full", "read-only"])
def bad_disk(request, tmp_path):
    """A disk that takes nothing, which only root can mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "ro" if request.param == "read-only" else "size=64k", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a disk cannot be mounted here")
    yield disk, request.param
    subprocess.run(["umount", str(disk)], check=True)


def test_a_disk_that_takes_nothing_is_refused(bad_disk):
    disk, kind = bad_disk
    told = "No space left on device" if kind == "full" else "expected a writable folder"
    with pytest.raises(InputError, match=f"^{re.escape(str(disk))}: cannot be written.*{told}"):
        check_places([disk / "results/board.json"])
    assert list(disk.iterdir()) == []


def test_a_folder_that_may_not_be_written_is_refused(tmp_path, monkeypatch):
    # root may write everywhere, so the system's answer is given here.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="cannot be written, expected a writable folder"):
        check_places([tmp_path / "file"])


def test_a_program_refuses_its_output_before_its_work(tmp_path, capsys):
    (tmp_path / "a").write_text("")
    worked = []

    def main():
        parser = OneLineParser("p.py")
        parser.add_argument("--out", type=type(tmp_path), nargs="+")
        parser.parse_args(["--out", str(tmp_path / "b"), str(tmp_path / "a/file")])
        worked.append(True)

    with pytest.raises(SystemExit) as stopped:
        run_script(main)
    assert (stopped.value.code, worked) == (2, [])
    assert capsys.readouterr().err == f"--out: {tmp_path}/a: a file, expected a folder\n"


def test_what_cannot_be_written_later_is_one_line(tmp_path, capsys):
    (tmp_path / "a").mkdir()
    with pytest.raises(SystemExit) as stopped:
        run_script(lambda: (tmp_path / "a").write_text("x"))
    assert stopped.value.code == 2
    assert capsys.readouterr().err == f"{tmp_path}/a: cannot be read or written (Is a directory)\n"
