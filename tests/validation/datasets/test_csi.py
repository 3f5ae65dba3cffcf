"""E-CH-CSI against closed forms of linear estimation, written without the generator's code."""

from dataclasses import replace

import numpy as np
import pytest

from rfgen.physics.propagation import Links
from rfgen.recipe import Recipe
from rfgen.scenes.csi import smoothed

TASK = "E-CH-CSI"
ANTENNAS, CARRIERS, SIZE, PREFIX, RATE = 8, 64, 80, 32, 20e6
NUMBERS = np.array([k for k in range(-32, 33) if k])
KEY, CARRIER = ("E_URBAN", "5.8GHz", 0), 5.8e9
SPACING = 0.025844
SHARES = ((0, 1, 2, 3, 4, 5, 6, 7, 18, 19), (8, 9, 10, 11, 16, 17), (12, 13, 14, 15))


def recipe_of(mapping, snr_db: float, n: int, cfo_ppm: float = 0.0) -> Recipe:
    """The task of tiny alone, with perfect hardware."""
    data = mapping("tiny")
    own = {"chunk": n, "scenes": dict.fromkeys(("TRAIN", "DEV", "HOLDOUT"), n), "snr_db": [snr_db, snr_db]}
    data["tasks"] = {TASK: data["tasks"][TASK] | own | {"cfo_ppm": cfo_ppm}}
    data["pretrain"]["snr_db"] = [90.0, 90.0]  # above every SNR that is asked for
    sites = data["sites"] | {"gain_error_db": 0.0, "phase_error_deg": 0.0, "coupling": 0.0}
    data["sites"] = sites | {"front_end": dict.fromkeys(sites["front_end"], 0.0)}
    return Recipe.from_mapping(data)


def direct(n: int) -> Links:
    """Links of a direct path alone."""
    rng = np.random.default_rng(7)
    return Links(
        link_id=[f"L{i}" for i in range(n)],
        los=np.ones(n, bool),
        bearing_deg=rng.uniform(0, 360, n),
        direct_zenith_deg=rng.uniform(60, 100, n),
        distance_2d_m=np.full(n, 100.0),
        k_linear=np.full(n, 1e12),
        cluster_spread_s=np.zeros(n),
        delay_s=np.zeros((n, 2)),
        power=np.zeros((n, 2)),
        azimuth_deg=np.zeros((n, 2, 20)),
        zenith_deg=np.full((n, 2, 20), 90.0),
    )


def scattered(n: int) -> Links:
    """The same link again and again: three clusters out of sight, from everywhere, within the prefix."""
    rng = np.random.default_rng(3)
    links = direct(n)
    return replace(
        links,
        los=np.zeros(n, bool),
        k_linear=np.zeros(n),
        cluster_spread_s=np.full(n, 1e-8),
        delay_s=np.tile([[1e-7, 3e-7, 8e-7]], (n, 1)),
        power=np.tile([[0.5, 0.3, 0.2]], (n, 1)),
        azimuth_deg=np.tile(rng.uniform(0, 360, (3, 20)), (n, 1, 1)),
        zenith_deg=np.tile(rng.uniform(70, 100, (3, 20)), (n, 1, 1)),
    )


def steering(azimuth_deg: np.ndarray, zenith_deg: np.ndarray) -> np.ndarray:
    """Unit waves at eight elements on a circle, element 0 on +x; those nearer to the source lead."""
    place = 2 * np.pi * np.arange(ANTENNAS) / ANTENNAS
    radius = SPACING * CARRIER / 299792458.0 / (2 * np.sin(np.pi / ANTENNAS))
    ahead = np.cos(np.radians(azimuth_deg)[..., None] - place) * np.sin(np.radians(zenith_deg))[..., None]
    return np.exp(2j * np.pi * radius * ahead)


def covariance(links: Links, timing: float) -> np.ndarray:
    """Of the first link's channel, antennas by carriers in one row, ``[512, 512]``, unit power."""
    total = np.zeros((ANTENNAS * CARRIERS, ANTENNAS * CARRIERS), complex)
    spread = links.cluster_spread_s[0]
    for cluster in range(links.power.shape[1]):
        late = SHARES if cluster < 2 else (range(20),)
        for rays, step in zip(late, (0.0, 1.28, 2.56), strict=False):
            delay = links.delay_s[0, cluster] + step * spread * (cluster < 2) + timing
            over = np.exp(-2j * np.pi * NUMBERS * RATE / SIZE * delay)
            for ray in rays:
                wave = steering(links.azimuth_deg[0, cluster, ray], links.zenith_deg[0, cluster, ray])
                row = np.kron(wave, over)
                total += links.power[0, cluster] / 20 * np.outer(row, row.conj())
    return total


