"""The archive: same inputs, same bytes; complete or refused; verified in place; hostile zips end in one line."""

import json
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import warnings
import zipfile
from pathlib import Path
from urllib.parse import unquote

import emma_miniature as miniature
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.audit import archive
from emma.audit.verify import Results

ROOT = Path(__file__).resolve().parents[3]


def git(project, *arguments):
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["git", *arguments], cwd=project, check=True, capture_output=True, env=os.environ | names)


@pytest.fixture(scope="module")
def checkout(pristine, tmp_path_factory):
    """The miniature as a clean git checkout, with a Snakefile, a program and a link."""
    project = tmp_path_factory.mktemp("checkout") / "project"
    shutil.copytree(pristine, project)
    (project / "Snakefile").write_text("rule all: input: 'results/leaderboard.json'\n")
    (project / "workflow").mkdir()
    (project / "workflow/tool.sh").write_text("#!/bin/sh\n")
    (project / "workflow/tool.sh").chmod(0o755)
    (project / "again").symlink_to("workflow")
    (project / "envs").mkdir()
    (project / "envs/requirements.txt").write_text("numpy==2\n")
    miniature.publish_page(project / "results")
    (project / ".gitignore").write_text("/results/\n")
    git(project, "init", "-q")
    git(project, "add", ".")
    git(project, "commit", "-qm", "x")
    return project


@pytest.fixture(scope="module")
def built(checkout):
    out = checkout.parent / "one.zip"
    archive.build(checkout, Results(checkout / "results", checkout), out)
    return out


@pytest.fixture(scope="module")
def carrying(checkout):
    """The archive that holds embeddings."""
    out = checkout.parent / "carrying.zip"
    archive.build(checkout, Results(checkout / "results", checkout), out, embeddings=True)
    return out


