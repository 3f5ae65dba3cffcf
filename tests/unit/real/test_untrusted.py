"""Captures from a stranger: sizes, counts and headers that lie are one line, within seconds and a gigabyte."""

import io
import json
import os
import struct
import tarfile
import time
import zipfile

import numpy as np
import pytest

from common.errors import InputError
from common.npy import read_npy, read_npz
from emma.captures.checking import check_captures
from emma.captures.formats import read_wav
from emma.captures.tables import parse_table

from .conftest import annotation, write_labels, write_sigmf
from .test_bad_captures import edit, refused, rows


@pytest.mark.parametrize("path", ["a\0b.cu8", "x" * 300 + ".cu8", "\u202e" * 300, "data/" * 2000])
def test_a_path_that_no_file_has(cu8_set, reader, tmp_path, path):
    table = rows(cu8_set)
    table[0]["path"] = path
    write_labels(cu8_set, table)
    refused(reader("cu8", cu8_set), tmp_path, "although it has a label|line contains NUL")
    assert check_captures(cu8_set, "labelled_iq").faults


@pytest.mark.parametrize("rate", [1e-300, 1e300, 5e-324, 10**400, float("inf")])
def test_a_rate_of_no_receiver(sigmf_set, reader, tmp_path, rate):
    edit(sigmf_set / "two.sigmf-meta", lambda m: m["global"].update({"core:sample_rate": rate}))
    refused(reader("sigmf", sigmf_set), tmp_path, "sample.rate|expected JSON")
    assert check_captures(sigmf_set).faults


def test_a_rate_of_no_receiver_in_a_table(cu8_set, reader, tmp_path):
    table = rows(cu8_set)
    table[0]["sample_rate_hz"] = 1e-300
    write_labels(cu8_set, table)
    refused(reader("cu8", cu8_set), tmp_path, "sample rate 1e-300, expected a positive one")
    assert check_captures(cu8_set, column="modulation").faults


@pytest.mark.parametrize(
    ("part", "match"), [("annotations", "annotations: 20000, expected at most"), ("captures", "captures: 2")]
)
def test_20000_objects_are_refused_unread(tmp_path, reader, part, match):
    path = write_sigmf(tmp_path / "set", "r", np.ones(512, np.int8))
    meta = json.loads(path.read_text())
    meta[part] = [annotation(i, 1, "a") if part == "annotations" else {"core:sample_start": i} for i in range(20_000)]
    path.write_text(json.dumps(meta))
    start = time.process_time()
    refused(reader("sigmf", tmp_path / "set"), tmp_path, match)
    assert time.process_time() - start < 10


def test_ten_thousand_bands_on_the_same_samples_are_compared_in_seconds(tmp_path, reader):
    from emma.captures.segments import segments, spans

    bands = [annotation(0, 8, "a", {"core:freq_lower_edge": i, "core:freq_upper_edge": i + 1}) for i in range(10_000)]
    metadata = {"global": {}, "captures": [{"core:sample_start": 0}] * 10_000, "annotations": bands}
    start = time.process_time()
    parts, _ = segments(metadata, bytes(16), 2, "it")
    assert len(spans(metadata, parts, ["a"] * len(bands), "it")) == 10_000
    assert time.process_time() - start < 5


def test_links_out_of_the_set(sigmf_set, reader, tmp_path):
    for suffix in ("data", "meta"):
        file = sigmf_set / f"two.sigmf-{suffix}"
        file.rename(tmp_path / file.name)
        file.symlink_to(tmp_path / file.name)
        refused(reader("sigmf", sigmf_set), tmp_path, "expected a path inside the set's folder")
        assert check_captures(sigmf_set).faults
        file.unlink()
        (tmp_path / file.name).rename(file)


def test_pipes_and_files_larger_than_any_recording(sigmf_set, reader, tmp_path):
    data = sigmf_set / "two.sigmf-data"
    data.unlink()
    os.mkfifo(data)
    refused(reader("sigmf", sigmf_set), tmp_path, "two.sigmf-data: .*no such file|named pipe")
    data.unlink()
    with data.open("wb") as file:
        file.truncate(2**43)
    refused(reader("sigmf", sigmf_set), tmp_path, "8796093022208 bytes, expected at most")


def test_a_tree_without_end(sigmf_set, reader, tmp_path):
    sigmf_set.joinpath(*["d"] * 40).mkdir(parents=True)
    refused(reader("sigmf", sigmf_set), tmp_path, "nested more than 32 deep")
    with pytest.raises(InputError, match="nested more than 32 deep"):
        check_captures(sigmf_set)


@pytest.mark.parametrize("mode", ["w:gz", "w:xz"])
def test_an_archive_that_unpacks_to_more_than_it_may(tmp_path, reader, mode):
    class Zeros(io.RawIOBase):
        def read(self, size=-1):
            return bytes(size)

    folder = tmp_path / "set"
    folder.mkdir()
    with tarfile.open(folder / f"r.sigmf.{mode[2:]}", mode) as tar:
        info = tarfile.TarInfo("r.sigmf-data")
        info.size = 2**29 + 1 if mode == "w:gz" else 2**26
        tar.addfile(info, Zeros())
        if mode == "w:xz":
            info.size = 2**40
            tar.fileobj.write(info.tobuf())
    refused(reader("sigmf", folder), tmp_path, "expected a complete tar|bytes")


HEADER = b"\x93NUMPY\x01\x00"


def npy(text):
    text = text.encode().ljust(118 - 10) + b"\n"
    return HEADER + struct.pack("<H", len(text)) + text


DECLARED = {
    "8 TiB": "{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}",
    "no bytes": "{'descr': '<U0', 'fortran_order': False, 'shape': (1099511627776,)}",
    "fewer than none": "{'descr': '<f8', 'fortran_order': False, 'shape': (-2, -3)}",
    "objects": "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
    "no mapping": "[",
    "brackets": "(" * 90,
}


@pytest.mark.parametrize("kind", DECLARED)
def test_a_header_that_lies(kind):
    content, packed = npy(DECLARED[kind]) + bytes(64), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("h.npy", content)
    with pytest.raises(InputError, match="it: "):
        read_npy(content, "it")
    with pytest.raises(InputError, match="it: "):
        read_npz(packed.getvalue(), "it")


def test_members_that_are_no_arrays_or_too_large():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("h.npy", b"no array")
    with pytest.raises(InputError, match="expected a complete NPZ file"):
        read_npz(packed.getvalue(), "it")
    content = bytearray(packed.getvalue())
    place = content.index(b"PK\1\2") + 24
    content[place : place + 4] = struct.pack("<I", 2**31)
    with pytest.raises(InputError, match="expected arrays of at most 536870912 bytes"):
        read_npz(bytes(content), "it")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for number in range(1001):
            archive.writestr(f"{number}.npy", b"")
    with pytest.raises(InputError, match="it: 1001 members, expected at most 1000"):
        read_npz(packed.getvalue(), "it")


def test_a_table_without_end(tmp_path):
    start = time.process_time()
    with pytest.raises(InputError, match="lines, expected at most"):
        parse_table(b"path\n" + b"a\n" * 300_000, tmp_path)
    with pytest.raises(InputError, match="expected this column once"):
        parse_table(b"path," + b",".join(b"c%d" % (i // 2) for i in range(100_000)) + b"\na\n", tmp_path)
    assert time.process_time() - start < 5


def test_a_wav_of_no_channel():
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 44, b"WAVE", b"fmt ", 16, 1, 0, 8000, 0, 0, 16, b"data", 8)
    with pytest.raises(InputError, match="it: "):
        read_wav(head + bytes(8), 1, "it")
