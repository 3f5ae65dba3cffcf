"""Anchors come from the release manifest alone: no submission, no other model and no holdout score moves them."""

import inspect
import json
from types import SimpleNamespace

import numpy as np
import pytest

from common.errors import InputError
from common.files import parse, write_json
from emma import OODAvg, TaskID
from emma.backbones.config import load_model_config
from emma.data.protocols import board_protocols
from emma.data.release import load_manifest, manifest_record
from emma.evaluation.scoring import score_task
from emma.results.aggregate import normalise_task, summarise
from emma.results.evaluator import predictions_of
from emma.results.leaderboard import build_board
from emma.results.records import RunRecord
from emma.results.runs import task_record

MODELS = ("prior", "random_conv", "dsp")


@pytest.fixture(scope="module")
def runs(small) -> dict:
    return {name: small.run(name) for name in MODELS}


def board_of(small, runs: dict):
    records = {name: record for name, (record, _) in runs.items()}
    return build_board(small.manifest, records, {name: draws for name, (_, draws) in runs.items()})[0]


def normalised(board, model: str) -> dict[str, str]:
    """Every normalised number of a model, to the last bit."""
    row = next(row for row in board.models if row.model == model)
    found = {task: block.normalized for task, block in row.tasks.items()} | {"average": row.ood_avg}
    found |= row.sensitivity.leave_one_task_out.averages | row.sensitivity.leave_one_value_out.averages
    return {name: value.hex() for name, value in found.items()}


def moved(small, run, shift: float, name: str):
    """A run whose fold values were all shifted, made anew by the product's own functions."""
    record, draws = run
    tasks = {}
    for task, block in record.tasks.items():
        spec = small.manifest.spec(task)
        values = {
            value: r.model_copy(update={"score": r.score + shift * (spec.anchors.maximum - spec.anchors.minimum)})
            for value, r in block.values.items()
        }
        summary = summarise({value: r.score for value, r in values.items()})
        normalized, clipped = normalise_task(spec, summary.score)
        fields = {"score": summary.score, "standard_error": summary.standard_error}
        fields |= {"normalized": normalized, "clipped": clipped}
        tasks[task] = block.model_copy(update={"values": values, **fields})
    return record.model_copy(update={"model": name, "tasks": tasks}), draws


def test_other_models_do_not_move_a_normalised_value(small, runs) -> None:
    alone = normalised(board_of(small, {"dsp": runs["dsp"]}), "dsp")
    assert alone == normalised(board_of(small, runs), "dsp")
    assert alone == normalised(board_of(small, dict(reversed(runs.items()))), "dsp")


@pytest.mark.parametrize("shift", [-0.4, 0.1, 0.4])
def test_other_scores_do_not_move_a_normalised_value(small, runs, shift: float) -> None:
    """A rival that is far better, or far worse than no skill, on the very scenes that are scored."""
    alone = normalised(board_of(small, {"dsp": runs["dsp"]}), "dsp")
    rival = moved(small, runs["random_conv"], shift, "rival")
    assert alone == normalised(board_of(small, {"dsp": runs["dsp"], "rival": rival}), "dsp")


def test_other_holdout_values_of_the_model_move_its_score_by_the_frozen_span_alone(small, runs) -> None:
    aggregator = OODAvg(small.manifest.tasks)
    for task, spec in aggregator.tasks.items():
        span = spec.anchors.maximum - spec.anchors.minimum
        middle = (spec.anchors.maximum + spec.anchors.minimum) / 2
        values = dict.fromkeys(spec.held_out, middle)
        step = dict(values) | {spec.held_out[0]: middle + 0.1 * span}
        found = [float(aggregator.normalised(task, aggregator.task_score(task, v))) for v in (values, step)]
        assert found[0] == pytest.approx(0.5)
        assert abs(found[1] - found[0]) == pytest.approx(0.1 / len(spec.held_out))


def test_the_anchors_are_those_of_the_manifest_and_pinned_by_its_hash(small, runs) -> None:
    anchors = {task: (spec.anchors.minimum, spec.anchors.maximum) for task, spec in small.manifest.tasks.items()}
    classes = {task: 1 / len(small.manifest.spec(task).classes) for task in ("E-ID-FP", "E-ID-AMC")}
    assert anchors == {
        "E-LOC-AOA": (0.0, 90.0),
        "E-LOC-LOS": (0.5, 1.0),
        "E-ID-DRONE": (0.5, 1.0),
        "E-ID-FP": (classes["E-ID-FP"], 1.0),
        "E-ID-AMC": (classes["E-ID-AMC"], 1.0),
        "E-SC-SENSE": (0.5, 1.0),
        "E-SC-ANOM": (0.5, 1.0),
        "E-SC-SEP": (0.0, 20.0),
        "E-CH-BEAM": (3 / 64, 1.0),
        "E-CH-CSI": (-20.0, 0.0),
        "E-S2T-CAP": (0.0, 10.0),
        "E-S2T-QA": (0.302, 1.0),
    }
    record, draws = runs["dsp"]
    spec = small.manifest.spec("E-LOC-AOA")
    other = spec.model_copy(update={"anchors": spec.anchors.model_copy(update={"maximum": 180.0})})
    manifest = small.manifest.model_copy(update={"tasks": small.manifest.tasks | {TaskID.E_LOC_AOA: other}})
    assert manifest.data_release_hash != small.manifest.data_release_hash
    with pytest.raises(InputError, match="data_release_hash"):
        build_board(manifest, {"a": record}, {"dsp": draws})


def holdout(run):
    """A run as HOLDOUT would give it: other scores of the same model, under the same release."""
    record, draws = run
    return record.model_copy(update={"eval_split": "holdout"}), draws


