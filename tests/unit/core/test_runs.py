"""From fold metrics on disk to a model's record: nothing missing, nothing mixed."""

import json

import pytest

from common.errors import InputError
from common.files import write_json
from emma.backbones.config import ModelConfig
from emma.data.protocols import board_protocols
from emma.data.provenance import Pretraining
from emma.results.aggregate import normalise_task, summarise
from emma.results.caveats import model_caveats
from emma.results.runs import collect_run, met_in_pretraining, stress_report
from emma.tasks import OODAxis, Split, TaskID
from emma.version import HARNESS_VERSION

PROVENANCE = {"name": "toy", "config_sha256": "0" * 64, "weights_sha256": None, "pretraining": "unknown"}
CONFIG = ModelConfig(name="toy", factory="a:b", pretraining="unknown", tasks=("E-LOC-LOS", "E-ID-FP"))


def metrics(world, task, protocol, value, score):
    spec = world.manifest.tasks[task]
    cell = {"score": score, "n": 5, "ci95": [score, score], "in_distribution": score, "undefined_reason": None}
    return {
        "model": "toy",
        "task": task.value,
        "protocol": protocol,
        "held_out_value": value,
        "data_release_hash": world.manifest.data_release_hash,
        "seed": 0,
        "harness_version": HARNESS_VERSION,
        "eval_split": "dev",
        "metrics": {name: dict(cell) for name in (spec.metric, *spec.secondary_metrics)},
        "hashes": {"predictions": "1" * 64, "readout": "2" * 64, "refits": "3" * 64},
        "model_provenance": PROVENANCE,
    }


@pytest.fixture
def folds(world, tmp_path):
    """Write the metrics of every fold of the board; their paths."""
    paths = []
    for task in CONFIG.tasks:
        for name, protocol in board_protocols(world.manifest.tasks[task]).items():
            for number, value in enumerate(protocol.eval_values()):
                path = tmp_path / "toy" / task.value / name / value / "metrics.json"
                write_json(path, metrics(world, task, name, value, 0.6 + 0.1 * (number % 4)))
                paths.append(path)
    return paths


def collect(world, paths):
    return collect_run(world.manifest, CONFIG, paths, seed=0, eval_split=Split.DEV)


def test_a_record_holds_every_task_protocol_and_metric(world, folds):
    run = collect(world, folds)
    assert run == collect(world, folds[::-1])
    los, units = run.tasks[TaskID.E_LOC_LOS], run.tasks[TaskID.E_ID_FP]
    assert los.score == pytest.approx(0.65)
    assert los.normalized == pytest.approx(0.3)
    assert los.standard_error == pytest.approx(0.05)
    assert list(los.secondary) == ["leave-one-band-out"]
    assert list(los.secondary["leave-one-band-out"].values) == [
        f"{e}+{b}" for e in ("E_URBAN", "E_RURAL") for b in ("2.4GHz", "5.8GHz")
    ]
    assert units.score == pytest.approx(0.75)
    assert list(units.secondary_metrics) == ["EER"]
    assert list(run.run_manifest.prediction_bundle_hashes) == ["E-LOC-LOS", "E-ID-FP"]


