"""A broken set is refused by one line, and leaves nothing behind."""

import json

import numpy as np
import pytest

from common.errors import InputError
from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, Labels, SceneShape

from .conftest import write_labels, write_sigmf


def refused(made, tmp_path, match):
    """The conversion is refused by one line that says ``match``, and writes no file."""
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    with pytest.raises(InputError, match=match) as error:
        made.convert(out / "s.parquet", out / "index.parquet", out / "r.json")
    assert "\n" not in " ".join(str(error.value).split())
    assert list(out.iterdir()) == []


def edit(path, change):
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda m: m["global"].update({"core:datatype": "rf32_le"}),
            "core:datatype: rf32_le, real-valued, did you mean cf32_le?",
        ),
        (lambda m: m["global"].pop("core:datatype"), "core:datatype: None, expected one of"),
        (lambda m: m["global"].pop("core:sample_rate"), "core:sample_rate: None"),
        (lambda m: m["global"].update({"core:sample_rate": -1.0}), "core:sample_rate: -1.0"),
        (lambda m: m["global"].update({"core:sha512": "0" * 128}), "core:sha512: not the hash"),
        (lambda m: m["global"].update({"core:num_channels": 3}), "expected whole samples of 6 bytes"),
        (
            lambda m: m["annotations"][1].update({"core:sample_count": 999}),
            "samples 128 to 1127, expected within the captures' 0 to 256",
        ),
        (lambda m: m["annotations"][0].pop("core:label"), "no core:label"),
        (lambda m: m.update({"annotations": []}), "annotations: expected at least one"),
        (lambda m: m["annotations"][0].update({"core:label": "c"}), "two, window 0 .*label c: not in mapping"),
        (lambda m: m["annotations"][0].update({"core:sample_count": 10}), "10 samples, expected at least 64"),
        (lambda m: m.pop("global"), "global: expected the SigMF global object"),
    ],
)
def test_sigmf_metadata(sigmf_set, reader, tmp_path, change, match):
    edit(sigmf_set / "two.sigmf-meta", change)
    refused(reader("sigmf", sigmf_set), tmp_path, match)


def test_sigmf_truncated(sigmf_set, reader, tmp_path):
    data = sigmf_set / "two.sigmf-data"
    data.write_bytes(data.read_bytes()[:-1])
    refused(reader("sigmf", sigmf_set), tmp_path, "511 bytes, expected whole samples")
    data.write_bytes(data.read_bytes()[:-255])
    refused(reader("sigmf", sigmf_set), tmp_path, r"two\.sigmf-meta: core:sha512: not the hash")


def test_sigmf_half_a_recording(sigmf_set, reader, tmp_path):
    (sigmf_set / "one.sigmf-meta").rename(tmp_path / "elsewhere")
    refused(reader("sigmf", sigmf_set), tmp_path, r"one\.sigmf-data: expected its metadata")
    (tmp_path / "elsewhere").rename(sigmf_set / "one.sigmf-meta")
    (sigmf_set / "one.sigmf-data").unlink()
    refused(reader("sigmf", sigmf_set), tmp_path, r"one\.sigmf-data: no such file")


def test_sigmf_not_finite(tmp_path, reader):
    pairs = np.zeros(256, "<f4")
    pairs[7] = np.nan
    write_sigmf(tmp_path / "set", "r", pairs, datatype="cf32_le")
    refused(reader("sigmf", tmp_path / "set"), tmp_path, "NaN or infinity")


def test_sigmf_angle_that_is_no_number(sigmf_set, tmp_path):
    entry = CaptureEntry(name="set", adapter="sigmf", path="x", task="E-LOC-AOA")
    made = adapter(sigmf_set, entry, SceneShape(samples=64, sample_rate_hz=1e6))
    refused(made, tmp_path, "label 'a', expected degrees")


