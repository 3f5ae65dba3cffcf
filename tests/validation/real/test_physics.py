"""Physics of the captured scenes, without learning: an adapter with a wrong sign or order fails here."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from common.errors import InputError
from common.files import read_yaml
from emma.backbones.views import channel_estimate
from emma.captures.adapters import adapter
from emma.captures.in_domain import Side
from emma.captures.scoring import Sides, capture_spec, score_capture
from emma.captures.settings import CaptureEntry, Labels, SceneShape, load_capture_set
from emma.data.embeddings import Embeddings
from emma.data.labels import CLASS, label_field, read_labels
from emma.data.provenance import Provenance
from emma.data.release import BootstrapSpec, load_release_config
from emma.data.scenes import read_labelled
from rfgen.physics import arrays

PROVENANCE = Provenance(name="m", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")
#: Median error of a Bartlett scan in degrees, as the set's own README states it.
BARTLETT = {"LOS_Set_A": 4.9, "LOS_Set_B": 5.8, "NLOS_Set_A": 24.0, "NLOS_Set_B": 29.0, "NLOS_Set_C": 10.0}
RANGE_BIAS_M = {"LOS": 0.22, "NLOS": 0.36, "NDP NLOS": 0.88}


def first(captures, folder, entry, shape):
    made = adapter(captures / folder, CaptureEntry(name="set", path="x", **entry), SceneShape(**shape))
    return made, next(made.scenes())


@pytest.fixture(scope="module")
def virtual_array(captures):
    entry = {"adapter": "csi_array", "task": "E-LOC-AOA"}
    return first(captures, "wsr_csi_aoa_los", entry, {"samples": 128, "sample_rate_hz": 40e6})


def medians(positions, scenes):
    """Median Bartlett error by set: the power of the whole scene, steered in the scenes' own convention."""
    angles = np.arange(0.0, 360.0)
    steering = arrays.response(positions, angles).conj()
    power = [
        (np.abs(np.einsum("ta,nas->nts", steering, scenes.iq[i : i + 200])) ** 2).sum(axis=2)
        for i in range(0, len(scenes.iq), 200)
    ]
    found = angles[np.concatenate(power).argmax(axis=1)]
    error = np.abs((found - np.array(scenes.label) + 180.0) % 360.0 - 180.0)
    group = np.array([item["group"] for item in scenes.detail])
    return {name: float(np.median(error[group == name])) for name in BARTLETT}


def test_bartlett_angles(virtual_array):
    made, scenes = virtual_array
    assert medians(np.array(made.geometry()), scenes) == pytest.approx(BARTLETT, abs=2.0)


def test_declared_arc_is_the_measured_array(virtual_array):
    made, _ = virtual_array
    assert np.abs(arrays.arc(16, 0.5, 0.32 / 0.02708) - np.array(made.geometry())).max() < 0.02


@pytest.fixture(scope="module")
def impulse_responses(captures):
    mapping = Labels(classes={"LOS": "LOS", "NLOS": "NLOS", "NDP NLOS": "NLOS"})
    entry = {"adapter": "cir", "task": "E-LOC-LOS", "mapping": mapping}
    return first(captures, "uwb_cir_los", entry, {"samples": 256, "sample_rate_hz": 998.4e6})[1]


def test_range_bias_rises_out_of_sight(impulse_responses):
    found = {}
    for name in RANGE_BIAS_M:
        errors = [item["range_error_m"] for item in impulse_responses.detail if item["group"] == name]
        found[name] = float(np.median([error for error in errors if error is not None]))
    assert found == pytest.approx(RANGE_BIAS_M, abs=0.02)
    assert found["LOS"] < found["NLOS"] < found["NDP NLOS"]


def test_first_path_is_where_it_was_detected(impulse_responses):
    power = (np.abs(impulse_responses.iq[:, 0]) ** 2).mean(axis=0)
    # The first path lies 32 taps from the start: quiet before, a decay after.
    assert power[:30].max() < 0.02 * power[31:36].max()
    assert power[31:64].sum() > 5 * power[96:].sum()