def edit(path, change):
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r.update(seed=1), "seed: 1, expected 0"),
        (lambda r: r.update(seed="0"), "seed: Input should be a valid integer"),
        (lambda r: r.update(model="other"), "model: other, expected toy"),
        (lambda r: r.update(held_out_value="E_RURAL"), "held_out_value: E_RURAL, expected E_URBAN"),
        (lambda r: r.update(protocol="in-distribution"), "protocol: in-distribution, expected leave-one"),
        (lambda r: r.update(task="E-ID-FP"), "task: E-ID-FP, expected E-LOC-LOS"),
        (lambda r: r.update(data_release_hash="0" * 64), "data_release_hash: "),
        (lambda r: r.update(harness_version="9"), "harness_version: 9, expected"),
        (lambda r: r.update(eval_split="holdout"), "eval_split: holdout, expected dev"),
        (lambda r: r.pop("eval_split"), "eval_split: Field required"),
        (lambda r: r.update(more=1), "more: unknown key"),
        (lambda r: r.pop("hashes"), "hashes: Field required"),
        (lambda r: r.pop("metrics"), "metrics: Field required"),
        (lambda r: r.pop("model_provenance"), "model_provenance: Field required"),
        (lambda r: r["metrics"].clear(), "metrics: no BalancedAccuracy"),
        (lambda r: r["metrics"]["BalancedAccuracy"].pop("n"), "metrics.BalancedAccuracy.n: Field required"),
        (lambda r: r["metrics"]["BalancedAccuracy"].update(n=-1), "metrics.BalancedAccuracy.n: "),
        (lambda r: r["metrics"]["BalancedAccuracy"].update(score="0.9"), "metrics.BalancedAccuracy.score: "),
        (lambda r: r["metrics"]["BalancedAccuracy"].update(score=float("nan")), "NaN is not JSON"),
    ],
)
def test_metrics_that_are_not_this_folds_are_refused(world, folds, change, message):
    edit(folds[0], change)
    with pytest.raises(InputError) as caught:
        collect(world, folds)
    assert message in str(caught.value)


def test_folds_of_two_models_are_refused(world, folds):
    edit(folds[3], lambda record: record["model_provenance"].update(config_sha256="1" * 64))
    with pytest.raises(InputError, match="model_provenance: differs between folds"):
        collect(world, folds)


def test_every_fold_must_be_there(world, folds):
    for missing in folds:
        with pytest.raises(InputError, match="no metrics, expected every fold"):
            collect(world, [path for path in folds if path != missing])
    folds[1].unlink()
    with pytest.raises(InputError, match="no such file"):
        collect(world, folds)


def test_an_undefined_fold_leaves_the_task_without_a_score(world, folds):
    cell = {"score": None, "ci95": None, "undefined_reason": "one class"}
    edit(folds[0], lambda record: record["metrics"]["BalancedAccuracy"].update(cell))
    block = collect(world, folds).tasks[TaskID.E_LOC_LOS]
    assert (block.score, block.normalized, block.standard_error) == (None, None, None)
    assert block.undefined == "the fold of E_URBAN is undefined"
    assert block.values["E_URBAN"].undefined_reason == "one class"
    assert block.values["E_RURAL"].score is not None


def test_what_pretraining_met_is_marked():
    urban = {OODAxis.ENVIRONMENT: "E_URBAN"}
    assert met_in_pretraining("unknown", urban) == "unknown"
    assert met_in_pretraining(Pretraining(), urban) is False
    declared = Pretraining(environments=("E_URBAN",), frequency_bands=("5.8GHz",))
    assert met_in_pretraining(declared, urban) is True
    assert met_in_pretraining(declared, {OODAxis.DEVICE: "E_URBAN"}) is False
    marks = [
        met_in_pretraining(declared, {OODAxis.ENVIRONMENT: environment, OODAxis.FREQUENCY_BAND: band})
        for environment, band in (("E_URBAN", "2.4GHz"), ("E_RURAL", "5.8GHz"), ("E_RURAL", "2.4GHz"))
    ]
    assert marks == [True, True, False]
    assert met_in_pretraining(Pretraining(release_splits=("TRAIN",)), {OODAxis.DEVICE: "U01"}) is True
    for axis, field in ((OODAxis.WAVEFORM, "waveforms"), (OODAxis.RECEIVER, "receivers")):
        assert met_in_pretraining(Pretraining(**{field: ("one",)}), {axis: "one"}) is True
        assert met_in_pretraining(Pretraining(**{field: ("one",)}), {axis: "two"}) is False


