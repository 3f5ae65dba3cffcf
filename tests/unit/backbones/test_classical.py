"""The textbook estimators against signals whose answer is known."""

from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.special import digamma

from common.streams import complex_normal, stream
from emma.backbones.classical import anomaly, arrays, channels, modulation, sensing, waveforms
from emma.backbones.config import load_model_config
from emma.backbones.inputs import normalise
from emma.backbones.load import load_backbone
from emma.data.extends import read_extended
from emma.tasks import TaskID
from rfgen.physics import arrays as truth
from rfgen.recipe import Recipe
from rfgen.waveforms import linear, ofdm
from rfgen.waveforms.emitters import FAMILIES

CONFIG = Path(__file__).parents[3] / "config"
REFERENCES = {
    "music": (TaskID.E_LOC_AOA, (8, 256)),
    "k_factor_delay": (TaskID.E_LOC_LOS, (8, 256)),
    "cumulants": (TaskID.E_ID_AMC, (1, 1024)),
    "waveform_bank": (TaskID.E_ID_DRONE, (1, 4096)),
    "impairments": (TaskID.E_ID_FP, (1, 1024)),
    "energy_detector": (TaskID.E_SC_SENSE, (4, 1024)),
    "max_min_eigenvalue": (TaskID.E_SC_SENSE, (4, 1024)),
    "antenna_coherence": (TaskID.E_SC_SENSE, (4, 1024)),
    "cyclic_prefix": (TaskID.E_SC_SENSE, (4, 1024)),
    "band_energies": (TaskID.E_SC_ANOM, (1, 4096)),
    "spectral_flatness": (TaskID.E_SC_ANOM, (1, 4096)),
    "spectral_kurtosis": (TaskID.E_SC_ANOM, (1, 4096)),
}
RATE = 20e6


def recipe_of(release: str) -> Recipe:
    return Recipe.from_mapping(read_extended(CONFIG / "releases" / f"{release}.yaml")["rfgen"])


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return recipe_of("v0.1")


def shipped(name: str):
    config = load_model_config(CONFIG / "models" / f"{name}.yaml")
    return *load_backbone(config), config


@pytest.mark.parametrize("name", REFERENCES)
def test_configs_are_references_of_one_task(name: str) -> None:
    backbone, provenance, config = shipped(name)
    assert config.kind == "reference"
    assert config.tasks == (REFERENCES[name][0],)
    assert backbone.name == provenance.name == name
    assert provenance.weights_sha256 is None
    assert name in yaml.safe_load((CONFIG / "config.yaml").read_text())["models"]


def test_options_are_what_the_recipe_states(recipe: Recipe) -> None:
    array = recipe.tasks["E-LOC-AOA"].array
    stated = {"kind": array.kind, "elements": array.elements, "spacing_m": array.spacing_m}
    assert shipped("music")[2].options == stated
    uplink = recipe.tasks["E-LOC-LOS"]
    keys = ("subcarriers", "active_subcarriers", "cyclic_prefix")
    spacings = recipe_of("v1.0").tasks["E-SC-SENSE"].families["nr-ofdm"].spacing_hz
    told = shipped("cyclic_prefix")[2].options["useful_us"].split(",")
    assert [float(useful) for useful in told] == pytest.approx([3.2, *(1e6 / s for s in sorted(spacings)[::-1])])
    assert shipped("k_factor_delay")[2].options == {key: getattr(uplink, key) for key in keys}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_scene_is_embedded_by_itself_and_finitely(name: str) -> None:
    backbone, _, config = shipped(name)
    rng = stream(0, "embed", name)
    iq = normalise(complex_normal(rng, (5, *REFERENCES[name][1])).astype(np.complex64) * 3, config.normalise)
    iq[3] = 0
    iq[4] = 1
    together = backbone.embed(iq, RATE, 2.44e9)
    assert together.dtype == np.float32
    assert together.shape == (5, backbone.embedding_dim)
    assert np.isfinite(together).all()
    alone = np.concatenate([backbone.embed(scene[None], RATE, 2.44e9) for scene in iq])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-5)