def test_packets_of_links_are_causal(captures):
    entry = {"adapter": "csi_array", "task": "E-LOC-LOS", "mapping": Labels(classes={"LOS": "LOS", "NLOS": "NLOS"})}
    _, scenes = first(captures, "wsr_csi_aoa_los", entry, {"samples": 4096, "sample_rate_hz": 20e6})
    power = np.abs(scenes.iq.reshape(-1, 64, 64)) ** 2
    peak = power.argmax(axis=2)
    around = [np.take_along_axis(power, (peak[..., None] + lag) % 64, axis=2).mean() for lag in range(-6, 7)]
    # Echoes come after the strongest path more than before it.
    assert sum(around[8:]) > 2 * sum(around[:5])


@pytest.mark.parametrize(
    ("folder", "name", "task", "mapping", "shape", "scenes", "classes", "left"),
    [
        (
            "rtl433_2015",
            "labelled_iq",
            "E-ID-AMC",
            Labels(column="modulation", classes={"OOK": "OOK", "2FSK": "2FSK"}),
            {"samples": 16384, "sample_rate_hz": 250e3},
            151,
            {"OOK": 119, "2FSK": 32},
            ["data/UPM_02__gfile002.cu8"],
        ),
        (
            "sat_audio_amc",
            "sat_audio",
            "E-ID-AMC",
            Labels(classes={"FSK": "2FSK", "AFSK": "FM", "BPSK": "BPSK", "DBPSK": "BPSK"}),
            {"samples": 8192, "sample_rate_hz": 48e3},
            71,
            {"2FSK": 43, "FM": 10, "BPSK": 18},
            [],
        ),
        (
            "mixed_iq",
            "mixed_iq",
            "E-ID-DRONE",
            Labels(classes={"drone": "present", "cellular": "absent", "adsb": "absent"}),
            {"samples": 4096, "sample_rate_hz": 20e6, "windows": 8, "upsample": True},
            48,
            {"present": 8, "absent": 40},
            [],
        ),
        (
            "pluto_5g",
            "labelled_iq",
            "E-ID-FP",
            Labels(column="device", classes={"Pluto1": "U01", "Pluto2": "U02", "Pluto3": "U03"}),
            {"samples": 4096, "sample_rate_hz": 7.68e6, "windows": 4},
            32,
            {"U01": 12, "U02": 12, "U03": 8},
            [],
        ),
    ],
)
def test_recordings_convert(captures, tmp_path, folder, name, task, mapping, shape, scenes, classes, left):
    entry = CaptureEntry(name="set", adapter=name, path="x", task=task, mapping=mapping, leave_out=left)
    made = adapter(captures / folder, entry, SceneShape(**shape))
    record = made.convert(tmp_path / "s.parquet", tmp_path / "index.parquet", tmp_path / "r.json")
    labels = read_labels(tmp_path / "labels.parquet", CLASS)["class"].to_pylist()
    assert record.scenes == scenes
    assert {label: labels.count(label) for label in set(labels)} == classes
    assert json.loads((tmp_path / "r.json").read_text()) == record.model_dump(mode="json")


