"""Sites: errors of the size stated, the same whoever asks, and none where the recipe states none."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from rfgen.physics.arrays import Array
from rfgen.physics.hardware import ReceiverPopulation
from rfgen.physics.site import Sites, at_array, draw_site, through_front_end
from rfgen.recipe import Recipe

FRONT_END = {"cfo_ppm": 1.0, "gain_imbalance_db": 0.1, "phase_imbalance_deg": 0.6, "dc_offset": 0.01, "ripple": 0.03}
NONE = dict.fromkeys(FRONT_END, 0.0)
CIRCLE = Array(kind="circular", elements=8, spacing_m=0.025844)
LINE = Array(kind="linear", elements=4, spacing_m=0.025844)


def sites(gain=0.0, phase=0.0, coupling=0.0, front_end=NONE) -> Sites:
    return Sites(
        gain_error_db=gain,
        phase_error_deg=phase,
        coupling=coupling,
        front_end=ReceiverPopulation(**front_end),
        pretrain_sites=4,
    )


def test_a_perfect_site_changes_nothing() -> None:
    site = draw_site(0, "E", sites(), CIRCLE)
    gains = complex_normal(stream(0, "gains"), (3, 8, 5))
    assert np.array_equal(at_array([site] * 3, gains), gains)
    signal = complex_normal(stream(0, "signal"), (3, 8, 64))
    assert through_front_end([site] * 3, signal, 5.8e9, 20e6) == pytest.approx(signal)


def test_errors_have_the_size_stated() -> None:
    drawn = [draw_site(0, f"E{i}", sites(0.5, 5.0), CIRCLE).response for i in range(300)]
    error = np.concatenate([np.diag(response) for response in drawn])
    assert np.std(20 * np.log10(np.abs(error))) == pytest.approx(0.5, rel=0.06)
    assert np.degrees(np.std(np.angle(error))) == pytest.approx(5.0, rel=0.06)
    assert all(np.array_equal(response, np.diag(np.diag(response))) for response in drawn)


@pytest.mark.parametrize(("array", "neighbours"), [(CIRCLE, 16), (LINE, 6)])
def test_neighbours_couple_and_no_others(array: Array, neighbours: int) -> None:
    response = draw_site(0, "E", sites(coupling=0.05), array).response
    beside = response[array.neighbours() == 1]
    assert len(beside) == neighbours
    assert np.abs(beside) == pytest.approx(0.05)
    assert np.ptp(np.angle(beside)) == pytest.approx(0, abs=1e-12)
    assert np.diag(response) == pytest.approx(1)
    assert np.count_nonzero(response) == neighbours + array.elements
    assert array.neighbours()[0, -1] == (array.kind == "circular")


def test_a_site_is_its_own_and_stays_the_same() -> None:
    one, again, other = (draw_site(7, name, sites(0.5, 5.0, 0.05, FRONT_END), CIRCLE) for name in ("A", "A", "B"))
    assert np.array_equal(one.response, again.response)
    assert one.chains == again.chains
    assert not np.isclose(one.response, other.response).any(where=one.response != 0)
    assert one.chains[0] != other.chains[0]
    # One clock and one ripple, and each element's own mixer.
    assert len({chain.cfo_ppm for chain in one.chains}) == len({chain.ripple for chain in one.chains}) == 1
    assert len({chain.gain_db for chain in one.chains}) == 8
    # A single antenna at the site has the first element's chain.
    assert draw_site(7, "A", sites(0.5, 5.0, 0.05, FRONT_END), None).chains == one.chains[:1]
    assert draw_site(7, "A", sites(0.5, 5.0), None).response == pytest.approx(1)


def test_scenes_of_one_chunk_can_be_of_several_sites() -> None:
    population = sites(0.5, 5.0, 0.05, FRONT_END)
    a, b = (draw_site(0, name, population, CIRCLE) for name in "AB")
    signal = complex_normal(stream(0, "signal"), (3, 8, 64))
    mixed = through_front_end([a, b, a], signal, 5.8e9, 20e6)
    for row, site in enumerate((a, b, a)):
        assert mixed[row] == pytest.approx(through_front_end([site], signal[row : row + 1], 5.8e9, 20e6)[0])
    gains = complex_normal(stream(0, "gains"), (3, 8, 5))
    assert at_array([a, b, a], gains)[1] == pytest.approx(b.response @ gains[1])


def test_environments_are_sites_and_the_pool_has_many(tiny: Recipe) -> None:
    task = tiny.tasks["E-LOC-AOA"]
    same = [task.hardware(tiny, split, ("E_URBAN", band, 0), 3) for split in ("TRAIN", "DEV") for band in task.bands]
    assert all(site.chains == same[0][0].chains for sites_ in same for site in sites_)
    drone = tiny.tasks["E-ID-DRONE"].hardware(tiny, "DEV", ("E_URBAN", "5.8GHz", 0), 1)[0]
    assert drone.chains == same[0][0].chains[:1]
    pool = [
        site.chains[0] for n in range(8) for site in task.hardware(tiny, "PRETRAIN", ("P", "3.5GHz", n), task.chunk)
    ]
    assert len(set(pool)) == tiny.sites.pretrain_sites == len(pool)
    own = task.model_copy(update={"band_arrays": {"5.8GHz": task.array}})
    low, high = (own.hardware(tiny, "DEV", ("E_URBAN", band, 0), 1)[0] for band in ("2.4GHz", "5.8GHz"))
    assert low.chains == same[0][0].chains
    assert high.chains != low.chains