def trace_of_error(R: np.ndarray, noise: float) -> float:
    """Mean squared error of the best linear estimate, over the mean power: tr(R - R (R + N0 I)^-1 R) / tr R."""
    kept = R @ np.linalg.solve(R + noise * np.eye(len(R)), R)
    return float(np.trace(R - kept).real / np.trace(R).real)


def estimates(iq: np.ndarray, sequence: np.ndarray) -> np.ndarray:
    """Each carrier's ratio of heard and sent, from the symbol whose turn it is: even places first, odd ones then."""
    out = np.zeros((*iq.shape[:2], CARRIERS), complex)
    for symbol in range(2):
        body = iq[..., symbol * (PREFIX + SIZE) + PREFIX :][..., :SIZE].astype(complex)
        comb = np.arange(symbol, CARRIERS, 2)
        out[..., comb] = np.fft.fft(body)[..., NUMBERS[comb] % SIZE] / sequence[comb]
    return out


def turned(estimate: np.ndarray) -> np.ndarray:
    """By the phase of the first antenna, the mean over its carriers."""
    return estimate * np.exp(-1j * np.angle(estimate[:, :1].mean(axis=2, keepdims=True)))


def zadoff_chu() -> np.ndarray:
    """Root 1 and length 65, without its middle."""
    n = np.arange(65)
    return np.delete(np.exp(-1j * np.pi * n * (n + 1) / 65), 32)


def channels(values) -> np.ndarray:
    return np.ascontiguousarray(values, float).view(complex).reshape(-1, ANTENNAS, CARRIERS)


def test_a_direct_path_is_its_steering_and_a_slope_over_the_carriers(mapping) -> None:
    n = 50
    recipe, links = recipe_of(mapping, 60.0, n), direct(n)
    label = channels(recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, links).labels["channel"])
    np.testing.assert_allclose(np.abs(label), 1.0, atol=1e-5)
    wave = steering(links.bearing_deg, links.direct_zenith_deg)
    np.testing.assert_allclose(label / label[:, :1], (wave / wave[:, :1])[:, :, None] * np.ones(CARRIERS), atol=1e-5)
    slope = label[:, 0, 1:32] / label[:, 0, :31]
    np.testing.assert_allclose(slope, slope[:, :1] * np.ones(31), atol=1e-5)
    # Timing is within a sample, and late.
    timing = -np.angle(slope[:, 0]) * SIZE / (2 * np.pi)
    assert timing.min() > 0 and timing.max() < 1
    # Without noise the receiver's own phase is the channel's: the mean over antenna 0 is real and positive.
    np.testing.assert_allclose(np.angle(label[:, 0].mean(axis=1)), 0.0, atol=0.02)


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_the_least_squares_error_is_one_over_the_snr_of_a_pilot(mapping, snr_db) -> None:
    """Noise is in 80 carriers, the signal in 64: a pilot has 80 / 64 of the SNR."""
    n = 400
    recipe = recipe_of(mapping, snr_db, n)
    chunk = recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, direct(n))
    label, heard = channels(chunk.labels["channel"]), turned(estimates(chunk.iq, zadoff_chu()))
    scale = np.sum(label.conj() * heard, axis=(1, 2), keepdims=True) / (ANTENNAS * CARRIERS)
    error = np.mean(np.abs(heard / scale - label) ** 2)
    pilot = 80 / 64 * 10 ** (snr_db / 10)
    # What rings ahead of a path between two samples comes from the next symbol: below -30 dB.
    assert error == pytest.approx(1 / pilot, rel=0.02, abs=1e-3)
    # Turned alike, label and estimate differ in phase by what noise leaves of 512 pilots.
    assert np.std(np.angle(scale)) == pytest.approx(np.sqrt(1 / (2 * 512 * pilot)), rel=0.15, abs=1e-3)


@pytest.mark.parametrize("cfo_ppm", [0.0, 1.0, 4.0])
def test_a_carrier_s_offset_turns_label_and_estimate_alike(mapping, cfo_ppm) -> None:
    """An offset turns the scene by up to a radian until the symbols' middle, where the label has its phase."""
    recipe = recipe_of(mapping, 30.0, 100, cfo_ppm=cfo_ppm)
    chunk = recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, direct(100))
    label, heard = channels(chunk.labels["channel"]), turned(estimates(chunk.iq, zadoff_chu()))
    apart = np.angle(np.sum(label.conj() * heard, axis=(1, 2)))
    assert np.abs(apart).max() < 0.05
    # The symbols themselves are turned against each other, by up to 112 samples' worth.
    each = np.angle(np.sum((label.conj() * heard).reshape(100, ANTENNAS, 32, 2), axis=(1, 2)))
    widest = 2 * np.pi * cfo_ppm * 1e-6 * CARRIER * (SIZE + PREFIX) / RATE
    assert 0.8 * widest - 0.02 < np.abs(each[:, 1] - each[:, 0]).max() < 1.05 * widest + 0.03


