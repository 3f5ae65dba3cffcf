"""The configuration section: what it stands for, and each way to get it wrong."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import InputError
from common.files import write_files
from floor_events.config import plan
from floor_events.synthetic import synthetic_files


def section(**changes):
    full = {
        "enabled": True,
        "target_root": "data/target",
        "sessions": ["Session_3"],
        "calibration_sessions": ["Session_12"],
        "runs": [
            {"name": "base", "kind": "egospeak_raw", "path": "raw"},
            {"name": "cand", "kind": "aligned", "path": "test", "calibration_path": "cal"},
        ],
    } | changes
    return {key: value for key, value in full.items() if value is not ...}


def test_off_means_nothing():
    assert plan(None, "results") is None
    assert plan({}, "results") is None
    assert plan({"enabled": False}, "results") is None
    assert plan(section(enabled=False, sessions=[]), "results") is None


def test_the_plan():
    found = plan(
        section(calibration_note="out of fold", audit_sample=4, intersect_valid=True, recording_boundaries="cuts.json"),
        "results",
    )
    assert [c.folder for c in found.conversions] == [
        "results/floor_events/converted/base/evaluation",
        "results/floor_events/converted/base/calibration",
    ]
    assert found.conversions[1].options == [
        "--prediction-root", "raw", "--target-root", "data/target",
        "--output-dir", "results/floor_events/converted/base/calibration", "--sessions", "Session_12",
    ]  # fmt: skip
    assert found.conversions[0].inputs == ["raw/Session_3.npy", "data/target/Session_3.npy"]
    text = shlex.join(found.options)
    for part in (
        "--run base=results/floor_events/converted/base/evaluation",
        "--calibration-run base=results/floor_events/converted/base/calibration",
        "--run cand=test", "--calibration-run cand=cal", "--matched-recalls 0.7 0.8 0.9", "--intersect-valid",
        "'--calibration-note=out of fold'",
        "--recording-boundaries cuts.json", "--output results/floor_events/summary.json",
    ):  # fmt: skip
        assert part in text
    assert found.outputs[-1] == "results/floor_events/summary_audit.html"
    for name in ("test/pred/Session_3.npy", "cal/valid/Session_12.npy", "cuts.json", "data/target/Session_12.npy"):
        assert name in found.inputs


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"sesions": []}, "floor_events.sesions: unknown key"),
        ({"enabled": "yes"}, "floor_events.enabled: 'yes'; expected bool"),
        ({"target_root": ...}, "floor_events.target_root: missing"),
        ({"runs": ...}, "floor_events.runs: missing"),
        ({"sessions": "Session_3"}, "floor_events.sessions: 'Session_3'; expected list"),
        ({"sessions": [3]}, "floor_events.sessions: expected a list of session names"),
        ({"seed": True}, "floor_events.seed: True; expected int"),
        ({"seed": 1.5}, "floor_events.seed: 1.5; expected int"),
        ({"matched_recalls": ["0.8"]}, "floor_events.matched_recalls: expected a list of fractions"),
        ({"matched_recalls": [1.5]}, "floor_events: matched_recalls 1.5: expected a fraction"),
        ({"midturn_pause_max_seconds": -1}, "floor_events: midturn_pause_max_seconds -1"),
        ({"decision_timing": "later"}, "floor_events: decision_timing: expected one of pre-boundary"),
        ({"audit_sample": -1}, "floor_events: audit_sample -1"),
        ({"calibration_sessions": ["Session_1"]}, "floor_events: calibration_sessions Session_1: an official test"),
        ({"calibration_sessions": None}, "floor_events: sessions Session_3: an official test session"),
        ({"calibration_sessions": []}, "floor_events: calibration_sessions: expected at least one"),
        ({"calibration_note": 3}, "floor_events.calibration_note: 3; expected str or null"),
        ({"calibration_note": " "}, "floor_events: calibration_note: 1 characters"),
        ({"runs": []}, "floor_events: run: expected at least one"),
        ({"runs": ["a"]}, "floor_events.runs[0]: expected a mapping"),
        ({"runs": [{"name": "a", "kind": "aligned"}]}, "floor_events.runs[0].path: missing"),
        (
            {"runs": [{"name": "a", "kind": "raw", "path": "x"}]},
            "floor_events.runs[0].kind: 'raw'; expected aligned or",
        ),
        ({"runs": [{"name": "a b", "kind": "aligned", "path": "x"}]}, "floor_events.runs[0].name: 'a b'"),
        ({"runs": [{"name": "..", "kind": "aligned", "path": "x"}]}, "floor_events.runs[0].name: '..'"),
        ({"runs": [{"name": "a", "kind": "aligned", "path": 3}]}, "floor_events.runs[0].path: 3; expected a text"),
        ({"runs": [{"name": "a", "kind": "aligned", "path": "x", "pth": 1}]}, "floor_events.runs[0].pth: unknown key"),
        ({"runs": [{"name": "a", "kind": "aligned", "path": "x"}] * 2}, "floor_events: run a: given twice"),
    ],
)
def test_mistakes_are_one_line(changes, expected):
    with pytest.raises(InputError) as caught:
        plan(section(**changes), "results")
    assert str(caught.value).startswith("config/config.yaml: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_key_is_refused_when_off_and_a_list_is_no_section():
    with pytest.raises(InputError, match="unknown key"):
        plan({"enabled": False, "runz": []}, "results")
    with pytest.raises(InputError, match="expected a mapping"):
        plan([], "results")


CONFIG = """
release: tiny
seed: 0
eval_split: DEV
models: [prior]
real_captures: none
floor_events:
  enabled: true
  target_root: study/easycom_target_frame
  sessions: [Session_3, Session_1]
  calibration_sessions: [Session_12]
  runs:
    - {name: baseline, kind: egospeak_raw, path: study/miniroad/raw/eval}
    - {name: candidate, kind: aligned, path: study/candidate/test_result}
  bootstrap_resamples: 50
