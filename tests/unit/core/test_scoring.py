"""Fold metrics: what each metric is given, pairs of resamples, and what is undefined."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from common.errors import InputError
from emma.data.release import BootstrapSpec
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.evaluation.records import Draws, Score
from emma.evaluation.replicates import ReplicateSource, primary_replicates, write_replicates
from emma.evaluation.scoring import metric_inputs, point_score, score_predictions, score_task
from emma.evaluation.statistics import bootstrap_weights
from emma.metrics import METRICS, MetricMismatchError
from emma.tasks import TaskID

AOA, LOS, DRONE, FP, AMC = tuple(TaskID)[:5]
BOOTSTRAP = BootstrapSpec(resamples=200, level=0.9)


def predictions(scores, target, session=None, prefix="s") -> pa.Table:
    ids = [f"{prefix}{number:03}" for number in range(len(target))]
    columns = [ids, session or [None] * len(ids), np.asarray(target, float), [list(map(float, row)) for row in scores]]
    return pa.table([*columns, [None] * len(ids)], schema=PREDICTION_SCHEMA)


def test_an_angle_is_scored_on_the_circle(world):
    table = predictions([[359.0], [1.0], [180.0]], [1.0, 359.0, 180.0])
    assert point_score(world.manifest.tasks[AOA], "MeanAngularError", table) == pytest.approx(4 / 3)


def test_a_logit_is_ranked_and_its_sign_decides(world):
    table = predictions([[-3.0], [5.0], [0.5], [-0.5]], [0, 1, 0, 1])
    assert point_score(world.manifest.tasks[DRONE], "AUC", table) == 0.75
    assert point_score(world.manifest.tasks[LOS], "BalancedAccuracy", table) == 0.5
    uneven = predictions([[-3.0], [5.0], [0.5], [-0.5], [2.0]], [0, 1, 0, 1, 1])
    assert point_score(world.manifest.tasks[LOS], "BalancedAccuracy", uneven) == pytest.approx((1 / 2 + 2 / 3) / 2)
    # A logit of zero is a tie: half right.
    assert point_score(world.manifest.tasks[LOS], "BalancedAccuracy", predictions([[0.0]] * 4, [0, 0, 1, 1])) == 0.5
    large = predictions([[2e4], [1e4]], [1, 0])
    assert point_score(world.manifest.tasks[DRONE], "AUC", large) == 1.0


def test_ties_among_units_count_as_the_chance_of_picking_right(world):
    spec = world.manifest.tasks[FP]
    assert point_score(spec, "Top1Accuracy", predictions([[0.0] * 4] * 6, [0, 1, 2, 3, 0, 1])) == 0.25
    assert point_score(spec, "Top1Accuracy", predictions([[1, 1, 0, 0]], [0])) == 0.5


def test_verification_pairs_are_own_against_others(world):
    spec = world.manifest.tasks[FP]
    scores = np.array([[0.9, 0.1, 0.2, 0.3], [0.2, 0.1, 0.8, 0.3]])
    preds, target, entries = metric_inputs(spec, METRICS["EER"], predictions(scores, [0, 2]))
    assert entries == 4
    np.testing.assert_array_equal(preds, scores.ravel())
    np.testing.assert_array_equal(target, [1, 0, 0, 0, 0, 0, 1, 0])
    assert point_score(spec, "EER", predictions(scores, [0, 2])) == 0.0
    assert point_score(spec, "EER", predictions(scores, [1, 1])) == 1.0


def test_a_gallery_of_two_has_a_cosine_for_each(world):
    spec = world.manifest.tasks[FP].model_copy(update={"classes": ("U1", "U2"), "held_out": ("U1", "U2")})
    table = predictions([[0.9, 0.1], [0.3, 0.4], [0.5, 0.2]], [0, 1, 1])
    assert point_score(spec, "Top1Accuracy", table) == pytest.approx(2 / 3)
    preds, target, entries = metric_inputs(spec, METRICS["EER"], table)
    assert (len(preds), target.tolist(), entries) == (6, [1, 0, 0, 1, 0, 1], 2)


def test_scores_of_another_width_are_refused(world):
    for task, width in ((AOA, 2), (LOS, 2), (FP, 3), (AMC, 1)):
        with pytest.raises(InputError, match="predictions: scores: expected lists"):
            point_score(
                world.manifest.tasks[task], world.manifest.tasks[task].metric, predictions([[0.0] * width], [0])
            )


def test_a_fold_record_is_value_interval_and_count(world):
    rng = np.random.default_rng(0)
    target = rng.uniform(0, 360, 50)
    table = predictions((target + rng.normal(0, 10, 50))[:, None], target)
    record, draws = score_predictions(world.manifest.tasks[AOA], "MeanAngularError", table, None, BOOTSTRAP, (0, "x"))
    assert record.n == 50
    assert record.undefined_reason is None
    assert (draws.bootstrap.shape, draws.units, draws.jackknife, draws.enrolment) == ((200,), 50, None, None)
    deviation = np.std(draws.bootstrap, ddof=1) * np.sqrt(50 / 49)
    assert record.standard_errors.scenes == pytest.approx(deviation)
    assert record.standard_errors.fit is record.standard_errors.enrolment is None
    reach = stats.t(49).ppf(0.95) * deviation
    assert record.ci95 == pytest.approx((record.score - reach, record.score + reach))
    weights = bootstrap_weights(50, n_resamples=200, seed=(0, "x"))
    error = np.abs((table["target"].to_numpy() - np.ravel(table["scores"].to_pylist()) + 180) % 360 - 180)
    np.testing.assert_allclose(draws.bootstrap, weights @ error / 50)


def test_whole_sessions_are_resampled_where_there_are_any(world):
    spec = world.manifest.tasks[FP]
    scores = np.tile(np.eye(4), (10, 1))[:24]
    target = [0, 1, 2, 0] * 6
    sessions = [f"s{number // 6}" for number in range(24)]
    _, draws = score_predictions(spec, "Top1Accuracy", predictions(scores, target, sessions), None, BOOTSTRAP, (0,))
    right = (scores.argmax(axis=1) == target).reshape(4, 6).sum(axis=1)
    weights = bootstrap_weights(24, n_resamples=200, seed=(0,), groups=sessions)[:, ::6]
    np.testing.assert_allclose(draws.bootstrap, weights @ right / 24)
    assert draws.units == 4


def in_turns(scores, target, sessions, turns, prefix="s"):
    """A row per capture and turn: ``scores`` are ``[T, N, C]``, ``turns`` the turn of each capture's own session."""
    rows = [(row, turn) for row, own in enumerate(turns) for turn in range(len(scores)) if turn != own]
    ids = [f"{prefix}{row:03}" for row, _ in rows]
    columns = [ids, [sessions[row] for row, _ in rows], [float(target[row]) for row, _ in rows]]
    columns += [[scores[turn][row].tolist() for row, turn in rows], [turn for _, turn in rows]]
    return pa.table(columns, schema=PREDICTION_SCHEMA)


