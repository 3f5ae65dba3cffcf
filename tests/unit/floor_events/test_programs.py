"""The programs as people run them: from inside scripts/ of a bare checkout, with the runbook's commands."""

import csv
import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

# The two commands of the runbook, as written.
CONVERT = """\
python3 prepare_egospeak_floor_eval.py \\
--prediction-root /path/to/miniroad/raw/eval \\
--target-root /path/to/easycom_target_frame \\
--output-dir results/egospeak_miniroada_floor_eval \\
--sessions Session_12 Session_3 Session_2 Session_1
"""
EVALUATE = """\
python3 evaluate_floor_state_changes.py \\
--target-root /path/to/easycom_target_frame \\
--run baseline=/path/to/baseline/test_result \\
--run candidate=/path/to/candidate/test_result \\
--calibration-run baseline=/path/to/baseline/calibration_result \\
--calibration-run candidate=/path/to/candidate/calibration_result \\
--calibration-sessions Session_12 \\
--sessions Session_3 Session_2 Session_1 \\
--matched-recalls 0.7 0.8 0.9 \\
--midturn-pause-max-seconds 2.0 \\
--print-event-timelines 3 \\
--output reports/easycom_floor_competing_risk/test_summary.json
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """scripts/, src/common and src/floor_events alone, with synthetic sessions of 4000 rows beside them in study/."""
    root = tmp_path_factory.mktemp("checkout")
    here = Path(__file__).resolve().parents[3]
    (root / "scripts").mkdir()
    for name in ("evaluate_floor_state_changes", "prepare_egospeak_floor_eval", "make_synthetic_floor_sessions"):
        shutil.copy(here / "scripts" / f"{name}.py", root / "scripts")
    for package in ("common", "floor_events"):
        shutil.copytree(here / "src" / package, root / "src" / package, ignore=shutil.ignore_patterns("__py*"))
    shell(root, "python3 make_synthetic_floor_sessions.py --output-dir ../study --rows 4000")
    shutil.copy(here / ".gitignore", root)
    shell(root, "git init --quiet ..")
    return root


def shell(root, command, status=0):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONSAFEPATH": "1"}
    command = command.replace("/path/to", str(root / "study"))
    ended = subprocess.run(
        ["bash", "-c", command], cwd=root / "scripts", env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == status, ended.stderr
    return ended


def test_the_runbooks_commands_run_as_written(checkout):
    assert shell(checkout, CONVERT).stderr == ""
    converted = checkout / "scripts" / "results" / "egospeak_miniroada_floor_eval"
    for session in ("Session_12", "Session_3", "Session_2", "Session_1"):
        # The synthetic baseline is the converted raw output.
        stored = checkout / "study" / "baseline" / "test_result"
        for kind in ("pred", "valid"):
            np.testing.assert_array_equal(
                np.load(converted / kind / f"{session}.npy"), np.load(stored / kind / f"{session}.npy")
            )
    ended = shell(checkout, EVALUATE)
    assert "baseline: response 1, Session_3" in ended.stdout
    assert max(len(line) for line in ended.stdout.splitlines() if not line.startswith("wrote")) <= 80
    reports = checkout / "scripts" / "reports" / "easycom_floor_competing_risk"
    assert {path.name for path in reports.iterdir()} == {
        "test_summary.json", "test_summary_events.csv", "test_summary_framewise.csv", "test_summary_comparison.csv",
    }  # fmt: skip
    rows = list(csv.DictReader((reports / "test_summary_events.csv").open()))
    assert [row["run"] for row in rows] == ["baseline"] * 10 + ["candidate"] * 10
    for row in rows:
        assert 0 <= float(row["no_response_trigger_rate_at_recall_0.8"]) <= 1


def test_what_the_runbooks_commands_write_is_ignored_by_git(checkout):
    """From inside scripts/, and from the folder above it."""
    for folder, command in itertools.product(("scripts", "."), (CONVERT, EVALUATE)):
        program = command.replace("python3 ", "python3 scripts/" if folder == "." else "python3 ")
        shell(checkout, f"cd {checkout / folder} && {program}")
        written = checkout / folder / ("results" if command == CONVERT else "reports")
        assert list(written.rglob("*.json"))
        assert shell(checkout, f"git status --porcelain --untracked-files=all -- {written}").stdout == ""


def test_without_calibration_runs_the_same_numbers(checkout):
    shell(checkout, EVALUATE)
    short = "\n".join(line for line in EVALUATE.splitlines() if "--calibration-run" not in line)
    shell(checkout, short.replace("test_summary", "short"))
    reports = checkout / "scripts" / "reports" / "easycom_floor_competing_risk"
    for table in ("events", "framewise", "comparison"):
        assert (reports / f"test_summary_{table}.csv").read_bytes() == (reports / f"short_{table}.csv").read_bytes()


def test_a_better_synthetic_model_is_seen_to_be_better(checkout):
    command = EVALUATE.replace("test_summary", "better").replace("print-event-timelines 3", "print-event-timelines 0")
    shell(checkout, command.rstrip() + " --intersect-valid")
    path = checkout / "scripts" / "reports" / "easycom_floor_competing_risk" / "better_events.csv"
    rows = list(csv.DictReader(path.open()))
    precision = [
        np.mean([float(r["response_ap"]) for r in rows if r["run"] == run]) for run in ("baseline", "candidate")
    ]
    assert precision[1] > precision[0]


def test_a_refusal_is_one_line_and_no_file(checkout):
    command = EVALUATE.replace("test_summary", "refused").replace("--calibration-sessions Session_12 ", "")
    ended = shell(checkout, command, status=2)
    assert ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert not list(checkout.rglob("refused*"))


def test_a_reader_that_leaves_gets_no_traceback(checkout):
    command = EVALUATE.replace("test_summary", "pipe").replace("print-event-timelines 3", "print-event-timelines 400")
    ended = shell(checkout, command.rstrip() + " 2> pipe.txt | head -n 1")
    assert ended.stdout.startswith("baseline: response 1")
    assert "Traceback" not in (checkout / "scripts" / "pipe.txt").read_text()
    assert "BrokenPipe" not in (checkout / "scripts" / "pipe.txt").read_text()


def test_the_library_stays_light(checkout):
    program = (
        "import sys; sys.path.insert(0, '../src'); import floor_events, floor_events.config, floor_events.synthetic;"
        "heavy = {'emma', 'rfgen', 'torch', 'pandas', 'pydantic', 'scipy', 'yaml'};"
        "print(sorted({m.split('.')[0] for m in sys.modules} & heavy))"
    )
    assert shell(checkout, f'python3 -c "{program}"').stdout == "[]\n"


def test_synthetic_sessions_refuse_too_few_rows(checkout):
    ended = shell(checkout, "python3 make_synthetic_floor_sessions.py --output-dir ../none --rows 49", status=2)
    assert ended.stderr == "make_synthetic_floor_sessions.py: --rows 49: expected at least 50 frames\n"
    assert not (checkout / "none").exists()