def test_spectra_of_noise_and_of_a_tone_are_as_the_gamma_law_says() -> None:
    """Lines of white noise are Gamma distributed: a log mean of psi(M) - log M, a squared mean of 2 M / (M + 1)."""
    rng, segments = stream(0, "spectra"), np.array([16, 4, 1])
    noise = complex_normal(rng, (200, 1, 4096))
    found = anomaly.flatness(3 * noise)
    np.testing.assert_allclose(found[:, ::2].mean(axis=0), digamma(segments) - np.log(segments), atol=3e-3)
    np.testing.assert_allclose(np.exp(anomaly.kurtosis(noise)).mean(axis=0), 128 / 65, atol=0.1)
    np.testing.assert_allclose(anomaly.energies(5 * noise).mean(axis=0), 0.0, atol=0.05)
    # A tone in the middle of band 9 at 20 dB, as 4,096 samples see it: 4,096 times its power over the noise's.
    tone = 10 * np.exp(2j * np.pi * 9 / 64 * np.arange(4096))
    scene = noise + tone
    assert anomaly.flatness(scene)[:, 5].mean() == pytest.approx(np.log(100 * 4096 / 101), abs=0.01)
    assert np.exp(anomaly.kurtosis(scene))[:, 9].mean() == pytest.approx(1.0, abs=0.01)
    assert set(anomaly.energies(scene).argmax(axis=1)) == {9}
    for row in (anomaly.energies, anomaly.kurtosis, anomaly.flatness):
        with pytest.raises(ValueError, match="1000 samples, expected a multiple of"):
            row(noise[:, :, :1000])


def test_detectors_of_a_user_see_what_they_are_for() -> None:
    """One rank-one source: eigenvalues and coherence in closed form; antennas' gains move the coherence by nothing."""
    rng = stream(0, "sensing")
    gain = np.array([1.0, 0.5, 2.0, 1.5])[:, None]
    signal, noise = complex_normal(rng, (1, 1, 200_000)), complex_normal(rng, (1, 4, 200_000))
    iq = noise + np.sqrt(0.5) * signal
    # The covariance is 1 + 0.5 ones: eigenvalues 3 and 1; its coherences are 1/3, so that 2 and three of 2/3 are left.
    assert sensing.eigenvalue_ratio(iq)[0, 0] == pytest.approx(np.log(3), abs=0.02)
    for given in (iq, gain * iq):
        assert sensing.coherence(given)[0] == pytest.approx([-np.log(2 * (2 / 3) ** 3), np.log(2)], abs=0.02)
    assert sensing.energy(10 * iq)[0, 0] == pytest.approx(20 + 10 * np.log10(1.5), abs=0.05)
    with pytest.raises(ValueError, match="1 antennas, expected 2 or more"):
        shipped("max_min_eigenvalue")[0].embed(iq[:, :1].astype(np.complex64), RATE, 2.44e9)


def test_a_prefix_correlates_at_its_own_symbols_length() -> None:
    """A share of 16/80 of a symbol repeats 3.2 us later; carriers of 60 and 30 kHz have other lengths."""
    rng = stream(0, "prefix")
    values = ofdm.random_values(rng, (1000, 52), "QPSK")
    iq = ofdm.modulate(values, ofdm.carriers(52, 64), 64, 16)[None, None] * np.exp(0.01j * np.arange(80_000))
    found = sensing.prefix_correlation(iq, (3.2e-6, 1 / 60e3, 1 / 30e3), RATE)[0]
    assert found == pytest.approx([0.2, 0.0, 0.0], abs=0.02)
    with pytest.raises(ValueError, match="512 samples, expected more than an OFDM symbol's 667"):
        shipped("cyclic_prefix")[0].embed(iq[:, :, :512].astype(np.complex64), RATE, 2.44e9)


