"""Twins and surrogates: their multipath, their signals and their receivers against what they are declared to be."""

import copy

import numpy as np
import pytest
import yaml

from emma.data.extends import read_extended
from rfgen.captures import surrogate as surrogates
from rfgen.captures.multipath import Multipath, draw, numbers_of
from rfgen.captures.twins import TwinRecipe, generate, raised_cosine, remove_linear_phase
from rfgen.physics import arrays
from rfgen.physics.delays import HALF
from rfgen.physics.propagation import apply_channel
from rfgen.recipe import Recipe
from rfgen.scenes.drone import LEAD

from .conftest import RELEASES

ROOT = RELEASES.parents[1]
NAMES = ("wsr_aoa", "wsr_los", "uwb_los", "rtl433_amc")
SURROGATES = ("surrogate_aoa", "surrogate_los", "surrogate_drone", "surrogate_amc")


def declared(name):
    return yaml.safe_load((ROOT / f"config/captures/{name}.yaml").read_text())


def twin(name, **changes):
    content = declared(name)
    return TwinRecipe(twin={**content["twin"], "task": content["task"], **changes}).twin


def surrogate(name, **changes):
    content = declared(name)
    return surrogates.Surrogate.model_validate({**content["surrogate"], "task": content["task"], **changes})


@pytest.fixture(scope="module")
def recipe():
    return Recipe.from_mapping(read_extended(ROOT / "config/releases/tiny.yaml")["rfgen"])


@pytest.fixture(scope="module")
def multipath():
    return Multipath.model_validate(declared("wsr_aoa")["twin"]["multipath"])


@pytest.mark.parametrize(("name", "shipped"), [("office", "wsr_aoa"), ("residential", "uwb_los")])
def test_a_published_model_by_name_is_the_one_of_the_shipped_sets(name, shipped):
    numbers = declared(shipped)["twin"]["multipath"]
    assert numbers_of(name) == Multipath.model_validate(numbers)
    one, other = (next(generate(twin(shipped, multipath=value), "x", "TRAIN", 1)).iq for value in (name, numbers))
    np.testing.assert_array_equal(one, other)
    with pytest.raises(ValueError, match="multipath"):
        twin(shipped, multipath="outdoor")


def paths(multipath, *, los, n=4000):
    rng = np.random.default_rng(3)
    return draw(multipath, np.full(n, los), np.full(n, 70.0), rng)


def test_paths_have_unit_power_and_the_declared_k_factor(multipath):
    for los in (True, False):
        made = paths(multipath, los=los)
        power = np.abs(made.gain) ** 2
        assert power.sum(axis=1).mean() == pytest.approx(1.0, abs=0.02)
        direct = power[:, 0]
        k = 10 * np.log10(direct[direct > 0] / (1 - direct[direct > 0]))
        if los:
            assert k.mean() == pytest.approx(7.0, abs=0.3)
            assert k.std() == pytest.approx(4.0, abs=0.3)
            assert (made.delay_s[:, 0] == 0).all()
            assert (made.azimuth_deg[:, 0] == 70.0).all()
        else:
            assert not direct.any()


