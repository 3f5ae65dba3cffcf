import numpy as np
import pyarrow as pa
import pytest

from common.streams import complex_normal, stream
from rfgen.physics import arrays, laws
from rfgen.physics.environment import Environment, Factory
from rfgen.physics.propagation import (
    GUARD,
    RAYS,
    SUBCLUSTERS,
    apply_channel,
    frequency_response,
    lead_samples,
    links_from_table,
    path_gains,
)


def test_arrays_have_their_spacing() -> None:
    circle, line, arc = arrays.circular(8), arrays.linear(8, 0.4), arrays.arc(16, 0.5, 11.8)
    assert np.hypot(*(circle[1] - circle[0])) == pytest.approx(0.5)
    assert np.hypot(*circle.T) == pytest.approx(4.105 / (2 * np.pi), abs=1e-4)
    assert np.diff(line[:, 0]) == pytest.approx(0.4)
    assert arc.mean(axis=0) == pytest.approx(0, abs=1e-12)
    assert np.hypot(*np.diff(arc, axis=0).T) == pytest.approx(0.5, rel=1e-3)
    assert arc[:, 0] == pytest.approx(-arc[::-1, 0])
    assert (np.diff(arc[:, 0]) > 0).all()
    assert arrays.circular(1) == pytest.approx(0)


def test_response_leads_where_the_wave_comes_from() -> None:
    """Worked example of the docs: a wave from +y reaches the element at +y a quarter turn before the centre."""
    positions = np.array([[0.25, 0.0], [0.0, 0.25], [-0.25, 0.0], [0.0, -0.25]])
    assert np.angle(arrays.response(positions, 90.0)) == pytest.approx([0, np.pi / 2, 0, -np.pi / 2], abs=1e-12)
    assert np.angle(arrays.response(positions, 0.0)) == pytest.approx([np.pi / 2, 0, -np.pi / 2, 0], abs=1e-12)
    assert arrays.response(positions, 10.0, 0.0) == pytest.approx(1)  # from the zenith
    assert arrays.response(positions, np.zeros((3, 5)), 90.0).shape == (3, 5, 4)


@pytest.mark.parametrize("size", [512, 5000, 97])
def test_frequency_response_is_the_sum_of_delays(size) -> None:
    rng = stream(0, "response", size)
    gains, delays = complex_normal(rng, (2, 3, 7)), rng.uniform(0, 2e-6, (2, 7))
    frequency = np.fft.fftfreq(size, 1 / 20e6)
    direct = np.einsum("nap,npf->naf", gains, np.exp(-2j * np.pi * frequency * delays[..., None]))
    assert frequency_response(gains, delays, size, 20e6) == pytest.approx(direct, abs=1e-9)


def test_whole_sample_delays_shift_the_signal() -> None:
    x = np.exp(2j * np.pi * 0.1 * np.arange(400))[None]  # within the flat part of the channel filter
    gains, delays = np.array([[[2.0, 1j]]]), np.array([[3, 10]]) / 20e6
    window = slice(10 + GUARD, 400 - GUARD)
    y = apply_channel(x, gains, delays, 20e6, window)
    assert y[0, 0] == pytest.approx((2 * np.roll(x[0], 3) + 1j * np.roll(x[0], 10))[window], abs=1e-3)


def test_delays_are_linear() -> None:
    """The window does not know how long the stretch around it is, nor what was sent after it: to -75 dB of it."""
    rng, rate, longest, length = stream(0, "linear"), 20e6, 25.6e-6, 256
    delays = rng.uniform(0, longest, (20, 25))
    delays[:, :2] = 0.0, longest
    gains = complex_normal(rng, (20, 2, 25))
    lead, more = lead_samples(longest, rate), 3000
    sent = complex_normal(rng, (20, more + lead + length + GUARD + more))
    wide = apply_channel(sent, gains, delays, rate, slice(more + lead, more + lead + length))
    narrow = apply_channel(sent[:, more:-more], gains, delays, rate, slice(lead, lead + length))
    off = np.mean(np.abs(wide - narrow) ** 2, axis=(0, 1)) / np.mean(np.abs(wide) ** 2)
    assert 10 * np.log10(off.max()) < -75
    # Without a window, what lies outside the stretch is silence: no end comes back at the other.
    burst = np.zeros((20, 600), complex)
    burst[:, 500:] = complex_normal(rng, (20, 100))
    whole = np.abs(apply_channel(burst, gains, delays, rate)) ** 2
    assert 10 * np.log10(whole[..., : 500 - GUARD].max() / whole[..., 500:].mean()) < -60


def test_a_window_that_an_echo_reaches_from_outside_is_refused() -> None:
    signal, gains, delays = np.ones((1, 400), complex), np.ones((1, 1, 1)), np.array([[100 / 20e6]])
    apply_channel(signal, gains, delays, 20e6, slice(100 + GUARD, 400 - GUARD))
    for window in (slice(99 + GUARD, 300), slice(200, 401 - GUARD), slice(200, None)):
        with pytest.raises(ValueError, match=f"window: expected {100 + GUARD} samples before it and {GUARD} after it"):
            apply_channel(signal, gains, delays, 20e6, window)
    with pytest.raises(ValueError, match="delays_s: expected none below 0"):
        apply_channel(signal, gains, -delays, 20e6)