def verify(path):
    command = [sys.executable, str(ROOT / "scripts/verify.py"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_same_inputs_same_bytes_whatever_the_time_and_place(checkout, built, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(checkout, copy, symlinks=True)
    for path in copy.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (1, 1))
    git(copy, "status")
    archive.build(copy, Results(copy / "results", copy), tmp_path / "two.zip")
    assert (tmp_path / "two.zip").read_bytes() == built.read_bytes()


def test_it_holds_code_config_results_and_sums_and_describes_them(checkout, built):
    with zipfile.ZipFile(built) as found:
        names = found.namelist()
        crate = json.loads(found.read("ro-crate-metadata.json"))
    assert names == sorted(names)
    assert {"Snakefile", "again/tool.sh", "config/releases/mini.yaml", "SHA256SUMS"} <= set(names)
    assert {"envs/requirements.txt", "VERIFY.md", "weights.json"} <= set(names)
    assert {f"results/leaderboard.{kind}" for kind in ("html", "md", "tex", "csv")} <= set(names)
    assert {"results/figures/ranking.svg", "results/figures/ranking.png"} <= set(names)
    assert "results/folds/many/E-ID-FP/leave-one-unit-out/U01/readout.safetensors" in names
    assert not [name for name in names if "embeddings" in name or name.endswith("TRAIN.parquet")]
    entities = {entity["@id"]: entity for entity in crate["@graph"]}
    assert {unquote(part["@id"]) for part in entities["./"]["hasPart"]} == set(names) - {
        "SHA256SUMS",
        "ro-crate-metadata.json",
    }
    assert entities["./"]["mainEntity"] == {"@id": "Snakefile"} and entities["#run"]["@type"] == "CreateAction"


def test_the_crate_is_read_by_the_library(built, tmp_path):
    from rocrate.rocrate import ROCrate

    with zipfile.ZipFile(built) as found:
        found.extractall(tmp_path)
    crate = ROCrate(tmp_path)
    assert crate.mainEntity.id == "Snakefile" and "results/leaderboard.json" in {
        file.id for file in crate.data_entities
    }


def test_without_embeddings_it_is_consistent_and_no_more(built):
    """Its predictions may be anything: status 0 would say that somebody looked below them."""
    done = verify(built)
    assert done.returncode == 3, done.stdout + done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith(f"{built}: not verified as rescored, only consistent: every number follows from the pred")
    assert "tables of embeddings not at hand (18)" in last and "files of scenes not at hand (12)" in last


def test_with_embeddings_it_is_rescored(carrying):
    done = verify(carrying)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(f"{carrying}: verified, rescored: predictions follow from the emb")
    with zipfile.ZipFile(carrying) as found:
        names = set(found.namelist())
    assert {"results/embeddings/many/E-LOC-LOS.parquet", "results/captures/mini_los/few/embeddings.parquet"} <= names


def test_labels_in_the_place_of_predictions_are_a_fault_where_embeddings_are(carrying, tmp_path):
    """Sums, hash and predictions agree; only the readout on the embeddings says otherwise."""
    place = "results/folds/many/E-LOC-LOS/leave-one-environment-out/E_URBAN/predictions.parquet"
    with zipfile.ZipFile(carrying) as found:
        table = pq.read_table(pa.BufferReader(found.read(place)))
    labels = pa.array([[value * 2 - 1] for value in table["target"].to_pylist()], table.schema.field("scores").type)
    forged = table.set_column(table.schema.get_field_index("scores"), table.schema.field("scores"), labels)
    out = rewritten(carrying, tmp_path / "x.zip", lambda n, c: parquet_of(forged) if n == place else c)
    done = verify(out)
    assert done.returncode == 1
    assert f"{out}: {place}: scores: differ by" in done.stdout


def test_weights_are_named_by_hash_and_licence(checkout, built):
    with zipfile.ZipFile(built) as found:
        models = json.loads(found.read("weights.json"))["models"]
    assert set(models) == {"few", "many", "prior"}
    assert set(models["few"]) == {"kind", "weights_sha256", "licence", "file", "link"}


def test_a_reader_with_the_zip_alone_has_three_commands(built, carrying):
    for path, own, said in (
        (built, "emma-mini", "only consistent"),
        (carrying, "emma-mini-with-embeddings", "verified, rescored"),
    ):
        with zipfile.ZipFile(path) as found:
            text = found.read("VERIFY.md").decode()
        commands = text.split("```")[1].split("\n")[1:-1]
        assert [command.split()[0] for command in commands] == ["unzip", "python", "python"]
        assert commands[-1] == f"python {own}/scripts/verify.py {own}.zip"
        assert said in " ".join(text.split())


def test_commands_of_the_docs_say_on_how_many_cores():
    """Snakemake runs nothing without."""
    text = (ROOT / "docs/audit.md").read_text()
    commands = re.findall(r"snakemake [^`&\n]*(?:zip|parquet)\b", text)
    assert len(commands) >= 2
    assert [command for command in commands if "--cores" not in command] == []


def test_an_archive_may_grow_as_it_is_large(tmp_path, monkeypatch):
    """Embeddings hardly shrink: an archive of them is large itself, a bomb is not."""
    monkeypatch.setattr(archive, "LARGEST_TOTAL", 1000)
    path = tmp_path / "x.zip"
    with_member("results/a", os.urandom(4000))(path)
    archive.unpack(path, tmp_path / "fine")
    with zipfile.ZipFile(path, "w") as sink:
        sink.writestr("results/a", b"\0" * 4000, zipfile.ZIP_DEFLATED)
    with pytest.raises(InputError, match="unpacks to 4000 bytes, expected at most 1000"):
        archive.unpack(path, tmp_path / "bomb")


def test_a_dirty_tree_is_refused(checkout, tmp_path):
    copy = tmp_path / "dirty"
    shutil.copytree(checkout, copy, symlinks=True)
    (copy / "Snakefile").write_text("# other\n")
    (copy / "extra.py").write_text("")
    with pytest.raises(InputError, match=r"2 files differ.*Snakefile, extra\.py"):
        archive.build(copy, Results(copy / "results", copy), tmp_path / "dirty.zip")
    assert not (tmp_path / "dirty.zip").exists()


def test_missing_files_are_named(checkout, tmp_path):
    copy = tmp_path / "partial"
    shutil.copytree(checkout, copy, symlinks=True)
    (copy / "results/leaderboard.csv").unlink()
    (copy / "results/folds/few/E-ID-FP/leave-one-unit-out/U02/predictions.parquet").unlink()
    with pytest.raises(InputError, match=r"2 files missing: folds/few/E-ID-FP/.*U02/predictions.parquet, leaderboard"):
        archive.build(copy, Results(copy / "results", copy), tmp_path / "partial.zip")


def rewritten(built, out, change):
    """A copy of an archive with ``change`` applied to each member's content (None drops it)."""
    with zipfile.ZipFile(built) as source, zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as sink:
        for info in source.infolist():
            content = change(info.filename, source.read(info))
            if content is not None:
                sink.writestr(info.filename, content)
    return out


def test_an_edited_member_is_named(built, tmp_path):
    out = rewritten(
        built, tmp_path / "x.zip", lambda n, c: c.replace(b"0.", b"1.", 1) if n.endswith("board.csv") else c
    )
    done = verify(out)
    assert done.returncode == 1 and f"{out}: results/leaderboard.csv: its SHA-256" in done.stdout


def test_a_dropped_member_is_named(built, tmp_path):
    out = rewritten(built, tmp_path / "x.zip", lambda n, c: None if n == "results/runs/few.json" else c)
    done = verify(out)
    assert done.returncode == 1 and f"{out}: results/runs/few.json" in done.stdout


def with_member(name, content=b"x", mode=stat.S_IFREG | 0o644):
    def make(path):
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as sink:
            sink.writestr(info, content)

    return make


def twice(path):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w") as sink:
        warnings.simplefilter("ignore")
        sink.writestr("a", b"1")
        sink.writestr("a", b"2")


def both(*names):
    def make(path):
        with zipfile.ZipFile(path, "w") as sink:
            for name in names:
                sink.writestr(name, b"1")

    return make


def endless_directory(path):
    """A million members of 47 bytes, none of them there: 13 s to read where nothing bounds it."""
    entry = b"PK\x01\x02" + bytes([20, 0, 20, 0, *[0] * 6, 33, 0, *[0] * 12, 1, *[0] * 17]) + b"a"
    entries = entry * 10**6
    end = struct.pack("<4sHHHHLLH", b"PK\x05\x06", 0, 0, 65535, 65535, len(entries), 0, 0)
    path.write_bytes(entries + end)


def packed_by_lzma(path):
    """A kilobyte whose unpacking reserves the 4 GiB that it asks for."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as sink:
        sink.writestr("a", b"x" * 1000)


def understated(path):
    """A member that unpacks to a megabyte and declares ten bytes."""
    with_member("a", b"\0" * 2**20)(path)
    data = bytearray(path.read_bytes())
    for place in (22, data.index(b"PK\x01\x02") + 24):
        data[place : place + 4] = (10).to_bytes(4, "little")
    path.write_bytes(data)


def many_rows(path):
    table = pa.table({"scene_id": pa.array(["x"] * 600_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    with_member("results/a.parquet", sink.getvalue().to_pybytes())(path)


HOSTILE = {
    "absolute name": (with_member("/etc/passwd"), "below the archive's root"),
    "name that climbs": (with_member("results/../../x"), "leaves the archive's root"),
    "backslashes": (with_member("results\\..\\x"), "below the archive's root"),
    "drive": (with_member("C:/x"), "below the archive's root"),
    "link": (with_member("results", b"/etc", stat.S_IFLNK | 0o777), "a link or device"),
    "name twice": (twice, "occurs twice"),
    "names equal but for case": (both("results/DSP", "results/dsp"), "which some file systems take for equal"),
    "names equal but for composition": (both("\u00e9", "e\u0301"), "which some file systems take for equal"),
    "endless directory": (endless_directory, "a directory of 47000000 bytes, expected at most"),
    "more members than bounded": (both(*map(str, range(50_001))), "50001 members, expected at most"),
    "dictionary of another's size": (packed_by_lzma, "packed by method 14, expected deflate"),
    "bomb": (with_member("a", b"\0" * (2**28 + 1)), "bytes, expected at most"),
    "understated size": (understated, "expected a complete zip"),
    "not a zip": (lambda path: path.write_bytes(b"PK" * 100), "expected a complete zip"),
    "no results": (with_member("README.md"), "0 release manifests"),
    "hostile Parquet": (many_rows, "600000 rows, expected at most"),
    "no Parquet": (with_member("results/a.parquet", b"PAR1xxxxPAR1"), "expected a complete Parquet file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_zip_ends_in_one_line(kind, tmp_path):
    make, message = HOSTILE[kind]
    path = tmp_path / "hostile.zip"
    make(path)
    target = tmp_path / "target"
    with pytest.raises(InputError) as refused:
        archive.unpack(path, target)
        archive.find_results(target, path)
    assert message in str(refused.value) and str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    assert {child.name for child in tmp_path.iterdir()} <= {"hostile.zip", "target"}


def test_a_truncated_archive_ends_in_one_line(built, tmp_path):
    path = tmp_path / "half.zip"
    path.write_bytes(built.read_bytes()[: built.stat().st_size // 2])
    done = verify(path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "expected a complete zip" in done.stderr


def parquet_of(table):
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return sink.getvalue().to_pybytes()


def deep_type(depth):
    kind = pa.int8()
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


SCHEMAS = {
    "thousands of columns": lambda: pa.table({f"c{number}": pa.array([1]) for number in range(5000)}),
    "deeply nested": lambda: pa.table({"a": pa.array([None], deep_type(60))}),
    "one huge text": lambda: pa.table({"scene_id": pa.array(["x" * 2**26])}),
    "a text a million times": lambda: pa.table({"scene_id": pa.array(["x" * 4000]).take(pa.array([0] * 400_000))}),
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_hostile_parquet_schema_ends_within_bounded_memory(kind, tmp_path):
    """A gigabyte of address space above the interpreter's own, and one line or a fault that names the file."""
    path = tmp_path / "hostile.zip"
    with_member("results/a.parquet", parquet_of(SCHEMAS[kind]()))(path)
    code = (
        "import resource, runpy, sys, numpy, pyarrow.parquet\n"
        "own = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (own + 2**30,) * 2)\n"
        "sys.argv = sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(ROOT / "scripts/verify.py"), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr.count("\n") == 1 and "hostile.zip" in done.stderr


def test_what_is_measured_on_one_machine_stays_out(checkout):
    results = Results(checkout / "results", checkout)
    before = archive.result_files(results)
    speed = results.layout.report("speed")
    speed.write_text("{}")
    try:
        assert archive.result_files(results) == before
        assert any(name.startswith("reports/") for name in before)
    finally:
        speed.unlink()