def test_power_decays_and_spreads_as_declared(multipath):
    one = multipath.model_copy(update={"nlos": multipath.nlos.model_copy(update={"clusters": 1e-9})})
    made = paths(one, los=False)
    power = np.abs(made.gain) ** 2
    # One cluster: rays arrive at a rate from the first on, and decay exponentially; its mean delay is the decay's.
    later = power.copy()
    later[:, :2] = 0
    assert (later * made.delay_s).sum() / later.sum() == pytest.approx(2.86e-8, rel=0.05)
    spread = (made.azimuth_deg[:, 1:41] - made.azimuth_deg[:, 1:41].mean(axis=1, keepdims=True)).std()
    assert spread == pytest.approx(25.5, rel=0.05)
    centre = made.azimuth_deg[:, 1:41].mean(axis=1) - 70.0
    assert centre.mean() == pytest.approx(0.0, abs=4.0)
    assert centre.std() == pytest.approx(np.hypot(59.0, 25.5 / np.sqrt(40)), rel=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_twins_have_the_set_s_shape_and_balanced_labels(name):
    content, made = declared(name), twin(name)
    chunk = next(generate(made, name, "TRAIN", 5))
    rows = 16 if name == "wsr_aoa" else 1
    assert chunk.iq.shape == (40, rows, content["scene"]["samples"])
    assert chunk.iq.dtype == np.complex64
    np.testing.assert_allclose(np.mean(np.abs(chunk.iq) ** 2, axis=(1, 2)), 1.0, rtol=1e-5)
    assert set(chunk.metadata["sample_rate_hz"]) == {content["scene"]["sample_rate_hz"]}
    if content["task"] == "E-LOC-AOA":
        assert 0 <= min(chunk.labels["azimuth_deg"]) < max(chunk.labels["azimuth_deg"]) < 360
    else:
        labels = chunk.labels["class"]
        assert {label: labels.count(label) for label in labels} == dict.fromkeys(content["classes"], 20)
    assert len(set(chunk.metadata["link_id"])) == 40


def test_a_chunk_depends_on_its_own_name_alone():
    made = twin("uwb_los")
    few = twin("uwb_los", scenes={"TRAIN": 80, "DEV": 40})
    all_of_it = [chunk.iq for chunk, _ in zip(generate(made, "a", "TRAIN", 5), range(2), strict=False)]
    np.testing.assert_array_equal([chunk.iq for chunk in generate(few, "a", "TRAIN", 5)], all_of_it)
    for other in (("b", "TRAIN", 5), ("a", "DEV", 5), ("a", "TRAIN", 6)):
        assert not np.array_equal(next(generate(made, *other)).iq, all_of_it[0])


def test_the_array_of_the_sounded_twin_points_at_the_bearing():
    content = declared("wsr_aoa")["twin"]["multipath"]
    clear = copy.deepcopy(content)
    clear["los"] |= {"k_factor_db": 30.0, "k_factor_std_db": 0.0}
    made = twin("wsr_aoa", multipath=clear, los_share=1.0, snr_db=[35.0, 35.0])
    chunk = next(generate(made, "x", "TRAIN", 1))
    # Without its linear phase, every element hears the direct path at sample 0.
    assert (np.abs(chunk.iq).argmax(axis=2) == 0).mean() > 0.99
    # The product of both directions turns twice as fast: positions in half the wavelength.
    positions = 2 * arrays.arc(16, 0.25, 5.9131)
    angles = np.arange(0.0, 360.0)
    power = np.abs(np.einsum("ta,nas->nts", arrays.response(positions, angles).conj(), chunk.iq)) ** 2
    found = angles[power.sum(axis=2).argmax(axis=1)]
    error = np.abs((found - np.array(chunk.labels["azimuth_deg"]) + 180) % 360 - 180)
    assert np.median(error) < 2.0


def test_packets_of_a_link_have_their_own_phase_and_timing():
    chunk = next(generate(twin("wsr_los"), "x", "TRAIN", 1))
    packets = chunk.iq.reshape(40, 64, 64)
    los = np.array(chunk.labels["class"]) == "LOS"
    peak = np.abs(packets[los]).argmax(axis=2)
    assert set(np.percentile(peak, [10, 90])) <= {2, 3, 4, 5}  # 150 to 250 ns at 50 ns a sample
    step = np.angle(packets[:, 1:, 4] * packets[:, :-1, 4].conj())
    assert np.abs(np.exp(1j * step).mean()) < 0.1


def test_echoes_come_after_the_first_path():
    chunk = next(generate(twin("wsr_los", timing_s=[1e-6, 1e-6], los_share=0.0), "x", "TRAIN", 1))
    power = (np.abs(chunk.iq.reshape(40, 64, 64)) ** 2).mean(axis=(0, 1))
    # The first path lies at 20 samples of 50 ns; carriers two apart repeat after 32.
    assert power[21:30].sum() > 3 * power[10:19].sum()


def test_slope_over_carriers_is_removed_and_the_phase_at_zero_kept():
    carriers = np.array([-28, -10, -1, 1, 11, 28])
    flat = 2.0 * np.exp(0.4j)
    sloped = flat * np.exp(-0.05j * carriers)[None]
    np.testing.assert_allclose(remove_linear_phase(sloped, carriers), np.full((1, 6), flat), atol=1e-12)


def test_impulse_responses_start_at_the_first_path():
    for number, chunk in zip(range(3), generate(twin("uwb_los"), "x", "TRAIN", 1), strict=False):
        del number
        magnitude = np.abs(chunk.iq[:, 0])
        before, peak = magnitude[:, :31].max(axis=1), magnitude.max(axis=1)
        assert (before < peak).all()
        los = np.array(chunk.labels["class"]) == "LOS"
        assert np.median(magnitude[los].argmax(axis=1)) in {32, 33, 34, 35}
        assert np.median((before / peak)[los]) < 0.05


def test_raised_cosine():
    t = np.array([0.0, 1.0, 2.0, 0.5, 1.0 + 1e-12])
    # At t = 1 / (2 rolloff) the formula has a removable singularity.
    np.testing.assert_allclose(raised_cosine(t, 0.5), [1, 0, 0, np.sinc(0.5) * np.cos(np.pi / 4) / 0.75, 0], atol=1e-9)
    assert raised_cosine(np.array([0.5]), 1.0)[0] == pytest.approx(0.5)


def test_keyed_twin_holds_both_keyings():
    made = twin("rtl433_amc", snr_db=[60.0, 60.0], offset_hz=0.0, dc=0.0, lead_s=0.0, bits_adc=14)
    chunk = next(generate(made, "x", "TRAIN", 2))
    for label, wave in zip(chunk.labels["class"], chunk.iq[:, 0], strict=True):
        envelope = np.abs(wave) / np.abs(wave).max()
        on = envelope > 0.5
        frequency = np.angle(wave[1:] * wave[:-1].conj())[on[1:] & on[:-1]] * 250e3 / (2 * np.pi)
        if label == "2FSK":
            level = np.median(np.abs(frequency))
            assert 14e3 < level < 51e3
            assert np.mean(np.abs(np.abs(frequency) - level) < 1e3) > 0.9
        else:
            assert np.median(np.abs(frequency)) < 500
            assert 0.2 < on.mean() < 0.8


@pytest.mark.parametrize("name", SURROGATES)
def test_surrogates_are_eight_bits_and_labelled(tmp_path, recipe, name):
    made = surrogate(name, sessions=2, scenes=22)
    recordings = list(surrogates.recordings(made, recipe, name, 7))
    assert [recording.number for recording in recordings] == [0, 1]
    for recording in recordings:
        assert recording.pairs.dtype == np.int8
        rms = np.sqrt((recording.pairs.astype(float) ** 2).sum(axis=-1).mean())
        assert 20 * np.log10(127 / rms) == pytest.approx(12.0, abs=0.6)
        assert len(recording.labels) == 22
        assert len(recording.pairs) == 22 * recording.samples
        surrogates.write(recording, made, recipe, tmp_path)
    text = (tmp_path / "session-01.sigmf-meta").read_text()
    assert '"emma:kind": "surrogate"' in text
    assert str(tmp_path) not in text
    again = next(surrogates.recordings(made, recipe, name, 7))
    np.testing.assert_array_equal(again.pairs, recordings[0].pairs)


def chain(**changes):
    quiet = {"clock_ppm": [0.0, 0.0], "gain_imbalance_db": [0.0, 0.0], "phase_imbalance_deg": [0.0, 0.0]}
    quiet |= {"dc_db": [-200.0, -200.0], "interference_share": 0.0, "interference_db": [0.0, 0.0], "headroom_db": 12.0}
    return surrogates.SurrogateReceiver.model_validate(quiet | changes)


def tone(samples=1024, line=101):
    """A tone of whole periods in `samples`, with what the clock needs on either side."""
    return np.exp(2j * np.pi * line * np.arange(-HALF, samples + HALF) / samples)[None, None]


def inside(signal):
    return signal[..., HALF:-HALF]


def lines(signal):
    return np.abs(np.fft.fft(signal[0, 0])) ** 2 / signal.shape[-1] ** 2


def test_receiver_faults_have_their_declared_size():
    rng = np.random.default_rng(1)
    clean = inside(tone())
    np.testing.assert_allclose(surrogates.receive(tone(), chain(), rng), clean, atol=1e-9)
    spur = lines(surrogates.receive(tone(), chain(dc_db=[-20.0, -20.0]), rng))
    assert 10 * np.log10(spur[0]) == pytest.approx(-20.0, abs=0.01)
    image = lines(surrogates.receive(tone(), chain(gain_imbalance_db=[1.0, 1.0], phase_imbalance_deg=[5.0, 5.0]), rng))
    g = 10 ** (1 / 20) * np.exp(1j * np.radians(5.0))
    assert image[-101] / image[101] == pytest.approx(abs((1 - g) / (1 + g)) ** 2, rel=1e-6)
    burst = surrogates.receive(tone(), chain(interference_share=1.0, interference_db=[0.0, 0.0]), rng) - clean
    assert 0.1 <= np.mean(np.abs(burst) > 0.5) <= 0.31


def test_sample_clock_stretches_time():
    shifted = surrogates.apply_clock_offset(tone(4096, 500), 100.0)
    # A clock that is fast sees the tone slower.
    phase = np.unwrap(np.angle(shifted[0, 0] * inside(tone(4096, 500))[0, 0].conj()))
    slope = np.polyfit(np.arange(4096), phase, 1)[0] / (2 * np.pi * 500 / 4096)
    assert slope == pytest.approx(-100e-6, rel=5e-3)
    assert phase[2048] == pytest.approx(0.0, abs=1e-6)


def db(x):
    return 10 * np.log10(np.max(np.mean(np.abs(x) ** 2, axis=0)) + 1e-30)


def test_ends_under_an_off_clock_are_those_of_a_longer_stretch():
    rng = np.random.default_rng(5)
    spectrum = np.fft.fft(rng.standard_normal((40, 3072, 2)) @ [1, 1j])
    spectrum[:, np.abs(np.fft.fftfreq(3072)) > 0.4] = 0
    signal = np.fft.ifft(spectrum)
    signal /= np.sqrt(np.mean(np.abs(signal) ** 2))
    middle = signal[:, 1024 - HALF : 2048 + HALF]
    part = surrogates.apply_clock_offset(middle, 100.0)
    # The same times, by the spectrum of the whole stretch: exact but at its far ends.
    shift = -100e-6 * (np.arange(1024) - 512)
    turn = np.exp(2j * np.pi * np.fft.fftfreq(3072)[:, None] * (1024 + np.arange(1024) + shift))
    assert db(part - spectrum @ turn / 3072 / np.sqrt(np.mean(np.abs(np.fft.ifft(spectrum)) ** 2))) < -60
    # What lies outside of the margin changes nothing.
    np.testing.assert_array_equal(part, surrogates.apply_clock_offset(middle.copy(), 100.0))


@pytest.mark.parametrize("name", ["surrogate_amc", "surrogate_aoa"])
def test_a_surrogate_scene_is_that_of_a_longer_stretch(recipe, name, monkeypatch):
    """Nothing is heard at a scene's ends but what a stretch that starts earlier and ends later has there."""
    made = surrogate(name, sessions=1, scenes=22)
    kept = {}
    monkeypatch.setattr(surrogates, "add_awgn", lambda signal, snr_db, rng, active: kept.setdefault("window", signal))
    emitted = surrogates._emission

    def kept_emission(*args):
        kept["sent"] = emitted(*args)
        return kept["sent"]

    def kept_draw(*args):
        kept["paths"] = draw(*args)
        return kept["paths"]

    monkeypatch.setattr(surrogates, "_emission", kept_emission)
    monkeypatch.setattr(surrogates, "draw", kept_draw)
    monkeypatch.setattr(surrogates, "frequency_shift", lambda signal, frequency: signal)
    surrogates._scenes(made, recipe, np.random.default_rng(2))
    # The same in a stretch four times as long, of silence: what is outside of the stretch must not matter.
    task, sent, paths = recipe.tasks[made.task], kept["sent"], kept["paths"]
    far = np.random.default_rng(3).standard_normal((22, 4000))
    long = np.concatenate([far, sent.signal, far], axis=1)
    start = 4000 + LEAD - HALF
    gains = paths.at(task.positions(recipe, made.band))
    window = slice(start, start + task.samples + 2 * HALF)
    whole = apply_channel(long, gains, paths.delay_s, task.sample_rate_hz, window)
    error = kept["window"] - whole
    level = np.mean(np.abs(whole) ** 2)
    assert db(error.reshape(-1, error.shape[-1]) / np.sqrt(level)) < -60


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"scenes": {"TRAIN": 41, "DEV": 40}}, "multiple"),
        ({"scenes": {"TRAIN": 40}}, "DEV"),
        ({"kind": "other"}, "kind"),
        ({"extra": 1}, "extra"),
        ({"snr_db": [3.0, 1.0]}, "lower first"),
    ],
)
def test_a_wrong_twin_is_refused(change, word):
    with pytest.raises(ValueError, match=word):
        twin("uwb_los", **change)


def test_a_surrogate_of_a_task_without_one_is_refused(recipe):
    with pytest.raises(ValueError, match="has no surrogate"):
        surrogate("surrogate_aoa", task="E-ID-FP")
    with pytest.raises(ValueError, match="9GHz"):
        next(surrogates.recordings(surrogate("surrogate_aoa", band="9GHz"), recipe, "x", 1))
