"""Small capture sets of every layout, written by hand, and the entries that read them."""

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, Labels, SceneShape
from emma.data.release import load_release_config
from rfgen.recipe import Recipe


def write_sigmf(folder: Path, name: str, pairs: np.ndarray, **changes) -> Path:
    """One recording; ``pairs`` is the integer or float array as it lies in the file, interleaved.

    Annotations are (start, count, label) with further keys, without a count or label where that is None.
    """
    datatype = changes.pop("datatype", "ci8")
    channels = changes.pop("channels", 1)
    count = len(pairs) // (2 * channels)
    data = changes.pop("data", pairs.tobytes())
    head = {
        "core:datatype": datatype,
        "core:sample_rate": changes.pop("rate", 1e6),
        "core:version": "1.2.0",
        "core:num_channels": channels,
        "core:sha512": hashlib.sha512(data).hexdigest(),
    }
    annotations = changes.pop("annotations", [(0, count, "a")])
    meta = {
        "global": head | changes.pop("head", {}),
        "captures": changes.pop("captures", [{"core:sample_start": 0, "core:frequency": 2.44e9}]),
        "annotations": [annotation(*values) for values in annotations],
    }
    assert not changes
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.sigmf-data").write_bytes(data)
    path = folder / f"{name}.sigmf-meta"
    path.write_text(json.dumps(meta))
    return path


def annotation(start, count, label, more=None) -> dict:
    known = {"core:sample_start": start, "core:sample_count": count, "core:label": label}
    return {key: value for key, value in known.items() if value is not None} | (more or {})


def write_labels(folder: Path, rows: list[dict]) -> None:
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def sigmf_set(tmp_path, rng):
    folder = tmp_path / "sigmf"
    for name in ("one", "two"):
        pairs = rng.integers(-100, 100, 2 * 256).astype(np.int8)
        write_sigmf(folder, name, pairs, annotations=[(0, 128, "a"), (128, 128, "b")])
    return folder


@pytest.fixture
def cu8_set(tmp_path, rng):
    folder = tmp_path / "cu8"
    (folder / "data").mkdir(parents=True)
    rows = []
    for name, label in (("x", "OOK"), ("y", "2FSK")):
        (folder / f"data/{name}.cu8").write_bytes(rng.integers(0, 256, 2 * 600).astype(np.uint8).tobytes())
        rows.append(
            {
                "path": f"data/{name}.cu8",
                "label": "family",
                "session": f"s{name}",
                "device": name,
                "modulation": label,
                "sample_rate_hz": 250000,
                "center_freq_hz": 433.92e6,
            }
        )
    write_labels(folder, rows)
    return folder


@pytest.fixture
def cir_set(tmp_path, rng):
    folder = tmp_path / "cir"
    folder.mkdir()
    labels = ["LOS", "NLOS", "NDP NLOS", "LOS"]
    np.savez(
        folder / "uwb.npz",
        cir=rng.integers(-99, 99, (4, 256, 2)).astype(np.int16),
        label=np.array(labels),
        log=np.arange(4) // 2,
    )
    write_labels(
        folder,
        [
            {
                "path": f"uwb.npz#{i}",
                "label": label,
                "session": f"log{i // 2}",
                "sample_rate_hz": 998.4e6,
                "center_freq_hz": 3993.6e6,
                "true_range_m": 2.0,
                "measured_range_m": 2.5 if i else "nan",
            }
            for i, label in enumerate(labels)
        ],
    )
    return folder


def plane_waves(angles: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Virtual-array CSI ``[n, 16, 30, 2]`` of plane waves with packet timing, and the positions ``[n, 16, 2]``."""
    from emma.captures.csi import CARRIERS, WAVELENGTH_M

    rng = np.random.default_rng(seed)
    pos = np.stack([np.arange(16) * 0.0135 - 0.1, 0.005 * np.cos(np.arange(16))], axis=-1)
    theta = np.radians(angles)
    u = np.stack([np.cos(theta), np.sin(theta)], axis=-1)
    phase = 2 * np.pi / WAVELENGTH_M * (u @ pos.T)
    timing = rng.uniform(-0.2, 0.2, (len(angles), 16, 1)) * CARRIERS
    x = np.exp(1j * (phase[..., None] + timing))
    return np.stack([x.real, x.imag], axis=-1).astype(np.float16), np.broadcast_to(pos, (len(angles), 16, 2))


@pytest.fixture
def csi_set(tmp_path):
    folder = tmp_path / "csi"
    folder.mkdir()
    angles = np.array([-30.0, 20.0, 75.0, 140.0, -160.0])
    x, pos = plane_waves(angles)
    n = len(angles)
    place = {
        "set": np.array(["A"] * n),
        "loc": np.array(["L1"] * n),
        "stamp": np.array(["t"] * n),
        "tx": np.array(["tx1"] * n),
    }
    np.savez(folder / "va16.npz", x=x, pos_m=pos.astype(np.float32), aoa_local_deg=angles.astype(np.float32), **place)
    write_labels(
        folder,
        [
            {
                "path": f"va16.npz#{i}",
                "label": angle,
                "session": "A/L1/t",
                "device": "tx1",
                "center_freq_hz": 5.54e9,
                "los": "LOS",
            }
            for i, angle in enumerate(angles)
        ],
    )
    return folder


@pytest.fixture(scope="module")
def release():
    return load_release_config(Path(__file__).parents[3] / "config/releases/tiny.yaml")


@pytest.fixture(scope="module")
def recipe(release):
    return Recipe.from_mapping(release.rfgen)


ENTRIES = {
    "sigmf": (
        {"adapter": "sigmf", "task": "E-ID-AMC", "mapping": Labels(classes={"a": "OOK", "b": "2FSK"})},
        {"samples": 64, "sample_rate_hz": 1e6},
    ),
    "cu8": (
        {
            "adapter": "labelled_iq",
            "task": "E-ID-AMC",
            "mapping": Labels(column="modulation", classes={"OOK": "OOK", "2FSK": "2FSK"}),
        },
        {"samples": 128, "sample_rate_hz": 250e3, "start": 100},
    ),
    "cir": (
        {
            "adapter": "cir",
            "task": "E-LOC-LOS",
            "mapping": Labels(classes={"LOS": "LOS", "NLOS": "NLOS", "NDP NLOS": "NLOS"}),
        },
        {"samples": 256, "sample_rate_hz": 998.4e6},
    ),
    "csi": ({"adapter": "csi_array", "task": "E-LOC-AOA"}, {"samples": 128, "sample_rate_hz": 40e6}),
}


@pytest.fixture
def reader():
    def make(kind: str, folder: Path, **shape):
        entry, default = ENTRIES[kind]
        return adapter(folder, CaptureEntry(name="set", path="x", **entry), SceneShape(**default | shape))

    return make
