"""Pilots over beam soundings: what is measured comes through as it is, and what is synthetic is as it is stated."""

import numpy as np
import pytest

from common.errors import InputError
from emma.backbones.classical.estimation import least_squares
from emma.backbones.views import channel_estimate
from emma.captures.adapters import adapter
from emma.captures.in_domain import IN_DOMAIN, Side, in_domain
from emma.captures.pilots import pilots, received
from emma.captures.settings import CaptureEntry, SceneShape
from emma.data.embeddings import Embeddings
from emma.data.labels import target_field
from emma.data.reference import REFERENCE_START, Reference, reference_of
from emma.data.scenes import iterate_scenes, read_labelled
from emma.evaluation.scoring import point_score
from emma.readouts import make_readout
from emma.tasks import TARGETS, TaskID

ENTRY = {"name": "sweep", "adapter": "beam_sounding_csi", "path": "x", "task": "E-CH-CSI"}
SHAPE = {"samples": 320, "sample_rate_hz": 30.72e6}
#: Carriers of the synthetic sounder: every one but multiples of three.
SOUNDED = np.array([k for k in range(-100, 100) if k % 3])
POSITIONS = {"a": 28, "b": 30, "c": 32}


def write(folder, name, response, carriers=SOUNDED):
    """A campaign of responses ``[positions, 31, carriers]``."""
    grid = np.zeros((*response.shape[:2], 256), np.complex128)
    grid[..., carriers] = response
    np.savez(folder / f"{name}.npz", h=np.fft.ifft(grid).astype(np.complex64))


@pytest.fixture
def sweep(tmp_path, rng):
    """Three campaigns: at each position every beam has a gain, and all have one delay of six taps."""
    folder = tmp_path / "sweep"
    folder.mkdir()
    for name, positions in POSITIONS.items():
        gains = rng.normal(size=(positions, 31)) + 1j * rng.normal(size=(positions, 31))
        write(folder, name, gains[..., None] * np.exp(-2j * np.pi * 6 * SOUNDED / 256))
    return folder


def read(folder, **shape):
    return adapter(folder, CaptureEntry(**ENTRY), SceneShape(**SHAPE | shape))


def complexes(labels):
    return np.array(labels, np.float32).view(np.complex64).reshape(len(labels), 8, 64)


@pytest.fixture
def converted(sweep, tmp_path):
    """The record, the labelled index, what the scene file says of pilots, and the samples."""
    paths = [tmp_path / name for name in ("scenes.parquet", "index.parquet", "record.json")]
    record = read(sweep).convert(*paths)
    index = read_labelled(paths[1], target_field(TARGETS["channel"]))
    parts = list(iterate_scenes(paths[0]))
    return record, index, reference_of(parts[0][0].schema), np.concatenate([iq for _, iq in parts])


@pytest.fixture
def spec():
    from emma.data.release import load_release_config

    return load_release_config("config/releases/tiny.yaml").tasks[TaskID.E_CH_CSI]


def test_labels_are_what_was_measured(sweep, converted) -> None:
    record, index, reference, iq = converted
    assert (record.sessions, record.scenes, iq.shape) == (3, 90, (90, 8, 320))
    labels = complexes(index["channel"].to_pylist())
    nearest = [k for k in SOUNDED if -48 <= k <= 47]
    assert list(reference.carriers) == nearest
    np.testing.assert_allclose(np.mean(np.abs(labels) ** 2, axis=(1, 2)), 1, rtol=1e-5)
    for file, start in (("a", 0), ("b", 28), ("c", 58)):
        h = np.fft.fft(np.load(sweep / f"{file}.npz")["h"].astype(complex))[:, ::4][..., nearest]
        got = labels[start : start + len(h)]
        # One complex factor per scene, its level and phase; nothing else is changed.
        factor = np.sum(got * h.conj(), axis=(1, 2)) / np.sum(np.abs(h) ** 2, axis=(1, 2))
        np.testing.assert_allclose(got, factor[:, None, None] * h, atol=1e-5)
    estimate = channel_estimate(iq, np.asarray(index[REFERENCE_START.name]), reference)
    apart = np.angle(estimate[:, 0].mean(axis=1))
    again = np.angle((labels * np.exp(1j * apart)[:, None, None] * estimate.conj()).sum(axis=(1, 2)))
    assert np.abs(again).max() < 0.2
    assert set(index["session"].to_pylist()) == {"a", "b", "c"}


def test_pilots_give_the_channel_but_for_the_stated_noise(converted) -> None:
    _, index, reference, iq = converted
    labels, snr = complexes(index["channel"].to_pylist()), 10 ** (np.array(index["snr_db"].to_pylist()) / 10)
    estimate = channel_estimate(iq, np.asarray(index[REFERENCE_START.name]), reference)
    factor = np.sum(estimate * labels.conj(), axis=(1, 2)) / 512
    error = np.mean(np.abs(estimate - factor[:, None, None] * labels) ** 2, axis=(1, 2)) / np.abs(factor) ** 2
    # 64 of 128 carriers hold all of the signal: a pilot's SNR is twice the scene's.
    ratio = error * 2 * snr
    assert np.mean(ratio) == pytest.approx(1, abs=5 / np.sqrt(90 * 512))
    assert ratio.std() < 3 / np.sqrt(512)
    assert len(set(snr)) == 90
    assert 0 <= 10 * np.log10(snr.min()) < 3 < 17 < 10 * np.log10(snr.max()) <= 20


