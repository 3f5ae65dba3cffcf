"""Every delay of the release's links is linear: a window is the same however long the stretch around it was."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from rfgen import channels
from rfgen.physics.propagation import GUARD, apply_channel, lead_samples, links_from_table, path_gains
from rfgen.scenes.drone import LEAD, TAIL

RATE = 20e6


@pytest.fixture(scope="module", params=["TRAIN", "PRETRAIN"])
def links(tiny, request):
    return links_from_table(tiny.rays(request.param).slice(0, 200))


def worst_db(links, lead: int, tail: int, length: int) -> float:
    """The largest error over the window's places, relative to its power, in dB."""
    rng, more = stream(0, "stretch", lead), 2048
    gains, delays = path_gains(links, np.zeros((1, 2)), rng)
    delays = delays + rng.random(len(delays))[:, None] / RATE
    sent = complex_normal(rng, (len(delays), more + lead + length + tail + more))
    wide = apply_channel(sent, gains, delays, RATE, slice(more + lead, more + lead + length))
    narrow = apply_channel(sent[:, more:-more], gains, delays, RATE, slice(lead, lead + length))
    off = np.mean(np.abs(wide - narrow) ** 2, axis=(0, 1)) / np.mean(np.abs(wide) ** 2)
    return float(10 * np.log10(off.max()))


def test_localisation_hears_what_came_before_and_nothing_of_what_comes_after(tiny, links) -> None:
    task = tiny.recipe.tasks["E-LOC-AOA"]
    lead = lead_samples(tiny.recipe.longest_delay_s, task.sample_rate_hz)
    assert worst_db(links, lead, GUARD, task.samples) < -60


def test_drones_too(tiny, links) -> None:
    assert worst_db(links, LEAD, TAIL, tiny.recipe.tasks["E-ID-DRONE"].samples) < -60
    assert lead_samples(tiny.recipe.longest_delay_s, RATE) <= LEAD


def test_no_echo_is_later_than_the_recipe_says(v01) -> None:
    links = links_from_table(v01.rays("DEV"))
    _, delays = path_gains(links, np.zeros((1, 2)), stream(0, "late"))
    assert 0.5 * v01.recipe.longest_delay_s < delays.max() <= v01.recipe.longest_delay_s
    assert links.power.sum(axis=1) == pytest.approx(1)


def test_the_pool_is_of_the_profiles(v01) -> None:
    """TR 38.901 7.7.1: normalised delays have a spread of one; D and E are in sight, K over all echoes is 9 dB."""
    frame = v01.rays("PRETRAIN").to_pandas()
    frame["profile"] = [channels.PROFILES[index % 5] for index in frame["index"]]
    low, high = v01.recipe.pretrain.environment.delay_spread_s
    assert frame.delay_spread_s.between(low, high).all()
    assert np.median(np.log10(frame.delay_spread_s)) == pytest.approx(-7, abs=0.1)
    for profile, rows in frame.groupby("profile"):
        assert (rows.los == (profile in "DE")).all()
        for row in rows.head(20).itertuples():
            k = 10 ** (row.k_factor_db / 10) if row.los else 0.0
            power, delay = np.append(row.path_power, k), np.append(row.path_delay_s, 0.0)
            power /= power.sum()
            spread = np.sqrt(power @ delay**2 - (power @ delay) ** 2)
            assert spread == pytest.approx(row.delay_spread_s, rel=0.03), profile
    found = frame.groupby("profile").k_factor_db.mean()
    assert found[["D", "E"]].to_numpy() == pytest.approx([8.98, 9.27], abs=0.01)
    turn = np.exp(1j * np.radians(frame.bearing_deg))
    assert len(turn) * np.abs(turn.mean()) ** 2 < 12
    assert frame[["distance_2d_m", "base_height_m", "terminal_height_m"]].isna().all(axis=None)
