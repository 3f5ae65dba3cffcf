"""E-CH-BEAM against closed forms of a uniform linear array, written without the generator's code."""

from dataclasses import replace

import numpy as np
import pytest

from rfgen.physics.propagation import Links
from rfgen.recipe import Recipe

TASK = "E-CH-BEAM"
NARROW, WIDE, CARRIERS, ACTIVE, RATE = 64, 8, 64, 52, 20e6
KEY = ("E_URBAN", "28GHz", 0)


def recipe_of(mapping, *, perfect: bool = True, **changes) -> Recipe:
    """The task of tiny alone, of perfect hardware or as it is."""
    data = mapping("tiny")
    data["tasks"] = {
        TASK: data["tasks"][TASK] | {"chunk": 200, "scenes": dict.fromkeys(("TRAIN", "DEV", "HOLDOUT"), 200)}
    }
    data["tasks"][TASK] |= {
        "array": {"kind": "linear", "elements": NARROW, "spacing_m": 299792458.0 / 28e9 / 2}
    } | changes
    data["pretrain"]["snr_db"] = [90.0, 90.0]  # above every SNR that is asked for
    if perfect:
        sites = data["sites"] | {"gain_error_db": 0.0, "phase_error_deg": 0.0, "coupling": 0.0}
        data["sites"] = sites | {"front_end": dict.fromkeys(sites["front_end"], 0.0)}
        data["tasks"][TASK] |= {"probe_errors": {"gain_db": 0.0, "phase_deg": 0.0}}
    return Recipe.from_mapping(data)


def one_path(bearing: np.ndarray, zenith: np.ndarray) -> Links:
    """Links of a direct path alone."""
    n = len(bearing)
    return Links(
        link_id=[f"L{i}" for i in range(n)],
        los=np.ones(n, bool),
        bearing_deg=bearing,
        direct_zenith_deg=zenith,
        distance_2d_m=np.full(n, 100.0),
        k_linear=np.full(n, 1e12),
        cluster_spread_s=np.zeros(n),
        delay_s=np.zeros((n, 2)),
        power=np.zeros((n, 2)),
        azimuth_deg=np.zeros((n, 2, 20)),
        zenith_deg=np.full((n, 2, 20), 90.0),
    )


def elements(cosine: np.ndarray) -> np.ndarray:
    """Plane waves ``[n, 64]`` at elements half a wavelength apart along +x, which lead towards the source."""
    return np.exp(1j * np.pi * cosine[:, None] * (np.arange(NARROW) - (NARROW - 1) / 2))


def codebook(count: int) -> np.ndarray:
    """Orthogonal beams of unit length ``[count, count]``; beam b looks where the cosine is 2 b / count - 1."""
    cosine = 2 * np.arange(count) / count - 1
    return np.exp(1j * np.pi * cosine[:, None] * np.arange(count)) / np.sqrt(count)


def faced(bearing: np.ndarray) -> np.ndarray:
    """Bearings as the panel sees them that has the terminal in front of it: from 30 to 150 degrees."""
    return 30.0 + (bearing - 30.0) % 120.0


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def drawn_links(n: int = 200) -> Links:
    return one_path(rng().uniform(0, 360, n), rng().uniform(60, 100, n))


def cosines(links: Links) -> np.ndarray:
    return np.cos(np.radians(faced(links.bearing_deg))) * np.sin(np.radians(links.direct_zenith_deg))


def test_a_direct_path_is_best_received_where_its_cosine_is(mapping) -> None:
    recipe, links = recipe_of(mapping), drawn_links()
    chunk = recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, links)
    power = np.asarray(chunk.labels["beam_power"])
    assert power.shape == (200, NARROW)
    place = (cosines(links) + 1) * NARROW / 2
    assert np.array_equal(power.argmax(axis=1), np.round(place).astype(int) % NARROW)
    # The whole pattern of a uniform array, not its peak alone.
    pattern = np.abs(elements(cosines(links)) @ codebook(NARROW).conj().T) ** 2
    np.testing.assert_allclose(power, pattern / pattern.max(axis=1, keepdims=True), atol=1e-9)


def test_the_best_beam_is_within_the_scalloping_loss_of_the_best_steering(mapping) -> None:
    """Half way between two beams, a beam of N elements has 1 / (N sin(pi / 2N)) of its amplitude: -3.92 dB."""
    recipe = recipe_of(mapping)
    task = recipe.tasks[TASK]
    worst = 20 * np.log10(1 / (NARROW * np.sin(np.pi / (2 * NARROW))))
    assert worst == pytest.approx(-3.92, abs=5e-3)
    for cosine, lowest in ((rng().uniform(-1, 1, 2000), worst), ((2 * np.arange(NARROW) + 1) / NARROW - 1, worst)):
        gains = elements(cosine)[:, :, None]
        best = task.beam_powers(gains, np.zeros((len(cosine), 1))).max(axis=1)
        # Steered at the wave, weights of unit length receive N.
        loss = 10 * np.log10(best / NARROW)
        assert loss.min() >= lowest - 1e-9
        assert loss.max() <= 1e-9
    np.testing.assert_allclose(loss, worst, atol=1e-9)