def test_pilots_are_those_of_the_task() -> None:
    from emma.data.release import load_release_config
    from rfgen.recipe import Recipe

    recipe = Recipe.model_validate(load_release_config("config/releases/tiny.yaml").rfgen)
    known = Reference.of(recipe.tasks["E-CH-CSI"].known_symbol())
    own = pilots(list(known.carriers))
    np.testing.assert_allclose(own.sent, known.sent, atol=1e-12)
    assert own.combs == known.combs


def test_a_delay_is_a_delay_and_symbols_do_not_meet(rng) -> None:
    carriers = [*range(-40, -8), *range(9, 41)]
    known = pilots(carriers)
    values = rng.normal(size=(2, 2, 64)) + 1j * rng.normal(size=(2, 2, 64))
    slope = np.exp(-2j * np.pi * 5 * np.array(carriers) / 128)
    plain, late = (received(channel * np.ones((2, 3, 64), complex), values, known) for channel in (1, slope))
    bodies = [made.reshape(2, 3, 2, 160) for made in (plain, late)]
    np.testing.assert_allclose(bodies[1][..., 5:], bodies[0][..., :-5], atol=1e-12)
    np.testing.assert_allclose(
        plain.reshape(2, 3, 2, 160)[..., :32], plain.reshape(2, 3, 2, 160)[..., 128:], atol=1e-12
    )
    assert np.mean(np.abs(bodies[0][..., 32:]) ** 2) == pytest.approx(np.mean(np.abs(values) ** 2), rel=1e-9)


def test_scenes_depend_on_campaign_and_position_alone(sweep, tmp_path) -> None:
    first = {name: iq for part in read(sweep).scenes() for name, iq in zip(part.name, part.iq, strict=True)}
    (sweep / "a.npz").unlink()
    second = {name: iq for part in read(sweep).scenes() for name, iq in zip(part.name, part.iq, strict=True)}
    assert len(second) == 62
    for name, iq in second.items():
        np.testing.assert_array_equal(iq, first[name])


def test_a_readout_of_the_other_campaigns_finds_the_channel(converted, spec) -> None:
    _, index, reference, iq = converted
    estimate = channel_estimate(iq, np.asarray(index[REFERENCE_START.name]), reference)
    features = least_squares().embed(estimate, 240e3, 28e9)
    side = Side(index, Embeddings(index["scene_id"], features, None, "embeddings"))
    table = in_domain(spec, "sweep", None, side.lined(spec), 0)[IN_DOMAIN]
    assert point_score(spec, spec.metric, table) < -3
    blind = Side(index, Embeddings(index["scene_id"], features[:, :0], None, "embeddings"))
    table = in_domain(spec, "sweep", None, blind.lined(spec), 0)[IN_DOMAIN]
    assert point_score(spec, spec.metric, table) > -1


def test_components_beyond_the_scenes_of_a_fit_answer_nothing(spec, rng) -> None:
    """Of 20 labels 19 components say all; those beyond have no label to follow, and get no weight."""
    target, features = rng.normal(size=(20, 1024)), rng.normal(size=(20, 6))
    few = spec.model_copy(update={"readout": spec.readout.model_copy(update={"components": 19})})
    every, some = (
        make_readout(one).fit(features, target, np.repeat(["a", "b"], 10)).scores(features) for one in (spec, few)
    )
    np.testing.assert_allclose(every, some, atol=1e-9)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, r"h: nothing, expected complex \[positions, 31, 256\]"),
        ({"h": np.ones((2, 31, 128), np.complex64)}, "expected complex"),
        ({"h": np.zeros((2, 31, 256), np.complex64)}, "a position without power"),
        # A single tap holds every carrier, a constant over taps the empty one alone.
        ({"h": np.ones((2, 31, 256), np.complex64)}, "h: 0 and 0 carriers below and above the centre, expected 32"),
    ],
)
def test_another_layout_is_refused(tmp_path, change, words) -> None:
    np.savez(tmp_path / "a.npz", **change)
    with pytest.raises(InputError, match=words):
        list(read(tmp_path).scenes())


def test_other_carriers_and_another_scene_are_refused(sweep, rng) -> None:
    with pytest.raises(InputError, match="expected 320 samples at 30720000 Hz"):
        list(read(sweep, samples=224).scenes())
    write(sweep, "d", rng.normal(size=(3, 31, 200)) + 0j, np.arange(-100, 100))
    with pytest.raises(InputError, match=r"d\.npz: h: other carriers than before"):
        list(read(sweep).scenes())
