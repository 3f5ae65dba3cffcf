"""E-ID-FP: linear delays, channels as stated, crossed sessions, HOLDOUT's own units, the truth of an oracle."""

import numpy as np
import pytest

from common.streams import complex_normal, stream
from emma.data.extends import read_extended
from rfgen.physics.delays import HALF, delay_line, interpolator
from rfgen.recipe import Recipe
from rfgen.scenes import generate
from rfgen.scenes.fingerprint import SessionChannel

from .conftest import RELEASES

RATE = 20e6


def db(ratio: float) -> float:
    return 10 * np.log10(ratio)


def test_a_delay_is_the_one_asked_for() -> None:
    tone = np.exp(2j * np.pi * 0.38 * np.arange(400))[None]
    for delay in (0.0, 3.0, 7.37, 20.5):
        heard = delay_line(tone, np.ones((1, 1), complex), np.array([[delay / RATE]]), RATE)
        inside = slice(60, 340)
        error = heard[:, inside] - (tone * np.exp(-2j * np.pi * 0.38 * delay))[:, inside]
        assert db(np.mean(np.abs(error) ** 2) + 1e-30) < -60
    assert interpolator(np.array([0.0, 1.0, -3.0, HALF, HALF + 0.3])) == pytest.approx([1, 0, 0, 0, 0], abs=1e-12)


def test_a_window_agrees_with_a_longer_stretch() -> None:
    rng = stream(0, "stretch")
    signal = complex_normal(rng, (5, 4000))
    gains, delays = complex_normal(rng, (5, 6)), rng.exponential(2e-7, (5, 6))
    whole = delay_line(signal, gains, delays, RATE)
    # From a start at which nothing of before is heard any more, and with an end that is HALF samples later.
    memory = int(delays.max() * RATE) + HALF + 2
    part = delay_line(signal[:, 1000 : 2000 + memory + HALF], gains, delays, RATE)[:, memory : 1000 + memory]
    error = part - whole[:, 1000 + memory : 2000 + memory]
    assert db(np.max(np.mean(np.abs(error) ** 2, axis=0))) < -60


def fingerprint(mapping, **changes) -> Recipe:
    data = mapping("tiny")
    data["tasks"] = {"E-ID-FP": data["tasks"]["E-ID-FP"] | changes}
    data["environments"] = {}
    return Recipe.from_mapping(data)


#: Front ends that change nothing, so that the channel and the noise alone are seen.
CLEAN = {
    "population": {
        "cfo_ppm": 0.0,
        "gain_imbalance_db": 0.0,
        "phase_imbalance_deg": 0.0,
        "dc_offset": 0.0,
        "amplifier_saturation_db": [40.0, 40.0],
        "amplifier_smoothness": [2.0, 2.0],
        "am_pm_deg": [0.0, 0.0],
        "phase_noise_hz": [0.0, 0.0],
        "transient_depth": [0.0, 0.0],
        "transient_us": [1.0, 1.0],
        "transient_phase_deg": 0.0,
    },
    "drift": {"cfo_ppm": 0.0, "share": 0.0},
    "receiver": {"cfo_ppm": 0.0, "gain_imbalance_db": 0.0, "phase_imbalance_deg": 0.0, "dc_offset": 0.0, "ripple": 0.0},
}


def test_places_before_the_frame_hold_noise_alone(mapping) -> None:
    recipe = fingerprint(
        mapping, **CLEAN, snr_db=[25.0, 25.0], captures={"TRAIN": 100, "DEV": 100, "HOLDOUT": 2}, lead_in=[16.0, 48.0]
    )
    chunks = list(generate(recipe, "E-ID-FP", "DEV", None, 3))
    iq = np.concatenate([chunk.iq[:, 0] for chunk in chunks]).astype(complex)
    # Noise power of each scene from its SNR over the time that the frame is on; 16 to 48 of 1024 samples are before it.
    power = np.mean(np.abs(iq) ** 2, axis=1, keepdims=True)
    on = 1 - 32 / recipe.tasks["E-ID-FP"].samples
    noise = power / (1 + on * 10**2.5)
    quiet = np.abs(iq[:, : 16 - HALF]) ** 2 / noise
    n = quiet.size
    # The frame's true start moves the estimate by +-1.6 %; an exponential's mean has an error of one over root n.
    assert np.mean(quiet) == pytest.approx(1.0, abs=0.016 + 4 / np.sqrt(n))
    for place in range(16 - HALF):
        assert np.mean(quiet[:, place]) == pytest.approx(1.0, abs=0.016 + 4 / np.sqrt(len(quiet)))


