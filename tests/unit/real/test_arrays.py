"""Arrays of one's own: how they stood, what their labels mean, and a number for one that no release has."""

import json
from pathlib import Path

import numpy as np
import pytest
import yaml

from common.errors import InputError
from common.files import parse
from emma.backbones.dsp import DSP
from emma.captures.adapters import adapter
from emma.captures.in_domain import Side
from emma.captures.scoring import Sides, capture_spec, score_capture
from emma.captures.settings import CaptureEntry, CaptureSet, SceneShape
from emma.data.embeddings import Embeddings
from emma.data.labels import label_field
from emma.data.provenance import Provenance
from emma.data.release import DataReleaseManifest, load_release_config
from emma.data.scenes import SceneChunk, iterate_scenes, read_labelled, write_scenes
from emma.tasks import TaskID
from rfgen.captures.twins import generate
from workflow_support.captures import fitted_scenes
from workflow_support.matched import matched_set

from .conftest import write_sigmf

ROOT = Path(__file__).parents[3]
#: An eight-element circle of another radius, in compass bearings and clockwise, heard by a tone.
CARRIER, RADIUS, AXIS, RATE = 2.45e9, 0.12, 69.5, 1e6
ARRAY = {
    "kind": "circular",
    "elements": 8,
    "radius_m": RADIUS,
    "order": "clockwise",
    "orientation_deg": AXIS,
    "frame": "compass",
}
INDOOR = yaml.safe_load((ROOT / "config/captures/wsr_aoa.yaml").read_text())["twin"]["multipath"]
TONE = {
    "kind": "array",
    "frequency_hz": CARRIER,
    "excitation": "tone",
    "offset_hz": [-200e3, 200e3],
    "snr_db": [10.0, 30.0],
    "gain_error_db": 0.5,
    "phase_error_deg": 3.0,
    "los_share": 1.0,
    "chunk": 40,
    "scenes": {"TRAIN": 800, "DEV": 120},
    "multipath": "office",
}
SET = {
    "name": "circle",
    "kind": "real",
    "task": "E-LOC-AOA",
    "source": "a test",
    "licence": "CC0-1.0",
    "session": "recording",
    "caveats": ["Written by a test."],
    "scene": {"samples": 256, "sample_rate_hz": RATE, "array": ARRAY},
    "anchors": {"minimum": 0.0, "maximum": 90.0},
    "anchor_law": "bearings are uniform over the circle",
    "twin": TONE,
}
CLEAR = {"los": INDOOR["los"] | {"k_factor_db": 60.0, "k_factor_std_db": 0.0}, "nlos": INDOOR["nlos"]}


def declared(**changes):
    return parse(CaptureSet, SET | changes, "circle.yaml")


def twin(**changes):
    return matched_set(declared(twin=TONE | changes), "circle.yaml")


