"""What a capture set may not be is refused in one line, before anything is made or embedded."""

import json

import numpy as np
import pytest
import yaml

from common.errors import InputError
from common.files import parse
from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, CaptureSet, Labels, SceneShape, load_capture_set
from rfgen.captures.surrogate import Surrogate
from rfgen.captures.twins import TwinRecipe
from workflow_support.captures import check_captures, fitted_scenes

from .conftest import write_sigmf
from .test_arrays import ARRAY, CARRIER, INDOOR, ROOT, SET, TONE, declared

LOS = {"task": "E-LOC-LOS", "name": "los", "twin": "release", "anchors": None, "anchor_law": None}
OWN = {"kind": "circular", "elements": 8, "orientation_deg": 0.0, "frame": "counter-clockwise"}
#: The release's: neighbours half a wavelength of 5.8 GHz apart.
RELEASE_RADIUS = 0.025844 / (2 * np.sin(np.pi / 8))


def shipped(name, **changes):
    path = ROOT / f"config/captures/{name}.yaml"
    return parse(CaptureSet, yaml.safe_load(path.read_text()) | changes, path)


def write_set(folder, channels, rate=20e6, frequency=2.44e9, label="LOS", samples=256):
    rng = np.random.default_rng(channels)
    pairs = rng.integers(-100, 100, 2 * channels * samples).astype(np.int8)
    path = write_sigmf(folder, "r", pairs, channels=channels, rate=rate, annotations=[(0, samples, label)])
    meta = json.loads(path.read_text())
    meta["captures"][0]["core:frequency"] = frequency
    path.write_text(json.dumps(meta))


def converted(one, folder, out, recipe, classes=None):
    entry = CaptureEntry(name=one.name, adapter="sigmf", path="x", task=one.task, mapping=Labels(classes=classes or {}))
    made = adapter(folder, entry, one.scene)
    fitted = fitted_scenes(one, recipe, "tiny", "s.yaml")
    return made.convert(out / "s.parquet", out / "index.parquet", out / "r.json", fitted)


@pytest.mark.parametrize("channels", [7, 1, 9])
def test_another_number_of_antennas_is_refused_before_a_file_is_written(recipe, tmp_path, channels):
    one = declared(**LOS, scene={"samples": 256, "sample_rate_hz": 20e6})
    write_set(tmp_path / "set", channels)
    (tmp_path / "out").mkdir()
    expected = f"scenes of {channels} antennas? and 256 samples at 2e.07 Hz, but its readout is fit on E-LOC-LOS scenes"
    with pytest.raises(InputError, match=expected + ".*: 8 antennas and 256 samples") as error:
        converted(one, tmp_path / "set", tmp_path / "out", recipe, {"LOS": "LOS"})
    assert "\n" not in str(error.value)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_release_s_own_shape_is_taken(recipe, tmp_path):
    one = declared(**LOS, scene={"samples": 256, "sample_rate_hz": 20e6})
    write_set(tmp_path / "set", 8)
    assert converted(one, tmp_path / "set", tmp_path, recipe, {"LOS": "LOS"}).scenes == 1


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (declared(**LOS, scene={"samples": 128, "sample_rate_hz": 20e6}), "128 samples at 2e.07 Hz, .* 256 samples"),
        (declared(**LOS, scene={"samples": 256, "sample_rate_hz": 1e7}), "256 samples at 1e.07 Hz, .* at 2e.07 Hz"),
        (shipped("mixed_drone", scene={"samples": 2048, "sample_rate_hz": 2e7}), "2048 samples .* 4096 samples"),
        (shipped("uwb_los", scene={"samples": 256, "sample_rate_hz": 5e8}), "twin.sample_rate_hz: 998400000.0"),
        (shipped("wsr_aoa", scene={"samples": 64, "sample_rate_hz": 4e7}), "twin.samples: 128, expected 64 as in"),
        (declared(scene={"samples": 256, "sample_rate_hz": 1e6}), "scene.array: expected with a matched synth"),
        (declared(twin={**TONE, "positions_m": [[0, 0], [1, 0]]}), "twin.positions_m: unknown key"),
        (declared(twin={**TONE, "task": "E-LOC-LOS"}), "twin.task: unknown key"),
        (declared(twin={**TONE, "frequency_hz": 1e300}), "frequency_hz"),
        (declared(twin={**TONE, "kind": "other"}), "kind"),
        (shipped("rtl433_amc", classes=["OOK", "BPSK"]), "classes: .*BPSK.*, expected those of the twin"),
        (shipped("surrogate_aoa", surrogate={"band": "9GHz"} | {"x": 1}), "surrogate: .*"),
    ],
)
def test_a_set_that_its_readout_is_not_fit_on_is_refused_at_the_door(recipe, one, words):
    with pytest.raises(InputError, match=words) as error:
        check_captures([one], recipe, "tiny")
    assert "\n" not in str(error.value)
    assert f"config/captures/{one.name}.yaml" in str(error.value)