@pytest.mark.parametrize("change", [0.0, 0.2, 1.0])
def test_a_capture_keeps_the_power_and_the_k_factor(change) -> None:
    channel = SessionChannel(taps=6, delay_spread_s=(2e-8, 8e-8), k_factor_db=(5.0, 5.0), change=change)
    rng = stream(0, "channel", str(change))
    direct_power, scattered_power, kept = [], [], []
    for _ in range(4000):
        direct, scattered, deviation, delays = channel.draw(rng)
        assert delays[0] == 0
        assert (np.diff(delays) >= 0).all()
        gains = channel.gains(direct, scattered, deviation, 2, rng)
        rest = gains - direct
        direct_power.append(np.sum(np.abs(direct) ** 2))
        scattered_power.append(np.sum(np.abs(rest) ** 2, axis=1).mean())
        kept.append(np.sum(rest[0] * rest[1].conj()).real)
    k = 10**0.5
    assert np.mean(direct_power) == pytest.approx(k / (1 + k), rel=1e-9)
    assert np.mean(scattered_power) == pytest.approx(1 / (1 + k), rel=0.04)
    assert db(np.mean(direct_power) / np.mean(scattered_power)) == pytest.approx(5.0, abs=0.2)
    assert np.mean(kept) == pytest.approx((1 - change) / (1 + k), abs=0.02)


def test_counts_are_per_unit_and_session(mapping) -> None:
    for name, sessions, captures in (("tiny", 3, 4), ("v0.1", 20, 8)):
        data = mapping(name)
        data["tasks"], data["environments"] = {"E-ID-FP": data["tasks"]["E-ID-FP"]}, {}
        recipe = Recipe.from_mapping(data)
        task = recipe.tasks["E-ID-FP"]
        seen: dict[tuple, int] = {}
        receivers: dict[str, dict[str, set]] = {}
        for chunk in generate(recipe, "E-ID-FP", "DEV", None, 1):
            meta = chunk.metadata
            for unit, session, receiver in zip(meta["device"], meta["session"], meta["receiver"], strict=True):
                seen[unit, session] = seen.get((unit, session), 0) + 1
                receivers.setdefault(unit, {}).setdefault(session, set()).add(receiver)
        assert set(seen.values()) == {captures}
        assert len(seen) == len(task.units) * sessions
        # Whichever session enrols, no query of the unit shares its receiver.
        for own in receivers.values():
            assert all(len(met) == 1 for met in own.values())
            assert len(set.union(*own.values())) == sessions
            # Names sort in the order of their numbers.
            assert sorted(own) == [f"DEV-{next(iter(own))[4:7]}-S{s:02d}" for s in range(sessions)]
        assert len(set(task.receivers)) >= task.sessions


def test_the_pool_names_no_unit(tiny) -> None:
    chunks = list(generate(tiny, "E-ID-FP", "PRETRAIN", None, 1))
    assert len(chunks) == tiny.tasks["E-ID-FP"].pool_sessions
    for chunk in chunks:
        assert chunk.labels == {}
        for column in ("device", "session", "receiver", "waveform"):
            assert set(chunk.metadata[column]) == {None}
        assert not any(unit in link for unit in tiny.pretrain.units for link in chunk.metadata["link_id"])
    assert len({link for chunk in chunks for link in chunk.metadata["link_id"]}) == sum(map(len, chunks))


