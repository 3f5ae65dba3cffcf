"""One backbone, release and seed: the same scores and the same scored outputs, bit for bit."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from emma import Evaluator, TaskID
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone

#: A task of every kind of answer.
TASKS = ("E-LOC-AOA", "E-ID-FP", "E-SC-ANOM", "E-SC-SEP", "E-CH-CSI", "E-S2T-CAP", "E-S2T-QA")
PROGRAM = """
import json, sys
from pathlib import Path
from emma import Evaluator
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
results, config, *tasks = sys.argv[1:]
config = load_model_config(Path(config))
backbone, provenance = load_backbone(config)
evaluator = Evaluator("small", results=results)
runs = [evaluator.evaluate(backbone, task, config=config, provenance=provenance) for task in tasks]
print(json.dumps([run.record.model_dump(mode="json") for run in runs]))
"""


def evaluate(small, models, task: str, seed: int):
    """A run from nothing: a new Evaluator and a new backbone."""
    config = load_model_config(models / "dsp.yaml")
    backbone, provenance = load_backbone(config)
    evaluator = Evaluator("small", results=small.results, seed=seed)
    return evaluator.evaluate(backbone, task, config=config, provenance=provenance)


@pytest.fixture(scope="module")
def first(small, models) -> dict:
    return {task: evaluate(small, models, task, 3) for task in TASKS}


@pytest.mark.parametrize("task", TASKS)
def test_two_runs_are_one(small, models, first, task: str) -> None:
    again = evaluate(small, models, task, 3)
    ours, theirs = first[task].run_manifest, again.run_manifest
    assert ours.seed == theirs.seed == 3
    for name, value in ours.task_metrics[TaskID(task)].items():
        assert theirs.task_metrics[TaskID(task)][name] == pytest.approx(value, rel=1e-6)
    assert ours.prediction_bundle_hashes == theirs.prediction_bundle_hashes
    # Stronger than the protocol asks: intervals, components and readouts are the same bits.
    assert first[task].record == again.record
    for protocol, folds in first[task].folds.items():
        for value, fold in folds.items():
            other = again.folds[protocol][value].tensors
            assert {k: v.tobytes() for k, v in fold.tensors.items()} == {k: v.tobytes() for k, v in other.items()}


@pytest.mark.parametrize("task", TASKS)
def test_the_seed_reaches_what_it_draws(small, models, first, task: str) -> None:
    """Another seed moves intervals and references; the predictions of a protocol's own folds it never reaches."""
    other = evaluate(small, models, task, 4)
    ours, theirs = (run.record.tasks[TaskID(task)].values for run in (first[task], other))
    assert any(ours[value].ci95 != theirs[value].ci95 for value in ours)
    for name in first[task].folds:
        hashes = [[fold.predictions_hash for fold in run.folds[name].values()] for run in (first[task], other)]
        assert (hashes[0] != hashes[1]) == name.startswith("in-distribution"), name
    assert other.run_manifest.seed == 4


def test_another_process_gives_the_same_run(small, models) -> None:
    """Another hash seed, another thread count and another order of tasks change nothing."""
    tasks = ["E-ID-FP", "E-ID-AMC"]
    source = str(Path(__file__).parents[3] / "src")
    environment = os.environ | {"PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "2", "PYTHONPATH": source}
    command = [sys.executable, "-c", PROGRAM, str(small.results), str(models / "dsp.yaml"), *tasks]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    for task, record in zip(tasks, json.loads(done.stdout), strict=True):
        run = evaluate(small, models, task, 0)
        assert json.loads(json.dumps(run.record.model_dump(mode="json"))) == record
