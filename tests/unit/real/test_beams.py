"""Beam soundings: probes of a sweep become the rows of a scene, and the sweep's powers its label."""

import numpy as np
import pytest

from common.errors import InputError
from emma.captures.adapters import adapter
from emma.captures.in_domain import IN_DOMAIN, Side, in_domain
from emma.captures.settings import CaptureEntry, Labels, SceneShape, check_mapping
from emma.data.embeddings import Embeddings
from emma.data.labels import target_field
from emma.data.scenes import iterate_scenes, read_labelled
from emma.evaluation.scoring import point_score
from emma.tasks import TARGETS, TaskID

ENTRY = {"name": "sweep", "adapter": "beam_sounding", "path": "x", "task": "E-CH-BEAM"}
SHAPE = {"samples": 256, "sample_rate_hz": 61.44e6}


@pytest.fixture
def sweep(tmp_path, rng):
    """Three campaigns of one path each: the strongest beam moves along it, and echoes are weak."""
    folder = tmp_path / "sweep"
    folder.mkdir()
    for name, positions in (("a", 8), ("b", 9), ("c", 10)):
        h = 0.02 * (rng.normal(size=(positions, 31, 256)) + 1j * rng.normal(size=(positions, 31, 256)))
        at = np.linspace(2, 28, positions)
        h[:, :, 4] += np.exp(-(((np.arange(31) - at[:, None]) / 4.0) ** 2))
        np.savez(folder / f"{name}.npz", h=h.astype(np.complex64), rssi_db=np.zeros((positions, 31), np.float32))
    return folder


def read(folder, **shape):
    return adapter(folder, CaptureEntry(**ENTRY), SceneShape(**SHAPE | shape))


def converted(folder, tmp_path):
    paths = [tmp_path / name for name in ("scenes.parquet", "index.parquet", "record.json")]
    return read(folder).convert(*paths), paths


def test_probes_and_powers(sweep, tmp_path) -> None:
    record, paths = converted(sweep, tmp_path)
    assert (record.sessions, record.scenes) == (3, 27)
    index = read_labelled(paths[1], target_field(TARGETS["beam"]))
    iq = np.concatenate([scenes for _, scenes in iterate_scenes(paths[0])])
    assert iq.shape == (27, 8, 256)
    powers = np.array(index["beam_power"].to_pylist())
    for file, start in (("a", 0), ("b", 8)):
        h = np.load(sweep / f"{file}.npz")["h"]
        power = (np.abs(h) ** 2).sum(axis=2)
        np.testing.assert_allclose(powers[start : start + len(h)], power / power.max(axis=1, keepdims=True), rtol=1e-5)
        # One factor per scene, on every probe: what the probes tell of one another stays.
        probes, got = h[:, ::4], iq[start : start + len(h)]
        factor = np.sum(got * probes.conj(), axis=(1, 2)) / np.sum(np.abs(probes) ** 2, axis=(1, 2))
        np.testing.assert_allclose(got, factor[:, None, None] * probes, atol=2e-3)
    assert set(index["session"].to_pylist()) == {"a", "b", "c"}


def test_a_readout_of_the_other_campaigns_finds_the_beam(sweep, tmp_path) -> None:
    from emma.data.release import load_release_config

    _, paths = converted(sweep, tmp_path)
    index = read_labelled(paths[1], target_field(TARGETS["beam"]))
    spec = load_release_config("config/releases/tiny.yaml").tasks[TaskID.E_CH_BEAM]
    spec = spec.model_copy(update={"classes": tuple(f"B{i:02}" for i in range(31))})
    iq = np.concatenate([scenes for _, scenes in iterate_scenes(paths[0])])
    features = (np.abs(iq) ** 2).sum(axis=2).astype(np.float32)
    side = Side(index, Embeddings(index["scene_id"], features, None, "embeddings"))
    tables = in_domain(spec, "sweep", None, side.lined(spec), 0)
    assert point_score(spec, "TopKAccuracy", tables[IN_DOMAIN]) > 0.9
    blind = Side(index, Embeddings(index["scene_id"], features[:, :0], None, "embeddings"))
    assert point_score(spec, "TopKAccuracy", in_domain(spec, "sweep", None, blind.lined(spec), 0)[IN_DOMAIN]) < 0.5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, r"h: nothing, expected complex \[positions, 31, 256\]"),
        ({"h": np.zeros((2, 30, 256), np.complex64)}, "expected complex"),
        ({"h": np.zeros((2, 31, 256), np.float32)}, "h: float32"),
        ({"h": np.full((2, 31, 256), np.nan, np.complex64)}, "NaN or infinity"),
        ({"h": np.zeros((2, 31, 256), np.complex64)}, "a position without power"),
    ],
)
def test_another_layout_is_refused(tmp_path, change, words) -> None:
    np.savez(tmp_path / "a.npz", **change)
    with pytest.raises(InputError, match=words):
        list(read(tmp_path).scenes())


def test_the_folder_and_the_scene_are_checked(tmp_path, sweep, release) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="one file per campaign"):
        list(read(tmp_path / "empty").scenes())
    with pytest.raises(InputError, match="expected 256 samples at 61440000 Hz"):
        list(read(sweep, samples=128).scenes())
    named = CaptureEntry(**ENTRY, mapping=Labels(classes={"a": "B00"}))
    with pytest.raises(InputError, match="holds the labels itself"):
        check_mapping(named, release.tasks[TaskID.E_CH_BEAM])
