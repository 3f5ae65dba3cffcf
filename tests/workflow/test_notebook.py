"""The Evaluator on finished results: the numbers of the workflow, to the bit."""

import json

import pytest

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
