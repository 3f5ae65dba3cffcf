import copy

import numpy as np
import pytest

from rfgen.recipe import Recipe
from rfgen.scenes import TASKS


def put(data: dict, path: str, value: object) -> dict:
    """A deep copy with one key changed; a value of None deletes it."""
    data = copy.deepcopy(data)
    *outer, last = path.split("/")
    node = data
    for key in outer:
        node = node[key]
    if value is None:
        del node[last]
    else:
        node[last] = value
    return data


@pytest.mark.parametrize("name", ["tiny", "v0.1", "v1.0"])
def test_shipped_recipes_are_valid(mapping, name) -> None:
    recipe = Recipe.from_mapping(mapping(name))
    assert tuple(recipe.tasks) == tuple(mapping(name)["tasks"])
    first = {"E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE", "E-ID-FP", "E-ID-AMC"}
    assert set(recipe.tasks) == (first if name == "v0.1" else set(TASKS))
    everywhere = ("E_URBAN", "E_RURAL", "E_MICRO", "E_OFFICE", "E_FACTORY")
    assert tuple(recipe.environments) == everywhere[: 5 if name == "v1.0" else 2]
    pooled = (
        *("E-LOC-AOA", "E-ID-DRONE", "E-ID-FP", "E-ID-AMC"),
        *(("E-SC-SENSE", "E-SC-ANOM") if name != "v0.1" else ()),
    )
    assert recipe.tasks_in("PRETRAIN") == tuple(task for task in recipe.tasks if task in pooled)


def test_v10_has_more_places_bands_and_another_edition(mapping) -> None:
    first, second = (Recipe.from_mapping(mapping(name)) for name in ("v0.1", "v1.0"))
    assert (first.spec_version, second.spec_version) == ("16.1", "19.2")
    assert {name: second.environments[name] for name in first.environments} == first.environments
    assert [second.tasks[task].environments for task in ("E-LOC-AOA", "E-LOC-LOS")] == [tuple(second.environments)] * 2
    # TR 36.777 has no aerial law indoors.
    assert second.tasks["E-ID-DRONE"].environments == ("E_URBAN", "E_RURAL", "E_MICRO")
    # The array keeps its size in metres, and is another at 28 GHz.
    task = second.tasks["E-LOC-LOS"]
    apart = {b: np.hypot(*np.diff(task.positions(second, b)[:2], axis=0)[0]) for b in task.bands}
    assert apart == pytest.approx({"2.4GHz": 0.2103, "5.8GHz": 0.5, "28GHz": 0.5}, abs=2e-4)
    assert second.tasks["E-LOC-AOA"].bands == ("2.4GHz", "5.8GHz")
    assert (first.sites, first.longest_delay_s) == (second.sites, second.longest_delay_s)