def test_all_narrow_beams_receive_what_the_elements_do(mapping) -> None:
    """Parseval, for paths of any gains and delays, carrier by carrier."""
    recipe = recipe_of(mapping)
    task, draw = recipe.tasks[TASK], rng()
    gains = draw.standard_normal((20, NARROW, 7)) + 1j * draw.standard_normal((20, NARROW, 7))
    delays = draw.uniform(0, 2e-6, (20, 7))
    numbers = np.array([k for k in range(-ACTIVE // 2, ACTIVE // 2 + 1) if k])
    phases = np.exp(-2j * np.pi * numbers * RATE / CARRIERS * delays[:, :, None])
    channel = np.einsum("nep,npk->nek", gains, phases)
    received = (np.abs(channel) ** 2).sum(axis=1).mean(axis=1)
    power = task.beam_powers(gains, delays)
    np.testing.assert_allclose(power.sum(axis=1), received, rtol=1e-9)
    each = np.mean(np.abs(np.einsum("be,nek->nbk", codebook(NARROW).conj(), channel)) ** 2, axis=2)
    np.testing.assert_allclose(power, each, rtol=1e-9)


def test_rows_are_what_wide_beams_of_the_middle_elements_receive(mapping) -> None:
    """One wave, no noise to speak of: rows are in the ratio of the patterns of eight elements."""
    recipe, links = recipe_of(mapping, snr_db=[80.0, 80.0], cfo_ppm=0.0), drawn_links()
    iq = recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, links).iq.astype(complex)
    middle = elements(cosines(links))[:, (NARROW - WIDE) // 2 :][:, :WIDE]
    pattern = middle @ codebook(WIDE).conj().T
    covariance = np.einsum("nat,nbt->nab", iq, iq.conj())
    covariance /= np.trace(covariance, axis1=1, axis2=2).real[:, None, None]
    wanted = pattern[:, :, None] * pattern[:, None].conj() / WIDE
    np.testing.assert_allclose(covariance, wanted, atol=1e-3)


def test_noise_enters_behind_the_combiner(mapping) -> None:
    """Weights that came out wrong are not orthogonal; noise before them would be alike in the rows."""
    recipe = recipe_of(mapping, perfect=False, snr_db=[-60.0, -60.0], probe_errors={"gain_db": 2.0, "phase_deg": 40.0})
    site = recipe.tasks[TASK].hardware(recipe, "DEV", KEY, 1)[0]
    np.testing.assert_allclose(np.linalg.norm(site.combiner, axis=1), 1.0)
    overlap = np.abs(site.combiner @ site.combiner.conj().T - np.eye(WIDE))
    iq = recipe.tasks[TASK].make(recipe, TASK, "DEV", KEY, 0, drawn_links()).iq.astype(complex)
    iq /= np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))
    # The middle of the band, where the ripple of the front ends is flat enough, would show 0.2 and more.
    between = np.abs(np.einsum("nat,nbt->ab", iq, iq.conj()) / (iq.shape[0] * iq.shape[2]) - np.eye(WIDE))
    assert overlap.max() > 0.2
    assert between.max() < 0.05


def test_a_link_is_turned_by_whole_panels(mapping) -> None:
    recipe = recipe_of(mapping)
    task = recipe.tasks[TASK]
    links = replace(drawn_links(), azimuth_deg=rng().uniform(0, 360, (200, 2, 20)))
    turned = task.facing(links)
    np.testing.assert_allclose(turned.bearing_deg, faced(links.bearing_deg))
    moved = (links.azimuth_deg - turned.azimuth_deg - (links.bearing_deg - turned.bearing_deg)[:, None, None]) % 360
    np.testing.assert_allclose(np.minimum(moved, 360 - moved), 0.0, atol=1e-9)
    assert set(np.round((links.bearing_deg - turned.bearing_deg) % 360)) <= {0.0, 120.0, 240.0}


def test_a_site_has_probes_of_its_own_in_every_split(mapping) -> None:
    recipe = recipe_of(mapping, perfect=False)
    task = recipe.tasks[TASK]
    own = {
        (place, split): task.hardware(recipe, split, (place, "28GHz", 0), 1)[0].combiner
        for place in ("E_URBAN", "E_RURAL")
        for split in ("TRAIN", "DEV")
    }
    for place in ("E_URBAN", "E_RURAL"):
        np.testing.assert_array_equal(own[place, "TRAIN"], own[place, "DEV"])
    assert np.abs(own["E_URBAN", "DEV"] - own["E_RURAL", "DEV"]).max() > 0.05
    ideal = codebook(WIDE).conj()
    middle = own["E_URBAN", "DEV"][:, (NARROW - WIDE) // 2 :][:, :WIDE]
    error = np.angle(middle / ideal, deg=True)
    error -= error.mean()
    assert 10.0 < error.std() < 30.0
