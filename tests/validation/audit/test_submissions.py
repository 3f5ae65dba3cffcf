"""A stranger's bundle: scored by scene id where it is right, refused with every fault at once where it is not."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from emma_miniature import make_bundle, publish_board

from common.errors import InputError, run_script
from emma.audit.submissions import require_own
from emma.audit.verify import Results, verify

ROOT = Path(__file__).resolve().parents[3]
PLACE = "predictions/E-LOC-LOS/leave-one-environment-out/E_URBAN.parquet"
UNIT = "predictions/E-ID-FP/leave-one-unit-out/U01.parquet"
TENSOR = "predictions/E-CH-CSI/leave-one-environment-out/E_URBAN.parquet"
TEXT = "predictions/E-S2T-QA/leave-one-snr-regime-out/low.parquet"


def submit(folder, results, *options):
    command = [sys.executable, ROOT / "scripts/score_submission.py", folder, "--results", results, *options]
    return subprocess.run(map(str, command), capture_output=True, text=True, check=False)


@pytest.fixture
def bundle(project, tmp_path):
    yield make_bundle(project / "results", tmp_path / "bundle")
    # Folders that are nested too deep for pytest's own removal.
    subprocess.run(["rm", "-rf", tmp_path / "bundle"], check=True)


def test_shuffled_rows_with_wrong_targets_get_the_frozen_score_and_verify(project, bundle):
    results = project / "results"
    files = sorted(results.rglob("*"))
    done = submit(bundle, results)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"{bundle}: valid, " in done.stdout and "as submitted" in done.stdout.splitlines()[-1]
    assert sorted(results.rglob("*")) == files
    before = json.loads((results / "leaderboard.json").read_text())
    done = submit(bundle, results, "--out", results)
    assert (done.returncode, done.stderr) == (0, "")
    guest, many = (json.loads((results / f"runs/{name}.json").read_text()) for name in ("guest", "many"))
    assert guest["kind"] == "submitted"
    for task in ("E-LOC-LOS", "E-SC-ANOM", "E-CH-CSI", "E-S2T-QA"):
        assert guest["tasks"][task]["score"] == many["tasks"][task]["score"]
    assert guest["run_manifest"]["prediction_bundle_hashes"] == many["run_manifest"]["prediction_bundle_hashes"]
    publish_board(results)
    board = json.loads((results / "leaderboard.json").read_text())
    *others, row = board["models"]
    # Labels of DEV are public: the row stands last, without a rank, says whose predictions it has, and moves nobody.
    assert (row["model"], row["rank"], row["standing"]) == ("guest", None, "submitted, predictions only")
    assert row["unranked"] == "predictions alone, of scenes whose labels are public"
    assert row["ood_avg"] == next(other["ood_avg"] for other in others if other["model"] == "many")
    assert "The same predictions throughout as many." in row["caveats"]
    assert [other | {"caveats": []} for other in others] == [own | {"caveats": []} for own in before["models"]]
    assert any("guest was submitted" in caveat for caveat in board["caveats"])
    assert any("many and guest have the same predictions throughout" in caveat for caveat in board["caveats"])
    assert [str(outcome) for outcome in verify(Results(results, project)) if outcome.faults] == []


def test_types_that_are_the_same_logically_get_the_same_score(project, bundle, tmp_path):
    results = project / "results"
    kinds = {pa.float64(): pa.large_list(pa.float64()), pa.float32(): pa.list_(pa.float64(), 12)}
    for path in sorted(bundle.rglob("*.parquet")):
        table = pq.read_table(path)
        ids = table["scene_id"].cast(pa.large_string()).dictionary_encode()
        table = table.set_column(0, "scene_id", ids)
        scores = table["scores"]
        if (entry := scores.type.value_type) in kinds:
            table = table.set_column(2, "scores", scores.cast(kinds[entry]))
        else:
            texts = pa.array(scores.to_pylist(), pa.large_list(pa.large_string()))
            table = table.set_column(2, "scores", texts)
        pq.write_table(table, path)
    done = submit(bundle, results, "--out", tmp_path / "out")
    assert (done.returncode, done.stderr) == (0, "")
    guest, many = (
        json.loads(path.read_text()) for path in (tmp_path / "out/runs/guest.json", results / "runs/many.json")
    )
    assert guest["run_manifest"]["prediction_bundle_hashes"] == many["run_manifest"]["prediction_bundle_hashes"]


def test_rows_of_another_model_are_never_written_over(project, bundle, program, tmp_path, monkeypatch, capsys):
    results, out = project / "results", tmp_path / "out"
    record = out / "runs/guest.json"
    record.parent.mkdir(parents=True)
    shutil.copy(results / "runs/many.json", record)
    argv = ["score_submission.py", bundle, "--results", results, "--out", out]
    monkeypatch.setattr(sys, "argv", [str(part) for part in argv])
    with pytest.raises(SystemExit):
        run_script(program.main)
    assert capsys.readouterr().err == f"{record}: the rows of another model, expected a name of its own\n"
    assert record.read_bytes() == (results / "runs/many.json").read_bytes() and not (out / "folds").exists()
    content = json.loads(record.read_text()) | {"kind": "submitted"}
    record.write_text(json.dumps(content))
    require_own(out, "guest")
    with pytest.raises(InputError, match=r"runs/guest\.json: the rows of another model"):
        require_own(out, "GUEST")
    readout = out / "folds/guest/E-LOC-LOS/in-distribution/E_URBAN/readout.safetensors"
    readout.parent.mkdir(parents=True)
    readout.touch()
    with pytest.raises(InputError, match="folds/guest: the folds of another model"):
        require_own(out, "guest")


def test_all_faults_are_told_at_once(project, bundle):
    rewrite(bundle / PLACE, lambda table: table.slice(1))
    edit(bundle, seed=4, data_release_hash="0" * 64)
    done = submit(bundle, project / "results")
    assert done.returncode == 2
    lines = done.stderr.splitlines()
    assert len(lines) == 3 and sum("scene_id: 1 missing" in line for line in lines) == 1


def rewrite(path, change):
    pq.write_table(change(pq.read_table(path)), path)


def edit(folder, **fields):
    path = folder / "submission.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | fields))


def readout(**fields):
    def change(folder):
        content = yaml.safe_load((folder / "submission.yaml").read_text())
        content["readouts"]["E-LOC-LOS"] |= fields
        edit(folder, readouts=content["readouts"])

    return change


def of_unit(change):
    return lambda folder: rewrite(folder / UNIT, change)


def scores(value):
    def change(table):
        values = [value, *table["scores"].to_pylist()[1:]]
        return table.set_column(2, "scores", pa.array(values, pa.list_(pa.float64())))

    return lambda folder: rewrite(folder / PLACE, change)


def tensor(value, kind="float"):
    def change(table):
        values = [value, *table["scores"].to_pylist()[1:]]
        return table.set_column(2, "scores", pa.array(values, pa.list_(pa.type_for_alias(kind))))

    return lambda folder: rewrite(folder / TENSOR, change)


def answers(value):
    def change(table):
        values = [value, *table["scores"].to_pylist()[1:]]
        return table.set_column(2, "scores", pa.array(values, pa.list_(pa.string())))

    return lambda folder: rewrite(folder / TEXT, change)


def pipe(place):
    def change(folder):
        (folder / place).unlink()
        os.mkfifo(folder / place)

    return change


def nested(folder):
    """Two thousand folders within one another, made one by one: no path is that long."""
    here = os.open(folder / "predictions", os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=here)
        deeper = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = deeper
    os.close(here)


def linked(folder):
    folder.rename(folder.with_name("elsewhere"))
    folder.symlink_to("elsewhere")


def not_utf8(table):
    ids = [b"\xff", *(text.encode() for text in table["scene_id"].to_pylist()[1:])]
    return table.set_column(0, "scene_id", pa.array(ids, pa.binary()).view(pa.string()))


def of_table(change):
    return lambda folder: rewrite(folder / PLACE, change)


def link(folder):
    elsewhere = folder.parent / "elsewhere.parquet"
    (folder / PLACE).rename(elsewhere)
    (folder / PLACE).symlink_to(elsewhere)


def bomb(folder):
    """A few kilobytes that hold two million rows."""
    column = pa.array(["x" * 64] * 2_000_000)
    lists = pa.ListArray.from_arrays(pa.array(np.zeros(2_000_001, np.int32)), pa.array([], pa.float64()))
    pq.write_table(pa.table({"scene_id": column, "scores": lists}), folder / PLACE)


def long_text(folder):
    table = pq.read_table(folder / PLACE)
    ids = pa.array(["x" * 1_000_000] * table.num_rows)
    pq.write_table(table.set_column(0, "scene_id", ids), folder / PLACE)


def without_column(folder):
    rewrite(folder / PLACE, lambda table: table.drop_columns("scores"))


BROKEN = {
    "file missing": (lambda folder: (folder / PLACE).unlink(), "no such file"),
    "row missing": (of_table(lambda table: table.slice(1)), "scene_id: 1 missing"),
    "row twice": (of_table(lambda table: pa.concat_tables([table, table.slice(0, 1)])), "occurs twice"),
    "foreign scene": (
        of_table(
            lambda table: table.set_column(0, "scene_id", pa.array(["0" * 64, *table["scene_id"].to_pylist()[1:]]))
        ),
        "that the fold does not score",
    ),
    "null id": (
        of_table(lambda table: table.set_column(0, "scene_id", pa.array([None, *table["scene_id"].to_pylist()[1:]]))),
        "scene_id: null",
    ),
    "turns missing": (of_unit(lambda table: table.drop_columns("turn")), "scene_id: 12 missing"),
    "turn of the own session": (
        of_unit(
            lambda table: table.set_column(3, "turn", pa.array([(t + 1) % 3 for t in table["turn"].to_pylist()], "i4"))
        ),
        "that the fold does not score",
    ),
    "turn null": (
        of_unit(lambda table: table.set_column(3, "turn", pa.nulls(table.num_rows, "i4"))),
        "scene_id: 12 missing",
    ),
    "turn where nobody is enrolled": (
        of_table(lambda table: table.append_column("turn", pa.array([0] * table.num_rows, "i4"))),
        "that the fold does not score",
    ),
    "NaN": (scores([float("nan")]), "NaN or infinity"),
    "infinity": (scores([float("inf")]), "NaN or infinity"),
    "null score": (scores([None]), "null in a list"),
    "two scores for one": (scores([1.0, 2.0]), "expected lists of 1 numbers"),
    "half a tensor": (tensor([0.0] * 6), "expected lists of 12 numbers"),
    "tensor with NaN": (tensor([float("nan")] * 12), "NaN or infinity"),
    "null in a tensor": (tensor([None] * 12), "null in a list"),
    "tensor without end": (tensor([0.0] * 2_000_000), "expected lists of 12 numbers"),
    "one answer for two questions": (answers(["yes"]), "expected lists of 2 texts"),
    "null answer": (answers(["yes", None]), "null in a list"),
    "answer that is too long": (answers(["yes", "n" * 600]), "600 characters, expected at most 512"),
    "answer of a megabyte": (answers(["yes", "n" * 1_000_000]), "1000000 bytes, expected at most 2048"),
    "answers that are numbers": (
        lambda folder: rewrite(folder / TEXT, lambda t: t.set_column(2, "scores", pa.array([[1.0, 2.0]] * t.num_rows))),
        "scores: expected list<",
    ),
    "column missing": (without_column, "scores: column missing"),
    "column of another type": (
        of_table(lambda table: table.set_column(2, "scores", pa.array([[1]] * table.num_rows, pa.list_(pa.int32())))),
        "scores: expected list",
    ),
    "column too many": (
        of_table(lambda table: table.append_column("device", pa.nulls(table.num_rows, pa.string()))),
        "device: column not expected",
    ),
    "truncated": (lambda folder: (folder / PLACE).write_bytes((folder / PLACE).read_bytes()[:99]), "complete Parquet"),
    "more rows than any release": (bomb, "rows, expected at most"),
    "ids of a megabyte": (long_text, "bytes, expected at most"),
    "link out of the bundle": (link, "a link, expected"),
    "pipe for predictions": (pipe(PLACE), "cannot be read (a named pipe"),
    "pipe for the manifest": (pipe("submission.yaml"), "cannot be read (a named pipe"),
    "pipe of no fold": (lambda folder: os.mkfifo(folder / "predictions/p"), "no regular file"),
    "folders without end": (nested, "a folder deeper than any prediction lies"),
    "a link for the folder": (linked, "a link, expected the bundle's own folder"),
    "ids that are not UTF-8": (of_table(not_utf8), "Invalid UTF8"),
    "a name that is taken but for case": (lambda folder: edit(folder, model="MANY"), "stands on the board already"),
    "file of no fold": (
        lambda folder: (folder / "predictions/E-LOC-LOS/extra.parquet").write_bytes(b"x"),
        "belongs to no fold",
    ),
    "another release": (lambda folder: edit(folder, data_release_hash="0" * 64), "data_release_hash: expected"),
    "another seed": (lambda folder: edit(folder, seed=9), "seed: expected 0"),
    "another split": (lambda folder: edit(folder, eval_split="HOLDOUT"), "eval_split: expected DEV"),
    "another harness": (lambda folder: edit(folder, harness_version="9"), "harness_version: expected"),
    "a name that is taken": (lambda folder: edit(folder, model="many"), "stands on the board already"),
    "a name that is a path": (lambda folder: edit(folder, model="../../many"), "model: "),
    "anchors of its own": (lambda folder: edit(folder, anchors={"E-LOC-LOS": [0, 1]}), "anchors: unknown key"),
    "capacity not declared": (lambda folder: edit(folder, readouts={}), "readouts: "),
    "another head": (readout(kind="discriminant"), "kind: expected logistic"),
    "too wide": (readout(embedding_dim=4096), "wider than the pinned"),
    "too many parameters": (readout(parameters=8), "parameters: 8, expected at most 7"),
    "manifest too large": (
        lambda folder: (folder / "submission.yaml").write_text("#" * 2_000_000),
        "bytes, expected at most",
    ),
    "manifest missing": (lambda folder: (folder / "submission.yaml").unlink(), "no such file"),
    "aliases without end": (
        lambda folder: (folder / "submission.yaml").write_text(
            "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))
        ),
        "aliases",
    ),
}


@pytest.fixture(scope="session")
def program():
    spec = importlib.util.spec_from_file_location("score_submission", ROOT / "scripts/score_submission.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_bundle_is_refused_in_one_line(project, bundle, program, kind, monkeypatch, capsys):
    change, message = BROKEN[kind]
    change(bundle)
    argv = ["score_submission.py", bundle, "--results", project / "results", "--taken", "many"]
    monkeypatch.setattr(sys, "argv", [str(part) for part in argv])
    with pytest.raises(SystemExit) as stopped:
        run_script(program.main)
    error = capsys.readouterr().err
    assert stopped.value.code == 2
    assert [line for line in error.splitlines() if message in line and str(bundle) in line], error
    assert "Traceback" not in error and len(error.splitlines()) <= 3


def test_a_run_given_twice_is_refused(project, tmp_path):
    results, out = project / "results", tmp_path / "out"
    run = results / "runs/many.json"
    files = sorted((results / "folds/many").glob("*/score_replicates.parquet"))
    command = [sys.executable, ROOT / "scripts/build_leaderboard.py", "--manifest", results / "release/manifest.json"]
    command += ["--runs", run, run, "--replicates", *files, "--board", out / "a", "--schema", out / "b"]
    command += ["--csv", out / "c", "--aggregation", out / "d"]
    done = subprocess.run(map(str, command), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "--runs: a run record is given twice, expected each once\n")
    assert not out.exists()
