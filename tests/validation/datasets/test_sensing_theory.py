"""E-SC-SENSE against detection theory: energy of known noise, eigenvalues of noise alone, a known covariance."""

import numpy as np
import pytest
from scipy import stats
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from common.streams import complex_normal, stream
from emma.backbones import dsp
from emma.backbones.classical import sensing as detectors
from rfgen import scenes
from rfgen.recipe import Recipe
from rfgen.scenes.sensing import Sensed, likelihood_ratio

TASK = "E-SC-SENSE"


@pytest.fixture(scope="module")
def made(v10) -> list[Sensed]:
    """The scenes of F1 in DEV with what they are made of."""
    keys = [key for key in scenes.chunk_keys(v10.recipe, TASK, "DEV") if key[0] == "F1"]
    return [v10.recipe.tasks[TASK].made(v10.recipe, TASK, "DEV", key, v10.seed) for key in keys]


def test_energy_follows_the_chi_square_laws(made, record_property) -> None:
    """Twice the energy at the antennas has 8,192 degrees of freedom, and is central without a user.

    With one its noncentrality is twice the energy that the stated SNR says, whatever the waveform and the paths. H.
    Urkowitz, "Energy detection of unknown deterministic signals", Proceedings of the IEEE 55, 1967.
    """
    freedom = 2 * made[0].noisy[0].size
    energy = np.concatenate([2 * np.sum(np.abs(each.noisy) ** 2, axis=(1, 2)) for each in made])
    present, snr_db = (np.concatenate([getattr(each, name) for each in made]) for name in ("present", "snr_db"))
    noncentrality = np.where(present, freedom * 10 ** (snr_db / 10), 0.0)
    place = np.where(present, stats.ncx2.cdf(energy, freedom, noncentrality + 1e-9), stats.chi2.cdf(energy, freedom))
    for side in (present, ~present):
        assert stats.kstest(place[side], "uniform").pvalue > 1e-3
    threshold = stats.chi2.ppf(0.9, freedom)
    expected = stats.ncx2.sf(threshold, freedom, noncentrality[present]).mean()
    found = np.mean(energy[present] > threshold)
    record_property("detected at 0.1 false alarms", (found, expected))
    assert found == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / present.sum()))
    assert np.mean(energy[~present] > threshold) == pytest.approx(0.1, abs=4 * np.sqrt(0.09 / np.sum(~present)))


def test_eigenvalues_of_noise_lie_at_the_marchenko_pastur_edges(made) -> None:
    """Largest: the edge and -1.77 Tracy-Widom widths (K. Johansson, Commun. Math. Phys. 209, 2000); ratio beside it."""
    noise = np.concatenate([each.noisy[~each.present] for each in made])
    antennas, samples = noise.shape[1:]
    values = np.linalg.eigvalsh(noise @ noise.conj().transpose(0, 2, 1) / samples)
    root = np.sqrt(samples) + np.sqrt(antennas)
    edge, width = root**2 / samples, root * (samples**-0.5 + antennas**-0.5) ** (1 / 3) / samples
    # Four antennas are few: the law is that of many, to half a width.
    assert values[:, -1].mean() == pytest.approx(edge - 1.7711 * width, abs=width / 2)
    inner = (1 - np.sqrt(antennas / samples)) ** 2
    assert inner < values[:, 0].mean() < 1 < values[:, -1].mean() < edge
    ratio = np.exp(detectors.eigenvalue_ratio(noise))[:, 0]
    assert ratio == pytest.approx(values[:, -1] / values[:, 0])
    assert np.mean(ratio > edge / inner) < 0.05


@pytest.mark.parametrize(("strength", "lines"), [(0.05, 1000), (0.5, 20), (3.0, 4)])
def test_a_known_covariance_is_told_as_the_f_law_says(strength: float, lines: int) -> None:
    """One source of equal strength in K lines: the ratio is monotone in a Gamma(K) variable, of scale 1 + s with it.

    The area under the curve is P(F < 1 + s) for Fisher's F with 2K and 2K degrees of freedom.
    """
    rng, n, antennas = stream(0, "covariance", lines), 4000, 4
    response = complex_normal(rng, (n, antennas, lines))
    response /= np.sqrt(np.sum(np.abs(response) ** 2, axis=1, keepdims=True))
    noise, spectrum = complex_normal(rng, (2, n, antennas, lines)), np.full((n, lines), strength)
    heard = noise[1] + np.sqrt(strength) * response * complex_normal(rng, (n, 1, lines))
    scores = [likelihood_ratio(each, response, spectrum) for each in (noise[0], heard)]
    # Mean of the ratio itself is one without a source.
    if strength < 0.1:
        assert np.mean(np.exp(scores[0])) == pytest.approx(1.0, abs=0.2)
    area = roc_auc_score(np.repeat([0, 1], n), np.concatenate(scores))
    expected = stats.f.cdf(1 + strength, 2 * lines, 2 * lines)
    assert area == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / n))


