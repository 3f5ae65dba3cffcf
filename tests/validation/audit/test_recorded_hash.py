"""The verifier says whether a release has the hash on record; a release that is not on record is no fault."""

import shutil

import pytest

from common.hashing import sha256
from emma.audit.verify import Results
from emma.audit.verify.data import Manifest
from emma.data.published import PublishedRelease, config_hash, write_published


@pytest.mark.parametrize(
    ("recorded", "note"),
    [
        (None, "mini is not among the published releases"),
        ("same", "the published hash"),
        ("other scenes", "not the published hash: other floating point or other scenes"),
        ("other config", "not the published hash: its config differs from the published one"),
    ],
)
def test_the_manifest_s_line_says_whether_the_hash_is_on_record(pristine, tmp_path, recorded, note):
    shutil.copytree(pristine / "config", tmp_path / "config")
    results = Results(pristine / "results", tmp_path)
    if recorded is not None:
        digest = results.manifest().data_release_hash if recorded == "same" else sha256(b"other")
        config = "0" * 64 if recorded == "other config" else config_hash(results.manifest())
        record = PublishedRelease(data_release_hash=digest, config_sha256=config, probes={})
        write_published(tmp_path / "config/releases/published.json", {"mini": record})
    check = Manifest()
    check.run(results)
    assert (check.faults, check.note) == ([], note)
