"""Every run carries the auditable triple, which model, which data, which scored outputs; none of it may be missing."""

import json

import numpy as np
import pytest
from pydantic import ValidationError

from common.errors import InputError
from common.hashing import content_hash, table_hash
from emma import EvalRun, Evaluator, RunManifest, TaskID
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.evaluation.fitting import predictions_hash
from emma.results.leaderboard import build_board
from emma.results.manifest import bundle_hash
from emma.version import HARNESS_VERSION

TASKS = tuple(task.value for task in TaskID)
FIELDS = tuple(RunManifest.model_fields)


class Stub:
    """Two numbers of a scene; enough for every readout to fit."""

    name = "stub"
    embedding_dim = 2

    def embed(self, iq, sample_rate_hz, center_frequency_hz) -> np.ndarray:
        steps = (iq[..., 1:] * iq[..., :-1].conj()).mean(axis=(1, 2))
        return np.stack([steps.real, steps.imag], axis=1).astype(np.float32)


@pytest.fixture(scope="module")
def runs(small) -> dict[str, EvalRun]:
    evaluator = Evaluator("small", results=small.results, seed=5)
    return {task: evaluator.evaluate(Stub(), task) for task in TASKS}


@pytest.mark.parametrize("task", TASKS)
def test_the_manifest_is_there_and_full(small, runs, task: str) -> None:
    run = runs[task]
    manifest = run.run_manifest
    assert isinstance(manifest, RunManifest)
    assert manifest.model_provenance.name == "stub"
    assert manifest.model_provenance.pretraining == "unknown"
    assert manifest.data_release_hash == small.manifest.data_release_hash
    written = json.loads((small.results / "release" / "manifest.json").read_text())
    assert manifest.data_release_hash == written["data_release_hash"]
    assert set(manifest.prediction_bundle_hashes) == {TaskID(task)} == set(manifest.task_metrics)
    block = run.record.tasks[TaskID(task)]
    assert manifest.task_metrics[TaskID(task)][block.metric] == run.score == block.score
    assert manifest.seed == 5
    assert manifest.harness_version == HARNESS_VERSION
    # What is written can be read back, and is the same.
    assert RunManifest.model_validate_json(manifest.model_dump_json()) == manifest


@pytest.mark.parametrize("task", TASKS)
def test_the_hash_pins_the_scored_outputs(runs, task: str) -> None:
    run = runs[task]
    hashes = {p: {v: predictions_hash(f.predictions) for v, f in folds.items()} for p, folds in run.folds.items()}
    assert run.run_manifest.prediction_bundle_hashes[TaskID(task)] == bundle_hash(hashes)
    for protocol, folds in hashes.items():
        for value in folds:
            moved = hashes | {protocol: hashes[protocol] | {value: "0" * 64}}
            assert bundle_hash(moved) != run.run_manifest.prediction_bundle_hashes[TaskID(task)]


def test_one_score_in_its_last_bit_changes_the_hash(runs) -> None:
    import pyarrow as pa

    predictions = runs["E-LOC-LOS"].folds["leave-one-environment-out"]["E_URBAN"].predictions
    scores = predictions["scores"].to_pylist()
    scores[7] = [np.nextafter(scores[7][0], 1e9)]
    place = predictions.schema.get_field_index("scores")
    column = pa.array(scores, predictions.schema.field(place).type)
    assert table_hash(predictions.set_column(place, predictions.schema.field(place), column)) != table_hash(predictions)


@pytest.mark.parametrize("field", FIELDS)
def test_a_missing_field_fails(runs, field: str) -> None:
    record = runs["E-LOC-LOS"].run_manifest.model_dump(mode="json")
    del record[field]
    with pytest.raises(ValidationError, match=field):
        RunManifest.model_validate(record)


@pytest.mark.parametrize(
    ("field", "empty"),
    [
        ("model_provenance", {}),
        ("model_provenance", {"name": "stub"}),
        ("data_release_hash", ""),
        ("prediction_bundle_hashes", {}),
        ("prediction_bundle_hashes", {"E-LOC-LOS": ""}),
        ("prediction_bundle_hashes", {"E-LOC-AOA": "0" * 64}),
        ("task_metrics", {}),
        ("task_metrics", {"E-LOC-LOS": {}}),
        ("seed", None),
        ("seed", -1),
        ("harness_version", ""),
    ],
)
def test_an_empty_field_fails(runs, field: str, empty) -> None:
    record = runs["E-LOC-LOS"].run_manifest.model_dump(mode="json")
    with pytest.raises(ValidationError):
        RunManifest.model_validate(record | {field: empty})


def test_no_task_at_all_fails(runs) -> None:
    record = runs["E-LOC-LOS"].run_manifest.model_dump(mode="json")
    with pytest.raises(ValidationError, match="at least one entry"):
        RunManifest.model_validate(record | {"prediction_bundle_hashes": {}, "task_metrics": {}})


def test_unknown_fields_are_refused(runs) -> None:
    record = runs["E-LOC-LOS"].run_manifest.model_dump(mode="json")
    with pytest.raises(ValidationError, match="host"):
        RunManifest.model_validate(record | {"host": "here"})


def test_provenance_names_the_config_and_the_weights(models, tmp_path) -> None:
    from safetensors.numpy import save_file

    from common.hashing import sha256

    config = load_model_config(models / "dsp.yaml")
    _, provenance = load_backbone(config)
    told = {"description", "link", "expects"}  # what only describes a model moves no hash
    assert provenance.config_sha256 == content_hash(config.model_dump(mode="json", exclude_defaults=True, exclude=told))
    assert provenance.weights_sha256 is None
    from emma.backbones.conv import seeded_encoder

    weights = {f"1.{name}": value.numpy() for name, value in seeded_encoder(1, 0).state_dict().items()}
    save_file(weights, tmp_path / "w.safetensors")
    trained = load_model_config(models / "ssl_conv.yaml")
    _, provenance = load_backbone(trained, trained=tmp_path / "w.safetensors")
    assert provenance.weights_sha256 == sha256((tmp_path / "w.safetensors").read_bytes())


def test_the_board_refuses_runs_of_another_release_seed_or_harness(small) -> None:
    record, replicates = small.run("prior")
    other, _ = small.run("dsp")
    assert build_board(small.manifest, {"a": record, "b": other}, {"prior": replicates, "dsp": small.run("dsp")[1]})
    changes = {"data_release_hash": "0" * 64, "seed": 9, "harness_version": "9"}
    for field, value in changes.items():
        manifest = other.run_manifest.model_copy(update={field: value})
        with pytest.raises(InputError, match=field):
            build_board(small.manifest, {"a": record, "b": other.model_copy(update={"run_manifest": manifest})}, {})
