"""Labels: tables as programs write them, angles on the circle, classes that the task has."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from common.errors import InputError
from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, Labels, SceneShape, check_mapping, load_capture_set
from emma.data.labels import AZIMUTH, labels_beside, read_labels
from emma.data.release import load_release_config

from .conftest import write_labels, write_sigmf
from .test_bad_captures import refused, rows

ROOT = Path(__file__).parents[3]
HEAD = "path,label,session,sample_rate_hz,center_freq_hz"


def out(tmp_path):
    return [tmp_path / name for name in ("s.parquet", "index.parquet", "r.json")]


@pytest.fixture
def angles(tmp_path, rng):
    """A set of raw files of 4 channels with a label each, read as degrees."""
    folder = tmp_path / "angles"
    folder.mkdir()

    def make(*labels):
        for i, _ in enumerate(labels):
            (folder / f"{i}.cf32").write_bytes(rng.standard_normal(4 * 2 * 64).astype("<f4").tobytes())
        lines = [f"{i}.cf32,{label},s{i},1e6,1e9" for i, label in enumerate(labels)]
        (folder / "labels.csv").write_text("\n".join([HEAD, *lines]) + "\n")
        entry = CaptureEntry(name="set", adapter="labelled_iq", path="x", task="E-LOC-AOA")
        return adapter(folder, entry, SceneShape(samples=64, sample_rate_hz=1e6, channels=4))

    return make


def test_angles_lie_on_the_circle(angles, tmp_path):
    values = {"-1e-17": 0.0, "-90": 270.0, "359.5": 359.5, "360": 0.0, "1e-17": 1e-17, "-0.5": 359.5}
    angles(*values).convert(*out(tmp_path))
    found = read_labels(labels_beside(tmp_path / "index.parquet"), AZIMUTH)["azimuth_deg"].to_pylist()
    assert found == list(values.values())


@pytest.mark.parametrize("label", ["nan", "inf", "-Infinity", "north", ""])
def test_an_angle_that_is_none(angles, tmp_path, label):
    refused(angles("10", label), tmp_path, f"angles: 1.cf32, window 0 .*: label '{label}', expected degrees")


def test_sigmf_angles(tmp_path, rng):
    pairs = rng.integers(-100, 100, 512).astype(np.int8)
    entry = CaptureEntry(name="set", adapter="sigmf", path="x", task="E-LOC-AOA")
    for label in ("nan", "inf"):
        write_sigmf(tmp_path / "set", "r", pairs, annotations=[(0, 64, label)])
        made = adapter(tmp_path / "set", entry, SceneShape(samples=64, sample_rate_hz=1e6))
        refused(made, tmp_path, f"set: r, window 0 .*: label '{label}', expected degrees")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_tables_as_programs_write_them(cu8_set, reader, encoding, delimiter):
    before = [list(scenes.label) for scenes in reader("cu8", cu8_set).scenes()]
    text = (cu8_set / "labels.csv").read_text().replace(",", delimiter).replace("\n", "\r\n")
    (cu8_set / "labels.csv").write_bytes(text.encode(encoding))
    assert [list(scenes.label) for scenes in reader("cu8", cu8_set).scenes()] == before


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.replace("data/x", ""), "x.cu8|.cu8: no such file"),
        (lambda t: t.replace("data/x.cu8", " "), "labels.csv: row 2: path: empty"),
        (lambda t: t.replace("sx", "  "), "labels.csv: row 2: session: empty"),
        (lambda t: t.replace("250000", "250000,7", 1), "labels.csv: row 2: 8 fields, expected 7 as in the header"),
        (lambda t: t.replace("label,session", "session,session"), "labels.csv: session"),
        (lambda t: t.replace("data/y", "./data/../data/x"), "data/x.cu8 occurs twice"),
        (lambda t: t.partition("\n")[0], "expected a header and at least one row"),
        (lambda t: "", "expected a header and at least one row"),
        (lambda t: t.replace("path", "file", 1), "path: expected this column once, found"),
        (lambda t: t.replace("data/x", '"data/x'), "expected CSV in UTF-8"),
        (lambda t: t.replace(",", ";").replace("250000", "250000,0"), "sample_rate_hz: '250000,0', expected a number"),
        (lambda t: t.replace("\n", "\0\n", 1), "labels.csv"),
    ],
)
def test_tables_that_are_none(cu8_set, reader, tmp_path, change, match):
    path = cu8_set / "labels.csv"
    path.write_text(change(path.read_text()))
    refused(reader("cu8", cu8_set), tmp_path, match)


def test_a_table_in_another_code(cu8_set, reader, tmp_path):
    path = cu8_set / "labels.csv"
    path.write_bytes(path.read_text().encode("utf-16"))
    refused(reader("cu8", cu8_set), tmp_path, "labels.csv: expected CSV in UTF-8")


def test_paths_are_normalised(cu8_set, reader, tmp_path):
    table = rows(cu8_set)
    for row, prefix in zip(table, ("./", "data/../"), strict=True):
        row["path"] = prefix + row["path"]
    write_labels(cu8_set, table)
    record = reader("cu8", cu8_set).convert(*out(tmp_path))
    assert sorted(record.files_sha256) == ["data/x.cu8", "data/y.cu8", "labels.csv"]


def test_files_at_any_place_have_a_label(cu8_set, reader, tmp_path):
    (cu8_set / "README.md").write_text("A set.")
    (cu8_set / "LICENSE").write_text("A licence.")
    reader("cu8", cu8_set).convert(*out(tmp_path))
    (cu8_set / "more/deep").mkdir(parents=True)
    (cu8_set / "more/deep/z.xyz").write_bytes(b"samples")
    for path in out(tmp_path):
        path.unlink()
    refused(reader("cu8", cu8_set), tmp_path, "more/deep/z.xyz: expected a label in labels.csv")


def test_an_unknown_suffix_is_named(cu8_set, reader, tmp_path):
    (cu8_set / "data/x.cu8").rename(cu8_set / "data/x.xyz")
    table = rows(cu8_set)
    table[0]["path"] = "data/x.xyz"
    write_labels(cu8_set, table)
    refused(reader("cu8", cu8_set), tmp_path, r"data/x\.xyz: format xyz, expected one of cu8, .*cf32, .*wav")
    write_labels(cu8_set, [row | {"format": "CU8"} for row in table])
    assert next(reader("cu8", cu8_set).scenes()).iq.shape == (1, 1, 128)


def test_without_a_session_every_file_is_one(cu8_set, reader, tmp_path):
    write_labels(cu8_set, [{key: value for key, value in row.items() if key != "session"} for row in rows(cu8_set)])
    record = reader("cu8", cu8_set).convert(*out(tmp_path))
    assert record.sessions == 2
    assert "No column session: every file counts as one (2: data/x.cu8, data/y.cu8)." in record.caveats


@pytest.mark.parametrize(
    ("task", "classes", "match"),
    [
        ("E-ID-AMC", {}, "set: mapping.classes: expected the set's names of the classes of E-ID-AMC, found none"),
        ("E-ID-AMC", {"a": "PPM"}, "'PPM' is no class of E-ID-AMC, expected one of"),
        ("E-ID-AMC", {"a": ""}, "'' is no class of E-ID-AMC"),
        ("E-ID-AMC", {" ": "OOK"}, "an empty name"),
        ("E-LOC-AOA", {"a": "OOK"}, "expected none: labels of E-LOC-AOA are degrees"),
    ],
)
def test_a_mapping_fits_its_task(task, classes, match):
    tasks = load_release_config(ROOT / "config/releases/tiny.yaml").tasks
    entry = CaptureEntry(name="set", adapter="sigmf", path="x", task=task, mapping=Labels(classes=classes))
    with pytest.raises(InputError, match=match):
        check_mapping(entry, tasks[entry.task])
    good = {"E-ID-AMC": {"a": "OOK"}, "E-LOC-AOA": {}}[task]
    check_mapping(entry.model_copy(update={"mapping": Labels(classes=good)}), tasks[entry.task])


def test_a_set_is_checked_with_its_release(tmp_path):
    tasks = load_release_config(ROOT / "config/releases/tiny.yaml").tasks
    entry = CaptureEntry(name="mixed_drone", adapter="mixed_iq", path=str(tmp_path), task="E-ID-DRONE")
    with pytest.raises(InputError, match=r"real_captures\.mixed_drone: mapping\.classes: expected the set's names"):
        load_capture_set(ROOT, entry, tasks)


def test_the_program_refuses_a_mapping_before_it_reads(tmp_path):
    entry = {"name": "mixed_drone", "adapter": "mixed_iq", "path": str(tmp_path), "task": "E-ID-DRONE"}
    entry["mapping"] = {"classes": {"drone": "here"}}
    files = {"--out": "s.parquet", "--index": "index.parquet", "--record": "r.json"}
    options = [part for name, file in files.items() for part in (name, str(tmp_path / file))]
    program = [sys.executable, ROOT / "scripts/convert_captures.py", "--entry", json.dumps(entry), "--root", tmp_path]
    release = ["--release-config", "config/releases/tiny.yaml"]
    done = subprocess.run([*program, *options, *release], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == (
        "real_captures.mixed_drone: mapping.classes: 'here' is no class of E-ID-DRONE, expected one of "
        "absent, present\n"
    )
