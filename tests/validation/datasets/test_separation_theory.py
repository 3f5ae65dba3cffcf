"""E-SC-SEP against closed forms of Gaussian sources, and the label against the samples that are stored.

The ratio of an estimate e of a source s is A / (1 - A), A = |E[s* e]|^2 / (E|s|^2 E|e|^2): what is asked are moments.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from common.masks import ideal_mask, spectra, waveform
from common.streams import complex_normal, stream
from emma.data.labels import label_field, read_labels
from emma.data.release import load_release_config
from emma.data.scenes import SceneChunk, iterate_scenes, write_scenes
from emma.metrics import SISDR
from emma.tasks import TaskID, target_of
from rfgen import scenes
from rfgen.waveforms import linear

TASK = "E-SC-SEP"


def mixed(v10, family: str):
    """Mixtures, sources and SINRs of a family in DEV."""
    task, keys = v10.recipe.tasks[TASK], scenes.chunk_keys(v10.recipe, TASK, "DEV")
    made = [task.mixed(v10.recipe, TASK, "DEV", key, v10.seed) for key in keys if key[0] == family]
    return tuple(np.concatenate([getattr(each, name) for each in made]) for name in ("mixture", "source", "sinr_db"))


def ratio_db(share: float) -> float:
    return float(10 * np.log10(share / (1 - share)))


@pytest.mark.parametrize("noise", [0.1, 1.0, 10.0])
def test_the_ideal_mask_of_two_gaussian_lines(noise: float, record_property) -> None:
    """A source line s of power 1 under one of power ``noise``: e has the phase of s, and the smaller magnitude.

    E min(|s|^2, |x|^2) from the eigenvalues of the difference of the two powers, a difference of exponentials (G. L.
    Turin, "The characteristic function of Hermitian quadratic forms", Biometrika 47, 1960); E |s| min(|s|, |x|) from
    the Rician law of |x| for a given s.
    """
    root = np.sqrt(noise**2 + 4 * noise)
    up, down = (root - noise) / 2, (root + noise) / 2
    least = (1 + 1 + noise - (up**2 + down**2) / (up + down)) / 2

    def given(power: float) -> float:
        """E min(r, |x|) for |s| = r: the integral of P(|x| > t), 2 |x|^2 / noise being noncentral chi-square."""
        size, centre = np.sqrt(power), 2 * power / noise
        return quad(lambda t: stats.ncx2.sf(2 * t**2 / noise, 2, centre), 0, size, epsabs=1e-9)[0]

    both = quad(lambda power: np.exp(-power) * np.sqrt(power) * given(power), 0, 40, epsabs=1e-7)[0]
    expected = ratio_db(both**2 / least)
    rng, n = stream(0, "ideal mask", round(100 * noise)), 200_000
    source, other = complex_normal(rng, (2, 1, n))
    mixture = source + np.sqrt(noise) * other
    found = SISDR()(ideal_mask(source, mixture) * mixture, source)
    record_property("ideal mask, dB", (found, expected))
    assert found == pytest.approx(expected, abs=0.05)


def coloured(rng: np.random.Generator, gains: np.ndarray, n: int) -> np.ndarray:
    """Stationary Gaussian noise ``[n, 1024]`` whose power spectrum is ``gains``, by its lines."""
    return np.fft.ifft(np.sqrt(gains) * complex_normal(rng, (n, 1024))) * np.sqrt(1024)


def hump(lines: int, centre: float, width: float) -> np.ndarray:
    """A power spectrum without edges, DC first: a Gaussian over a floor."""
    return 0.01 + np.exp(-((np.sin(np.pi * (np.arange(lines) / lines - centre)) / width) ** 2))


def test_the_wiener_gain_reaches_its_closed_form() -> None:
    """Known spectra S and N, gain S / (S + N): the ratio is sum(g S) / sum((1 - g) S), window by window or as a whole.

    N. Wiener, Extrapolation, Interpolation, and Smoothing of Stationary Time Series, 1949. An estimate at the best gain
    is the better, the more the two spectra differ.
    """
    rng, n = stream(0, "wiener"), 200
    signal, noise = hump(1024, 0.0, 0.4), hump(1024, 0.3, 0.5)
    source, other = coloured(rng, signal, n), coloured(rng, noise, n)
    gain = signal / (signal + noise)
    expected = 10 * np.log10(np.sum(gain * signal) / np.sum((1 - gain) * signal))
    mask = gain[::4]
    found = SISDR()(waveform(mask * spectra(source + other, 256, 64), 64), source)
    assert found == pytest.approx(expected, abs=0.1)
    for wrong in (mask**2, np.sqrt(mask), np.ones(256)):
        assert SISDR()(waveform(wrong * spectra(source + other, 256, 64), 64), source) < found


@pytest.mark.parametrize("family", ["nr-ofdm", "gfsk", "fm", "chirp", "multi-tone"])
def test_the_ratio_of_the_mixture_is_its_sinr(v10, family: str, record_property) -> None:
    """Of signals that are not correlated: to the spread that 1,024 samples of two random phases leave."""
    mixture, source, sinr_db = mixed(v10, family)
    found = SISDR().sample_scores(mixture, source)[0]
    apart = found - sinr_db
    record_property(f"{family}: SI-SDR less SINR, dB", (apart.mean(), apart.std()))
    assert abs(apart.mean()) < 4 * apart.std() / np.sqrt(len(apart)) + 0.1
    assert np.corrcoef(found, sinr_db)[0, 1] > 0.98


def test_the_source_is_qpsk_in_its_pulse(v10) -> None:
    """A matched filter, sampled at the best of four times a symbol, finds symbols of one magnitude and four phases."""
    task = v10.recipe.tasks[TASK]
    _, source, _ = mixed(v10, "gfsk")
    step = round(task.sample_rate_hz / task.pulse.baud)
    pulse = linear.root_raised_cosine(np.arange(-10 * step, 10 * step + 1) / step, task.pulse.rolloff)
    for signal in source[:10]:
        matched = np.convolve(signal, pulse, "valid")
        times = [matched[start::step] for start in range(step)]
        spread = [np.std(np.abs(part)) / np.mean(np.abs(part)) for part in times]
        assert min(spread) < 0.2 < max(spread)
        best = times[int(np.argmin(spread))]
        # The fourth power of four phases is a line, at four times the carrier's offset.
        lines = np.abs(np.fft.fft((best / np.abs(best)) ** 4, 1024)) / len(best)
        assert lines.max() > 0.8


def test_the_label_s_mixture_is_the_stored_scene(tiny, tmp_path) -> None:
    """To half a step of the integers that scenes are stored as: the readout may see what the samples show, no more."""
    spec = load_release_config("config/releases/tiny.yaml").tasks[TaskID.E_SC_SEP]
    chunks = scenes.generate(tiny.recipe, TASK, "DEV", None, tiny.seed)
    files = tmp_path / "DEV.parquet", tmp_path / "DEV.index.parquet"
    write_scenes(*files, (SceneChunk.of(chunk) for chunk in chunks), label_field(spec))
    target = target_of(spec)
    labels = read_labels(tmp_path / "DEV.labels.parquet", label_field(spec))
    known = target.numbers(target.encode(labels[target.column]))
    stored = np.concatenate([iq for _, iq in iterate_scenes(files[0], verify=False)])[:, 0]
    step = np.abs(known[:, 0].view(float)).max(axis=1) / 32767
    apart = (stored - known[:, 0]).astype(complex).view(float)
    assert (np.abs(apart).max(axis=1) <= 0.51 * step).all()
    moved = np.abs((stored - np.roll(known[:, 0], 1, axis=1)).view(float)).max(axis=1)
    assert (moved > 100 * step).all()
