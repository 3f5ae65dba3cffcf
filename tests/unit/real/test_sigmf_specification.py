"""The SigMF specification's cases, compared with the sigmf package where it reads them."""

import tarfile

import numpy as np
import pytest
import sigmf

from emma.captures.adapters import adapter
from emma.captures.settings import CaptureEntry, Labels, SceneShape

from .conftest import write_sigmf
from .test_bad_captures import edit, refused

DECLARED = {"core:extensions": [{"name": "emma", "version": "0.1.0", "optional": True}]}


@pytest.fixture
def pairs(rng):
    return rng.integers(-100, 100, 2 * 600).astype(np.int8)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "set"


def plain(pairs, start, count=64):
    """Samples as they lie in the file, at mean power 1."""
    iq = pairs.astype(float)[0::2] + 1j * pairs.astype(float)[1::2]
    iq = iq[start : start + count]
    return iq / np.sqrt(np.mean(np.abs(iq) ** 2))


def first(made):
    return next(made.scenes()).iq[:, 0]


def test_indices_are_absolute(folder, reader, pairs):
    captures = [{"core:sample_start": 1000, "core:frequency": 1e9}]
    write_sigmf(
        folder,
        "r",
        pairs,
        head={"core:offset": 1000},
        captures=captures,
        annotations=[(1100, 64, "a"), (1300, None, "b")],
    )
    found = first(reader("sigmf", folder))
    np.testing.assert_allclose(found[0], plain(pairs, 100), atol=1e-6)
    np.testing.assert_allclose(found[1], plain(pairs, 300), atol=1e-6)


@pytest.mark.parametrize(
    ("start", "annotated", "match"),
    [
        (0, 1100, r"core:sample_start 0 to 0, expected within 1000 \(core:offset\) to 1600"),
        (1000, 100, "annotations: sample 100, expected within the captures' 1000 to 1600"),
        (1000, 1590, "samples 1590 to 1654, expected within the captures' 1000 to 1600"),
        (1200, 1100, "annotations: sample 1100, expected within the captures' 1200 to 1600"),
        (1600, 1600, "core:sample_start 1600 to 1600, expected within"),
    ],
)
def test_indices_outside_the_dataset(folder, reader, tmp_path, pairs, start, annotated, match):
    captures = [{"core:sample_start": start, "core:frequency": 1e9}]
    write_sigmf(folder, "r", pairs, head={"core:offset": 1000}, captures=captures, annotations=[(annotated, 64, "a")])
    refused(reader("sigmf", folder), tmp_path, match)


def test_headers_and_trailer_are_skipped(folder, reader, pairs):
    """The specification's example: two captures of ci8 with headers of 4 bytes, and bytes behind the last sample."""
    raw = pairs.tobytes()
    captures = [
        {"core:sample_start": 0, "core:frequency": 1e9, "core:header_bytes": 4},
        {"core:sample_start": 500, "core:frequency": 1e9, "core:header_bytes": 4},
    ]
    data = b"head" + raw[:1000] + b"HEAD" + raw[1000:] + b"trailer"
    meta = write_sigmf(
        folder,
        "r",
        pairs,
        data=data,
        head={"core:trailing_bytes": 7, "core:dataset": "r.bin"},
        captures=captures,
        annotations=[(0, 64, "a"), (470, 64, "b"), (536, 64, "a")],
    )
    meta.with_suffix(".sigmf-data").rename(folder / "r.bin")
    found = first(reader("sigmf", folder))
    for row, start in zip(found, (0, 470, 536), strict=True):
        np.testing.assert_allclose(row, plain(pairs, start), atol=1e-6)
    theirs = sigmf.fromfile(meta).read_samples(0, 500)
    ours = next(iter(reader("sigmf", folder).recordings())).iq(0, 500)[0]
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_samples_are_those_of_the_sigmf_package(folder, reader, rng):
    for datatype, kind in (("ci16_be", ">i2"), ("cf32_le", "<f4"), ("ci32_le", "<i4"), ("cf64_be", ">f8")):
        stored = rng.integers(-1000, 1000, (128, 2, 2)).astype(kind)
        meta = write_sigmf(folder, "r", stored.ravel(), datatype=datatype, channels=2)
        ours = next(iter(reader("sigmf", folder).recordings())).iq(0, 128)
        np.testing.assert_allclose(ours.T, sigmf.fromfile(meta).read_samples(), rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            {"core:frequency": 2e9},
            r"samples 260 to 324: across a retune \(core:frequency 1000000000.0 to 2000000000.0\) at 300",
        ),
        ({}, r"across a retune \(core:frequency 1000000000.0 to None\) at 300"),
        ({"core:frequency": 1e9, "core:global_index": 900}, "across a gap .core:global_index goes on by 900 over 300"),
    ],
)
def test_an_annotation_across_a_break_is_refused(folder, reader, tmp_path, pairs, change, match):
    captures = [{"core:sample_start": 0, "core:frequency": 1e9}, {"core:sample_start": 300} | change]
    write_sigmf(folder, "r", pairs, captures=captures, annotations=[(260, 64, "a")])
    refused(reader("sigmf", folder), tmp_path, match)
    write_sigmf(folder, "r", pairs, captures=captures, annotations=[(236, 64, "a"), (300, 64, "b")])
    assert len(first(reader("sigmf", folder))) == 2


