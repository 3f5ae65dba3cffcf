"""The verifier says whether a release has the hash on record; a release that is not on record is no fault."""

import shutil

import pytest

from common.hashing import sha256
from emma.audit.verify import Results
from emma.audit.verify.data import Manifest
from emma.data.published import published_release, write_published

OTHER = sha256(b"other")


def changed(record, **probe):
    """The record with another hash and, in the probe of one split, other values."""
    task, splits = next(iter(record.probes.items()))
    split, own = next(iter(splits.items()))
    probes = {**record.probes, task: {**splits, split: own.model_copy(update=probe)}}
    return record.model_copy(update={"data_release_hash": OTHER, "probes": probes})


@pytest.mark.parametrize(
    ("change", "note", "faults"),
    [
        (None, "mini is not among the published releases", 0),
        (lambda record: record, "the published hash", 0),
        (changed, "not the published hash: other floating point", 0),
        (
            lambda record: changed(record).model_copy(update={"config_sha256": "0" * 64}),
            "not the published hash: its config differs from the published one",
            0,
        ),
        (lambda record: changed(record, scenes=7), "not the published hash", 1),
        (lambda record: changed(record, text_sha256=OTHER), "not the published hash", 1),
        (lambda record: changed(record, level="9.0"), "not the published hash", 1),
    ],
)
def test_the_manifest_s_line_says_whether_the_hash_is_on_record(pristine, tmp_path, change, note, faults):
    shutil.copytree(pristine / "config", tmp_path / "config")
    results = Results(pristine / "results", tmp_path)
    if change is not None:
        record = published_release(results.manifest(), results.layout.at("scenes"))
        write_published(tmp_path / "config/releases/published.json", {"mini": change(record)})
    check = Manifest()
    check.run(results)
    assert (len(check.faults), check.note) == (faults, note)
    assert all("not those of the published release" in fault for fault in check.faults)
