"""Finished results in a notebook: the Evaluator's numbers are the workflow's to the bit, and the example runs."""

import dataclasses
import io
import json
import subprocess
import sys

import nbformat
import pytest
import vl_convert

import emma
from common.errors import InputError
from emma import Evaluator, TaskID
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.results.layout import results_folder

CASES = [*(("dsp", task) for task in TaskID), ("ssl_conv", TaskID.E_LOC_AOA)]


@pytest.mark.parametrize(("model", "task"), CASES)
def test_the_evaluator_gives_the_workflows_numbers_to_the_bit(finished, model, task):
    """Every score, interval and prediction of every fold, and the task's block of the run record and the board."""
    config = load_model_config(finished.folder / f"config/models/{model}.yaml")
    trained = finished.results / f"weights/{model}.safetensors" if config.pretrain else None
    backbone, provenance = load_backbone(config, finished.folder, trained)
    evaluator = Evaluator("tiny", results=finished.folder / results_folder("tiny"))
    run = evaluator.evaluate(backbone, task, config=config, provenance=provenance)
    block = run.record.tasks[task].model_dump(mode="json")
    compared = 0
    for protocol, folds in run.folds.items():
        for value, fitted in folds.items():
            path = finished.results / "folds" / model / task / protocol / value / "metrics.json"
            written = json.loads(path.read_text())
            assert written["hashes"]["predictions"] == fitted.predictions_hash
            if protocol == block["protocol"]:
                named = {block["metric"]: block, **block["secondary_metrics"]}
                shown = {name: dict(record["values"][value]) for name, record in named.items()}
                assert all(record.pop("met_in_pretraining") is not None for record in shown.values())
                assert shown == {name: written["metrics"][name] for name in shown}
                compared += 1
    assert compared == len(evaluator.manifest.tasks[task].held_out)
    assert block == json.loads((finished.results / f"runs/{model}.json").read_text())["tasks"][task]
    board = json.loads((finished.results / "leaderboard.json").read_text())
    (row,) = [row for row in board["models"] if row["model"] == model]
    assert run.score == row["tasks"][task]["score"]


def test_the_command_that_makes_the_scenes_is_one_of_the_workflow(fresh):
    """What the Evaluator asks for, where there are no results, is a target: release and scenes, and no model."""
    jobs = fresh.jobs(f"{results_folder('tiny')}/release/manifest.json")
    assert jobs == {"channels": 2, "scenes": 24, "release_manifest": 1}


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("asked", "stream", "shown"), [(True, Terminal, True), (True, io.StringIO, False), (False, Terminal, False)]
)
def test_progress_is_shown_where_asked_for_and_seen(finished, monkeypatch, asked, stream, shown):
    config = load_model_config(finished.folder / "config/models/dsp.yaml")
    backbone, _ = load_backbone(config, finished.folder)
    evaluator = Evaluator("tiny", results=finished.results, progress=asked)
    monkeypatch.setattr(sys, "stderr", stream())
    run = evaluator.evaluate(backbone, "E-LOC-LOS", config=config)
    told = sys.stderr.getvalue()
    assert bool(told) == shown
    if shown:
        scenes = sum(evaluator.manifest.frozen(run.task, split).scenes for split in ("TRAIN", "DEV"))
        folds = sum(map(len, run.folds.values()))
        assert f"E-LOC-LOS: embedding: 100%|##########| {scenes}/{scenes} " in told
        assert f"E-LOC-LOS: fitting: 100%|##########| {folds}/{folds} " in told


def drawn(chart):
    """The rows that a chart draws, by their values; the chart must be one that Vega-Lite takes."""
    chart = chart.to_dict()
    assert vl_convert.vegalite_to_svg(chart).startswith("<svg")
    (rows,) = chart["datasets"].values()
    return rows


def test_charts_draw_what_the_tables_say(finished):
    results = emma.results.load(finished.results)
    models = results.models.dropna(subset=["ood_avg"])
    assert [(row["model"], row["ood_avg"]) for row in drawn(emma.results.plots.ranking(results))] == list(
        zip(models["model"], models["ood_avg"], strict=True)
    )
    values, keys = results.held_out_values, ["task", "metric", "protocol"]
    own, others = (results.scores[results.scores["primary"] == primary][keys] for primary in (True, False))
    other = others[others["protocol"] != "leave-one-environment-out"].iloc[0].tolist()
    for place, asked in ((own[own["task"] == "E-LOC-AOA"].iloc[0].tolist(), []), (other, other[1:])):
        task, expected = place[0], values[(values[keys] == place).all(axis=1)]
        rows = drawn(emma.results.plots.held_out(results, task, *asked))
        named = ("model", "held_out_value", "score", "ci95_low", "in_distribution")
        assert [[row[name] for name in named] for row in rows] == expected[list(named)].values.tolist()
    with pytest.raises(InputError, match="task: E-LOC-AOB is unknown, did you mean E-LOC-AOA"):
        emma.results.plots.held_out(results, "E-LOC-AOB")
    with pytest.raises(InputError, match="metric: MeanAngularEror is unknown, did you mean MeanAngularError"):
        emma.results.plots.held_out(results, "E-LOC-AOA", "MeanAngularEror")


def test_charts_of_captures(finished):
    results = emma.results.load(finished.results)
    with pytest.raises(InputError, match="no model has a sim-to-real gap"):
        emma.results.plots.sim_to_real(results)
    gaps = {"sim_to_real_points": [3.0, None], "sim_to_real_matched_points": [1.0, -2.0]}
    models = results.models.iloc[:2].assign(sim_to_real_kind="surrogate", **gaps)
    rows = drawn(emma.results.plots.sim_to_real(dataclasses.replace(results, models=models)))
    assert sorted(row["points"] for row in rows) == [-2, 1, 3]


RUN_CELLS = """
import ast, json, sys
names = {}
for source in json.load(sys.stdin):
    *steps, last = ast.parse(source).body
    shown = isinstance(last, ast.Expr)
    exec(compile(ast.Module(steps if shown else [*steps, last], []), "cell", "exec"), names)
    if shown:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
        # As a notebook shows it: a chart is checked against its schema when it becomes JSON.
        print(value.to_dict() if hasattr(value, "to_dict") else value)
"""


def test_the_example_runs_on_a_finished_release(finished):
    """Cell by cell, each value that a notebook would show made too."""
    notebook = nbformat.read(finished.folder / "examples/board.ipynb", as_version=4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)
    sources = [cell.source for cell in cells]
    assert 'RESULTS = "../results"' in sources[0] and 'RELEASE = "v0.1"' in sources[0]
    sources[0] = sources[0].replace('"../results"', f'"{finished.results}"').replace("v0.1", "tiny")
    ended = subprocess.run(
        [finished.python, "-c", RUN_CELLS], input=json.dumps(sources), capture_output=True, text=True,
        cwd=finished.folder / "examples", env=finished.environment() | {"PYTHONPATH": str(finished.folder / "src")},
        timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "band_powers on E-LOC-AOA (tiny, dev)" in ended.stdout