def test_captures_that_go_on_are_one_stream(folder, reader, pairs):
    captures = [
        {"core:sample_start": 0, "core:frequency": 1e9, "core:global_index": 70},
        {"core:sample_start": 300, "core:frequency": 1e9, "core:global_index": 370},
    ]
    write_sigmf(folder, "r", pairs, captures=captures, annotations=[(260, 64, "a")])
    np.testing.assert_allclose(first(reader("sigmf", folder))[0], plain(pairs, 260), atol=1e-6)


def test_each_scene_has_the_carrier_of_its_capture(folder, reader, pairs):
    captures = [{"core:sample_start": 0, "core:frequency": 1e9}, {"core:sample_start": 300, "core:frequency": 2e9}]
    write_sigmf(folder, "r", pairs, captures=captures, annotations=[(0, 64, "a"), (300, 64, "b")])
    assert list(next(reader("sigmf", folder).scenes()).center_frequency_hz) == [1e9, 2e9]


def test_an_annotation_without_a_count_ends_with_its_capture(folder, reader, tmp_path, pairs):
    captures = [{"core:sample_start": 0, "core:frequency": 1e9}, {"core:sample_start": 50, "core:frequency": 1e9}]
    write_sigmf(folder, "r", pairs, captures=captures, annotations=[(0, None, "a")])
    refused(reader("sigmf", folder), tmp_path, "50 samples, expected at least 64")


def test_no_captures_are_one_of_unknown_carrier(folder, reader, tmp_path, pairs):
    write_sigmf(folder, "r", pairs, captures=[])
    record = reader("sigmf", folder).convert(*(tmp_path / n for n in ("s", "index.parquet", "r.json")))
    assert any(caveat.startswith("Carriers unknown") and "r)" in caveat for caveat in record.caveats)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (
            lambda m: m["annotations"][0].update({"core:sample_start": 20.0}),
            "annotations: core:sample_start: 20.0, expected",
        ),
        (lambda m: m["annotations"][0].update({"core:sample_count": "64"}), "core:sample_count: 64, expected a whole"),
        (
            lambda m: m["annotations"][0].update({"core:sample_start": True}),
            "core:sample_start: True, expected a whole",
        ),
        (lambda m: m["captures"][0].update({"core:sample_start": 0.0}), "captures: core:sample_start: 0.0, expected"),
        (lambda m: m["captures"][0].update({"core:header_bytes": -4}), "core:header_bytes: -4, expected a whole"),
        (
            lambda m: m["global"].update({"core:extensions": [{"name": "packed", "version": "1", "optional": False}]}),
            "core:extensions: packed: not optional",
        ),
        (lambda m: m["global"].update({"core:datatype": ["ci8"]}), "core:datatype: .'ci8'., expected one of"),
        (lambda m: m.update({"annotations": [3]}), "annotations.0.: 3 is not of type 'object'"),
        (lambda m: m.update({"captures": {}}), "captures: {} is not of type 'array'"),
        (lambda m: m.pop("annotations"), "expected SigMF metadata"),
        (lambda m: m["global"].update({"core:num_channels": 0}), "core:num_channels: 0, expected 1 to 4096"),
        (lambda m: m["global"].update({"core:offset": 0.5}), "global: core:offset: 0.5, expected a whole"),
        (lambda m: m["global"].update({"core:trailing_bytes": 2000}), "expected whole samples"),
        (lambda m: m["global"].update({"core:sample_rate": True}), "core:sample_rate: True, expected a rate"),
        (lambda m: m["global"].update({"core:metadata_only": True}), "core:metadata_only: expected a recording"),
        (lambda m: m["global"].update({"core:dataset": "elsewhere.bin"}), "two.sigmf-data: expected its metadata"),
        (lambda m: m["captures"].insert(0, {"core:sample_start": 9}), "captures has incorrect sample start ordering"),
        (lambda m: m["annotations"].reverse(), "annotations has incorrect sample start ordering"),
        (lambda m: m["annotations"][0].update({"core:sample_count": 0}), "samples 0 to 0, expected within"),
        (lambda m: m["annotations"][0].update({"core:label": " "}), "no core:label"),
        (lambda m: m["global"].update({"emma:session": ""} | DECLARED), "session: empty"),
        (lambda m: m["global"].update({"emma:session": 3} | DECLARED), "emma:session: 3, expected text"),
    ],
)
def test_one_line_at_the_door(sigmf_set, reader, tmp_path, change, match):
    edit(sigmf_set / "two.sigmf-meta", change)
    refused(reader("sigmf", sigmf_set), tmp_path, match)


def test_a_dataset_elsewhere(sigmf_set, reader, tmp_path):
    (sigmf_set / "two.sigmf-data").rename(tmp_path / "two.bin")
    edit(sigmf_set / "two.sigmf-meta", lambda m: m["global"].update({"core:dataset": "../two.bin"}))
    refused(reader("sigmf", sigmf_set), tmp_path, r"core:dataset: \.\./two\.bin, expected a file beside")