def test_holdout_has_units_of_its_own(mapping) -> None:
    own = fingerprint(mapping, holdout_units=["H01", "H02", "H03", "H04"])
    plain = fingerprint(mapping, holdout_units=None)
    for split, seed, units in (("HOLDOUT", "ab" * 16, "H"), ("DEV", 1, "U"), ("TRAIN", 1, "U")):
        chunk = next(generate(own, "E-ID-FP", split, None, seed))
        assert {unit[0] for unit in chunk.metadata["device"]} == {units}
        assert chunk.labels["class"] == chunk.metadata["device"]
    task = own.tasks["E-ID-FP"]
    assert own.values_of("E-ID-FP")["device"] == (*task.units, *task.holdout_units)

    def truth(recipe: Recipe, split: str, seed: int | str) -> np.ndarray:
        return recipe.tasks["E-ID-FP"].truth(recipe, "E-ID-FP", split, (0, "2.4GHz", 0), seed)

    # Another secret makes other units; the units of TRAIN are those of the hardware seed.
    assert np.abs(truth(own, "HOLDOUT", "a" * 32) - truth(own, "HOLDOUT", "b" * 32)).min() > 0
    assert np.array_equal(truth(own, "TRAIN", 1), truth(plain, "TRAIN", 1))
    # The same names, drawn by the secret: other units all the same.
    same = fingerprint(mapping, holdout_units=["U01", "U02", "U03", "U04"])
    assert np.abs(truth(same, "HOLDOUT", 1) - truth(plain, "HOLDOUT", 1)).max() > 0.5
    with pytest.raises(ValueError, match="holdout_units: expected 4, as many as units"):
        fingerprint(mapping, holdout_units=["H01"])
    with pytest.raises(ValueError, match=r"pretrain\.units: 'U901' is a held-out value"):
        fingerprint(mapping, holdout_units=["U901", "H02", "H03", "H04"])


@pytest.mark.parametrize("name", ["tiny", "v0.1", "v1.0"])
def test_what_is_pinned_of_holdout_s_units_is_what_is_made(name) -> None:
    release = read_extended(RELEASES / f"{name}.yaml")
    task = Recipe.from_mapping(release["rfgen"]).tasks["E-ID-FP"]
    pinned = release["tasks"]["E-ID-FP"]
    assert pinned.get("new_holdout_units", False) == (task.holdout_units is not None)
    # Under the same names, so that every fold of the release is one of HOLDOUT's too.
    assert list(task.holdout_units) == pinned["held_out"]


def test_truth_stands_in_the_chunk_s_order_and_tells_the_units(mapping) -> None:
    data = mapping("v0.1")
    data["tasks"], data["environments"] = {"E-ID-FP": data["tasks"]["E-ID-FP"]}, {}
    recipe = Recipe.from_mapping(data)
    task = recipe.tasks["E-ID-FP"]
    keys = task.chunk_keys(recipe, "DEV")
    rows = np.concatenate([task.truth(recipe, "E-ID-FP", "DEV", key, 1) for key in keys])
    assert rows.shape == (12 * 20 * 8, 12)
    chunk = next(generate(recipe, "E-ID-FP", "DEV", None, 1))
    units = np.array(chunk.labels["class"])
    first = rows[: len(units)]
    for unit in set(units):
        assert np.ptp(first[units == unit], axis=0).max() == 0
    # Enrolled by session 0, the units are told apart by their parameters, drift and all.
    centroid = {unit: first[units == unit][0] for unit in set(units)}
    names = sorted(centroid)
    every = np.concatenate(
        [c.labels["class"] for c in generate(recipe, "E-ID-FP", "DEV", None, 1, chunk_keys=keys[1:4])]
    )
    later = rows[len(units) : 4 * len(units)]
    distance = np.linalg.norm(later[:, None] - np.stack([centroid[n] for n in names]), axis=2)
    assert np.mean(np.array(names)[distance.argmin(axis=1)] == every) > 0.98
    # Units and drift together have a spread of about one.
    assert 0.6 < rows.std() < 1.6