def test_every_shipped_set_passes(recipe):
    names = sorted(path.stem for path in (ROOT / "config/captures").glob("*.yaml"))
    check_captures([shipped(name) for name in names], recipe, "tiny")


def test_fingerprints_take_no_capture_set():
    with pytest.raises(InputError, match="E-ID-FP has no gap: its readout enrols the release's own devices"):
        declared(**LOS | {"task": "E-ID-FP"})


@pytest.mark.parametrize(
    ("array", "order"),
    [
        ({"radius_m": RELEASE_RADIUS}, None),
        ({"radius_m": RELEASE_RADIUS, "order": "clockwise"}, (0, 7, 6, 5, 4, 3, 2, 1)),
        ({"radius_m": RELEASE_RADIUS, "first_deg": 45.0}, (7, 0, 1, 2, 3, 4, 5, 6)),
    ],
)
def test_the_release_s_array_is_taken_in_any_order(recipe, array, order):
    scene = {"samples": 256, "sample_rate_hz": 20e6, "array": OWN | array}
    one = declared(**LOS | {"task": "E-LOC-AOA"}, scene=scene)
    fitted = fitted_scenes(one, recipe, "tiny", "s.yaml")
    assert fitted.order == order
    assert fitted.carriers_hz == (2.44e9, 5.8e9)


def test_channels_come_in_the_release_s_order(recipe, tmp_path):
    array = OWN | {"radius_m": RELEASE_RADIUS, "order": "clockwise"}
    one = declared(**LOS | {"task": "E-LOC-AOA"}, scene={"samples": 256, "sample_rate_hz": 20e6, "array": array})
    write_set(tmp_path / "set", 8, label="20.0")
    converted(one, tmp_path / "set", tmp_path, recipe)
    from emma.data.scenes import iterate_scenes

    pairs = np.fromfile(tmp_path / "set/r.sigmf-data", np.int8).reshape(256, 8, 2).astype(float) @ [1, 1j]
    iq = next(iterate_scenes(tmp_path / "s.parquet"))[1][0]
    expected = pairs.T[[0, 7, 6, 5, 4, 3, 2, 1]]
    told = json.loads((tmp_path / "r.json").read_text())["converts"]
    assert told["order"].startswith("channels 0, 7, 6, 5, 4, 3, 2, 1, as the elements of E-LOC-AOA scenes")
    assert "azimuths, counter-clockwise from the array's +x axis" in told["bearings"]
    np.testing.assert_allclose(iq, expected / np.sqrt(np.mean(np.abs(expected) ** 2)), atol=1e-3)


@pytest.mark.parametrize(
    "array", [{"radius_m": 0.12}, {"radius_m": RELEASE_RADIUS, "first_deg": 10.0}, {"radius_m": 0.1, "elements": 7}]
)
def test_another_array_than_the_release_s_is_refused(recipe, array):
    scene = {"samples": 256, "sample_rate_hz": 20e6, "array": OWN | array}
    one = declared(**LOS | {"task": "E-LOC-AOA"}, scene=scene)
    with pytest.raises(InputError, match=r"scene\.array: expected the array of release tiny"):
        fitted_scenes(one, recipe, "tiny", "s.yaml")


