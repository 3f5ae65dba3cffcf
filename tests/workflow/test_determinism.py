"""The same bytes on any number of cores, and after a kill."""

import json
import os
import random
import signal
import subprocess
import time

import jsonschema


def test_one_core_gives_the_same_bytes_as_two(finished, fresh):
    """Scenes, manifest, splits, embeddings, folds, runs and board do not depend on the number of cores."""
    project = fresh("one-core")
    result = project.run(cores=1)
    assert result.returncode == 0, result.stdout + result.stderr
    ours, theirs = project.contents(), finished.contents()
    assert sorted(ours) == sorted(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


def test_a_killed_run_resumes_to_the_same_bytes(finished, fresh):
    """SIGKILL at seeded moments, then a run to the end: the same bytes, and nothing temporary left."""
    project = fresh("killed")
    draw = random.Random(20)
    for _ in range(2):
        process = subprocess.Popen(
            project.command(),
            cwd=project.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=project.environment(),
        )
        time.sleep(draw.uniform(8, 16))
        assert process.poll() is None, "the run ended before it was killed"
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    result = project.run()
    assert result.returncode == 0, result.stdout + result.stderr
    ours, theirs = project.contents(), finished.contents()
    assert [name for name in theirs if ours.get(name) != theirs[name]] == []
    assert sorted(set(ours) - set(theirs)) == []


def test_the_board_matches_the_schema_that_ships_beside_it(finished):
    """The leaderboard validates against its JSON Schema and holds what other programs read."""
    board = json.loads((finished.results / "leaderboard.json").read_text())
    jsonschema.validate(board, json.loads((finished.results / "leaderboard.schema.json").read_text()))
    fields = {"release", "data_release_hash", "eval_split", "seed", "harness_version", "caveats", "models"}
    assert fields <= set(board)
    for row in board["models"]:
        for task, block in row["tasks"].items():
            assert row["run_manifest"]["prediction_bundle_hashes"][task]
            assert all(value["n"] > 0 for value in block["values"].values())
    assert "leave-one-band-out" in board["models"][0]["tasks"]["E-LOC-LOS"]["secondary"]
    assert "EER" in board["models"][0]["tasks"]["E-ID-FP"]["secondary_metrics"]
