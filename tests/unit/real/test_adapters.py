"""What adapters make of well-formed sets: samples, order, rate, labels, sessions, record."""

import json
from typing import get_args

import numpy as np
import pytest

from common.hashing import table_hash
from emma.captures.adapters import REAL_SPLIT, adapter
from emma.captures.csi import CARRIERS, WAVELENGTH_M
from emma.captures.settings import Adapter, CaptureEntry, Labels, SceneShape
from emma.data.labels import CLASS, labels_beside, read_labels
from emma.data.scenes import iterate_scenes, read_index, read_labelled

from .conftest import write_sigmf


def test_every_adapter_of_the_configuration_exists(tmp_path):
    for name in get_args(Adapter):
        made = adapter(tmp_path, CaptureEntry(name="x", adapter=name, path="x", task="E-ID-AMC"))
        assert made.name == name
        assert made.converts
        assert made.cannot_give


@pytest.mark.parametrize(
    ("datatype", "kind", "scale", "centre"),
    [("cu8", np.uint8, 127.5, 127.5), ("ci8", np.int8, 128, 0), ("ci16_le", "<i2", 32768, 0), ("cf32_le", "<f4", 1, 0)],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_sigmf_samples_and_channels_keep_their_order(tmp_path, reader, datatype, kind, scale, centre, channels):
    rng = np.random.default_rng(1)
    size = (128, channels, 2)
    pairs = rng.uniform(-1, 1, size) if datatype == "cf32_le" else rng.integers(0, 120, size)
    pairs = pairs.astype(kind)
    folder = tmp_path / "set"
    marks = [(0, 64, "a"), (64, 64, "b")]
    write_sigmf(folder, "r", pairs.ravel(), datatype=datatype, channels=channels, annotations=marks)
    scenes = next(reader("sigmf", folder).scenes())
    assert scenes.iq.shape == (2, channels, 64)
    values = (pairs.astype(float) - centre) / scale
    expected = (values[..., 0] + 1j * values[..., 1]).T
    for row, start in enumerate((0, 64)):
        part = expected[:, start : start + 64]
        part = part / np.sqrt(np.mean(np.abs(part) ** 2))
        np.testing.assert_allclose(scenes.iq[row], part, rtol=0, atol=2e-6)
    assert list(scenes.label) == ["a", "b"]


def test_canonical_scenes_and_record(tmp_path, reader, sigmf_set):
    out = [tmp_path / name for name in ("s.parquet", "index.parquet", "r.json")]
    record = reader("sigmf", sigmf_set).convert(*out)
    index = read_labelled(out[1], CLASS)
    assert set(index["split"].to_pylist()) == {REAL_SPLIT}
    assert index["class"].to_pylist() == ["OOK", "2FSK"] * 2
    assert record.model_dump(mode="json") == json.loads(out[2].read_text())
    assert [json.loads(text)["recording"] for text in index["detail"].to_pylist()] == ["one"] * 2 + ["two"] * 2
    assert (record.scenes, record.sessions, len(record.files_sha256)) == (4, 2, 4)
    labels = read_labels(labels_beside(out[1]), CLASS)
    assert (record.index_hash, record.labels_hash) == (table_hash(read_index(out[1])), table_hash(labels))
    assert record.converts["rate"]
    assert record.cannot_give
    for _, iq in iterate_scenes(out[0]):
        np.testing.assert_allclose(np.mean(np.abs(iq) ** 2, axis=(1, 2)), 1.0, rtol=1e-5)
    again = reader("sigmf", sigmf_set).convert(*out)
    assert again.record_sha256 == record.record_sha256
    write_sigmf(sigmf_set, "two", np.arange(2 * 256).astype(np.int8), annotations=[(0, 128, "a"), (130, 120, "b")])
    assert reader("sigmf", sigmf_set).convert(*out).record_sha256 != record.record_sha256


def test_testbed_layouts(tmp_path, rng):
    pairs = rng.integers(-100, 100, 256).astype(np.int8)
    for name, folder, label, session in (
        ("colosseum_assumed", "scenario1/node3", "a", "scenario1"),
        ("powder_assumed", "day2/tx7", None, "day2"),
        ("cosmos_assumed", "run5", "a", "run5"),
    ):
        write_sigmf(tmp_path / name / folder, "r", pairs, annotations=[(0, 128, label)])
        mapping = Labels(classes={"a": "OOK", "tx7": "2FSK"})
        entry = CaptureEntry(name=name, adapter=name, path="x", task="E-ID-AMC", mapping=mapping)
        scenes = next(adapter(tmp_path / name, entry, SceneShape(samples=64, sample_rate_hz=1e6)).scenes())
        assert (scenes.session[0], scenes.label[0]) == (session, label or "tx7")


def test_cu8_is_centred_between_the_codes(cu8_set, reader):
    (cu8_set / "data/x.cu8").write_bytes(bytes([0, 255] * 600))
    scenes = next(reader("cu8", cu8_set).scenes())
    np.testing.assert_allclose(scenes.iq[0, 0], (-1 + 1j) / np.sqrt(2), rtol=1e-6)
    assert (scenes.label[0], scenes.session[0]) == ("OOK", "sx")


def test_cir_keeps_taps_in_order_and_ranges(cir_set, reader):
    scenes = next(reader("cir", cir_set).scenes())
    taps = np.load(cir_set / "uwb.npz")["cir"].astype(float)
    taps = taps[..., 0] + 1j * taps[..., 1]
    np.testing.assert_allclose(scenes.iq[:, 0] * np.sqrt(np.mean(np.abs(taps) ** 2, 1))[:, None], taps, rtol=1e-4)
    assert [item["range_error_m"] for item in scenes.detail] == [None, 0.5, 0.5, 0.5]


def test_csi_frame_puts_the_wave_where_the_label_says(csi_set, reader):
    made = reader("csi", csi_set)
    scenes = next(made.scenes())
    positions = np.array(made.geometry())
    angles = np.arange(-180.0, 180.0, 1.0)
    steering = np.exp(
        2j * np.pi * (np.stack([np.cos(np.radians(angles)), np.sin(np.radians(angles))], 1) @ positions.T)
    )
    power = (np.abs(np.einsum("ta,nas->nts", steering.conj(), scenes.iq)) ** 2).sum(axis=2)
    np.testing.assert_allclose(angles[power.argmax(axis=1)], scenes.label, atol=1.0)
    # Packet timing is gone: elements differ by a phase alone.
    grid = np.fft.fft(scenes.iq)[..., CARRIERS % 128]
    assert np.abs(grid[..., 0] / grid[..., -1] - 1).max() < 0.05
    assert WAVELENGTH_M == 0.02708
