"""A fold's fit and prediction: nothing is fit before every guard has passed, and files say what made them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from common.errors import InputError
from emma.backbones.dense import task_contract
from emma.backbones.embed import write_embeddings
from emma.backbones.inputs import Contract
from emma.data.draws import link_groups
from emma.data.embeddings import Embeddings
from emma.data.folds import Fold, SplitNotAvailable, row_keys, typed, write_side
from emma.data.protocols import LeaveOneBandOut, board_protocols, primary_protocol, reference_name
from emma.data.provenance import Provenance
from emma.data.release import load_release_config
from emma.evaluation.fitting import (
    PREDICTION_SCHEMA,
    check_complete,
    fit_fold,
    predictions_hash,
    read_fitted,
    write_fitted,
)
from emma.evaluation.prediction import enrol, query_scores
from emma.evaluation.refits import FIFTHS, REFIT_TURNS, fifths
from emma.readouts import Readout, load_readout, make_readout
from emma.tasks import Split, TaskID, target_of

#: The tasks of release tiny, as in ``world``.
TASKS = tuple(load_release_config(Path(__file__).parents[3] / "config/releases/tiny.yaml").tasks)

HASH = "a" * 64
PROVENANCE = Provenance(name="toy", config_sha256="0" * 64, weights_sha256=None, pretraining="unknown")


@pytest.fixture(scope="module")
def embeddings(world, toy, tmp_path_factory):
    found = {}
    for task in TASKS:
        path = tmp_path_factory.mktemp("embeddings") / "e.parquet"
        scenes = world.scenes(task)
        contract = task_contract(Contract(batch_size=16), world.manifest.tasks[task])
        write_embeddings(path, toy, scenes, contract=contract, provenance=PROVENANCE)
        found[task] = Embeddings.read(path)
    return found


@pytest.fixture
def fitted(world, embeddings):
    def of(task, value=None):
        spec = world.manifest.tasks[task]
        protocol = primary_protocol(spec)
        indexes = world.indexes(task)
        fold = protocol.fold(value or protocol.eval_values()[0], *indexes, 0)
        return spec, fold, fit_fold(spec, protocol, fold, indexes, embeddings[task])

    return of


@pytest.mark.parametrize("task", TASKS)
def test_predictions_are_those_of_the_scored_scenes_and_come_from_the_readout(fitted, embeddings, task):
    spec, fold, result = fitted(task)
    queries = fold.queries
    for name in ("scene_id", "target", "session", "turn"):
        assert result.predictions[name].to_pylist() == queries[name].to_pylist()
    readout = load_readout(spec, result.tensors)
    again = query_scores(readout, embeddings[task], result.predictions)
    kind = readout.target
    assert kind.stored(again).equals(result.predictions["scores"].combine_chunks())
    turns = [turn or 0 for turn in queries["turn"].to_pylist()]
    given = kind.given(kind.numbers(queries["target"]))
    by_scene = readout.turn_scores(embeddings[task].of(queries["scene_id"]), given)
    assert kind.distance(by_scene[turns, np.arange(len(turns))], again) <= 1e-12


def test_every_session_enrols_in_turn_and_its_own_captures_are_not_queried_then(world, embeddings, fitted):
    spec, fold, result = fitted(TaskID.E_ID_FP)
    _, evaluation = world.indexes(TaskID.E_ID_FP)
    rows = {row["scene_id"]: row for row in evaluation.to_pylist()}
    sessions = sorted({row["session"] for row in rows.values()})
    asked = list(zip(*(result.predictions[name].to_pylist() for name in ("scene_id", "turn")), strict=True))
    own = [scene for scene, row in rows.items() if row["device"] == fold.held_out_value]
    assert asked == sorted(
        (scene, turn) for scene in own for turn, session in enumerate(sessions) if rows[scene]["session"] != session
    )
    # By hand: the cosine to the mean of each unit's captures of the turn's session.
    readout = load_readout(spec, result.tensors)
    project = lambda scenes: (  # noqa: E731
        readout._standardised(embeddings[TaskID.E_ID_FP].of(pa.chunked_array([pa.array(scenes)])))
        @ readout.tensors["projection"]
    )
    for scene, turn, scores in zip(*zip(*asked, strict=True), result.predictions["scores"].to_pylist(), strict=True):
        query = project([scene])[0]
        for unit, score in zip(spec.classes, scores, strict=True):
            enrolled = [s for s, row in rows.items() if (row["device"], row["session"]) == (unit, sessions[turn])]
            centroid = project(enrolled).mean(axis=0)
            cosine = query @ centroid / np.linalg.norm(query) / np.linalg.norm(centroid)
            assert score == pytest.approx(cosine, abs=1e-9)


def test_a_fit_does_not_depend_on_the_rows_of_the_embeddings(world, embeddings, fitted):
    task = TaskID.E_ID_FP
    spec, fold, result = fitted(task)
    order = np.random.default_rng(0).permutation(len(embeddings[task].values))
    turned = Embeddings(embeddings[task].ids.take(order), embeddings[task].values[order], PROVENANCE, "turned")
    again = fit_fold(spec, primary_protocol(spec), fold, world.indexes(task), turned)
    assert again.predictions_hash == result.predictions_hash


def test_nothing_is_fit_before_the_guards(world, embeddings, fitted, monkeypatch):
    spec, fold, _ = fitted(TaskID.E_LOC_LOS)
    monkeypatch.setattr(Readout, "fit", lambda *_: pytest.fail("a readout was fit"))
    protocol, indexes = primary_protocol(spec), world.indexes(TaskID.E_LOC_LOS)
    swapped = Fold(fold.protocol, fold.held_out_value, fold.eval, fold.train)
    with pytest.raises(SplitNotAvailable):
        fit_fold(spec, protocol, swapped, indexes, embeddings[TaskID.E_LOC_LOS])
    other = spec.model_copy(update={"metric": "PlainAccuracy"})
    with pytest.raises(InputError, match="made for another TaskSpec"):
        fit_fold(other, protocol, fold, indexes, embeddings[TaskID.E_LOC_LOS])
    with pytest.raises(SplitNotAvailable):
        fit_fold(spec, LeaveOneBandOut(spec), Fold("x", "E_URBAN+2.4GHz", fold.train, fold.eval), indexes, None)


def test_a_wide_embedding_and_a_missing_scene_are_refused(world, embeddings, fitted):
    task = TaskID.E_LOC_LOS
    spec, fold, _ = fitted(task)
    protocol, indexes = primary_protocol(spec), world.indexes(task)
    wide = Embeddings(embeddings[task].ids, np.zeros((192, 2049), np.float32), PROVENANCE, "wide")
    with pytest.raises(InputError, match="embedding_dim: 2049 is wider than the pinned 2048"):
        fit_fold(spec, protocol, fold, indexes, wide)
    short = Embeddings(embeddings[task].ids.slice(1), embeddings[task].values[1:], PROVENANCE, "short")
    with pytest.raises(InputError, match=r"short: scene_id: .* is missing"):
        for value in protocol.eval_values():
            fit_fold(spec, protocol, protocol.fold(value, *indexes, 0), indexes, short)


def test_an_undefined_fold_is_written_and_read_with_its_reason(world, embeddings, tmp_path):
    task = TaskID.E_LOC_LOS
    spec = world.manifest.tasks[task]
    train, evaluation = world.indexes(task)
    train = train.filter(pc.equal(train["class"], "LOS"))
    protocol = primary_protocol(spec)
    fold = protocol.fold("E_URBAN", train, evaluation, 0)
    result = fit_fold(spec, protocol, fold, (train, evaluation), embeddings[task])
    assert result.predictions.num_rows == 0
    assert len(result.predictions_hash) == 64
    write_fitted(tmp_path / "readout.safetensors", tmp_path / "predictions.parquet", result, HASH, PROVENANCE)
    read = read_fitted(tmp_path / "predictions.parquet", HASH, 0)
    assert read.predictions.num_rows == 0
    assert read.undefined_reason == "leave-one-environment-out E_URBAN: class NLOS has no fit scene"


@pytest.mark.parametrize("task", TASKS)
def test_the_hash_in_memory_is_the_hash_from_the_file(fitted, tmp_path, task):
    *_, result = fitted(task)
    path = tmp_path / "predictions.parquet"
    write_fitted(tmp_path / "readout.safetensors", path, result, HASH, PROVENANCE)
    read = read_fitted(path, HASH, 0)
    assert read.hashes.predictions == result.predictions_hash == predictions_hash(read.predictions)
    turned = read.predictions.take(list(range(read.predictions.num_rows))[::-1])
    assert predictions_hash(turned) == result.predictions_hash
    assert read.provenance == PROVENANCE
    assert read.undefined_reason is None
    first = (tmp_path / "readout.safetensors").read_bytes(), path.read_bytes()
    write_fitted(tmp_path / "readout.safetensors", path, result, HASH, PROVENANCE)
    assert ((tmp_path / "readout.safetensors").read_bytes(), path.read_bytes()) == first


def test_readout_and_predictions_are_written_both_or_neither(fitted, tmp_path):
    *_, result = fitted(TaskID.E_LOC_AOA)
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write_fitted(tmp_path / "readout.safetensors", tmp_path / "file" / "p.parquet", result, HASH, PROVENANCE)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_files_that_cannot_be_trusted_are_refused(fitted, tmp_path):
    *_, result = fitted(TaskID.E_LOC_LOS)
    readout, path = tmp_path / "readout.safetensors", tmp_path / "predictions.parquet"
    write_fitted(readout, path, result, HASH, PROVENANCE)
    with pytest.raises(InputError, match=f"data_release_hash: expected {'b' * 64}"):
        read_fitted(path, "b" * 64, 0)
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"data_release_hash": HASH, "eval_split": "DEV"}), path)
    with pytest.raises(InputError, match="model_provenance: expected"):
        read_fitted(path, HASH, 0)
    doubled = replace(result, predictions=pa.concat_tables([result.predictions, result.predictions.slice(0, 1)]))
    write_fitted(readout, path, doubled, HASH, PROVENANCE)
    with pytest.raises(InputError, match="occurs twice"):
        read_fitted(path, HASH, 0)
    write_fitted(readout, path, result, HASH, PROVENANCE)
    readout.unlink()
    with pytest.raises(InputError, match=r"readout\.safetensors: no such file"):
        read_fitted(path, HASH, 0)
    metadata = {"data_release_hash": HASH} | PROVENANCE.metadata
    other = table.drop_columns(["session"]).replace_schema_metadata(metadata)
    pq.write_table(other, path)
    with pytest.raises(InputError, match="session: column missing"):
        read_fitted(path, HASH, 0)


def test_in_distribution_scores_the_same_scenes(world, embeddings):
    for task in TASKS:
        spec = world.manifest.tasks[task]
        indexes = world.indexes(task)
        scored = {}
        for name, protocol in board_protocols(spec).items():
            folds = [protocol.fold(value, *indexes, 0) for value in protocol.eval_values()]
            results = [fit_fold(spec, protocol, fold, indexes, embeddings[task]) for fold in folds]
            scored[name] = {scene for result in results for scene in result.predictions["scene_id"].to_pylist()}
        for name, scenes in scored.items():
            assert scenes == scored[reference_name(spec, name)]
        assert {name for name in scored if name.startswith("in-distribution")} == {
            reference_name(spec, name) for name in scored
        }


def test_predictions_keep_their_schema(fitted):
    for task in TASKS:
        spec, _, result = fitted(task)
        assert result.predictions.schema.equals(typed(PREDICTION_SCHEMA, target_of(spec)))


def test_predictions_say_their_split_and_the_seed_of_their_draw(fitted, tmp_path):
    readout, path = tmp_path / "readout.safetensors", tmp_path / "predictions.parquet"
    for task in (TaskID.E_LOC_AOA, TaskID.E_ID_FP):
        *_, result = fitted(task)
        write_fitted(readout, path, result, HASH, PROVENANCE)
        assert read_fitted(path, HASH, 1).eval_split == "dev"
    write_fitted(readout, path, replace(result, draw_seed=0), HASH, PROVENANCE)
    with pytest.raises(InputError, match="draw_seed: 0, expected 1, that of the run"):
        read_fitted(path, HASH, 1)
    write_fitted(readout, path, replace(result, eval_split=None), HASH, PROVENANCE)
    with pytest.raises(InputError, match="eval_split: expected DEV or HOLDOUT"):
        read_fitted(path, HASH, 0)


@pytest.mark.parametrize("task", [TaskID.E_LOC_AOA, TaskID.E_ID_FP])
def test_predictions_of_fewer_or_other_scenes_than_the_fold_asks_for_are_refused(fitted, tmp_path, task):
    _, fold, result = fitted(task)
    side, path = tmp_path / "eval.parquet", tmp_path / fold.protocol / fold.held_out_value / "predictions.parquet"
    write_side(side, fold, "eval", HASH)
    write_fitted(path.with_name("readout.safetensors"), path, result, HASH, PROVENANCE)
    whole = read_fitted(path, HASH, 0).predictions
    check_complete(path, whole, side, fold.protocol, fold.held_out_value)
    first, last = row_keys(whole)[0].as_py(), row_keys(whole)[-1].as_py()
    moved = pa.array([whole["target"][0].as_py() + 1, *whole["target"].to_pylist()[1:]], pa.float64())
    renamed = pa.array(["f" * 63 + "!", *whole["scene_id"].to_pylist()], pa.string())
    n = whole.num_rows
    broken = {
        f"scene_id: {first} is missing, expected the {n} queries": whole.slice(1),
        f"scene_id: {last} is missing": whole.slice(0, n - 1),
        "scene_id: rows out of order": whole.take(list(range(n))[::-1]),
        "! .*is foreign": pa.concat_tables([whole.slice(0, 1), whole]).set_column(0, whole.schema.field(0), renamed),
        "target: differs": whole.set_column(2, whole.schema.field("target"), moved),
        "session: differs": whole.set_column(1, whole.schema.field("session"), pa.array(["x"] * n)),
        "undefined_reason: none, expected None": whole.replace_schema_metadata(
            {**whole.schema.metadata, b"undefined_reason": b"none"}
        ),
        "eval_split: HOLDOUT, expected DEV": whole.replace_schema_metadata(
            {**whole.schema.metadata, b"eval_split": b"HOLDOUT"}
        ),
    }
    for said, table in broken.items():
        with pytest.raises(InputError, match=rf"^{path}: .*{said}"):
            check_complete(path, table, side, fold.protocol, fold.held_out_value)
    write_side(tmp_path / "foreign.parquet", fold, "eval", "b" * 64)
    with pytest.raises(SplitNotAvailable, match=f"foreign.parquet: data_release_hash: expected {HASH}"):
        check_complete(path, whole, tmp_path / "foreign.parquet", fold.protocol, fold.held_out_value)
    with pytest.raises(SplitNotAvailable, match="expected other"):
        check_complete(path, whole, side, "other", fold.held_out_value)


def test_an_undefined_fold_is_complete_without_predictions(fitted, tmp_path):
    _, fold, result = fitted(TaskID.E_LOC_AOA)
    why = "too few"
    side, path = tmp_path / "eval.parquet", tmp_path / fold.protocol / fold.held_out_value / "predictions.parquet"
    write_side(side, replace(fold, undefined_reason=why), "eval", HASH)
    empty = replace(result, predictions=PREDICTION_SCHEMA.empty_table(), undefined_reason=why)
    write_fitted(path.with_name("readout.safetensors"), path, empty, HASH, PROVENANCE)
    check_complete(path, read_fitted(path, HASH, 0).predictions, side, fold.protocol, fold.held_out_value)
    write_fitted(path.with_name("readout.safetensors"), path, replace(result, undefined_reason=why), HASH, PROVENANCE)
    with pytest.raises(InputError, match="is foreign, expected the 0 queries"):
        check_complete(path, read_fitted(path, HASH, 0).predictions, side, fold.protocol, fold.held_out_value)


# Refits


@pytest.mark.parametrize("task", TASKS)
def test_fifths_are_whole_links_alike_in_size_and_the_same_in_every_fold(world, task):
    spec, index = world.manifest.tasks[task], world.index(task, Split.TRAIN)
    parts, links = fifths(spec, index), link_groups(index)
    assert all(len(set(parts[links == link].tolist())) == 1 for link in set(links.tolist()))
    sizes = np.bincount(parts)
    assert len(sizes) == FIFTHS
    assert sizes.max() - sizes.min() <= 1
    shuffled = index.take(pa.array(np.random.default_rng(0).permutation(index.num_rows)))
    again = dict(zip(shuffled["scene_id"].to_pylist(), fifths(spec, shuffled), strict=True))
    assert [again[scene] for scene in index["scene_id"].to_pylist()] == parts.tolist()


@pytest.mark.parametrize("task", TASKS)
def test_a_refit_is_the_head_fit_without_its_fifth_at_the_value_that_the_fold_chose(world, embeddings, fitted, task):
    spec, fold, result = fitted(task)
    if not spec.in_ood_avg:
        assert result.refits.num_rows == 0
        return
    index = world.index(task, Split.TRAIN)
    fifth = dict(zip(index["scene_id"].to_pylist(), fifths(spec, index), strict=True))
    chosen = float(result.tensors["regularisation"][0])
    pinned = spec.model_copy(update={"readout": spec.readout.model_copy(update={"regularisation": (chosen,)})})
    queries = fold.queries
    if spec.target == "enrolled_class":
        queries = queries.filter(pc.less(queries["turn"], REFIT_TURNS))
    for left_out in range(FIFTHS):
        kept = fold.train.filter(pa.array([fifth[scene] != left_out for scene in fold.train["scene_id"].to_pylist()]))
        head = make_readout(pinned).fit(embeddings[task].of(kept["scene_id"]), np.asarray(kept["target"]))
        enrol(spec, head, fold.eval, embeddings[task])
        own = result.refits.filter(pc.equal(result.refits["without"], left_out))
        assert own["scene_id"].to_pylist() == queries["scene_id"].to_pylist()
        found = np.array(own["scores"].to_pylist())
        np.testing.assert_allclose(found, query_scores(head, embeddings[task], queries), atol=1e-9)
        whole = query_scores(load_readout(spec, result.tensors), embeddings[task], queries)
        assert not np.allclose(found, whole, atol=1e-9)
