"""The worked example of docs/extending.md: a task with a new kind of label, added as the page says."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^`([\w./-]+)`, (?:below `([^`]+)`|a new file):\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
MODELS = "models=[prior,dsp]"


def additions() -> list[tuple[str, str | None, str]]:
    """Path, line that the text goes below (None for a new file), and text of every file that the example shows."""
    return [found.groups() for found in BLOCK.finditer((ROOT / "docs" / "extending.md").read_text())]


def scene_ids(results: Path) -> dict[str, list[str]]:
    """Scene ids by index file."""
    files = sorted(results.glob("scenes/*/*.index.parquet"))
    return {path.relative_to(results).as_posix(): pq.read_table(path)["scene_id"].to_pylist() for path in files}


def manifest(results: Path) -> dict:
    """The release manifest."""
    return json.loads((results / "release" / "manifest.json").read_text())


def test_range_estimation_is_added_by_few_files_and_moves_no_other_release(project):
    """At most five source files; scenes and hash of the release before stay; the new task runs to a verified board."""
    added = additions()
    assert 2 <= sum(path.startswith("src/") for path, _, _ in added) <= 5
    before = manifest(project.results)["data_release_hash"], scene_ids(project.results)
    for path, below, text in added:
        file = project.folder / path
        if below is None:
            assert not file.exists()
            file.write_text(text)
        else:
            kept = file.read_text()
            assert kept.count(f"{below}\n") == 1
            file.write_text(kept.replace(f"{below}\n", f"{below}\n{text}"))
    jobs = project.jobs()
    assert {"scenes", "release_manifest"} <= set(jobs)  # targets and names are part of every program
    # Finished results still verify; their schema alone, which names every task, is another now.
    still = project.script("verify", project.results.relative_to(project.folder)).stdout
    faults = [line.strip() for line in still.splitlines() if line.startswith("      ")]
    assert faults
    assert {line.partition(":")[0] for line in faults} == {"results/releases/few/leaderboard.schema.json"}
    project.complete("results/releases/few/release/manifest.json")
    assert (manifest(project.results)["data_release_hash"], scene_ids(project.results)) == before

    project.complete("leaderboard", models=MODELS, config=("release=ranging",))
    results = project.folder / "results" / "releases" / "ranging"
    board = json.loads((results / "leaderboard.json").read_text())
    scores = {row["model"]: row["tasks"]["E-LOC-RNG"] for row in board["models"]}
    assert set(scores) == {"prior", "dsp"}
    for block in scores.values():
        assert (block["metric"], block["unit"]) == ("MeanRangeError", "m")
        assert set(block["values"]) == {"E_URBAN", "E_RURAL"}
        assert all(0 < value["score"] < 2000 for value in block["values"].values())
    verified = project.script("verify", "results/releases/ranging")
    assert verified.returncode == 0, verified.stdout + verified.stderr
