"""Angle of arrival: MUSIC against the Cramer-Rao bounds of physics, and the angle labels against what an array sees."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from rfgen.physics import arrays
from rfgen.physics.propagation import GUARD, Links, apply_channel, path_gains
from rfgen.scenes.base import add_awgn

CIRCLE = arrays.circular(8)


def steer(positions: np.ndarray, azimuth_deg: np.ndarray) -> np.ndarray:
    """Textbook phases at the horizon, written without the generator's: an element at (r, b) leads by kr cos(a - b)."""
    radius, place = 2 * np.pi * np.hypot(*positions.T), np.arctan2(positions[:, 1], positions[:, 0])
    return np.exp(1j * radius * np.cos(np.radians(azimuth_deg)[..., None] - place))


def music(iq: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Azimuth [deg] of one source by MUSIC, refined by the parabola through the peak of a fine local grid."""
    covariance = np.einsum("nat,nbt->nab", iq, iq.conj()) / iq.shape[-1]
    source = np.linalg.eigh(covariance)[1][..., -1]

    def height(azimuth: np.ndarray) -> np.ndarray:
        return np.abs(np.einsum("n...a,na->n...", steer(positions, azimuth).conj(), source)) ** 2

    centre = np.zeros(len(iq))
    for width, points in ((180.0, 181), (3.0, 61), (0.2, 41)):
        grid = centre[:, None] + np.linspace(-width, width, points)
        value = height(grid)
        best = np.clip(value.argmax(axis=1), 1, points - 2)
        left, mid, right = (np.take_along_axis(value, (best + k)[:, None], 1)[:, 0] for k in (-1, 0, 1))
        step = 2 * width / (points - 1)
        bend = 0.5 * (left - right) / np.minimum(left - 2 * mid + right, -1e-30)
        centre = np.take_along_axis(grid, best[:, None], 1)[:, 0] + step * np.clip(bend, -1, 1)
    return centre


def error(estimate: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return (estimate - truth + 180) % 360 - 180


def one_path(azimuth: np.ndarray) -> Links:
    n = len(azimuth)
    empty = np.zeros((n, 2))
    return Links(
        link_id=[""] * n,
        los=np.ones(n, bool),
        bearing_deg=azimuth,
        direct_zenith_deg=np.full(n, 90.0),
        distance_2d_m=np.full(n, 100.0),
        k_linear=np.full(n, 1e12),
        cluster_spread_s=np.zeros(n),
        delay_s=empty,
        power=empty,
        azimuth_deg=np.zeros((n, 2, 20)),
        zenith_deg=np.full((n, 2, 20), 90.0),
    )


def single_path_scenes(positions: np.ndarray, azimuth: np.ndarray, snr_db: float, snapshots: int) -> np.ndarray:
    """White signals through the generator's propagation and noise."""
    rng = stream(0, "bound", str(snr_db), snapshots)
    gains, delays = path_gains(one_path(azimuth), positions, rng)
    signal = complex_normal(rng, (len(azimuth), snapshots + 2 * GUARD))
    window = slice(GUARD, GUARD + snapshots)
    return add_awgn(apply_channel(signal, gains, delays, 20e6, window), np.full(len(azimuth), snr_db), rng)


@pytest.mark.parametrize("snr_db", [0.0, 5.0, 10.0, 20.0])
@pytest.mark.parametrize("shape", ["circular", "linear"])
def test_music_reaches_the_bound_and_does_not_beat_it(shape: str, snr_db: float) -> None:
    trials, snapshots, rho, m = 3000, 64, 10 ** (snr_db / 10), 8
    if shape == "circular":
        turns = np.radians(45.0 * np.arange(8))
        expected = np.stack([np.cos(turns), np.sin(turns)], axis=1) / (4 * np.sin(np.pi / 8))
        assert pytest.approx(expected) == CIRCLE
        positions, azimuth = CIRCLE, stream(0, "azimuth").uniform(0, 360, trials)
        k_r = 2 * np.pi * np.hypot(*CIRCLE[0])
        assert k_r == pytest.approx(4.105, abs=5e-4)
        variance = (1 + 1 / (m * rho)) / (snapshots * rho * k_r**2 * m)
        reference = 0.654
    else:
        positions, azimuth = arrays.linear(8), np.full(trials, 90.0)
        variance = 6 * (1 + 1 / (m * rho)) / (snapshots * rho * np.pi**2 * m * (m**2 - 1))
        reference = 0.264
    bound = np.degrees(np.sqrt(variance))
    if snr_db == 0.0:
        assert bound == pytest.approx(reference, abs=5e-4)
    found = error(music(single_path_scenes(positions, azimuth, snr_db, snapshots), positions), azimuth)
    if shape == "linear":  # front and back look the same
        found = np.where(np.abs(found) > 90, error(180, np.abs(found)), found)
    ratio = np.sqrt(np.mean(found**2)) / bound
    # The relative error of an RMS over n trials is 1 / sqrt(2 n); three of them.
    assert 1 - 3 / np.sqrt(2 * trials) < ratio < 1.10, ratio


def by_band(bench, meta) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of each band, and places of the elements in its wavelengths: the array is one, its wavelengths are two."""
    task = bench.recipe.tasks["E-LOC-AOA"]
    return [(meta["frequency_band"] == band, task.positions(bench.recipe, band)) for band in task.bands]


def test_the_array_is_half_a_wavelength_apart_at_the_upper_band(perfect) -> None:
    (_, low), (_, high) = by_band(perfect, {"frequency_band": np.array([])})
    assert high == pytest.approx(CIRCLE, rel=1e-4)
    assert low == pytest.approx(high * 2.44 / 5.8)


def test_labels_are_where_music_looks(perfect) -> None:
    iq, meta = perfect.scenes("E-LOC-AOA", "DEV")
    table = perfect.rays("DEV").to_pandas().set_index("link_id").loc[meta["link_id"]]
    assert np.array_equal(table.bearing_deg, meta["azimuth_deg"])
    clear = (table.k_factor_db.to_numpy() > 10) & (meta["snr_db"] > 10)
    for band, places in by_band(perfect, meta):
        rows = band & clear
        assert rows.sum() > 30
        found = error(music(iq[rows].astype(complex), places), meta["azimuth_deg"][rows])
        assert np.median(np.abs(found)) < 2.5
        assert np.abs(np.mean(found)) < 1.5


def test_multipath_scenes_do_not_beat_the_bound(perfect) -> None:
    """An estimate better than the bound in the middle of its distribution would mean a wrong label or a leak."""
    iq, meta = perfect.scenes("E-LOC-AOA", "DEV")
    for rows, places in by_band(perfect, meta):
        found = np.abs(error(music(iq[rows].astype(complex), places), meta["azimuth_deg"][rows]))
        rho = 10 ** (meta["snr_db"][rows] / 10)
        k_r = 2 * np.pi * np.hypot(*places[0])
        bound = np.degrees(np.sqrt((1 + 1 / (8 * rho)) / (256 * rho * k_r**2 * 8)))
        assert np.sqrt(np.mean(found**2)) > np.sqrt(np.mean(bound**2))
        assert np.median(found / bound) > 1.0


def test_a_site_moves_the_estimate_by_its_errors(perfect, v01) -> None:
    """The same links, waves and noise at sites that are not perfect: a bias of each, of a degree or so and no more."""
    ideal, meta = perfect.scenes("E-LOC-AOA", "DEV")
    real, same = v01.scenes("E-LOC-AOA", "DEV")
    assert np.array_equal(meta["azimuth_deg"], same["azimuth_deg"])
    rows, places = by_band(perfect, meta)[1]
    rows = rows & (meta["snr_db"] > 15)
    moved = error(*(music(iq[rows].astype(complex), places) for iq in (real, ideal)))
    assert 0.2 < np.median(np.abs(moved)) < 4.0
