"""What only --deep can see: a sample or a readout that was forged before everything above it was made again."""

from dataclasses import replace

import emma_miniature as miniature
import numpy as np
import pytest

from common.columns import matrix_to_lists
from emma.audit.verify import Results, verify
from emma.audit.verify.deep import Refitted, Regenerated
from emma.audit.verify.draws import Draw
from emma.audit.verify.embedded import Reembedded
from emma.audit.verify.samples import Samples
from emma.captures.adapters import REAL_SPLIT
from emma.data.embeddings import Embeddings
from emma.data.labels import AZIMUTH, read_labels
from emma.data.provenance import Provenance
from emma.data.reference import Reference
from emma.data.scenes import SceneChunk, iterate_scenes
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.readouts import load_readout
from emma.tasks import Split, TaskID

AOA, DEV = TaskID.E_LOC_AOA, Split.DEV
#: Tasks whose readout is one matrix of weights.
LINEAR = ("E-LOC-AOA", "E-LOC-LOS")


def faults(outcomes):
    return [fault for outcome in outcomes for fault in outcome.faults]


@pytest.fixture
def recipe(pristine):
    """Stands for the generator: the untouched scenes of one split, as a chunk made again."""
    path = pristine / "results/scenes/E-LOC-AOA/DEV.parquet"
    index, iq = next(iterate_scenes(path))
    metadata = index.drop_columns(["scene_id", "iq_sha256"]).to_pydict()
    labels = read_labels(path.with_name("DEV.labels.parquet"), AZIMUTH).drop_columns(["scene_id"]).to_pydict()
    return lambda results: iter([(AOA, DEV, 0, SceneChunk(iq, metadata, labels))])


def test_untouched_results_pass(pristine, recipe):
    results = Results(pristine / "results", pristine)
    outcomes = verify(results, [Regenerated(recipe), Refitted(Draw(0), share=1)])
    assert faults(outcomes) == []
    assert outcomes[0].note == "1 chunks bit for bit"
    assert outcomes[1].checked == len(list(results.model_folds())) == 114


def test_a_forged_sample_under_new_hashes_is_seen_by_the_recipe_alone(tmp_path, monkeypatch, recipe):
    plain = miniature.write_scenes

    def forged(path, index, chunks, label):
        (chunk,) = chunks
        if path.parts[-2:] == ("E-LOC-AOA", "DEV.parquet"):
            chunk = chunk._replace(iq=chunk.iq.copy())
            chunk.iq[5, 0, 3] += np.float32(0.01)
        plain(path, index, [chunk], label)

    monkeypatch.setattr(miniature, "write_scenes", forged)
    results = Results(miniature.build(tmp_path), tmp_path)
    assert faults(verify(results)) == []
    (fault,) = faults(verify(results, [Regenerated(recipe)]))
    assert "scenes/E-LOC-AOA/DEV.parquet: scene 5: differs by" in fault


@pytest.mark.parametrize("kind", ["labels", "index"])
def test_a_forged_label_or_column_under_new_hashes_is_seen_by_the_recipe_alone(tmp_path, monkeypatch, recipe, kind):
    plain = miniature.write_scenes

    def forged(path, index, chunks, label):
        (chunk,) = chunks
        if path.parts[-2:] == ("E-LOC-AOA", "DEV.parquet") and kind == "labels":
            chunk.labels["azimuth_deg"][5] += 1.0
        if path.parts[-2:] == ("E-LOC-AOA", "DEV.parquet") and kind == "index":
            chunk.metadata["snr_db"][5] += 1.0
        plain(path, index, [chunk], label)

    monkeypatch.setattr(miniature, "write_scenes", forged)
    results = Results(miniature.build(tmp_path), tmp_path)
    assert faults(verify(results)) == []
    (fault,) = faults(verify(results, [Regenerated(recipe)]))
    column = {"labels": "azimuth_deg", "index": "snr_db"}[kind]
    assert f"scenes/E-LOC-AOA/DEV.{kind}.parquet: {column}: scene 5: " in fault