def test_every_front_end_is_its_own_and_the_same_in_every_split(v10) -> None:
    task = v10.recipe.tasks[TASK]
    ends = {name: task.front_end(v10.recipe, name) for name in task.receivers}
    lines = np.concatenate([end.spurs.frequency_hz for end in ends.values()])
    assert len(np.unique(lines)) == len(lines) == 6 * task.spurs.count
    assert len({chain.gain_db for end in ends.values() for chain in end.chains}) == 6 * 4
    assert all(len({chain.cfo_ppm for chain in end.chains}) == 1 for end in ends.values())
    # Empty scenes of a receiver show its lines, those of another one do not.
    power = {}
    for split in ("TRAIN", "DEV"):
        iq, meta = v10.scenes(TASK, split)
        for name in ("F1", "F2"):
            empty = iq[(meta["receiver"] == name) & (meta["class"] == "absent")]
            spectrum = np.mean(np.abs(np.fft.fft(empty)) ** 2, axis=1)
            power[split, name] = np.mean(spectrum / np.median(spectrum, axis=1, keepdims=True), axis=0)
    for name, other in (("F1", "F2"), ("F2", "F1")):
        strongest = int(np.argmax(ends[name].spurs.level_db))
        line = round(ends[name].spurs.frequency_hz[strongest] / task.sample_rate_hz * task.samples) % task.samples
        for split in ("TRAIN", "DEV"):
            assert power[split, name][line] > 3 * power[split, other][line], (name, split)


@pytest.fixture(scope="module")
def silent(mapping) -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    """Scenes whose users are on air at -200 dB: everything but their signal, by split; labels, and the truth."""
    data = mapping("tiny")
    counts = {"TRAIN": 240, "DEV": 240, "HOLDOUT": 12, "PRETRAIN": 12}
    data["tasks"][TASK] |= {"snr_db": [-200.0, -200.0], "scenes": counts}
    recipe = Recipe.from_mapping(data)
    iq, present, truth = [], [], []
    for split in ("TRAIN", "DEV"):
        for chunk in scenes.generate(recipe, TASK, split, None, 1):
            iq.append(chunk.iq)
            present += [name == "present" for name in chunk.labels["class"]]
        truth += list(scenes.truths(recipe, TASK, split, None, 1))
    return np.concatenate(iq), np.array(present), np.concatenate(truth)


def features(iq: np.ndarray) -> np.ndarray:
    """Statistics of every kind, and what no model is meant to go by: level, offset, band edges, the integers' bits."""
    unit = iq / np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))
    spectrum = np.mean(np.abs(np.fft.fft(unit)) ** 2, axis=1)
    bits = (np.ascontiguousarray(iq[:, 0]).view(np.uint32)[:, :, None] >> np.arange(6)) & 1
    return np.hstack(
        [
            dsp.build().embed(iq, 20e6, 2.44e9),
            detectors.energy(iq),
            detectors.coherence(iq),
            np.abs(unit.mean(axis=2)),
            spectrum[:, [0, 1, -1]],
            spectrum[:, 480:544].reshape(len(iq), 8, 8).mean(axis=2),
            np.abs(unit[:, :, [0, -1]]).reshape(len(iq), -1),
            bits.mean(axis=1),
        ]
    )


def test_nothing_but_the_users_signal_tells(silent) -> None:
    """Receivers, spurs, offsets, gains and noise have one law on either side: no head tells them apart."""
    iq, present, truth = silent
    found, half = features(iq), len(iq) // 2
    bound = 4 * np.sqrt(1 / (3 * half))
    linear = make_pipeline(StandardScaler(), LogisticRegression(C=0.01, max_iter=500))
    for head in (linear, RandomForestClassifier(100, min_samples_leaf=3, random_state=0)):
        head.fit(found[:half], present[:half])
        area = roc_auc_score(present[half:], head.predict_proba(found[half:])[:, 1])
        assert abs(area - 0.5) < bound
    for number in range(found.shape[1]):
        assert abs(roc_auc_score(present, found[:, number]) - 0.5) < 5 * np.sqrt(1 / (3 * len(present)))
    # The oracle knows the user, and not whether it is on air.
    assert abs(roc_auc_score(present, truth[:, 0]) - 0.5) < bound


def test_a_line_that_goes_with_the_label_would_be_found(silent) -> None:
    iq, present, _ = silent
    line = 10 ** (-10 / 20) * np.exp(0.3j * np.arange(iq.shape[2]))
    level = np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2)))
    found, half = features(iq + present[:, None, None] * level[:, None, None] * line), len(iq) // 2
    head = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(found[:half], present[:half])
    assert roc_auc_score(present[half:], head.predict_proba(found[half:])[:, 1]) > 0.9