def rows(folder):
    import csv

    return list(csv.DictReader((folder / "labels.csv").open()))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda r: r[0].update(path="../labels.csv"), "expected a path inside the set's folder"),
        (lambda r: r[0].update(path="/etc/hostname"), "expected a path inside the set's folder"),
        (lambda r: r[0].update(path="data/z.cu8"), "no such file, although it has a label"),
        (lambda r: r.pop(), r"y\.cu8: expected a label"),
        (lambda r: r[1].update(path=r[0]["path"]), "occurs twice"),
        (lambda r: r[0].update(sample_rate_hz="fast"), "sample_rate_hz: 'fast', expected a number"),
        (lambda r: r[0].update(modulation="PPM"), "label PPM: not in mapping"),
        (lambda r: [row.update(format="cf32") for row in r], "format cf32 contradicts the file's suffix"),
        (lambda r: [row.pop("modulation") for row in r], "modulation: expected this column"),
    ],
)
def test_labels(cu8_set, reader, tmp_path, change, match):
    table = rows(cu8_set)
    change(table)
    write_labels(cu8_set, table)
    refused(reader("cu8", cu8_set), tmp_path, match)


def test_link_out_of_the_folder(cu8_set, reader, tmp_path):
    (tmp_path / "secret").write_bytes(b"\0" * 1200)
    (cu8_set / "data/x.cu8").unlink()
    (cu8_set / "data/x.cu8").symlink_to(tmp_path / "secret")
    refused(reader("cu8", cu8_set), tmp_path, "expected a path inside the set's folder")


@pytest.mark.parametrize(
    ("size", "match"), [(1199, "whole samples of 2 bytes"), (0, "0 bytes, expected whole"), (200, "100 samples")]
)
def test_cu8_truncated(cu8_set, reader, tmp_path, size, match):
    (cu8_set / "data/y.cu8").write_bytes(b"\1" * size)
    refused(reader("cu8", cu8_set), tmp_path, match)


def rewrite(path, **changes):
    arrays = dict(np.load(path)) | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def test_cir_contradictions(cir_set, reader, tmp_path):
    path = cir_set / "uwb.npz"
    whole = path.read_bytes()
    for changes, match in (
        ({"cir": np.zeros((4, 200, 2), np.int16)}, r"cir: .*expected numbers \[n, 256, 2\]"),
        ({"cir": np.zeros((3, 256, 2), np.int16)}, "cir: 3 rows, but labels.csv has 4"),
        ({"cir": np.array(["x"] * 4)}, "cir: .*expected numbers"),
        ({"label": np.array(["NLOS", "LOS", "NDP NLOS", "LOS"])}, "row 0: NLOS of log0, but labels.csv says LOS"),
        ({"log": None}, "log: expected this array"),
    ):
        path.write_bytes(whole)
        rewrite(path, **changes)
        refused(reader("cir", cir_set), tmp_path, match)
    path.write_bytes(whole[:-300])
    refused(reader("cir", cir_set), tmp_path, "expected a complete NPZ file")
    path.write_bytes(whole)
    table = rows(cir_set)
    write_labels(cir_set, table[:1] + table[2:])
    refused(reader("cir", cir_set), tmp_path, "expected uwb.npz#1 next")
    write_labels(cir_set, table[:3])
    refused(reader("cir", cir_set), tmp_path, "4 rows, but labels.csv has 3")
    table[2]["sample_rate_hz"] = "1e9"
    write_labels(cir_set, table)
    refused(reader("cir", cir_set), tmp_path, "sample_rate_hz: expected 998400000.0")


def test_csi_contradictions(csi_set, reader, tmp_path):
    path = csi_set / "va16.npz"
    whole = dict(np.load(path))
    for changes, match in (
        ({"x": whole["x"][:, :8]}, "x: .*expected numbers"),
        ({"aoa_local_deg": whole["aoa_local_deg"][::-1]}, "aoa_local_deg: contradicts labels.csv"),
        ({"loc": np.array(["L2"] * 5)}, "row 0: A/L2/t, but labels.csv says A/L1/t"),
        ({"pos_m": whole["pos_m"] * np.linspace(1, 2, 5)[:, None, None]}, "expected one array for all rows"),
    ):
        np.savez(path, **whole | changes)
        refused(reader("csi", csi_set), tmp_path, match)
    np.savez(path, **whole)
    refused(reader("csi", csi_set, samples=64), tmp_path, "expected one symbol of 3.2 us")


def test_missing_folder_and_shape(tmp_path, cu8_set):
    entry = CaptureEntry(name="set", adapter="labelled_iq", path="x", task="E-ID-AMC", mapping=Labels())
    with pytest.raises(InputError, match="expected the folder of the capture set"):
        adapter(tmp_path / "nowhere", entry)
    refused(adapter(cu8_set, entry), tmp_path, "scene: expected samples and sample_rate_hz")
