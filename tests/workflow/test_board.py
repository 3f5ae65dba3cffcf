"""The leaderboard as other programs read it, and the runs that it refuses."""

import json

import jsonschema
import pytest

from emma.tasks import TaskID

BOARD = {"release", "data_release_hash", "eval_split", "seed", "harness_version", "caveats", "models"}
ROW = {
    "model", "kind", "rank", "ood_avg", "ood_avg_ci95", "separable_from_next", "tasks", "sensitivity", "sim_to_real",
    "run_manifest", "control", "control_of",
}  # fmt: skip
SCORE = {"metric", "unit", "direction", "score", "standard_error", "protocol", "axis", "values"}
TASK = SCORE | {"normalized", "clipped", "in_ood_avg", "secondary_metrics", "secondary"}
VALUE = {"score", "n", "ci95", "in_distribution", "undefined_reason"}
MANIFEST = {
    "model_provenance", "data_release_hash", "prediction_bundle_hashes", "task_metrics", "seed", "harness_version",
}  # fmt: skip


@pytest.fixture(scope="module")
def board(finished):
    """The finished release's leaderboard."""
    return json.loads((finished.results / "leaderboard.json").read_text())


def test_the_board_matches_the_schema_that_ships_beside_it(finished, board):
    """The leaderboard validates against its JSON Schema, which refuses a board with a key too many or too few."""
    schema = json.loads((finished.results / "leaderboard.schema.json").read_text())
    jsonschema.validate(board, schema)
    for broken in ({**board, "more": 1}, {key: value for key, value in board.items() if key != "seed"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, schema)


def test_the_board_has_every_field_that_the_design_lists(board):
    """Board, rows, tasks, held-out values, secondary scores and run manifests have all their fields."""
    assert set(board) >= BOARD
    rows = {row["model"]: row for row in board["models"]}
    assert set(rows) == {"dsp", "ssl_conv", "ssl_conv.control"}
    assert rows["ssl_conv"]["control"]["model"] == "ssl_conv.control"
    assert rows["ssl_conv.control"]["control_of"] == "ssl_conv"
    assert rows["ssl_conv.control"]["rank"] is None
    for row in board["models"]:
        assert set(row) >= ROW
        assert set(row["sensitivity"]) >= {"leave_one_task_out", "leave_one_value_out", "fragile"}
        assert set(row["run_manifest"]) >= MANIFEST
        assert set(row["tasks"]) == {task.value for task in TaskID}
        assert set(row["run_manifest"]["prediction_bundle_hashes"]) == set(row["tasks"])
        assert row["run_manifest"]["data_release_hash"] == board["data_release_hash"]
        for block in row["tasks"].values():
            assert set(block) >= TASK
            for score in (block, *block["secondary_metrics"].values(), *block["secondary"].values()):
                assert set(score) >= SCORE
                assert len(score["values"]) >= 2
                assert all(set(value) >= VALUE and value["n"] > 0 for value in score["values"].values())
        assert set(row["tasks"]["E-LOC-LOS"]["secondary"]) == {"leave-one-band-out"}
        assert set(row["tasks"]["E-ID-FP"]["secondary_metrics"]) == {"EER"}


@pytest.mark.parametrize(
    ("key", "value"),
    [("seed", 3), ("data_release_hash", "a" * 64), ("harness_version", "9.9"), ("eval_split", "holdout")],
)
def test_runs_of_mixed_provenance_are_refused(finished, tmp_path, key, value):
    """A run that differs from the others in seed, release, harness or split never reaches the board."""
    ours, theirs = (finished.results / "runs" / f"{model}.json" for model in ("dsp", "ssl_conv"))
    record = json.loads(theirs.read_text())
    (record if key in record else record["run_manifest"])[key] = value
    edited = tmp_path / "ssl_conv.json"
    edited.write_text(json.dumps(record))
    replicates = sorted((finished.results / "folds").glob("*/*/score_replicates.parquet"))
    out = tmp_path / "out"
    result = finished.script(
        "build_leaderboard", "--manifest", finished.results / "release/manifest.json", "--runs", ours, edited,
        "--replicates", *replicates, "--board", out / "leaderboard.json", "--schema", out / "schema.json",
        "--csv", out / "board.csv", "--aggregation", out / "aggregation.json",
    )  # fmt: skip
    assert result.returncode == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert edited.name in line
    assert key in line
    assert "expected" in line
    assert not out.exists()