def test_a_forged_sample_is_seen_without_the_samples_too(tmp_path, monkeypatch, recipe):
    test_a_forged_sample_under_new_hashes_is_seen_by_the_recipe_alone(tmp_path, monkeypatch, recipe)
    (tmp_path / "results/scenes/E-LOC-AOA/DEV.parquet").unlink()
    (fault,) = faults(verify(Results(tmp_path / "results", tmp_path), [Regenerated(recipe)]))
    assert "scenes from 0 on: other samples than the recipe gives" in fault


def test_a_forged_readout_under_new_hashes_is_seen_by_the_fit_alone(tmp_path, monkeypatch):
    plain = miniature.fit_fold

    def forged(spec, protocol, fold, assigned, embeddings):
        fitted = plain(spec, protocol, fold, assigned, embeddings)
        chosen = protocol.name == "leave-one-environment-out" and fold.held_out_value == "E_URBAN"
        if not chosen or embeddings.provenance.name != "many" or spec.target not in {"angle", "binary"}:
            return fitted
        tensors = fitted.tensors | {"weights": fitted.tensors["weights"] * 1.5}
        scores = load_readout(spec, tensors).scores(embeddings.of(fitted.predictions["scene_id"]))
        place = PREDICTION_SCHEMA.get_field_index("scores")
        field = PREDICTION_SCHEMA.field(place)
        predictions = fitted.predictions.set_column(place, field, matrix_to_lists(scores))
        return replace(fitted, tensors=tensors, predictions=predictions)

    monkeypatch.setattr(miniature, "fit_fold", forged)
    results = Results(miniature.build(tmp_path), tmp_path)
    assert faults(verify(results)) == []
    found = faults(verify(results, [Refitted(Draw(0), share=1)]))
    place = "leave-one-environment-out/E_URBAN/predictions.parquet: scores: differ by"
    assert [f"folds/many/{task}/{place}" in fault for task, fault in zip(LINEAR, found, strict=True)] == [True, True]


@pytest.mark.parametrize(
    ("change", "device", "seen"),
    [(5e-4, "cpu", False), (5e-3, "cpu", True), (5e-3, "cuda", False), (5e-2, "cuda", True)],
)
def test_embeddings_of_a_gpu_are_compared_within_a_tolerance_of_their_own(pristine, monkeypatch, change, device, seen):
    results = Results(pristine / "results", pristine, pristine)

    class OnDevice:
        """Gives the rows of the results again, moved by a share of the largest."""

        def __init__(self, config, contract, **kwargs):
            self.provenance = Provenance.of(config.name, config, "unknown").model_copy(update={"device": device})

        def __enter__(self):
            return self

        def __exit__(self, *raised):
            pass

        def __call__(self, iq, index, contract):
            model, captured = self.provenance.name, index["split"][0].as_py() == REAL_SPLIT
            place = results.layout.capture_embeddings("mini_los", model)
            path = place if captured else results.layout.embeddings(model, index["task"][0].as_py())
            rows = Embeddings.read(path).of(index["scene_id"])
            return rows + np.float32(change * np.abs(rows).max()) if rows.size else rows

    monkeypatch.setattr("emma.audit.verify.embedded.ApartBackbone", OnDevice)
    (outcome,) = verify(results, [Reembedded(Samples(Draw(0)))])
    assert outcome.checked > 0
    assert any("differs by" in fault for fault in outcome.faults) == seen
    assert all("differs by" in fault for fault in outcome.faults)


def test_another_reference_symbol_than_the_recipes_is_seen(pristine, recipe):
    """What a receiver knows of the symbol is in no hash: the recipe alone tells."""
    symbol = Reference(size=4, prefix=1, carriers=(1,), values=((1.0, 0.0),))

    def with_symbol(results):
        return ((*place, chunk._replace(reference=symbol)) for *place, chunk in recipe(results))

    (fault,) = faults(verify(Results(pristine / "results", pristine), [Regenerated(with_symbol)]))
    assert fault.endswith("scenes/E-LOC-AOA/DEV.parquet: reference: another symbol than the recipe gives")
