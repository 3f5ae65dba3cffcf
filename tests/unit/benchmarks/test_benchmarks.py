"""Every benchmark runs at its tiny size, reports in the record's form, and loses no row to another's failure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "benchmarks"))

import measuring  # noqa: E402
import run_all  # noqa: E402

#: Those that need neither Snakemake nor Sionna take seconds; the others run by `make bench`.
FAST = ("fits", "hashing", "bootstrap", "embedding")


@pytest.mark.parametrize("row", FAST)
def test_a_benchmark_runs_at_its_tiny_size_with_equal_results(row):
    figures, reason = run_all.run(row, ["--tiny", "--runs", "1"], 60)
    assert reason is None
    assert figures
    for figure in figures:
        assert figure.row == row
        assert figure.ours > 0
        assert figure.checks.get("objective_equal", True) is True
        if figure.unit == "ratio" and figure.other and row != "embedding":
            quotient = figure.ours / figure.other if figure.sense == "at most" else figure.other / figure.ours
            assert figure.value == pytest.approx(quotient, rel=1e-2)
        assert figure.reached == (
            figure.value <= figure.target if figure.sense == "at most" else figure.value >= figure.target
        )


@pytest.mark.parametrize("row", [own.program or row for row, own in (run_all.ROWS | run_all.SCALE).items()])
def test_every_row_has_a_program_that_says_how_it_is_called(row):
    done = subprocess.run(
        [sys.executable, "-c", f"import ast; ast.parse(open('benchmarks/{row}.py').read())"], cwd=ROOT, check=False
    )
    assert done.returncode == 0
    text = (ROOT / f"benchmarks/{row}.py").read_text()
    assert f'"{row}"' in text
    assert "deliver(" in text


def test_a_row_that_fails_is_told_and_the_others_stay(tmp_path, monkeypatch):
    def run(row, options, limit):
        if row == "hashing":
            return [], "ValueError: a fault"
        runs = measuring.Runs([1.0, 3.0], [1.0, 1.0])
        return [measuring.figure(row, "a figure", "2 s", ours=runs, target=2.0, sense="at most")], None

    monkeypatch.setattr(run_all, "run", run)
    out = tmp_path / "benchmarks.json"
    monkeypatch.setattr(sys, "argv", ["run_all.py", "--only", "hashing", "fits", "dry_run", "--out", str(out)])
    run_all.main()
    report = measuring.Report.model_validate_json(out.read_text())
    assert [each.row for each in report.figures] == ["fits"]
    assert report.figures[0].value == 2.0
    assert report.figures[0].reached
    assert set(report.failed) == {"hashing", "dry_run"}
    assert report.machine["cpus"] >= 1
    assert "numpy" in report.versions


def test_a_program_that_fails_or_never_ends_has_a_reason():
    assert run_all.run("hashing", ["--no-such-option"], 60)[1].endswith("unrecognized arguments: --no-such-option")
    assert run_all.run("hashing", ["--tiny"], 0.01)[1] == "not done after 0.01 s"


def test_the_report_refuses_another_form():
    good = {"machine": {}, "versions": {}, "figures": [], "failed": {}}
    measuring.Report.model_validate(good)
    for bad in (
        good | {"more": 1},
        {key: good[key] for key in ("machine", "versions")},
        good | {"figures": [{"row": "x"}]},
    ):
        with pytest.raises(ValidationError):
            measuring.Report.model_validate(bad)


def test_the_report_in_results_if_there_is_one():
    path = ROOT / "results/benchmarks.json"
    if not path.exists():
        pytest.skip("no benchmarks were run here")
    measuring.Report.model_validate(json.loads(path.read_text()))


def test_sides_run_in_turn_and_the_first_pair_does_not_count():
    said = []
    ours, other = measuring.in_turn(lambda: said.append("a"), lambda: said.append("b"), 3)
    assert said == ["a", "b"] * 4
    assert len(ours.wall) == len(other.wall) == 3


def test_a_process_is_measured_and_its_failure_told(tmp_path):
    run = measuring.process([sys.executable, "-c", "x = bytearray(300 << 20)"], tmp_path)
    assert run.peak[0] > 300
    with pytest.raises(RuntimeError, match="ended with 3: why"):
        measuring.process([sys.executable, "-c", "print('why'); raise SystemExit(3)"], tmp_path)


def test_the_table_of_tasks_takes_the_best_row_of_each_column():
    import task_table

    def row(model, kind, score):
        told = {"metric": "NMSE", "direction": "lower", "axis": "environment", "values": {"a": {}, "b": {}}}
        return {"model": model, "kind": kind, "tasks": {"E-CH-CSI": told | {"score": score}}}

    rows = [row("prior", "chance", 0.0), row("x", "backbone", -3.0), row("y", "backbone", -4.0)]
    rows += [row("dsp", "backbone", -9.0), row("x.control", "control", -20.0), row("none", "reference", None)]
    lines = task_table.table({"models": rows})
    assert lines[2] == "| E-CH-CSI | NMSE | 2 of environment | 0.000 | - | -9.000 | -4.000 `y` | - |"