def test_angles_need_a_stated_array(tmp_path):
    (tmp_path / "config/captures").mkdir(parents=True)
    (tmp_path / "sets").mkdir()
    path = tmp_path / "config/captures/circle.yaml"
    entry = CaptureEntry(name="circle", adapter="sigmf", path="sets", task="E-LOC-AOA")
    content = SET | {"twin": "release", "anchors": None, "anchor_law": None}
    path.write_text(yaml.safe_dump(content | {"scene": {"samples": 256, "sample_rate_hz": 20e6}}))
    with pytest.raises(InputError, match=r"scene\.array: expected with angles"):
        load_capture_set(tmp_path, entry)
    path.write_text(yaml.safe_dump(content))
    assert load_capture_set(tmp_path, entry).scene.array.elements == 8


@pytest.mark.parametrize(
    ("changes", "label", "words"),
    [
        ({"channels": 4}, "10", "scenes of 4 antennas .* its readout is fit on scenes of its matched .*: 8 antennas"),
        ({"frequency": 2.4e9}, "10", "carrier 2.4e.09 Hz, expected 2.45e.09 Hz within 1 %"),
        ({"frequency": 0.0}, "10", "carrier unknown, expected 2.45e.09 Hz"),
        ({}, "east", "'east', expected degrees"),
        ({}, "300", "label 300(.0)?: azimuth 129.5 .*, but its readout is fit on bearings from -60 to 60"),
    ],
)
def test_a_recording_that_contradicts_the_statement_is_refused(recipe, tmp_path, changes, label, words):
    one = declared(twin=TONE | {"bearing_deg": [-60.0, 60.0]})
    write_set(tmp_path / "set", **{"channels": 8, "rate": 1e6, "frequency": CARRIER, "label": label} | changes)
    with pytest.raises(InputError, match=words):
        converted(one, tmp_path / "set", tmp_path, recipe)


@pytest.mark.parametrize(
    "change",
    [
        {"orientation_deg": 400.0},
        {"frame": "clockwise"},
        {"elements": 0},
        {"radius_m": 0.0},
        {"radius_m": -1.0},
        {"radius_m": 1e9},
        {"spacing_m": 0.1},
        {"kind": "spiral"},
        {"kind": "positions"},
    ],
)
def test_a_wrong_array_is_refused(change):
    with pytest.raises(InputError, match=r"scene\.array"):
        declared(scene={"samples": 256, "sample_rate_hz": 1e6, "array": ARRAY | change})


def test_two_elements_at_one_place_are_refused():
    places = {"kind": "positions", "positions_m": [[0, 0], [1, 0], [0, 0]], "orientation_deg": 0, "frame": "compass"}
    with pytest.raises(ValueError, match="two elements at one place"):
        SceneShape.model_validate({"samples": 1, "sample_rate_hz": 1.0, "array": places})


def array_twin(**changes):
    places = [[0.0, 0.0], [0.05, 0.0], [0.0, 0.05]]
    given = {"task": "E-LOC-AOA", "samples": 256, "sample_rate_hz": 1e6, "positions_m": places}
    return parse(TwinRecipe, {"twin": TONE | given | changes}, "x")


def shipped_twin(name, **changes):
    content = yaml.safe_load((ROOT / f"config/captures/{name}.yaml").read_text())
    return parse(TwinRecipe, {"twin": content["twin"] | {"task": content["task"]} | changes}, "x")