def test_three_transmitters_have_a_score_and_no_gap(captures, tmp_path):
    """A demonstration without a synthetic side: fit and enrolled on other files, scored on each file once."""
    root = Path(__file__).parents[3]
    tasks = load_release_config(root / "config/releases/v0.1.yaml").tasks
    listed = read_yaml(root / "config/real_captures.yaml")["real_captures"]
    content = next(entry for entry in listed if entry["name"] == "pluto_5g")
    entry = CaptureEntry.model_validate(content | {"path": str(captures / "pluto_5g")})
    declared = load_capture_set(root, entry, tasks)
    index = tmp_path / "index.parquet"
    record = adapter(entry.path, entry, declared.scene).convert(tmp_path / "s.parquet", index, tmp_path / "r.json")
    assert (record.scenes, record.sessions) == (128, 8)
    spec = capture_spec(tasks[declared.task], declared)
    table = read_labelled(index, label_field(spec))
    # What tells the device from every file of its own is found by readouts that never saw that file.
    known = np.eye(3)[[spec.classes.index(name) for name in table["class"].to_pylist()]]
    rng = np.random.default_rng(0)
    for values, least, most in (
        (known + 0.1 * rng.standard_normal(known.shape), 0.99, 1.0),
        (rng.standard_normal(known.shape), 0.1, 0.55),
    ):
        side = Side(table, Embeddings(table["scene_id"], values.astype(np.float32), PROVENANCE, "known"))
        manifest = SimpleNamespace(bootstrap=BootstrapSpec(resamples=200, level=0.95))
        scores, _ = score_capture(spec, declared, manifest, Sides(None, side), None, 0)
        assert least <= scores.in_domain.captured.score <= most
        assert scores.in_domain.captured.sessions == 8
        assert scores.gap_percentage_points is scores.synth is scores.captured is scores.in_domain.synthetic is None
        assert scores.undefined_reason == "no synthetic scenes are like this set's"


def test_the_same_bytes_under_two_names_are_found(captures, tmp_path):
    mapping = Labels(column="modulation", classes={"OOK": "OOK", "2FSK": "2FSK"})
    entry = CaptureEntry(name="set", adapter="labelled_iq", path="x", task="E-ID-AMC", mapping=mapping)
    made = adapter(captures / "rtl433_2015", entry, SceneShape(samples=16384, sample_rate_hz=250e3))
    with pytest.raises(InputError, match=r"UPM_02__gfile002.cu8.*the same samples as data/UPM_02__gfile001.cu8"):
        made.convert(tmp_path / "s.parquet", tmp_path / "index.parquet", tmp_path / "r.json")


def test_keying_shows_in_the_bytes(captures):
    """OOK bursts keep one frequency while on, 2FSK bursts two: the spread of the instantaneous frequency differs."""
    mapping = Labels(column="modulation", classes={"OOK": "OOK", "2FSK": "2FSK"})
    entry = CaptureEntry(name="set", adapter="labelled_iq", path="x", task="E-ID-AMC", mapping=mapping)
    made = adapter(captures / "rtl433_2015", entry, SceneShape(samples=16384, sample_rate_hz=250e3, start=4096))
    spread: dict[str, list] = {"OOK": [], "2FSK": []}
    for scenes in made.scenes():
        x = scenes.iq[0, 0]
        loud = np.abs(x[1:]) > 0.5 * np.quantile(np.abs(x), 0.98)
        step = np.angle(x[1:] * x[:-1].conj())[loud]
        spread[scenes.label[0]].append(np.quantile(step, 0.8) - np.quantile(step, 0.2))
    assert np.median(spread["2FSK"]) > 2 * np.median(spread["OOK"])


def test_pilots_hear_the_delay_of_the_sounding(captures):
    """Every campaign's taps peak at the fourth of 256, a delay of two samples at half the rate: not at minus two."""
    entry = CaptureEntry(name="set", adapter="beam_sounding_csi", path="x", task="E-CH-CSI")
    shape = SceneShape(samples=320, sample_rate_hz=30.72e6)
    delays = np.arange(-16.0, 16.0, 0.25)
    for scenes in adapter(captures / "mmwave_beams", entry, shape).scenes():
        carriers = np.array(scenes.reference.carriers)
        heard = channel_estimate(scenes.iq, np.array(scenes.reference_start), scenes.reference)
        back = np.exp(2j * np.pi * carriers[:, None] * delays / scenes.reference.size)
        found = delays[(np.abs(heard @ back) ** 2).sum(axis=(0, 1)).argmax()]
        assert found == pytest.approx(4.25 / 2, abs=0.25), scenes.session[0]