def recorded(rng, bearing_deg, samples=300):
    """A tone from a compass bearing at the array, with two weaker echoes, ``[8, samples]``."""
    compass = np.radians(AXIS + 45.0 * np.arange(8))
    east, north = RADIUS * np.sin(compass), RADIUS * np.cos(compass)
    heard = np.zeros(8, complex)
    for level, degrees in ((1.0, bearing_deg), (0.15, rng.uniform(0, 360)), (0.1, rng.uniform(0, 360))):
        toward = np.radians(degrees)
        ahead = (east * np.sin(toward) + north * np.cos(toward)) / (299792458.0 / CARRIER)
        heard += level * np.exp(2j * np.pi * (ahead + rng.random()))
    time = np.arange(samples) / RATE
    tone = np.exp(2j * np.pi * rng.uniform(-1e5, 1e5) * time)
    noise = rng.standard_normal((8, samples, 2)) @ [1, 1j]
    return heard[:, None] * tone + 0.05 * noise


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Twelve recordings of ten bearings each, by code that knows nothing of this project."""
    folder, rng = tmp_path_factory.mktemp("circle"), np.random.default_rng(11)
    for number in range(12):
        bearings = rng.uniform(0, 360, 10)
        iq = np.concatenate([recorded(rng, bearing) for bearing in bearings], axis=1).T.ravel()
        pairs = np.stack([iq.real, iq.imag], axis=-1).astype("<f4").ravel()
        marks = [(300 * i, 300, f"{bearing:.4f}") for i, bearing in enumerate(bearings)]
        about = {"datatype": "cf32_le", "channels": 8, "rate": RATE, "annotations": marks}
        path = write_sigmf(folder, f"r{number:02d}", pairs, **about)
        meta = json.loads(path.read_text())
        meta["captures"][0]["core:frequency"] = CARRIER
        path.write_text(json.dumps(meta))
    return folder


@pytest.fixture(scope="module")
def converted(recordings, recipe, tmp_path_factory):
    """The captured scenes: IQ ``[120, 8, 256]``, and the paths of file and index."""
    out = tmp_path_factory.mktemp("converted")
    one = declared()
    entry = CaptureEntry(name="circle", adapter="sigmf", path="x", task="E-LOC-AOA")
    paths = out / "s.parquet", out / "index.parquet", out / "r.json"
    fitted = fitted_scenes(one, recipe, "tiny", "circle.yaml")
    adapter(recordings, entry, one.scene).convert(*paths, fitted)
    return paths


def bartlett(iq):
    """Azimuth of the strongest plane wave by the test's own steering vectors: the elements go round clockwise."""
    places = RADIUS * np.exp(-2j * np.pi * np.arange(8) / 8) / (299792458.0 / CARRIER)
    grid = np.arange(0.0, 360.0, 0.25)
    steering = np.exp(2j * np.pi * (places * np.exp(-1j * np.radians(grid))[:, None]).real)
    covariance = iq @ iq.conj().transpose(0, 2, 1)
    power = np.einsum("ga,nab,gb->ng", steering.conj(), covariance, steering, optimize=True).real
    return grid[power.argmax(axis=1)]


def apart(one, other):
    return np.abs((np.asarray(one) - np.asarray(other) + 180) % 360 - 180)