def test_anchors_moved_by_holdout_scores_are_refused(small, runs, tmp_path) -> None:
    """The worst HOLDOUT score of any model as the anchor of no skill: in the manifest, by a new hash, on the board."""
    worst = max(moved(small, runs[name], 0.2, name)[0].tasks[TaskID.E_LOC_AOA].score for name in MODELS)
    spec = small.manifest.spec("E-LOC-AOA")
    assert worst != spec.anchors.maximum
    anchors = spec.anchors.model_copy(update={"maximum": worst})
    tasks = small.manifest.tasks | {TaskID.E_LOC_AOA: spec.model_copy(update={"anchors": anchors})}
    renewed = small.manifest.model_copy(update={"tasks": tasks})
    # Written into the frozen manifest, the anchor breaks its hash.
    path = small.results / "release" / "manifest.json"
    written = json.loads(path.read_text())
    written["tasks"]["E-LOC-AOA"]["anchors"]["maximum"] = worst
    (tmp_path / "manifest.json").write_text(json.dumps(written))
    with pytest.raises(InputError, match="the hash of the content"):
        load_manifest(tmp_path / "manifest.json")
    # With a hash of its own it is another release, whose board takes no run of this one.
    write_json(tmp_path / "manifest.json", manifest_record(renewed))
    loaded = load_manifest(tmp_path / "manifest.json")
    assert loaded.spec("E-LOC-AOA").anchors.maximum == worst
    with pytest.raises(InputError, match="data_release_hash"):
        board_of(SimpleNamespace(manifest=loaded), runs)


def test_a_holdout_run_among_dev_runs_is_refused(small, runs) -> None:
    """Its scores could stand beside theirs, and in the floor or the headroom that others are read against."""
    with pytest.raises(InputError, match="eval_split"):
        board_of(small, runs | {"random_conv": holdout(runs["random_conv"])})


def test_what_normalises_takes_no_scores_of_others() -> None:
    """What normalises takes specs and scores of one model, and keeps nothing between calls."""
    assert list(inspect.signature(OODAvg.__init__).parameters) == ["self", "tasks"]
    assert list(inspect.signature(OODAvg.normalised).parameters) == ["self", "task", "score"]


def test_the_average_keeps_nothing_between_calls(small, runs) -> None:
    aggregator = OODAvg(small.manifest.tasks)
    scores = {
        name: {t: {v: r.score for v, r in record.tasks[t].values.items()} for t in aggregator.tasks}
        for name, (record, _) in runs.items()
    }
    first = aggregator(scores["dsp"])
    for name in ("prior", "random_conv"):
        aggregator(scores[name])
    assert aggregator(scores["dsp"]).hex() == first.hex()


def test_anchors_in_a_model_config_are_refused(models, tmp_path) -> None:
    text = (models / "dsp.yaml").read_text()
    for extra in ("anchors: {E-LOC-AOA: {minimum: 0, maximum: 20}}", "tasks: {E-LOC-AOA: {anchors: {maximum: 20}}}"):
        (tmp_path / "dsp.yaml").write_text(f"{text}{extra}\n")
        with pytest.raises(InputError, match=r"dsp\.yaml: (anchors: unknown key|tasks)"):
            load_model_config(tmp_path / "dsp.yaml")


def test_anchors_in_a_run_are_refused(runs) -> None:
    record = json.loads(runs["dsp"][0].model_dump_json())
    with pytest.raises(InputError, match="anchors: unknown key"):
        parse(RunRecord, record | {"anchors": {"E-LOC-AOA": [0, 20]}}, "run.json")
    record["tasks"]["E-LOC-AOA"]["anchors"] = {"minimum": 0, "maximum": 20}
    with pytest.raises(InputError, match="anchors: unknown key"):
        parse(RunRecord, record, "run.json")


@pytest.mark.parametrize(("field", "value"), [("normalized", 1.0), ("score", 0.01), ("standard_error", 0.0)])
def test_a_run_that_normalised_itself_is_refused(small, runs, field: str, value: float) -> None:
    """The board shows what follows from the run's own held-out values by the release's anchors, or nothing."""
    record, draws = runs["dsp"]
    block = record.tasks[TaskID.E_LOC_AOA].model_copy(update={field: value})
    forged = record.model_copy(update={"tasks": record.tasks | {TaskID.E_LOC_AOA: block}})
    with pytest.raises(InputError, match=f"E-LOC-AOA: {field}"):
        build_board(small.manifest, {"a": forged}, {"dsp": draws})


def test_anchors_do_not_reach_the_run_before_the_average(small, runs) -> None:
    """The run hands raw means on: fold values and scores are in the metric's unit, whatever the anchors are."""
    record, _ = runs["dsp"]
    block = record.tasks[TaskID.E_LOC_AOA]
    spec = small.manifest.spec("E-LOC-AOA")
    wide = spec.model_copy(update={"anchors": spec.anchors.model_copy(update={"maximum": 180.0})})
    folds = small.evaluator.evaluate(small.model("dsp")[0], "E-LOC-AOA").folds
    scores, _ = score_task(spec, "E-LOC-AOA", predictions_of(folds), small.manifest.bootstrap, small.evaluator.seed)
    again = task_record(wide, list(board_protocols(wide).values()), scores, "unknown")
    assert again.score == block.score
    assert {v: r.score for v, r in again.values.items()} == {v: r.score for v, r in block.values.items()}
    assert again.normalized == pytest.approx(1 - block.score / 180.0)
    assert np.isclose(block.normalized, 1 - block.score / 90.0)