def test_the_covariance_is_the_arrays_own_numbers() -> None:
    """Trace 1, blind to level and carrier phase, whole: the matrix comes back from its numbers."""
    backbone, _, config = shipped("array_covariance")
    assert (config.kind, config.tasks) == ("reference", (TaskID.E_LOC_AOA, TaskID.E_LOC_LOS))
    assert backbone.embedding_dim == 64
    iq = complex_normal(stream(0, "covariance"), (4, 8, 256))
    mixed = (complex_normal(stream(0, "mix"), (8, 8)) @ iq).astype(np.complex64)
    numbers = backbone.embed(mixed, RATE, 2.44e9)
    np.testing.assert_allclose(backbone.embed(mixed * np.complex64(3j), RATE, 2.44e9), numbers, atol=1e-6)
    upper, lower = np.triu_indices(8), np.triu_indices(8, 1)
    matrix = np.zeros((4, 8, 8), complex)
    matrix[:, *upper] = numbers[:, :36]
    matrix[:, *lower] += 1j * numbers[:, 36:]
    wanted = mixed.astype(complex) @ mixed.conj().transpose(0, 2, 1)
    wanted /= np.trace(wanted, axis1=1, axis2=2)[:, None, None]
    np.testing.assert_allclose(matrix, np.triu(wanted), atol=1e-6)
    assert not backbone.embed(np.zeros((1, 8, 16), np.complex64), RATE, 2.44e9).any()
    with pytest.raises(ValueError, match="1 antennas, expected 8"):
        backbone.embed(np.ones((1, 1, 16), np.complex64), RATE, 2.44e9)