@pytest.mark.parametrize("label", ["a", "b"])
def test_two_labels_or_one_twice_on_the_same_samples(folder, reader, tmp_path, pairs, label):
    write_sigmf(folder, "r", pairs, annotations=[(0, 128, "a"), (100, 128, label)])
    refused(reader("sigmf", folder), tmp_path, f"'a' and '{label}' both hold samples 100 to 128")


def test_bands_apart_may_hold_the_same_samples(folder, reader, tmp_path, pairs):
    edges = [{"core:freq_lower_edge": low, "core:freq_upper_edge": low + 1e5} for low in (2.44e9, 2.4402e9)]
    marks = [(0, 128, "a", edges[0]), (100, 128, "b", edges[1])]
    write_sigmf(folder, "r", pairs, annotations=marks)
    record = reader("sigmf", folder).convert(*(tmp_path / n for n in ("s", "index.parquet", "r.json")))
    assert record.scenes == 2
    assert any("each scene holds the whole band" in caveat for caveat in record.caveats)
    marks[1][3]["core:freq_lower_edge"] = 2.44005e9
    write_sigmf(folder, "r", pairs, annotations=marks)
    refused(reader("sigmf", folder), tmp_path, "both hold samples")


def archive(path, *files, mode="w"):
    with tarfile.open(path, mode) as tar:
        for file in files:
            tar.add(file, f"inside/{file.name}")
            file.unlink()


@pytest.mark.parametrize(("suffix", "mode"), [("sigmf", "w"), ("sigmf.gz", "w:gz")])
def test_archives_are_read_beside_recordings(sigmf_set, reader, suffix, mode):
    before = [scenes.iq for scenes in reader("sigmf", sigmf_set).scenes()]
    archive(sigmf_set / f"two.{suffix}", *sorted(sigmf_set.glob("two.*")), mode=mode)
    made = reader("sigmf", sigmf_set)
    scenes = list(made.scenes())
    assert [one.name[0] for one in scenes] == [
        "one, window 0 (samples 0 to 64)",
        f"two.{suffix}/inside/two, window 0 (samples 0 to 64)",
    ]
    np.testing.assert_array_equal(np.concatenate([one.iq for one in scenes]), np.concatenate(before))
    assert {path.name for path in sigmf_set.iterdir()} == {"one.sigmf-meta", "one.sigmf-data", f"two.{suffix}"}


def test_broken_archives(sigmf_set, reader, tmp_path):
    path = sigmf_set / "two.sigmf"
    archive(path, sigmf_set / "two.sigmf-meta")
    (sigmf_set / "two.sigmf-data").unlink()
    refused(reader("sigmf", sigmf_set), tmp_path, r"two\.sigmf: inside/two\.sigmf-data: no such file")
    path.write_bytes(b"no archive")
    refused(reader("sigmf", sigmf_set), tmp_path, r"two\.sigmf: expected a complete tar archive")


@pytest.mark.parametrize("name", ["three.cf32", "three.wav", "three.sigmf.zip", "deep/three.bin"])
def test_samples_that_no_metadata_names(sigmf_set, reader, tmp_path, name):
    (sigmf_set / name).parent.mkdir(exist_ok=True)
    (sigmf_set / name).write_bytes(b"samples")
    (sigmf_set / "README.md").write_text("A set.")
    refused(reader("sigmf", sigmf_set), tmp_path, f"{name}: expected SigMF recordings alone")


def test_a_recording_outside_a_testbed_s_folders(tmp_path, pairs):
    write_sigmf(tmp_path / "set/scenario/node", "r", pairs)
    write_sigmf(tmp_path / "set/scenario/node/deeper", "r", pairs)
    entry = CaptureEntry(
        name="set", adapter="colosseum_assumed", path="x", task="E-ID-AMC", mapping=Labels(classes={"a": "OOK"})
    )
    made = adapter(tmp_path / "set", entry, SceneShape(samples=64, sample_rate_hz=1e6))
    refused(made, tmp_path, r"deeper/r\.sigmf-data|deeper/r\.sigmf-meta")


def test_the_same_bytes_by_both_readers(tmp_path, reader, rng):
    codes = rng.integers(0, 256, 2 * 128).astype(np.uint8)
    write_sigmf(tmp_path / "sigmf", "r", codes, datatype="cu8", rate=250e3)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw/r.cu8").write_bytes(codes.tobytes())
    head = "path,modulation,session,sample_rate_hz,center_freq_hz"
    (tmp_path / "raw/labels.csv").write_text(f"{head}\nr.cu8,OOK,s,250000,1e9\n")
    shape = {"samples": 128, "sample_rate_hz": 250e3, "start": 0}
    one, other = (
        first(reader(kind, tmp_path / place, **shape)) for kind, place in (("sigmf", "sigmf"), ("cu8", "raw"))
    )
    np.testing.assert_array_equal(one, other)