def test_a_score_is_the_mean_over_turns_and_not_that_of_all_rows(world):
    spec, rng = world.manifest.tasks[FP], np.random.default_rng(0)
    sizes = (2, 6, 10)
    own = np.repeat(range(3), sizes)
    sessions = [f"s{turn}" for turn in own]
    scores = rng.normal(size=(3, 18, 4)) + 3.0 * np.arange(3)[:, None, None]
    table = in_turns(scores, np.zeros(18), sessions, own)
    for metric in ("Top1Accuracy", "EER"):
        single = [
            point_score(spec, metric, predictions(scores[turn][own != turn], np.zeros((own != turn).sum())))
            for turn in range(3)
        ]
        record, draws = score_predictions(spec, metric, table, None, BOOTSTRAP, (0,))
        assert (record.score, record.n) == (pytest.approx(np.mean(single)), 18)
        assert point_score(spec, metric, table) == record.score
        rows = table.set_column(4, PREDICTION_SCHEMA.field("turn"), pa.nulls(len(table), pa.int32()))
        assert point_score(spec, metric, rows) != pytest.approx(record.score)
    # The same resample of sessions in every turn.
    weights = bootstrap_weights(18, n_resamples=200, seed=(0,), groups=sessions)
    record, draws = score_predictions(spec, "Top1Accuracy", table, None, BOOTSTRAP, (0,))
    right = scores.argmax(axis=2) == 0
    with np.errstate(invalid="ignore"):
        expected = np.mean(
            [weights[:, own != t] @ right[t][own != t] / weights[:, own != t].sum(axis=1) for t in range(3)], axis=0
        )
    np.testing.assert_allclose(draws.bootstrap, expected)