def off(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    return np.abs((found - wanted + 180) % 360 - 180)


def test_music_in_the_frame_of_the_worked_example() -> None:
    """Four elements a quarter wavelength out, a terminal due +y: the element at +y leads, that at -y lags."""
    places = arrays.positions("circular", 4, 0.25 * np.sqrt(2))
    np.testing.assert_allclose(places, [[0.25, 0], [0, 0.25], [-0.25, 0], [0, -0.25]], atol=1e-15)
    np.testing.assert_allclose(arrays.steering(places, np.array(90.0)), [1, 1j, 1, -1j], atol=1e-12)
    scene = np.array([1, 1j, 1, -1j])[None, :, None] * complex_normal(stream(0, "y"), (1, 1, 64))
    assert arrays.music_azimuth(scene, places)[0] == pytest.approx(90.0, abs=1e-3)
    # The other sign of time or of the phase would see it at 270.
    assert arrays.music_azimuth(scene.conj(), places)[0] == pytest.approx(270.0, abs=1e-3)


@pytest.mark.parametrize("snr_db", [5.0, 20.0, None])
def test_music_recovers_azimuths_all_round(snr_db: float | None) -> None:
    """The generator's own array and response, a horizontal wave; within four standard errors of the bound."""
    azimuth = np.concatenate([[0.0, 45.0, 90.0, 180.0, 270.0, 359.97], stream(0, "azimuth").uniform(0, 360, 60)])
    rng = stream(0, "music")
    places = truth.circular(8)
    np.testing.assert_allclose(arrays.positions("circular", 8, 0.5), places, atol=1e-15)
    scene = truth.response(places, azimuth)[:, :, None] * complex_normal(rng, (len(azimuth), 1, 256))
    bound = 1e-3
    if snr_db is not None:
        rho = 10 ** (snr_db / 10)
        scene = scene * np.sqrt(rho) + complex_normal(rng, scene.shape)
        bound = 4.5 * np.degrees(np.sqrt((1 + 1 / (8 * rho)) / (256 * rho * 4.105**2 * 8)))
    found = arrays.music_azimuth(scene, places)
    assert ((found >= 0) & (found < 360)).all()
    assert off(found, azimuth).max() < bound
    embedded = arrays.music(spacing_m=0.05).embed(scene.astype(np.complex64), RATE, 0.5 * 299792458.0 / 0.05)
    np.testing.assert_allclose(np.degrees(np.arctan2(embedded[:, 1], embedded[:, 0])) % 360, found, atol=0.01)


def test_music_of_a_line_and_of_what_it_cannot_take() -> None:
    places = arrays.positions("linear", 8, 0.5)
    np.testing.assert_allclose(places, truth.linear(8), atol=1e-15)
    azimuth = np.array([40.0, 90.0, 130.0])
    found = arrays.music_azimuth(arrays.steering(places, azimuth)[:, :, None] * np.ones((1, 1, 8)), places)
    assert np.minimum(off(found, azimuth), off(found, -azimuth)).max() < 0.01
    with pytest.raises(ValueError, match="kind: square"):
        arrays.positions("square", 8, 0.5)
    with pytest.raises(ValueError, match="4 antennas, expected the array's 8"):
        arrays.music().embed(np.ones((1, 4, 16), np.complex64), RATE, 2.44e9)


def test_rician_k_inverts_its_moments() -> None:
    k = np.array([0.0, 0.3, 1.0, 5.0, 30.0])
    np.testing.assert_allclose(channels.rician_k((1 + 2 * k) / (1 + k) ** 2), k, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(channels.rician_k(np.array([1.0, 1.7])), [0.0, 0.0])
    rng = stream(0, "rician")
    for wanted in (2.0, 8.0):
        scattered = complex_normal(rng, (200_000,)) / np.sqrt(1 + wanted)
        power = np.abs(np.sqrt(wanted / (1 + wanted)) + scattered) ** 2
        assert channels.rician_k(power.var() / power.mean() ** 2) == pytest.approx(wanted, rel=0.05)


def uplink(delays_s: np.ndarray, gains: np.ndarray, start: np.ndarray, snr_db: float, seed: str) -> np.ndarray:
    """QPSK OFDM of 64 carriers through taps ``[n, A, P]`` at ``delays_s``, cut at ``start`` samples into a symbol."""
    rng, n = stream(0, seed), len(gains)
    active = ofdm.carriers(52, 64)
    sent = ofdm.modulate(ofdm.random_values(rng, (n, 8, 52), "QPSK"), active, 64, 16)
    response = np.exp(-2j * np.pi * np.fft.fftfreq(sent.shape[1], 1 / RATE)[:, None] * delays_s)
    heard = np.fft.ifft(np.fft.fft(sent)[:, None] * np.einsum("nap,fp->naf", gains, response))
    rows = np.take_along_axis(heard, (80 + start)[:, None, None] + np.arange(256), axis=2)
    return rows * 10 ** (snr_db / 20) + complex_normal(rng, rows.shape)


def test_symbol_start_and_k_of_known_channels() -> None:
    n, taps = 60, np.arange(8) * 50e-9
    start = stream(0, "start").integers(0, 80, n)
    expected = (-start) % 80
    flat = uplink(taps, np.eye(8)[0] * np.ones((n, 8, 1)), start, 20.0, "flat")
    found = channels.symbol_starts(flat, 64, 16)
    assert np.mean(np.abs((found - expected + 40) % 80 - 40) <= 2) > 0.95
    faded = uplink(taps, complex_normal(stream(0, "taps"), (n, 8, 8)) / np.sqrt(8), start, 20.0, "faded")
    model = channels.k_factor_delay()
    sight, none = (model.embed(iq.astype(np.complex64), RATE, 2.44e9) for iq in (flat, faded))
    # Log gamma over everything, then K in dB: no fading has gamma 0 and a high K, Rayleigh gamma 1 and K 0.
    assert np.median(sight[:, 0]) < np.log(0.1)
    assert np.median(none[:, 0]) == pytest.approx(0.0, abs=0.25)
    assert np.median(sight[:, 3]) > 12
    assert np.median(none[:, 3]) < 0


def test_noise_does_not_pass_for_fading() -> None:
    """A channel without fading at 3 dB: the noise of the carriers, taken out, leaves gamma near 0 and not near 0.5."""
    quiet = uplink(np.zeros(1), np.ones((60, 8, 1)), np.zeros(60, int), 3.0, "quiet")
    embedded = channels.k_factor_delay().embed(quiet.astype(np.complex64), RATE, 2.44e9)
    assert np.median(embedded[:, 0]) < np.log(0.15)


def test_delay_spread_is_read_from_the_carriers() -> None:
    n = 80
    start = np.zeros(n, int)
    spreads = []
    for spacing in (25e-9, 60e-9):
        gains = complex_normal(stream(0, "spread"), (n, 8, 6)) / np.sqrt(6)
        iq = uplink(np.arange(6) * spacing, gains, start, 30.0, "delay")
        embedded = channels.k_factor_delay().embed(iq.astype(np.complex64), RATE, 2.44e9)
        spreads.append(np.exp(np.median(embedded[:, 6 + 5])))
    true = np.std(np.arange(6)) * np.array([25.0, 60.0])
    np.testing.assert_allclose(spreads, true, rtol=0.4)


def test_k_factor_needs_a_whole_symbol() -> None:
    with pytest.raises(ValueError, match="120 samples, expected at least 159"):
        channels.k_factor_delay().embed(np.ones((1, 2, 120), np.complex64), RATE, 2.44e9)


TABLE = {
    "BPSK": (-2.0, 2.0),
    "QPSK": (-1.0, 1.0),
    "8PSK": (-1.0, 0.0),
    "16QAM": (-0.68, 0.68),
    "64QAM": (-0.619, 0.619),
}


@pytest.mark.parametrize("offset", [0.0, 0.01])
@pytest.mark.parametrize("name", TABLE)
def test_cumulants_of_constellations_in_noise_with_an_offset(name: str, offset: float) -> None:
    rng = stream(0, "cumulants", name)
    points = linear.constellation(name)
    symbols = points[rng.integers(len(points), size=(4, 20_000))] * np.exp(2j * np.pi * offset * np.arange(20_000))
    noise = 0.2
    found = modulation.cumulants(symbols + np.sqrt(noise) * complex_normal(rng, symbols.shape), np.full(4, noise))
    c42, c40 = TABLE[name]
    np.testing.assert_allclose(found["C42"], c42, atol=0.06)
    # A fourth-order product without a line still has the highest of its noise's peaks.
    np.testing.assert_allclose(found["C40"], c40, atol=0.12)
    np.testing.assert_allclose(found["C20"], 1.0 if name == "BPSK" else 0.0, atol=0.05)


def test_noise_floor_of_noise_and_under_a_narrow_signal() -> None:
    rng = stream(0, "floor")
    noise = complex_normal(rng, (50, 1024)) * np.sqrt(3.0)
    assert np.median(modulation.noise_floor(noise)) == pytest.approx(3.0, rel=0.05)
    tone = 30 * np.exp(2j * np.pi * 0.05 * np.arange(1024))
    assert np.median(modulation.noise_floor(noise + tone)) == pytest.approx(3.0, rel=0.05)


@pytest.fixture(scope="module")
def emitted(recipe: Recipe) -> dict[str, np.ndarray]:
    """Twelve windows of each family at 20 dB, at a random frequency offset as in the scenes."""
    made = {}
    for family, numbers in recipe.tasks["E-ID-DRONE"].families.items():
        rng = stream(0, "family", family)
        signal = np.stack([FAMILIES[family](rng, 4096, numbers)[0] for _ in range(12)])
        turn = np.exp(2j * np.pi * rng.uniform(-0.9e6, 0.9e6, (12, 1)) / RATE * np.arange(4096))
        made[family] = 10 * signal * turn + complex_normal(rng, signal.shape)
    return made


def test_the_prefix_of_15_khz_is_found_and_nothing_elses(emitted) -> None:
    found = {name: waveforms.prefix_statistic(x, RATE / 15e3, 94) for name, x in emitted.items()}
    assert found["lte-ofdm"].min() > 0.6
    # A broadcast of few symbols is not in every window.
    assert np.median(found["drone-id-ofdm"]) > 0.8
    for name in ("wifi-ofdm", "noise"):
        assert found[name].max() < 0.6, name


@pytest.mark.parametrize("carriers", [600, 1200])
@pytest.mark.parametrize("offset", [0.0, 13.4, -58.0])
def test_the_sync_symbol_is_found_at_any_delay_and_offset(carriers: int, offset: float) -> None:
    templates = [waveforms.zadoff_chu_symbol(600, 601, carriers, RATE, f) for f in (0.0, 0.25, 0.5, 0.75)]
    np.testing.assert_allclose([np.linalg.norm(t) for t in templates], 1.0)
    rng = stream(0, "sync")
    window = 0.02 * complex_normal(rng, (3, 4096))
    for row, delay in enumerate((150, 777, 2600)):
        window[row, delay : delay + len(templates[0])] += templates[0]
    window *= np.exp(2j * np.pi * 15e3 * offset / RATE * np.arange(4096))
    assert waveforms.matched(window, np.stack(templates)).min() > 0.4
    assert waveforms.matched(complex_normal(rng, (20, 4096)), np.stack(templates)).max() < 0.25


def test_each_detector_stands_out_for_its_own(emitted) -> None:
    """Wi-Fi's folded prefix, the line rate of video, the chirp's slope and the clock of 802.15.4."""
    fold = {name: np.median(waveforms._wifi(x)[:, 0]) for name, x in emitted.items()}
    assert max(fold, key=fold.get) in {"wifi-ofdm", "zigbee-oqpsk", "drone-control-hops", "bluetooth-gfsk"}
    contrast = {name: np.median(waveforms._wifi(x)[:, 1]) for name, x in emitted.items()}
    assert max(contrast, key=contrast.get) == "wifi-ofdm"
    again = {name: np.median(waveforms._video(x, RATE)[:, 1]) for name, x in emitted.items()}
    assert max(again, key=again.get) == "drone-video-fm"
    # The frequency of a window of video comes back after one line and not after another time.
    assert again["drone-video-fm"] > 0.45
    clock = {name: np.median(waveforms._clock(x, RATE)[:, 0]) for name, x in emitted.items()}
    assert max(clock, key=clock.get) == "zigbee-oqpsk"


def test_chirps_are_sharper_by_their_own_slope(recipe: Recipe) -> None:
    numbers = recipe.tasks["E-ID-DRONE"].families["drone-control-hops"]
    rng = stream(0, "chirps")
    assert numbers.chirp_bandwidth_hz == waveforms._CHIRP_HZ
    assert tuple(numbers.spreading) == waveforms._SPREADING
    chirped = numbers.model_copy(update={"chirp_share": 1.0, "spreading": (5,)})
    keyed = numbers.model_copy(update={"chirp_share": 0.0})
    slope = []
    for kind in (chirped, keyed):
        x = np.stack([FAMILIES["drone-control-hops"](rng, 4096, kind)[0] for _ in range(12)])
        slope.append(waveforms._hops(10 * x + complex_normal(rng, x.shape), RATE)[:, 12])
    assert np.median(slope[0]) > 0.3
    assert abs(np.median(slope[1])) < 0.2


def test_the_bank_needs_two_symbols() -> None:
    with pytest.raises(ValueError, match="1024 samples, expected two symbols"):
        waveforms.waveform_bank().embed(np.ones((1, 1, 1024), np.complex64), RATE, 2.44e9)
