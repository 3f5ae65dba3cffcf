"""Finished results as tidy tables: what they hold is what the files hold, each row once."""

import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest

import emma
from common.errors import InputError
from common.files import parse, read_json
from emma.results.frames import SCORE_KEYS, board_csv
from emma.results.records import Board


@pytest.fixture(scope="module")
def results(pristine):
    return pristine / "results"


@pytest.fixture(scope="module")
def frames(results):
    return emma.results.load(results)


def test_every_score_of_the_board_is_one_row(results, frames):
    board = json.loads((results / "leaderboard.json").read_text())
    scores = frames.scores.set_index(list(SCORE_KEYS))
    values = frames.held_out_values.set_index([*SCORE_KEYS, "held_out_value"])
    assert scores.index.is_unique and values.index.is_unique
    expected = {}
    for row in board["models"]:
        for task, block in row["tasks"].items():
            for score in (block, *block["secondary_metrics"].values(), *block["secondary"].values()):
                expected[row["model"], task, score["protocol"], score["metric"]] = score
    assert set(scores.index) == set(expected)
    for key, score in expected.items():
        assert scores.loc[key, "score"] == score["score"]
        assert scores.loc[key, "primary"] == ("normalized" in score)
        for value, record in score["values"].items():
            cells = values.loc[(*key, value)]
            assert (cells["score"], cells["n"]) == (record["score"], record["n"])
            assert record["ci95"] is not None
            for interval, ends in (("ci95", "ci95"), ("gap_ci95", "gap")):
                found = [cells[f"{ends}_low"], cells[f"{ends}_high"]]
                assert found == record[interval] if record[interval] else np.isnan(found).all()
            for cause, error in record["standard_errors"].items():
                assert cells[f"error_{cause}"] == error if error is not None else np.isnan(cells[f"error_{cause}"])
            assert cells["in_distribution"] == record["in_distribution"]
    assert len(values) == sum(len(score["values"]) for score in expected.values())
    assert list(frames.models["model"]) == [row["model"] for row in board["models"]]
    assert [*frames.models["ood_avg"]] == [row["ood_avg"] for row in board["models"]]
    assert frames.caveats == tuple(board["caveats"])
    assert dict(frames.models[["model", "rank"]].to_numpy()) == {row["model"]: row["rank"] for row in board["models"]}


def test_every_fold_is_one_row_with_the_hashes_of_what_made_it(results, frames):
    found = frames.folds.set_index(["model", "task", "protocol", "held_out_value"])
    assert found.index.is_unique
    paths = list((results / "folds").glob("*/*/*/*/metrics.json"))
    assert len(found) == len(paths)
    for path in paths:
        record, cells = json.loads(path.read_text()), found.loc[path.parts[-5:-1]]
        assert cells["predictions_hash"] == record["hashes"]["predictions"]
        assert cells["readout_sha256"] == record["hashes"]["readout"]
        assert cells["config_sha256"] == record["model_provenance"]["config_sha256"]
        assert cells["data_release_hash"] == record["data_release_hash"]


def test_the_worked_example_gives_the_loss_on_unseen_environments(frames):
    values = frames.held_out_values
    values = values[values["protocol"] == "leave-one-environment-out"]
    gap = (values["score"] - values["in_distribution"]).groupby([values["model"], values["task"]]).mean().unstack()
    own = values[(values["model"] == "many") & (values["task"] == "E-LOC-AOA")]
    assert gap.loc["many", "E-LOC-AOA"] == pytest.approx(np.mean(own["score"] - own["in_distribution"]))


def test_csv_holds_each_held_out_value_beside_its_aggregates(results):
    path = results / "leaderboard.json"
    rows = list(csv.DictReader(io.StringIO(board_csv(parse(Board, read_json(path), path)))))
    board = json.loads(path.read_text())
    for row in rows:
        (model,) = [model for model in board["models"] if model["model"] == row["model"]]
        block = model["tasks"][row["task"]]
        assert row["rank"] == ("" if model["rank"] is None else str(model["rank"]))
        assert row["ood_avg"] == str(model["ood_avg"])
        score = {block["metric"]: block, **block["secondary_metrics"]}.get(row["metric"], block)
        score = block["secondary"].get(row["protocol"], score)
        assert row["score"] == str(score["score"])
        record = score["values"][row["held_out_value"]]
        assert (row["held_out_score"], row["n"]) == (str(record["score"]), str(record["n"]))
        assert (row["ci95_low"], row["ci95_high"]) == tuple(map(str, record["ci95"] or ("", "")))
        assert (row["gap_low"], row["gap_high"]) == tuple(map(str, record["gap_ci95"] or ("", "")))
        assert row["undefined_reason"] == "" and row["caveats"] == " ".join(board["caveats"])


def test_folds_that_are_not_the_boards_are_refused(project):
    results = project / "results"
    path = results / "folds/few/E-ID-FP/leave-one-unit-out/U02/metrics.json"
    whole = path.read_text()
    path.write_text(whole.replace(json.loads(whole)["data_release_hash"], "0" * 64))
    with pytest.raises(InputError, match=r"U02/metrics\.json: data_release_hash: expected"):
        emma.results.load(results)
    path.unlink()
    with pytest.raises(InputError, match=r"U02/metrics\.json: no such file"):
        emma.results.load(results)
    with pytest.raises(
        InputError, match=r"leaderboard\.json: no such file; other releases stand under results/releases/NAME"
    ):
        emma.results.load(project)


def test_pandas_is_loaded_by_tables_alone():
    code = (
        "import sys, emma, emma.results.frames, emma.results.leaderboard, emma.report.tables; emma.results\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
