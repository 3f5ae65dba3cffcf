"""The sim-to-real path through the workflow: surrogates by default, and one line for a set that is wrong."""

import json
import shutil

import pytest
import yaml

SURROGATE = ("real_captures=surrogate",)


@pytest.fixture(scope="module")
def surrogate(few, tmp_path_factory):
    """A finished run on few tasks, with surrogate captures."""
    folder = tmp_path_factory.mktemp("captures") / "project"
    shutil.copytree(few.folder, folder, symlinks=True)
    project = type(few)(folder, few.release)
    project.complete(config=SURROGATE)
    return project


def test_the_default_shows_a_surrogate_gap_and_verifies(surrogate):
    board = json.loads((surrogate.results / "leaderboard.json").read_text())
    gap = board["models"][0]["sim_to_real"]
    assert gap["kind"] == "surrogate"
    scored = [task for task, block in gap["tasks"].items() if block["gap_percentage_points"] is not None]
    assert scored == ["E-LOC-AOA", "E-LOC-LOS"]
    assert "same devices" in gap["tasks"]["E-ID-FP"]["undefined"]
    report = json.loads((surrogate.results / "reports/sim_to_real.json").read_text())
    assert {block["kind"] for block in report["sets"].values()} == {"surrogate"}
    text = (surrogate.results / "reports/sim_to_real.md").read_text()
    assert text.startswith("# Sim-to-real gap of release few (surrogate captures)")
    page = (surrogate.results / "leaderboard.html").read_text()
    # In the ranking and the gap table; the sections of models are packed.
    assert page.count("surrogate (not real captures)") > 5
    assert "real captures, " not in page
    assert "E-ID-FP has no gap: no public set records the same devices" in page
    metas = sorted((surrogate.results / "captures/surrogate_aoa/recordings").glob("*.sigmf-meta"))
    assert len(metas) == 12
    assert all('"emma:kind": "surrogate"' in path.read_text() for path in metas)
    assert surrogate.jobs(config=SURROGATE) == {}
    verified = surrogate.script("verify", surrogate.results)
    assert verified.returncode == 0, verified.stdout
    assert " fitted again" in verified.stdout


def test_a_damaged_recording_ends_in_one_line(surrogate):
    data = surrogate.results / "captures/surrogate_los/recordings/session-03.sigmf-data"
    kept = data.read_bytes()
    data.write_bytes(kept[:-2] + b"\x01\x01")
    out = surrogate.results / "out"
    entry = {"name": "surrogate_los", "adapter": "sigmf", "task": "E-LOC-LOS"}
    entry["mapping"] = {"classes": {"NLOS": "NLOS", "LOS": "LOS"}}
    names = {"out": "scenes.parquet", "index": "index.parquet", "record": "record.json"}
    files = [item for name, file in names.items() for item in (f"--{name}", out / file)]
    read = ("--entry", json.dumps(entry), "--release-config", "config/releases/few.yaml", "--root", data.parent)
    found = surrogate.script("convert_captures", *read, *files)
    data.write_bytes(kept)
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "session-03" in found.stderr
    assert [path for path in out.glob("*") if path.is_file()] == []


def entry(**changes):
    content = {"name": "uwb_los", "adapter": "cir", "path": "sets", "task": "E-LOC-LOS"} | changes
    return f"real_captures=[{json.dumps({key: value for key, value in content.items() if value is not None})}]"


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("real_captures=maybe", "real_captures"),
        ("real_captures=[]", "real_captures"),
        (entry(extra=1), "extra"),
        (entry(adapter="tape"), "adapter"),
        (entry(name="no_such_set"), "no_such_set.yaml"),
        (entry(path="no/such/folder"), "no/such/folder is no folder"),
        (entry(path=None), "path: expected for a set of kind real"),
        (entry(task="E-LOC-AOA"), "task"),
        (entry(mapping={"classes": {"LOS": "SEEN"}}), "SEEN"),
    ],
)
def test_wrong_settings_end_before_anything_is_planned(few, setting, words):
    (few.folder / "sets").mkdir(exist_ok=True)
    found = few.run("--dry-run", config=(setting,))
    assert found.returncode == 2, found.stdout + found.stderr
    line = found.stderr.strip().splitlines()[-1]
    assert words in line


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("wsr_los", {"twin": {"carriers": [0]}}, "twin.sounding: carriers: [0], expected two or more"),
        ("uwb_los", {"twin": {"surprise": 1}}, "twin.impulse.surprise: unknown key"),
        ("mixed_drone", {"scene": {"samples": 2048}}, "2048 samples at 2e+07 Hz, but its readout is fit on E-ID-DRONE"),
        ("mixed_drone", {"task": "E-ID-FP"}, "E-ID-FP has no gap"),
    ],
)
def test_a_set_that_cannot_be_scored_ends_before_anything_is_planned(project, name, change, words):
    path = project.folder / f"config/captures/{name}.yaml"
    content = yaml.safe_load(path.read_text())
    for key, value in change.items():
        content[key] = content[key] | value if isinstance(value, dict) else value
    path.unlink()
    path.write_text(yaml.safe_dump(content))
    (project.folder / "sets").mkdir(exist_ok=True)
    known = content.get("classes", ["present"])[0]
    setting = entry(name=name, task=content["task"], adapter="sigmf", mapping={"classes": {"x": known}})
    found = project.run("--dry-run", config=("release=tiny", setting))
    assert found.returncode == 2, found.stdout + found.stderr
    assert words in found.stderr.strip().splitlines()[-1]