def test_another_circle_needs_no_trick(converted, release, recipe, tmp_path):
    scenes, index, _ = converted
    label = label_field(release.tasks[TaskID.E_LOC_AOA])
    captured = read_labelled(index, label)
    iq = np.concatenate([part for _, part in iterate_scenes(scenes)])
    assert iq.shape == (120, 8, 256)
    error = apart(bartlett(iq), captured["azimuth_deg"])
    assert np.median(error) < 2.0
    assert np.percentile(error, 90) < 5.0
    # The same of the matched set, whose elements keep errors of calibration.
    chunk = next(generate(twin(multipath=CLEAR), "x", "TRAIN", 1))
    assert np.median(apart(bartlett(chunk.iq), chunk.labels["azimuth_deg"])) < 2.0
    # And a number far better than the floor, from TRAIN scenes of the matched set alone.
    one, made, backbone = declared(), twin(), DSP()
    provenance = Provenance(name="dsp", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")
    sides = []
    for split in ("TRAIN", "DEV"):
        paths = tmp_path / f"{split}.parquet", tmp_path / f"{split}.index.parquet"
        chunks = (SceneChunk.of(c) for c in generate(made, one.name, split, release.seed))
        write_scenes(*paths, chunks, label)
        sides.append(paths)
    sides.append((scenes, index))
    embedded = [
        Side(
            read_labelled(place, label),
            Embeddings(
                read_labelled(place, label)["scene_id"],
                np.concatenate([backbone.embed(iq, RATE, CARRIER) for _, iq in iterate_scenes(path)]),
                provenance,
                "e",
            ),
        )
        for path, place in sides
    ]
    generator = {"rfgen_version": "0", "rfgen_source_sha256": "0" * 64}
    manifest = DataReleaseManifest(**release.model_dump(), provenance=generator, splits={})
    fit, synth, captured = embedded
    spec = capture_spec(manifest.spec(TaskID.E_LOC_AOA), one)
    scores, _ = score_capture(spec, one, manifest, Sides(fit, captured, synth), None, 0)
    assert scores.captured.score < 15.0
    assert scores.synth.score < 20.0
    assert scores.captured.n == 120
    assert scores.captured.sessions == 12


@pytest.mark.parametrize(
    "change",
    [{"order": "counter-clockwise"}, {"radius_m": 0.06}, {"orientation_deg": 0.0}, {"frame": "counter-clockwise"}],
)
def test_a_wrong_statement_shows(recordings, tmp_path, change):
    """The plane-wave check is a check: it fails where the array is stated wrongly."""
    array = SceneShape.model_validate({"samples": 256, "sample_rate_hz": RATE, "array": ARRAY | change}).array
    one = twin(multipath=CLEAR)
    chunk = next(generate(one.model_copy(update={"positions_m": array.places().tolist()}), "x", "TRAIN", 1))
    entry = CaptureEntry(name="circle", adapter="sigmf", path="x", task="E-LOC-AOA")
    shape = SceneShape.model_validate({"samples": 256, "sample_rate_hz": RATE, "array": ARRAY | change})
    adapter(recordings, entry, shape).convert(tmp_path / "s", tmp_path / "index.parquet", tmp_path / "r")
    captured = np.concatenate([part for _, part in iterate_scenes(tmp_path / "s")])
    labels = read_labelled(tmp_path / "index.parquet", label_field(_aoa()))["azimuth_deg"]
    errors = apart(bartlett(captured), labels), apart(bartlett(chunk.iq), chunk.labels["azimuth_deg"])
    assert max(map(np.median, errors)) > 20.0


def _aoa():
    return load_release_config(ROOT / "config/releases/tiny.yaml").tasks[TaskID.E_LOC_AOA]


@pytest.mark.parametrize(
    ("array", "sector"),
    [
        ({"kind": "circular", "elements": 16, "radius_m": 0.15, "first_deg": 22.5}, [0.0, 360.0]),
        ({"kind": "linear", "elements": 4, "spacing_m": 0.06}, [5.0, 175.0]),
        ({"kind": "linear", "elements": 4, "spacing_m": 0.06, "axis_deg": 90.0}, [-85.0, 85.0]),
        ({"kind": "positions", "positions_m": [[0, 0], [0.05, 0], [0.02, 0.05], [-0.03, 0.01]]}, [0.0, 360.0]),
    ],
)
@pytest.mark.parametrize(
    "sent",
    [
        {"excitation": "tone"},
        {"excitation": "burst", "bandwidth_hz": 3e5, "duty": [0.4, 0.8]},
        {"excitation": "ofdm", "bandwidth_hz": 6e5, "offset_hz": [0.0, 0.0]},
    ],
)
def test_any_array_hears_any_signal_from_its_bearing(array, sector, sent):
    scene = {"samples": 256, "sample_rate_hz": RATE, "array": array | {"orientation_deg": 0, "frame": "compass"}}
    quiet = {"gain_error_db": 0.0, "phase_error_deg": 0.0, "snr_db": [30.0, 30.0], "scenes": {"TRAIN": 40, "DEV": 40}}
    recipe = TONE | quiet | {"bearing_deg": sector, "multipath": CLEAR} | sent
    made = matched_set(declared(scene=scene, twin=recipe), "x")
    chunk = next(generate(made, "x", "TRAIN", 1))
    assert chunk.iq.shape == (40, made.antennas, 256)
    places = np.array(made.positions_m) @ [1, 1j] / (299792458.0 / CARRIER)
    # The direct path is all there is: the phases of the covariance are those of a plane wave.
    covariance = chunk.iq @ chunk.iq.conj().transpose(0, 2, 1)
    steering = np.exp(2j * np.pi * (places * np.exp(-1j * np.radians(chunk.labels["azimuth_deg"]))[:, None]).real)
    agreed = np.einsum("na,nab,nb->n", steering.conj(), covariance, steering, optimize=True).real
    assert (agreed / np.trace(covariance, axis1=1, axis2=2).real / made.antennas > 0.98).all()
    assert len(set(chunk.metadata["session"])) == 1
    low, high = sector
    assert all((x - low) % 360 <= high - low for x in chunk.labels["azimuth_deg"])
    width = np.abs(np.fft.fft(chunk.iq[:, 0] * np.hanning(256))) ** 2
    wide = (width > 0.02 * width.max(axis=1, keepdims=True)).sum(axis=1).mean() / 256
    assert wide == pytest.approx(sent.get("bandwidth_hz", 5e3) / RATE, rel=0.5, abs=0.02)


def test_a_burst_is_on_for_its_share():
    made = twin(excitation="burst", bandwidth_hz=4e5, duty=[0.5, 0.5], multipath=CLEAR, snr_db=[40.0, 40.0])
    iq = next(generate(made, "x", "TRAIN", 1)).iq
    level = np.abs(iq).mean(axis=1)
    assert (level > 0.1 * level.max(axis=1, keepdims=True)).mean() == pytest.approx(0.5, abs=0.05)


def test_front_ends_keep_errors_of_calibration():
    clean, left = (
        twin(gain_error_db=gain, phase_error_deg=phase, multipath=CLEAR, snr_db=[60.0, 60.0])
        for gain, phase in ((0.0, 0.0), (2.0, 10.0))
    )
    ratios = []
    for number, pair in enumerate(zip(generate(clean, "x", "TRAIN", 1), generate(left, "x", "TRAIN", 1), strict=True)):
        one, other = (chunk.iq.astype(complex) for chunk in pair)
        ratio = (other * one.conj()).mean(axis=2) / (np.abs(one) ** 2).mean(axis=2)
        np.testing.assert_allclose(ratio / ratio[:, :1], np.tile(ratio[:1] / ratio[0, 0], (40, 1)), rtol=0.02)
        ratios.append(ratio[0] / np.exp(1j * np.angle(ratio[0].mean())))
        if number == 11:
            break
    errors = np.stack(ratios)
    assert np.std(20 * np.log10(np.abs(errors))) == pytest.approx(2.0, rel=0.25)
    assert np.degrees(np.std(np.angle(errors))) == pytest.approx(10.0, rel=0.25)


def test_an_array_s_links_are_in_sight_or_not():
    one = declared(task="E-LOC-LOS", classes=["NLOS", "LOS"], twin=TONE | {"los_share": 0.5})
    chunk = next(generate(matched_set(one, "x"), "x", "TRAIN", 1))
    assert sorted(chunk.labels["class"]) == ["LOS"] * 20 + ["NLOS"] * 20
    errors = []
    for share in (1.0, 0.0):
        chunk = next(generate(twin(los_share=share), "x", "TRAIN", 1))
        errors.append(np.median(apart(bartlett(chunk.iq), chunk.labels["azimuth_deg"])))
    assert errors[0] < 10.0 < 20.0 < errors[1]


def test_azimuths_are_never_360_and_follow_the_frame():
    def azimuth(label, **changes):
        shape = {"samples": 1, "sample_rate_hz": 1.0, "array": ARRAY | changes}
        return SceneShape.model_validate(shape).array.azimuth(label)

    # By hand: north is 69.5 degrees to the left of an axis that points 69.5 degrees east of it.
    assert azimuth(0.0) == 69.5
    assert azimuth(90.0) == 339.5
    assert azimuth(90.0, frame="counter-clockwise") == 20.5
    assert azimuth(-1e-17, frame="counter-clockwise", orientation_deg=0.0) == 0.0
    assert azimuth(1e-17, orientation_deg=0.0) == 0.0


def test_a_stated_array_is_compared_with_the_one_that_the_set_holds(csi_set, reader, tmp_path):
    out = tmp_path / "out"
    held = np.load(csi_set / "va16.npz")["pos_m"][0].astype(float)
    stated = {"kind": "positions", "orientation_deg": 0.0, "frame": "counter-clockwise"}
    for places, words in ((held, None), (held[::-1], "places that the set itself"), (held[:8], "8 elements")):
        array = stated | {"positions_m": places.tolist()}
        made = reader("csi", csi_set)
        made.shape = SceneShape.model_validate({"samples": 128, "sample_rate_hz": 40e6, "array": array})
        paths = out / "s.parquet", out / "index.parquet", out / "r.json"
        if words is None:
            assert made.convert(*paths).scenes == 5
        else:
            with pytest.raises(InputError, match=words):
                made.convert(*paths)