"""


def test_the_rules(tmp_path, tools):
    for folder in ("config", "envs", "profiles", "scripts", "src", "workflow"):
        shutil.copytree(tools.ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__py*"))
    shutil.copy(tools.ROOT / "Snakefile", tmp_path)
    config = tmp_path / "config" / "config.yaml"
    config.write_text(CONFIG)
    write_files(synthetic_files(tmp_path / "study", 300, 0))

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

    def snakemake(*arguments):
        # No hooks: a warm process for three short jobs would take longer than they do.
        return subprocess.run(
            [sys.executable, "-m", "snakemake", "--cores", "1", "--no-hooks", *arguments],
            cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, check=False,
        )  # fmt: skip

    ended = snakemake("floor_events")
    assert ended.returncode == 0, ended.stderr
    results = tmp_path / "results" / "releases" / "tiny" / "floor_events"
    made = {path.name for path in results.iterdir()}
    tables = {"summary_events.csv", "summary_framewise.csv", "summary_comparison.csv"}
    assert made == {"converted", "summary.json", "summary.txt"} | tables
    assert (results / "converted/baseline/calibration/conversion.json").exists()
    again = snakemake("-n", "floor_events")
    assert "Nothing to be done" in again.stdout + again.stderr
    config.write_text(CONFIG.replace("enabled: true", "enabled: false"))
    off = snakemake("-n", "all")
    assert (off.returncode, "floor_" in off.stdout + off.stderr) == (0, False)
    config.write_text(CONFIG.replace("enabled:", "enable:"))
    wrong = snakemake("-n", "all")
    assert wrong.returncode == 2
    said = [line for line in wrong.stderr.splitlines() if not line.startswith("Using workflow specific profile")]
    assert said == [line for line in said if line.startswith("config/config.yaml: floor_events.enable: unknown key")]
    assert len(said) == 1
