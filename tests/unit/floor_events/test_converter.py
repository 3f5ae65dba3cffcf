"""The converter: every cell in its place, and a record of what was converted."""

import json

import numpy as np

from common.files import write_files
from floor_events.converter import align, convert
from floor_events.inputs import content_sha256


def test_every_cell_has_its_source():
    raw = np.random.default_rng(0).random((25, 10, 3)).astype(np.float32)
    values, valid = align(raw)
    assert values.shape == (35, 10, 3)
    assert values.dtype == np.float32
    for t in range(35):
        for k in range(10):
            source = t - (k + 1)
            assert valid[t, k] == (0 <= source < 25)
            if valid[t, k]:
                assert (values[t, k] == raw[source, k]).all()
            else:
                assert np.isnan(values[t, k]).all()
    assert (valid.sum(axis=0) == 25).all()


def test_conversion_on_disk(call, tmp_path, tools):
    rng = np.random.default_rng(1)
    for folder in ("raw", "target"):
        (tmp_path / folder).mkdir()
    for session, rows in (("Session_1", 40), ("Session_2", 11)):
        np.save(tmp_path / "target" / f"{session}.npy", tools.target_of("1" * rows, "0" * rows).astype(np.float64))
        np.save(tmp_path / "raw" / f"{session}.npy", rng.dirichlet([1, 1, 1], (rows - 10, 10)).astype(np.float32))
    out = tmp_path / "deep" / "out"
    status, text, err = call(
        "prepare_egospeak_floor_eval", "--prediction-root", tmp_path / "raw", "--target-root", tmp_path / "target",
        "--output-dir", out, "--sessions", "Session_2", "Session_1",
    )  # fmt: skip
    assert (status, err) == (0, "")
    assert text == f"wrote 2 sessions to {out}\n"
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file())
    expected = [f"{kind}/Session_{n}.npy" for kind in ("pred", "valid") for n in (1, 2)]
    assert written == ["conversion.json", *expected]
    report = json.loads((out / "conversion.json").read_text())
    assert list(report["sessions"]) == ["Session_2", "Session_1"]
    pred, valid = (np.load(out / kind / "Session_1.npy") for kind in ("pred", "valid"))
    assert valid.dtype == bool
    described = report["sessions"]["Session_1"]
    assert described["pred"] == {"shape": [40, 10, 3], "dtype": "float32", "sha256": content_sha256(pred)}
    assert described["valid"] == {"shape": [40, 10], "true_cells": 300, "sha256": content_sha256(valid)}
    assert described["raw"]["sha256"] == content_sha256(np.load(tmp_path / "raw" / "Session_1.npy"))
    assert str(tmp_path) not in (out / "conversion.json").read_text()


def test_the_same_input_gives_the_same_bytes(tmp_path, tools):
    (tmp_path / "raw").mkdir()
    np.save(tmp_path / "raw" / "S.npy", np.full((20, 10, 3), 1 / 3))
    np.save(tmp_path / "S.npy", tools.target_of("1" * 30, "0" * 30))
    files = [convert(tmp_path / "raw", tmp_path, tmp_path / "out", ["S"]) for _ in range(2)]
    assert files[0] == files[1]
    write_files(files[0])
    assert (tmp_path / "out" / "pred" / "S.npy").read_bytes() == files[0][tmp_path / "out" / "pred" / "S.npy"]
