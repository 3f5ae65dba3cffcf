"""The RunManifest: nothing in it may be missing or empty, and its bundle hash is the predictions' alone."""

import pytest

from common.errors import InputError
from common.files import parse
from emma.results.manifest import RunManifest, bundle_hash
from emma.version import HARNESS_VERSION

GOOD = {
    "model_provenance": {"name": "m", "config_sha256": "0" * 64, "weights_sha256": None, "pretraining": "unknown"},
    "data_release_hash": "0" * 64,
    "prediction_bundle_hashes": {"E-LOC-AOA": "1" * 64},
    "task_metrics": {"E-LOC-AOA": {"MeanAngularError": None}},
    "seed": 0,
    "harness_version": HARNESS_VERSION,
}


def test_a_whole_manifest_is_taken_and_comes_back():
    manifest = parse(RunManifest, GOOD, "m")
    assert parse(RunManifest, manifest.model_dump(mode="json"), "m") == manifest


@pytest.mark.parametrize("key", GOOD)
def test_every_field_is_required(key):
    with pytest.raises(InputError, match=f"m: {key}: Field required"):
        parse(RunManifest, {name: value for name, value in GOOD.items() if name != key}, "m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_provenance": {}}, "model_provenance"),
        ({"model_provenance": {"name": "m"}}, "model_provenance"),
        ({"data_release_hash": ""}, "data_release_hash"),
        ({"data_release_hash": "0" * 63 + "G"}, "data_release_hash"),
        ({"prediction_bundle_hashes": {}}, "prediction_bundle_hashes"),
        ({"prediction_bundle_hashes": {"E-LOC-AOA": "1"}}, "prediction_bundle_hashes"),
        ({"prediction_bundle_hashes": {"E-ID-FP": "1" * 64}}, "prediction_bundle_hashes"),
        ({"task_metrics": {}}, "task_metrics"),
        ({"task_metrics": {}, "prediction_bundle_hashes": {}}, "expected at least one entry"),
        ({"task_metrics": {"E-LOC-AOA": {}}}, "task_metrics"),
        ({"task_metrics": {"E-LOC": {"AUC": 1.0}}}, "task_metrics"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"harness_version": ""}, "harness_version"),
        ({"host": "here"}, "host: unknown key"),
    ],
)
def test_what_is_empty_or_odd_is_refused(change, message):
    with pytest.raises(InputError, match="m: ") as caught:
        parse(RunManifest, GOOD | change, "m")
    assert message in str(caught.value)


def test_a_bundle_hash_depends_on_every_fold_and_on_no_order():
    folds = {"p": {"a": "1", "b": "2"}, "q": {"a": "3"}}
    turned = {"q": {"a": "3"}, "p": {"b": "2", "a": "1"}}
    assert bundle_hash(folds) == bundle_hash(turned)
    others = [
        {"p": {"a": "2", "b": "1"}, "q": {"a": "3"}},
        {"p": {"a": "1", "b": "2"}},
        {"p": folds["p"], "r": {"a": "3"}},
    ]
    assert len({bundle_hash(folds), *map(bundle_hash, others)}) == 4
