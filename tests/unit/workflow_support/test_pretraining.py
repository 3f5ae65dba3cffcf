"""A typo in what pretraining saw never clears a model."""

from pathlib import Path

import pytest

from common.errors import InputError
from common.files import parse
from emma.data.provenance import PRETRAINING_FIELDS, Pretraining, with_sets
from emma.data.public_sets import PUBLIC_SETS, regimes_of
from emma.data.release import load_release_config
from rfgen.recipe import Recipe
from workflow_support.pretraining import Known

RELEASES = Path(__file__).parents[3] / "config" / "releases"
KNOWN = Known(parse(Recipe, load_release_config(RELEASES / "tiny.yaml").rfgen, "tiny.yaml"), RELEASES)


@pytest.mark.parametrize(
    "declared",
    [
        {},
        {"environments": ["E_URBAN", "E_PRETRAIN_CDL"], "devices": ["U04", "U901"], "receivers": ["R903"]},
        {"waveforms": ["drone-id-ofdm", "wifi-ofdm", "noise"], "frequency_bands": ["3.5GHz"], "snr_regimes": ["clean"]},
        # What other releases know: one config serves them all.
        {"devices": ["U12", "U912"], "environments": ["E_FACTORY"], "waveforms": ["drone-video-cofdm"]},
        {"release_splits": ["TRAIN"], "sets": ["radioml_2018_01a", "wisig"]},
    ],
)
def test_what_a_release_knows_is_allowed(declared):
    KNOWN.check(Pretraining(**declared), "m.yaml")
    KNOWN.check("unknown", "m.yaml")


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ({"environments": ["E_URBN"]}, "environments: E_URBN is unknown, did you mean E_URBAN?"),
        ({"environments": ["e_urban"]}, "environments: e_urban is unknown, did you mean E_URBAN?"),
        ({"devices": ["U01", "u901"]}, "devices: u901 is unknown, did you mean U901?"),
        ({"frequency_bands": ["2.4 GHz"]}, "frequency_bands: 2.4 GHz is unknown, did you mean 2.4GHz?"),
        ({"snr_regimes": ["20 dB"]}, "snr_regimes: 20 dB is unknown, expected one of low, mid, high, clean"),
        ({"waveforms": ["dronid-ofdm"]}, "waveforms: dronid-ofdm is unknown, did you mean drone-id-ofdm?"),
        ({"release_splits": ["train"]}, "release_splits: train is unknown, did you mean TRAIN?"),
        ({"receivers": ["a USRP"]}, "receivers: a USRP is unknown, expected one of R01, R02"),
    ],
)
def test_what_none_knows_is_named(declared, message):
    with pytest.raises(InputError) as caught:
        KNOWN.check(Pretraining(**declared), "m.yaml")
    assert str(caught.value).startswith(f"m.yaml: pretraining.{message}")


def test_a_set_is_one_of_those_that_are_known():
    with pytest.raises(InputError, match=r"m\.yaml: sets\.0: .*radioml_2018 is unknown, did you mean radioml_2018_01a"):
        parse(Pretraining, {"sets": ["radioml_2018"]}, "m.yaml")


def test_every_axis_has_a_field():
    assert {*PRETRAINING_FIELDS.values(), "release_splits", "sets"} == set(Pretraining.model_fields)


def test_the_range_of_a_set_meets_the_regimes_that_it_overlaps():
    spans = {"low": [-10, 0], "mid": [0, 10], "high": [10, 25], "clean": [25, 35], "far": [30.1, 40]}
    assert regimes_of("radioml_2016_10a", spans) == ("low", "mid", "high")
    assert regimes_of("radioml_2018_01a", spans) == ("low", "mid", "high", "clean")
    assert regimes_of("wisig", spans) == ()
    declared = Pretraining(snr_regimes=("clean",), sets=("radioml_2016_10b",))
    assert with_sets(declared, {"snr_regimes_db": spans}).snr_regimes == ("clean", "low", "mid", "high")
    assert with_sets("unknown", {}) == "unknown"
    assert with_sets(Pretraining(), {"snr_regimes_db": spans}) == Pretraining()


def test_sets_have_a_source_and_as_many_modulations_as_published():
    assert {name: len(found.modulations) for name, found in PUBLIC_SETS.items() if found.modulations} == {
        "radioml_2016_10a": 11,
        "radioml_2016_10b": 10,
        "radioml_2018_01a": 24,
    }
    assert all(found.source and len(set(found.modulations)) == len(found.modulations) for found in PUBLIC_SETS.values())


def test_a_declaration_without_sets_is_written_as_before():
    assert "sets" not in Pretraining(devices=("U01",)).model_dump(mode="json")
    assert Pretraining(sets=("oracle",)).model_dump(mode="json")["sets"] == ["oracle"]
    assert not Pretraining().declares
    assert Pretraining(sets=("oracle",)).declares