@pytest.mark.parametrize(
    ("make", "change", "words"),
    [
        (array_twin, {"bandwidth_hz": 1e5}, "bandwidth_hz: expected with excitation burst or ofdm"),
        (array_twin, {"excitation": "ofdm"}, "bandwidth_hz: expected with excitation"),
        (array_twin, {"excitation": "burst", "bandwidth_hz": 2e6}, "within 0.9 of the"),
        (array_twin, {"offset_hz": [-1e6, 0.0]}, "within 0.9 of the"),
        (array_twin, {"excitation": "ofdm", "bandwidth_hz": 100.0}, "two of 64 carriers"),
        (array_twin, {"excitation": "burst", "bandwidth_hz": 1e3}, "four symbols"),
        (array_twin, {"positions_m": [[0.0, 0.0]]}, "one element"),
        (array_twin, {"positions_m": [[0.0, 0.0], [0.0, 0.1], [0.0, 0.2]]}, "does not tell its sides apart"),
        (array_twin, {"bearing_deg": [0.0, 0.0]}, "bearing_deg"),
        (array_twin, {"bearing_deg": [-300.0, 300.0]}, "bearing_deg"),
        (array_twin, {"frequency_hz": 0.0}, "frequency_hz"),
        (array_twin, {"frequency_hz": 1e13}, "frequency_hz"),
        (array_twin, {"sample_rate_hz": 1e-3}, "sample_rate_hz"),
        (array_twin, {"snr_db": [0.0, 1e9]}, "snr_db"),
        (array_twin, {"phase_error_deg": -1.0}, "phase_error_deg"),
        (array_twin, {"chunk": 0}, "chunk"),
        (array_twin, {"scenes": {"TRAIN": 40}}, "scenes.DEV"),
    ]
    + [
        (lambda **changes: shipped_twin("wsr_aoa", **changes), change, words)
        for change, words in (
            ({"carriers": [0]}, r"carriers: \[0\], expected two or more"),
            ({"carriers": []}, "carriers: .*, expected two or more"),
            ({"carriers": [1, 2, 1]}, "a carrier occurs twice"),
            ({"carriers": [0, 64]}, "carriers: expected numbers from -64 to 63"),
            ({"carriers": [0, 1.5]}, "carriers"),
            ({"spacing_hz": 1e6}, "one symbol of 1 / spacing_hz"),
            ({"timing_s": [0.0, 1.0]}, "timing_s"),
            ({"timing_s": [-1e-9, 0.0]}, "timing_s"),
            ({"los_share": 1.5}, "los_share"),
        )
    ]
    + [
        (lambda **changes: shipped_twin("uwb_los", **changes), change, words)
        for change, words in (
            ({"first": 256}, "first"),
            ({"symbol_rate_hz": 9e8}, "pulse within the sampled band"),
            ({"snr_db": [10.0, 20.0]}, "strongest path above the threshold"),
        )
    ]
    + [
        (lambda **changes: shipped_twin("rtl433_amc", **changes), change, words)
        for change, words in (
            ({"bits": [0.0, 3.0]}, "bits"),
            ({"bits": [1.5, 3.0]}, "bits"),
            ({"symbol_s": [1e-6, 1e-6]}, "symbol_s"),
            ({"deviation_hz": [1e5, 2e5]}, "deviation_hz"),
            ({"lead_s": 1.0}, "lead_s"),
            ({"dc": 2.0}, "dc"),
            ({"bits_adc": 99}, "bits_adc"),
        )
    ],
)
def test_numbers_of_a_matched_set_have_their_range(make, change, words):
    make()
    with pytest.raises(InputError, match=words) as error:
        make(**change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("clusters", 0.0),
        ("clusters", 1e6),
        ("cluster_rate_hz", 1e-300),
        ("ray_rates_hz", []),
        ("ray_rates_hz", [1.0, 0.0]),
        ("ray_decay_s", 0.0),
        ("k_factor_db", 1e4),
        ("ray_mix", 1.1),
        ("cluster_shadow_db", 1e4),
    ],
)
def test_numbers_of_the_multipath_have_their_range(key, value):
    with pytest.raises(InputError, match=key):
        array_twin(multipath=INDOOR | {"los": INDOOR["los"] | {key: value}})


@pytest.mark.parametrize(
    ("key", "value"),
    [("clock_ppm", [0.0, 1e6]), ("dc_db", [-1e4, 0.0]), ("interference_share", 2.0), ("headroom_db", 1e3)],
)
def test_numbers_of_a_surrogate_s_receiver_have_their_range(key, value):
    content = yaml.safe_load((ROOT / "config/captures/surrogate_aoa.yaml").read_text())["surrogate"]
    parse(Surrogate, content | {"task": "E-LOC-AOA"}, "x")
    with pytest.raises(InputError, match=key):
        parse(Surrogate, content | {"task": "E-LOC-AOA", "receiver": content["receiver"] | {key: value}}, "x")