BAD = [
    ("link_chunks", 3, "link_chunks: Extra inputs"),
    ("link_chunk", 0, "link_chunk: Input should be greater than 0"),
    ("link_chunk", "40", "link_chunk: Input should be a valid integer"),
    ("link_chunk", None, "link_chunk: Field required"),
    ("gain_db", [5.0, -5.0], "gain_db: expected two finite numbers, the lower first"),
    ("gain_db", [float("nan"), 1.0], "gain_db: expected two finite numbers"),
    ("bands_hz/2.4GHz", "2.4e9", "bands_hz.2.4GHz: Input should be a valid number"),
    ("bands_hz/2.4GHz", True, "bands_hz.2.4GHz: Input should be a valid number"),
    ("environments/E_URBAN/scenario", "Urban", "environments.E_URBAN.scenario: Input should be 'UMa'"),
    ("environments/E_URBAN/colour", 1, "environments.E_URBAN.colour: Extra inputs"),
    (
        "environments/E_EMPTY",
        {"scenario": "RMa", "base_height_m": 35.0, "terminal_height_m": 1.5, "distance_m": [35.0, 200.0]},
        "environments.E_EMPTY: environment without scenes",
    ),
    ("environments/E_RURAL", None, "'E_RURAL' is not defined in environments"),
    ("tasks/E-LOC-XYZ", {}, "tasks: E-LOC-XYZ is unknown, expected one of E-CH-BEAM, E-CH-CSI, E-ID-AMC, E-ID-DRONE"),
    ("tasks", {}, "tasks: expected at least one"),
    ("tasks", [], "rfgen.tasks: Input should be a valid dictionary"),
    ("tasks/E-LOC-AOA/environments", ["E_URBAN"], "tasks.E-LOC-AOA: environments: expected at least two"),
    ("tasks/E-LOC-AOA/environments", ["E_URBAN", "E_URBAN"], "tasks.E-LOC-AOA: environments: expected at least two"),
    ("tasks/E-LOC-AOA/bands", ["9GHz"], "tasks.E-LOC-AOA.bands: '9GHz' has no frequency"),
    ("tasks/E-LOC-AOA/bands", [], "tasks.E-LOC-AOA.bands"),
    ("tasks/E-LOC-AOA/scenes/DEV", 0, "tasks.E-LOC-AOA: scenes.DEV: expected at least one scene"),
    ("tasks/E-LOC-AOA/scenes/DEV", 17, "scenes.DEV: expected a multiple of the chunk size 8, got 17"),
    ("tasks/E-LOC-AOA/scenes/TEST", 8, "tasks.E-LOC-AOA.scenes.TEST"),
    ("tasks/E-LOC-AOA/scenes/HOLDOUT", None, "scenes.HOLDOUT: expected at least one scene"),
    ("tasks/E-ID-DRONE/present", ["drone-laser"], "present: 'drone-laser' is not among the families"),
    ("tasks/E-ID-DRONE/absent", ["drone-video-fm"], "absent: a family is also in present"),
    ("tasks/E-ID-DRONE/sample_rate_hz", 10000000.0, "sample_rate_hz: expected 20000000.0"),
    ("tasks/E-ID-DRONE/high_share", 1.5, "tasks.E-ID-DRONE.high_share"),
    (
        "environments/E_URBAN/aerial",
        None,
        "rfgen: tasks.E-ID-DRONE.high_share: E_URBAN has no aerial block, expected one for high emitters",
    ),
    ("longest_delay_s", 0.0, "longest_delay_s: Input should be greater than 0"),
    ("sites/coupling", 1.5, "sites.coupling: Input should be less than or equal to 1"),
    ("sites/pretrain_sites", 0, "sites.pretrain_sites: Input should be greater than 0"),
    ("sites/front_end/gain_db", 1.0, "sites.front_end.gain_db: Extra inputs"),
    ("environments/E_URBAN/scenario", "InF", "environments.E_URBAN: factory: expected the hall and its clutter"),
    ("tasks/E-LOC-AOA/array/spacing_wavelengths", 0.5, "tasks.E-LOC-AOA.array.spacing_wavelengths: Extra inputs"),
    (
        "tasks/E-LOC-LOS/band_arrays",
        {"28GHz": {"kind": "circular", "elements": 8, "spacing_m": 0.005}},
        "tasks.E-LOC-LOS: band_arrays.28GHz: expected a band of the task, and 8 elements",
    ),
    ("tasks/E-ID-DRONE/families/radar", {}, "tasks.E-ID-DRONE.families.radar: Extra inputs"),
    ("tasks/E-ID-DRONE/families/wifi-ofdm/gap_us", 3.0, "tasks.E-ID-DRONE.families.wifi-ofdm.gap_us"),
    ("tasks/E-ID-FP/units", ["U01"], "tasks.E-ID-FP: units: expected at least two"),
    ("tasks/E-ID-FP/sessions", 1, "sessions: expected at least two"),
    ("tasks/E-ID-FP/receivers", ["R01", "R02"], "receivers: expected at least 3"),
    ("tasks/E-ID-FP/captures/DEV", 3, "captures.DEV: expected a multiple of the chunk size 2"),
    ("tasks/E-ID-AMC/regimes_db", {"low": [-10.0, 0.0]}, "regimes_db: expected at least two held-out values"),
    ("tasks/E-ID-AMC/classes", ["BPSK", "256QAM"], "classes: unknown modulation '256QAM'"),
    ("tasks/E-ID-AMC/chunk", 21, "tasks.E-ID-AMC"),
    ("pretrain/band", "2.4GHz", "pretrain.band: '2.4GHz' is a held-out value"),
    ("pretrain/band", "1GHz", "pretrain.band: '1GHz' has no frequency"),
    ("pretrain/name", "E_URBAN", "pretrain.name: 'E_URBAN' is a held-out value"),
    ("pretrain/environment/scenario", "RMa", "pretrain.environment.scenario: Input should be 'CDL'"),
    ("pretrain/units", ["U01"], "pretrain.units: 'U01' is a held-out value"),
    ("pretrain/receivers", ["R901"], "pretrain.receivers: expected at least"),
    ("pretrain/snr_db", [10.0, 20.0], "pretrain.snr_db: expected SNRs from 25.0 dB on"),
]


@pytest.mark.parametrize(("path", "value", "message"), BAD, ids=[f"{p}-{i}" for i, (p, _, _) in enumerate(BAD)])
def test_a_bad_recipe_is_refused_in_one_line(mapping, path, value, message) -> None:
    with pytest.raises(ValueError, match=r"^rfgen") as caught:
        Recipe.from_mapping(put(mapping("tiny"), path, value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [None, [], "recipe", 3])
def test_not_a_mapping(data) -> None:
    with pytest.raises(ValueError, match=r"^config/x\.yaml: rfgen: ") as caught:
        Recipe.from_mapping(data, where="config/x.yaml: rfgen")
    assert "\n" not in str(caught.value)


def test_frozen(tiny) -> None:
    with pytest.raises(ValueError, match="frozen"):
        tiny.link_chunk = 3


def test_regimes_by_snr(tiny) -> None:
    snr = np.array([-10.0, -0.01, 0.0, 9.99, 10.0, 24.9, 25.0, 40.0])
    assert tiny.snr_regime(snr) == ["low", "low", "mid", "mid", "high", "high", "clean", "clean"]


def test_counts_are_of_scenes_or_captures(tiny) -> None:
    assert tiny.tasks["E-LOC-AOA"].counts["DEV"] == 16
    assert tiny.tasks["E-ID-FP"].counts["DEV"] == 4


def without_aerial(data: dict, *places: dict) -> dict:
    for place in places:
        del place["aerial"]
    return data


def test_high_emitters_ask_an_aerial_block_of_the_environments_that_they_use_alone(mapping) -> None:
    data = put(mapping("tiny"), "tasks/E-ID-DRONE/high_share", 0.0)
    Recipe.from_mapping(without_aerial(data, *data["environments"].values()))
    # An environment of other tasks alone asks for none; there is no aerial law indoors.
    data = mapping("v1.0")
    assert "aerial" not in data["environments"]["E_OFFICE"]
    Recipe.from_mapping(data)
    with pytest.raises(ValueError, match="high_share: E_OFFICE has no aerial block"):
        Recipe.from_mapping(put(data, "tasks/E-ID-DRONE/environments", ["E_URBAN", "E_OFFICE"]))