@pytest.mark.parametrize("snr_db", [0.0, 10.0, 20.0])
def test_the_best_linear_estimate_has_the_error_of_the_closed_form(snr_db) -> None:
    """Channels drawn from a covariance, white noise: the error's trace, whatever basis it is worked out in."""
    links, noise = scattered(1), 64 / 80 * 10 ** (-snr_db / 10)
    R = covariance(links, 0.0)
    rng = np.random.default_rng(1)
    values, vectors = np.linalg.eigh(R)

    def normal(*shape):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) / np.sqrt(2)

    channel = (normal(400, 512) * np.sqrt(np.maximum(values, 0)) @ vectors.T).reshape(-1, ANTENNAS, CARRIERS)
    delays, roots = [], []
    for cluster in range(3):
        for rays, step in zip(SHARES if cluster < 2 else (range(20),), (0.0, 1.28, 2.56), strict=False):
            waves = steering(links.azimuth_deg[0, cluster, list(rays)], links.zenith_deg[0, cluster, list(rays)])
            part = links.power[0, cluster] / 20 * waves.T @ waves.conj()
            own, across = np.linalg.eigh(part)
            roots.append(across * np.sqrt(np.maximum(own, 0)))
            delays.append(links.delay_s[0, cluster] + step * links.cluster_spread_s[0] * (cluster < 2))
    phasors = np.exp(-2j * np.pi * np.array(delays)[:, None] * NUMBERS * RATE / SIZE)
    heard = channel + np.sqrt(noise) * normal(400, ANTENNAS, CARRIERS)
    given = np.tile(phasors, (400, 1, 1)), np.tile(np.array(roots), (400, 1, 1, 1)), np.full(400, noise)
    found = np.concatenate([smoothed(heard[k : k + 50], *(a[k : k + 50] for a in given)) for k in range(0, 400, 50)])
    error = np.sum(np.abs(found - channel) ** 2) / np.sum(np.abs(channel) ** 2)
    assert error == pytest.approx(trace_of_error(R, noise), rel=0.05)


@pytest.mark.parametrize("snr_db", [0.0, 10.0])
def test_the_oracle_of_scenes_has_the_error_of_the_closed_form(mapping, snr_db) -> None:
    """From rays to samples and back: the true profile, directions and noise, on scenes of one link's statistics."""
    n = 200
    recipe, links = recipe_of(mapping, snr_db, n), scattered(n)
    task = recipe.tasks[TASK]
    label = channels(task.make(recipe, TASK, "DEV", KEY, 0, links).labels["channel"])
    truth = channels(task.truth(recipe, TASK, "DEV", KEY, 0, links))
    error = np.mean(np.abs(truth - label) ** 2)
    R = covariance(links, 0.5 / RATE)
    bound = trace_of_error(R, 64 / 80 * 10 ** (-snr_db / 10))
    # The SNR is that of the scene's own fading, whose power the closed form holds at its mean.
    assert 0.85 * bound < error < 1.25 * bound


def test_carriers_of_a_link_fade_together_as_the_profile_says(mapping) -> None:
    """Over many draws of the rays' phases, the covariance of labels is that of the paths."""
    n = 800
    recipe, links = recipe_of(mapping, 10.0, n), scattered(n)
    label = channels(recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, links).labels["channel"])
    R = covariance(links, 0.0)
    # A delay of the timing turns carriers that are apart: take one carrier over antennas, and neighbours in frequency.
    over = np.mean(label[:, :, 10, None] * label[:, None, :, 10].conj(), axis=0)
    np.testing.assert_allclose(over, R.reshape(8, 64, 8, 64)[:, 10, :, 10], atol=0.12)
    lag = np.mean(label[:, :, :31] * label[:, :, 1:32].conj(), axis=(0, 1, 2))
    wanted = (
        np.mean(np.diagonal(R.reshape(8, 64, 8, 64)[:, :31, :, 1:32], axis1=0, axis2=2).trace(axis1=0, axis2=1)) / 31
    )
    expected = wanted * np.exp(2j * np.pi * 0.5 / SIZE)
    assert abs(lag - expected) < 0.03