def test_undefined_folds_have_no_number(world):
    spec = world.manifest.tasks[DRONE]
    record, draws = score_predictions(spec, "AUC", predictions([], []), "no scenes to fit on", BOOTSTRAP, (0,))
    assert (record, draws) == (Score(score=None, n=0, ci95=None, undefined_reason="no scenes to fit on"), None)
    record, draws = score_predictions(spec, "AUC", predictions([[1.0], [2.0]], [1, 1]), None, BOOTSTRAP, (0,))
    assert record.score is None
    assert "AUC" in record.undefined_reason
    assert draws is None
    assert point_score(spec, "AUC", predictions([[1.0], [2.0]], [1, 1])) is None


def test_an_interval_needs_half_of_its_resamples(world):
    record, draws = score_predictions(
        world.manifest.tasks[DRONE], "AUC", predictions([[1.0], [2.0]], [0, 1]), None, BOOTSTRAP, (0,)
    )
    assert record.score == 1.0
    assert np.isnan(draws.bootstrap).mean() == pytest.approx(0.5, abs=0.1)
    assert (record.ci95 is None) == (2 * np.isfinite(draws.bootstrap).sum() < 200)


def folds(spec, noise, n=30):
    rng = np.random.default_rng(1)
    tables = {}
    for value in spec.held_out:
        target = rng.uniform(0, 360, n)
        tables[value] = predictions((target + noise * rng.normal(0, 10, n))[:, None], target, prefix=value)
    own = {value: (table, None) for value, table in tables.items()}
    return {"leave-one-environment-out": own, "in-distribution": dict(own)}


def test_models_are_compared_on_identical_resamples(world):
    spec = world.manifest.tasks[AOA]
    _, first = score_task(spec, "E-LOC-AOA", folds(spec, 1.0), BOOTSTRAP, 0)
    _, second = score_task(spec, "E-LOC-AOA", folds(spec, 2.0), BOOTSTRAP, 0)
    assert set(first) == set(second)
    for key in first:
        # Errors twice as large, scene by scene, so that every resample must say so.
        np.testing.assert_allclose(second[key].bootstrap, 2 * first[key].bootstrap)
        # A reference is resampled as its fold is.
        own, reference = (first[name, *key[1:]].bootstrap for name in ("leave-one-environment-out", "in-distribution"))
        np.testing.assert_array_equal(own, reference)
    _, other = score_task(spec, "E-LOC-AOA", folds(spec, 1.0), BOOTSTRAP, 1)
    key = ("leave-one-environment-out", "E_URBAN", "MeanAngularError")
    assert not np.allclose(other[key].bootstrap, first[key].bootstrap)
    rural = ("leave-one-environment-out", "E_RURAL", "MeanAngularError")
    assert not np.allclose(first[key].bootstrap, first[rural].bootstrap)


def test_held_out_values_are_resampled_apart(world):
    spec = world.manifest.tasks[AOA]
    given = folds(spec, 1.0)
    table = given["leave-one-environment-out"]["E_URBAN"]
    given = {name: dict.fromkeys(spec.held_out, table) for name in given}
    _, draws = score_task(spec, "E-LOC-AOA", given, BOOTSTRAP, 0)
    urban, rural = (draws["leave-one-environment-out", value, "MeanAngularError"].bootstrap for value in spec.held_out)
    assert abs(np.corrcoef(urban, rural)[0, 1]) < 0.3


def test_the_order_of_predictions_changes_nothing(world):
    spec = world.manifest.tasks[AOA]
    plain = folds(spec, 1.0)
    turned = {
        name: {value: (table.take(list(range(len(table)))[::-1]), why) for value, (table, why) in values.items()}
        for name, values in plain.items()
    }
    results, draws = score_task(spec, "E-LOC-AOA", plain, BOOTSTRAP, 0)
    again, drawn_again = score_task(spec, "E-LOC-AOA", turned, BOOTSTRAP, 0)
    assert again == results
    for key, values in draws.items():
        np.testing.assert_array_equal(drawn_again[key].bootstrap, values.bootstrap)


