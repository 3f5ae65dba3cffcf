"""The check before a run: what is there, and all faults at once."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InputError
from emma.captures.checking import check_captures
from emma.captures.settings import SceneShape
from emma.tasks import TaskID

from .conftest import write_labels
from .test_bad_captures import edit, rows

ROOT = Path(__file__).parents[3]


def test_a_good_sigmf_folder(sigmf_set):
    found = check_captures(sigmf_set)
    assert not found.faults
    text = found.text
    assert "one: int8 pairs, channels: 1, 1000000 Hz, 256 samples, carrier 2440000000 Hz, session one, labels a" in text
    assert "2 recordings, 4 labelled spans: a (2), b (2)" in text
    assert "2 sessions" in text
    assert "adapter: sigmf" in text
    assert "classes: {a: CLASS, b: CLASS}" in text
    assert "scene: {samples: 128, sample_rate_hz: 1000000}" in text


def test_all_faults_at_once(cu8_set):
    table = rows(cu8_set)
    for name in ("p", "q"):
        shutil.copy(cu8_set / "data/x.cu8", cu8_set / f"data/{name}.cu8")
        table.append(table[0] | {"path": f"data/{name}.cu8"})
    table[3]["sample_rate_hz"] = "fast"
    (cu8_set / "data/y.cu8").unlink()
    (cu8_set / "data/z.cu8").write_bytes(b"12")
    write_labels(cu8_set, table)
    faults = check_captures(cu8_set).faults
    assert len(faults) == 4
    for part in (
        "y.cu8: no such file",
        "z.cu8: expected a label",
        "q.cu8: sample_rate_hz: 'fast'",
        "data/p.cu8: the same samples as data/x.cu8",
    ):
        assert any(part in fault for fault in faults)


def test_the_scene_is_tried_where_it_is_declared(sigmf_set):
    edit(sigmf_set / "one.sigmf-meta", lambda m: m["annotations"][0].update({"core:sample_count": 70}))
    assert not check_captures(sigmf_set).faults
    (fault,) = check_captures(sigmf_set, shape=SceneShape(samples=100, sample_rate_hz=1e6)).faults
    assert fault == "one: 70 samples, expected at least 100"


def test_numbers_are_taken_for_degrees(cu8_set):
    write_labels(cu8_set, [row | {"label": "10.5"} for row in rows(cu8_set)])
    text = check_captures(cu8_set).text
    assert "degrees" in text
    assert "CLASS" not in text
    assert "OOK" in check_captures(cu8_set, column="modulation").text


def test_sets_of_arrays(csi_set, cir_set):
    assert "va16.npz: 5 rows of labels.csv" in check_captures(csi_set).text
    (cir_set / "labels.csv").unlink()
    (fault,) = check_captures(cir_set).faults
    assert "labels.csv: no such file" in fault


def test_a_folder_of_nothing_says_what_each_adapter_needs(tmp_path):
    (tmp_path / "x.cf32").write_bytes(b"")
    found = check_captures(tmp_path)
    assert "1 .cf32" in found.text
    assert any(fault.startswith("adapter labelled_iq: missing labels.csv with path, label") for fault in found.faults)
    with pytest.raises(InputError, match="expected the folder of the capture set"):
        check_captures(tmp_path / "nowhere")


def run(*arguments):
    program = [sys.executable, ROOT / "scripts/check_captures.py", *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, cwd=ROOT)


def test_the_program(sigmf_set):
    done = run(sigmf_set)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == check_captures(sigmf_set).text
    (sigmf_set / "two.sigmf-data").unlink()
    done = run(sigmf_set, "--adapter", "sigmf", "--captures", "config/captures/surrogate_amc.yaml")
    assert done.returncode == 2
    assert done.stderr == ""
    assert "fault: " in done.stdout
    assert "two.sigmf-data: no such file, although its metadata is there" in done.stdout
    assert run("/nowhere").returncode == 2


def test_an_array_of_other_elements_and_a_label_that_is_no_bearing_are_faults(sigmf_set):
    """What the run would refuse, before it: the declaration's array against the channels, labels against the task."""
    array = {"kind": "circular", "elements": 8, "radius_m": 0.1, "orientation_deg": 0.0, "frame": "compass"}
    shape = SceneShape(samples=64, sample_rate_hz=1e6, array=array)
    edit(sigmf_set / "one.sigmf-meta", lambda m: m["annotations"][0].update({"core:label": "412.0"}))
    edit(sigmf_set / "one.sigmf-meta", lambda m: m["annotations"][1].update({"core:label": "31.5"}))
    found = check_captures(sigmf_set, shape=shape, task=TaskID.E_LOC_AOA)
    faults = "\n".join(found.faults)
    assert "1 channels, but scene.array has 8 elements" in faults
    assert "one: label '412.0', expected degrees from -360 to 360" in faults
    assert "two: label 'a', expected degrees" in faults
    assert "31.5" not in faults
    assert "in the frame compass" in found.text
    assert "CLASS" not in found.text