def table(rows: list[dict]) -> pa.Table:
    return pa.Table.from_pylist(rows)


def row(clusters: int, **changes) -> dict:
    rng = np.random.default_rng(clusters)
    power = np.sort(rng.random(clusters))[::-1]
    return {
        "link_id": f"x{clusters}",
        "los": True,
        "bearing_deg": 30.0,
        "direct_zenith_deg": 90.0,
        "distance_2d_m": 100.0,
        "k_factor_db": 3.0,
        "cluster_delay_spread_s": 4e-9,
        "path_delay_s": list(rng.random(clusters) * 1e-6),
        "path_power": list(power / power.sum()),
        "ray_azimuth_deg": list(rng.random(clusters * RAYS) * 360),
        "ray_zenith_deg": list(90 + rng.random(clusters * RAYS)),
    } | changes


def test_links_are_padded_with_silence_and_survive_slicing() -> None:
    rows = [row(5), row(3, los=False, k_factor_db=None), row(8)]
    links = links_from_table(table(rows))
    assert links.power.shape == (3, 8)
    assert links.power.sum(axis=1) == pytest.approx(1)
    assert links.power[1, 3:].max() == 0
    assert links.k_linear == pytest.approx([10**0.3, 0, 10**0.3])
    part = links_from_table(table(rows).slice(1, 1))
    assert part.delay_s[0] == pytest.approx(links.delay_s[1, :3])
    assert part.azimuth_deg[0] == pytest.approx(links.azimuth_deg[1, :3])


def test_rays_sum_into_paths_of_unit_power() -> None:
    links = links_from_table(table([row(5), row(9), row(12, k_factor_db=None)] * 300))
    gains, delays = path_gains(links, arrays.circular(8), stream(0, "gains"))
    assert gains.shape == (900, 8, 12 + 5)
    assert delays.shape == (900, 17)
    assert np.mean(np.sum(np.abs(gains) ** 2, axis=2)) == pytest.approx(1, abs=0.03)
    direct = np.abs(gains[:, :, 0]) ** 2
    assert direct[0] == pytest.approx(10**0.3 / (1 + 10**0.3))
    assert direct[2].max() == 0
    assert np.all(delays[:, 0] == 0)
    spread = delays[:, 1:4] - links.delay_s[:, :1]
    assert spread == pytest.approx(np.broadcast_to([0, 1.28 * 4e-9, 2.56 * 4e-9], spread.shape), abs=1e-15)
    assert sorted(r for s in SUBCLUSTERS for r in s) == list(range(RAYS))
    shares = np.mean(np.abs(gains[::3, :, 1:4]) ** 2, axis=(0, 1)) / np.mean(links.power[::3, 0]) * (1 + 10**0.3)
    assert shares == pytest.approx([10 / 20, 6 / 20, 4 / 20], rel=0.25)


def test_laws_refuse_what_they_do_not_know() -> None:
    with pytest.raises(ValueError, match="scenario: Mars is unknown, expected one of"):
        laws.los_probability("Mars", 100, 1.5)
    with pytest.raises(ValueError, match="has no law here between"):
        laws.los_probability("UMa", 100, 15.0)
    assert laws.aerial_k_factor_db("UMi", np.array([50.0]))[0] == pytest.approx(15)
    assert ((p := laws.los_probability("InH", np.array([1.0, 3.0, 20.0]), 1.5)) <= 1).all()
    assert p[0] == 1


def test_line_of_sight_indoors_by_hand() -> None:
    """Table 7.4.2-1: InH mixed office, and InF-DH with k = -d_clutter / ln(1 - r) (h_BS - h_UT) / (h_c - h_UT)."""
    office = laws.los_probability("InH", np.array([1.2, 1.21, 5.9, 6.5, 39.1]), 1.0)
    assert office == pytest.approx([1.0, np.exp(-0.01 / 4.7), np.exp(-1.0), 0.32, 0.32 / np.e])
    decay = laws.factory_decay_m(0.4, 2.0, 3.0, 8.0, 1.5)
    assert decay == pytest.approx(2.0 / 0.5108256 * 6.5 / 1.5, rel=1e-6)
    assert decay == pytest.approx(16.966, abs=1e-3)
    assert laws.los_probability("InF", np.array([0.0, 16.966, 33.932]), 1.5, decay_m=decay) == pytest.approx(
        [1.0, np.exp(-1), np.exp(-2)], rel=1e-4
    )
    with pytest.raises(ValueError, match="decay_m: expected"):
        laws.los_probability("InF", 10.0, 1.5)
    place = {"scenario": "InF", "base_height_m": 8.0, "terminal_height_m": 1.5, "distance_m": (3.0, 30.0)}
    hall = {"hall_m": (120.0, 60.0, 10.0), "clutter_density": 0.4, "clutter_size_m": 2.0, "clutter_height_m": 3.0}
    factory = Environment(**place, factory=Factory(**hall))
    assert factory.los_probability(np.array([decay]), 1.5)[0] == pytest.approx(np.exp(-1))
    for wrong in (
        {"factory": None},
        {"factory": hall | {"clutter_height_m": 1.0}},
        {"factory": hall, "scenario": "InH"},
    ):
        with pytest.raises(ValueError, match="factory"):
            Environment.model_validate(place | {"factory": hall} | wrong)