def test_in_distribution_is_the_reference_on_the_same_scenes(world):
    spec = world.manifest.tasks[AOA]
    given = folds(spec, 1.0)
    references = given["in-distribution"]
    for value, (reference, _) in list(references.items()):
        perfect = [[[t] for t in reference["target"].to_pylist()]]
        references[value] = (reference.set_column(3, PREDICTION_SCHEMA.field("scores"), perfect), None)
    results, _ = score_task(spec, "E-LOC-AOA", given, BOOTSTRAP, 0, only=["leave-one-environment-out"])
    assert list(results) == ["leave-one-environment-out"]
    for record in results["leave-one-environment-out"].values():
        assert record["MeanAngularError"].in_distribution == pytest.approx(0, abs=1e-9)
        assert record["MeanAngularError"].score > 5
    references["E_URBAN"] = (references["E_URBAN"][0].slice(1), None)
    with pytest.raises(InputError, match="in-distribution E_URBAN: scene_id: E_URBAN000 is missing"):
        score_task(spec, "E-LOC-AOA", given, BOOTSTRAP, 0, only=["leave-one-environment-out"])


def test_a_reference_that_is_undefined_leaves_the_others_scored(world):
    spec = world.manifest.tasks[AOA]
    missing = (PREDICTION_SCHEMA.empty_table(), "a class is missing")
    given = folds(spec, 1.0) | {"in-distribution": dict.fromkeys(spec.held_out, missing)}
    results, draws = score_task(spec, "E-LOC-AOA", given, BOOTSTRAP, 0)
    record = results["leave-one-environment-out"]["E_URBAN"]["MeanAngularError"]
    assert record.score is not None
    assert record.in_distribution is None
    assert results["in-distribution"]["E_URBAN"]["MeanAngularError"].undefined_reason == "a class is missing"
    assert ("in-distribution", "E_URBAN", "MeanAngularError") not in draws


def test_replicates_come_back_by_model_task_and_value(world, tmp_path):
    spec = world.manifest.tasks[AOA]
    _, draws = score_task(spec, "E-LOC-AOA", folds(spec, 1.0), BOOTSTRAP, 0)
    draws = dict(draws)
    key = ("leave-one-environment-out", "E_URBAN", "MeanAngularError")
    draws[key] = Draws(draws[key].bootstrap.copy(), 30, np.arange(5.0), np.arange(3.0))
    draws[key].bootstrap[0] = np.nan
    path = tmp_path / "toy" / "E-LOC-AOA" / "score_replicates.parquet"
    release = world.manifest.data_release_hash
    made = ReplicateSource("toy", AOA.value, release, 0, "dev")
    write_replicates(path, dict(reversed(draws.items())), made)
    first = path.read_bytes()
    write_replicates(path, draws, made)
    assert path.read_bytes() == first
    files = [("toy", AOA.value, path)]
    found = primary_replicates(world.manifest, files, 0, "dev")
    assert list(found) == ["toy"]
    assert sorted(found["toy"][AOA]) == ["E_RURAL", "E_URBAN"]
    for kind, drawn in vars(draws[key]).items():
        np.testing.assert_array_equal(getattr(found["toy"][AOA]["E_URBAN"], kind), drawn)
    assert found["toy"][AOA]["E_RURAL"].jackknife is None
    with pytest.raises(InputError, match="given twice"):
        primary_replicates(world.manifest, files * 2, 0, "dev")
    for key, other in {"data_release_hash": "a" * 64, "seed": 1, "eval_split": "holdout", "model": "other"}.items():
        write_replicates(path, draws, replace(made, **{key: other}))
        with pytest.raises(InputError, match=f"score_replicates.parquet: {key}: {other}, expected"):
            primary_replicates(world.manifest, files, 0, "dev")
    write_replicates(path, {}, made)
    assert primary_replicates(world.manifest, files, 0, "dev") == {"toy": {AOA: {}}}


def test_a_score_that_differs_from_the_resampling_kernel_ends_the_scoring(world, monkeypatch):
    table = predictions([[-3.0], [5.0], [0.5], [-0.5]], [0, 1, 0, 1])
    spec = world.manifest.tasks[DRONE]
    plain = type(METRICS["AUC"]).kernel
    monkeypatch.setattr(type(METRICS["AUC"]), "kernel", lambda self, *given: plain(self, *given) + 1e-6)
    with pytest.raises(MetricMismatchError, match="AUC"):
        score_predictions(spec, "AUC", table, None, BOOTSTRAP, (0,))
    with pytest.raises(MetricMismatchError, match="AUC"):
        point_score(spec, "AUC", table)