def test_the_stress_report_is_apart_from_the_average(world, tmp_path):
    paths = []
    for value in ("mid", "high"):
        path = tmp_path / "toy" / "E-LOC-LOS" / "leave-one-snr-regime-out" / value / "metrics.json"
        write_json(path, metrics(world, TaskID.E_LOC_LOS, "leave-one-snr-regime-out", value, 0.7))
        paths.append(path)
    report = stress_report(world.manifest, paths)
    block = report.models["toy"][TaskID.E_LOC_LOS]
    assert block.score == pytest.approx(0.7)
    assert "normalized" not in block.model_dump()
    assert any("never part of the OOD average" in caveat for caveat in report.caveats)
    with pytest.raises(InputError, match="E-LOC-LOS leave-one-snr-regime-out high: no metrics"):
        stress_report(world.manifest, paths[:1])


def test_a_summary_is_the_mean_and_says_when_it_was_clipped(world):
    spec = world.manifest.tasks[TaskID.E_LOC_AOA]
    summary = summarise({"a": 100.0, "b": 110.0})
    assert (summary.score, *normalise_task(spec, summary.score)) == (105.0, 0.0, True)
    summary = summarise({"a": 9.0, "b": 27.0})
    assert normalise_task(spec, summary.score) == (pytest.approx(0.8), False)
    assert normalise_task(spec, summarise({"a": 9.0, "b": None}).score) == (None, None)


def named(run, name, pretraining="unknown", **changes):
    manifest = run.run_manifest
    provenance = manifest.model_provenance.model_copy(update={"name": name, "pretraining": pretraining})
    changes.setdefault("run_manifest", manifest.model_copy(update={"model_provenance": provenance}))
    return run.model_copy(update={"model": name} | changes)


def test_a_declaration_that_meets_nothing_is_said(world, folds):
    run = collect(world, folds)
    unmet = {task: block.model_copy(update={"values": not_met(block)}) for task, block in run.tasks.items()}
    elsewhere = Pretraining(environments=("E_PRETRAIN_CDL",))
    typo = named(run, "typo", elsewhere, tasks=unmet | {TaskID.E_LOC_LOS: without_secondary(unmet[TaskID.E_LOC_LOS])})
    met = named(run, "met", Pretraining(environments=("E_URBAN",)))
    silent, unknown = named(typo, "silent", Pretraining()), named(typo, "unknown", "unknown")
    reference = named(typo, "reference", elsewhere, kind="reference")
    told = [line for line in model_caveats(world.manifest, [met, silent, unknown, reference]) if "pretraining" in line]
    assert told == []
    lines = model_caveats(world.manifest, [typo, met])
    assert "No held-out value of this release is among what typo declared of pretraining." in lines


def not_met(block):
    return {value: fold.model_copy(update={"met_in_pretraining": False}) for value, fold in block.values.items()}


def without_secondary(block):
    return block.model_copy(update={"secondary": {}})


def test_equal_predictions_under_several_names_are_said_once(world, folds):
    run = collect(world, folds)
    hashes = dict.fromkeys(run.run_manifest.prediction_bundle_hashes, "4" * 64)
    other = named(run, "other", run_manifest=run.run_manifest.model_copy(update={"prediction_bundle_hashes": hashes}))
    one_task = {TaskID.E_LOC_LOS: run.run_manifest.prediction_bundle_hashes[TaskID.E_LOC_LOS]}
    part = named(run, "part", run_manifest=run.run_manifest.model_copy(update={"prediction_bundle_hashes": one_task}))
    reference = named(run, "reference", kind="reference")
    lines = model_caveats(world.manifest, [named(run, "a"), other, named(run, "b"), part, reference])
    told = [line for line in lines if "same predictions" in line]
    assert [line.partition(" have")[0] for line in told] == ["a, b, part and reference"]


def test_scores_of_another_device_are_marked(world, folds):
    run = collect(world, folds)
    manifest = run.run_manifest
    provenance = manifest.model_provenance.model_copy(update={"device": "cuda"})
    gpu = run.model_copy(
        update={"model": "gpu", "run_manifest": manifest.model_copy(update={"model_provenance": provenance})}
    )
    told = "Embeddings of gpu (cuda) were made on another device than a CPU, which gives scores near these."
    assert told in model_caveats(world.manifest, [run, gpu])
    assert not [line for line in model_caveats(world.manifest, [run]) if "device" in line]
