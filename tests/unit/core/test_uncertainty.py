"""Parts of a score's uncertainty: what each estimates, how they add, and what is paired."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from common.errors import InputError
from emma.data.release import BootstrapSpec
from emma.evaluation.fitting import PREDICTION_SCHEMA
from emma.evaluation.records import Draws
from emma.evaluation.refits import REFIT_SCHEMA, REFIT_TURNS
from emma.evaluation.scoring import gap_interval, jackknife_scores, score_predictions, score_task
from emma.evaluation.statistics import percentile_interval
from emma.evaluation.uncertainty import (
    MeanDraws,
    Part,
    Parts,
    added,
    average_parts,
    enrolment_part,
    fit_part,
    less,
    parts_of,
    scene_part,
    t_interval,
    t_p_value,
)
from emma.metrics import METRICS, UndefinedMetricError
from emma.tasks import TaskID

AOA, _, DRONE, FP = tuple(TaskID)[:4]
BOOTSTRAP = BootstrapSpec(resamples=200, level=0.95)


def angles(n=40, seed=0, spread=10.0) -> pa.Table:
    rng = np.random.default_rng(seed)
    target = rng.uniform(0, 360, n)
    given = (target + spread * rng.standard_normal(n)) % 360
    ids = [f"s{i:03}" for i in range(n)]
    return pa.table([ids, [None] * n, target, [[x] for x in given], [None] * n], schema=PREDICTION_SCHEMA)


def refits_of(predictions, noise, seed=1, fifths=range(5)) -> pa.Table:
    """Refits whose angles lie about those of the predictions, in an order of their own."""
    rng = np.random.default_rng(seed)
    scores = np.array(predictions["scores"].to_pylist())
    rows = [
        (fifth, name, None, list(row))
        for fifth in fifths
        for name, row in zip(
            predictions["scene_id"].to_pylist(), scores + noise * rng.standard_normal(scores.shape), strict=True
        )
    ]
    rows = [rows[i] for i in rng.permutation(len(rows))]
    return pa.table([list(column) for column in zip(*rows, strict=True)], schema=REFIT_SCHEMA)


def test_the_scenes_of_few_units_are_not_narrowed_by_their_number():
    """The bootstrap variance of a mean over G units is (G - 1) / G of s^2 / G, which the part gives back."""
    values = np.array([1.0, 4.0, 2.0, 7.0])
    draws = np.random.default_rng(0).choice(values, (200_000, 4)).mean(axis=1)
    part = scene_part(draws, 4)
    assert part.df == 3
    assert part.variance == pytest.approx(values.var(ddof=1) / 4, rel=0.02)


@pytest.mark.parametrize(
    ("draws", "units"), [([1.0, 2.0], 1), ([1.0, np.nan, np.nan], 9), ([1.0, 2.0, np.inf], 9), ([np.nan] * 3, 9)]
)
def test_scenes_that_say_nothing_of_a_spread_give_no_part(draws, units):
    assert scene_part(np.array(draws), units) is None


def test_the_jackknife_of_a_mean_is_its_standard_error():
    """Means without one of five equal groups: the delete-a-group jackknife is s^2 / 5 over the groups' means."""
    groups = np.array([1.0, 2.0, 6.0, 3.0, 8.0])
    without = (groups.sum() - groups) / 4
    assert fit_part(without) == pytest.approx(Part(groups.var(ddof=1) / 5, 4.0))
    assert fit_part(np.array([1.0, 2.0, np.nan, 3.0, 4.0])) is None
    assert fit_part(None) is enrolment_part(None) is enrolment_part(np.array([0.4])) is None


def test_welch_is_what_two_parts_add_up_to():
    a, b = np.random.default_rng(0).normal(size=7), 3 * np.random.default_rng(1).normal(size=4)
    part = added([Part(a.var(ddof=1) / 7, 6.0), Part(b.var(ddof=1) / 4, 3.0)])
    library = stats.ttest_ind(a, b, equal_var=False)
    assert part.df == pytest.approx(library.df)
    difference = a.mean() - b.mean()
    assert t_p_value(difference, part) == pytest.approx(library.pvalue)
    assert t_p_value(difference, part, one_sided=True) == pytest.approx(
        stats.ttest_ind(a, b, equal_var=False, alternative="greater").pvalue
    )
    interval = library.confidence_interval(0.9)
    assert t_interval(difference, part, 0.9) == pytest.approx((interval.low, interval.high))


def test_intervals_end_at_the_bounds_of_the_metric():
    assert t_interval(0.98, Part(0.01, 5.0), 0.95, METRICS["AUC"].bounds)[1] == 1.0
    assert t_interval(2.0, Part(25.0, 5.0), 0.95, METRICS["MeanAngularError"].bounds)[0] == 0.0


def test_values_lie_within_the_bounds_that_metrics_declare():
    """The best and the worst decision, ranking and angle reach them."""
    for name in ("PlainAccuracy", "Top1Accuracy", "BalancedAccuracy", "AUC", "AUROC", "EER"):
        right, wrong = (METRICS[name](preds, [0, 1, 1]) for preds in ([0, 1, 1], [1, 0, 0]))
        assert {right, wrong} == set(METRICS[name].bounds)
    assert METRICS["MeanAngularError"]([0.0], [180.0]) == METRICS["MeanAngularError"].bounds[1]
    assert METRICS["NMSE"].bounds == METRICS["SISDR"].bounds == (-np.inf, np.inf)


def test_nothing_that_varies_leaves_a_point_and_a_plain_answer():
    part = Part(0.0, 3.0)
    assert t_interval(0.5, part, 0.95) == (0.5, 0.5)
    assert [t_p_value(d, part, one_sided=True) for d in (0.1, 0.0, -0.1)] == [0.0, 1.0, 1.0]
    assert [t_p_value(d, part) for d in (0.1, 0.0, -0.1)] == [0.0, 1.0, 0.0]


def test_sessions_that_enrol_and_are_queried_are_taken_as_one_cause():
    parts = Parts.of(Part(0.04, 19.0), None, Part(0.09, 9.0))
    assert parts.total == pytest.approx(Part(0.25, 9.0))
    assert Parts.of(None, Part(1.0, 4.0), None).total is None


def test_a_fold_score_has_the_parts_that_were_drawn(world):
    spec, table = world.manifest.tasks[AOA], angles()
    refits = refits_of(table, 4.0)
    bare, _ = score_predictions(spec, "MeanAngularError", table, None, BOOTSTRAP, (0,))
    score, draws = score_predictions(spec, "MeanAngularError", table, None, BOOTSTRAP, (0,), refits)
    expected = [
        METRICS["MeanAngularError"](
            [
                row["scores"][0]
                for row in sorted(refits.to_pylist(), key=lambda r: r["scene_id"])
                if row["without"] == i
            ],
            table["target"],
        )
        for i in range(5)
    ]
    np.testing.assert_allclose(draws.jackknife, expected)
    errors = score.standard_errors
    assert errors.scenes == bare.standard_errors.scenes
    assert errors.fit == pytest.approx(np.sqrt(4 / 5 * np.sum((np.array(expected) - np.mean(expected)) ** 2)))
    assert errors.enrolment is None
    assert score.ci95[0] < bare.ci95[0] < bare.ci95[1] < score.ci95[1]
    assert bare.standard_errors.fit is None


def test_a_refit_without_a_score_leaves_no_fit_part_and_one_that_lacks_a_scene_is_refused(world):
    spec, table = world.manifest.tasks[AOA], angles()
    some = refits_of(table, 4.0, fifths=range(4))
    assert np.isnan(jackknife_scores(spec, "MeanAngularError", table, some)).tolist() == [False] * 4 + [True]
    score, _ = score_predictions(spec, "MeanAngularError", table, None, BOOTSTRAP, (0,), some)
    assert score.standard_errors.fit is None
    with pytest.raises(InputError, match=r"refits without fifth 0: scene_id: s\d+ is missing"):
        jackknife_scores(spec, "MeanAngularError", table, refits_of(table.slice(0, 39), 4.0))


def turned(world, sessions=6, seed=0) -> tuple[pa.Table, pa.Table]:
    """Queries of one unit, four captures a session, each turn without the session that enrols; and refits."""
    spec, rng = world.manifest.tasks[FP], np.random.default_rng(seed)
    rows, width = [], len(spec.classes)
    for turn in range(sessions):
        for session in range(sessions):
            for capture in range(4 * (session != turn)):
                scores = rng.normal(size=width) + 1.2 * (np.arange(width) == 0)
                row = {"scene_id": f"{session}-{capture}", "session": f"s{session}", "target": 0.0}
                rows.append(row | {"scores": scores.tolist(), "turn": turn})
    table = pa.Table.from_pylist(rows, schema=PREDICTION_SCHEMA)
    refits = [
        {
            "without": fifth,
            "scene_id": r["scene_id"],
            "turn": r["turn"],
            "scores": (np.array(r["scores"]) + 0.3 * fifth * rng.normal(size=width)).tolist(),
        }
        for fifth in range(5)
        for r in rows
    ]
    return table, pa.Table.from_pylist(refits, schema=REFIT_SCHEMA)


def test_the_score_of_an_enrolling_task_is_the_mean_over_turns(world):
    spec = world.manifest.tasks[FP]
    table, refits = turned(world)
    for name in ("Top1Accuracy", "EER"):
        score, draws = score_predictions(spec, name, table, None, BOOTSTRAP, (0,), refits)
        assert (draws.enrolment.shape, draws.units, score.n) == ((6,), 5, 24)
        assert score.score == pytest.approx(draws.enrolment.mean())
        assert score.standard_errors.enrolment == pytest.approx(stats.sem(draws.enrolment))
        assert np.nanmean(draws.bootstrap) == pytest.approx(score.score, abs=0.05)
        # Refits are of the first turns alone, and so is what they are compared in.
        assert draws.jackknife[0] == pytest.approx(draws.enrolment[:REFIT_TURNS].mean())
        assert score.standard_errors.fit > 0
    # All pairs, turn by turn, would take minutes: a secondary metric is drawn a fifth as often.
    assert draws.bootstrap.shape == (40,)
    errors = score_predictions(spec, "Top1Accuracy", table, None, BOOTSTRAP, (0,))[0].standard_errors
    assert errors.fit is None
    # Of two sessions each turn queries one, which says nothing of how sessions differ.
    pair = score_predictions(spec, "Top1Accuracy", turned(world, sessions=2)[0], None, BOOTSTRAP, (0,))[0]
    assert (pair.ci95, pair.standard_errors.scenes) == (None, None)


def test_infinite_resamples_fall_back_to_percentiles_and_one_session_has_no_interval(world, monkeypatch):
    spec, table = world.manifest.tasks[AOA], angles()
    metric = type(METRICS["MeanAngularError"])
    plain = metric.resampled

    def some_infinite(self, preds, target, weights):
        values = plain(self, preds, target, weights)
        return np.where(np.arange(len(values)) % 50 == 1, np.inf, values)

    with monkeypatch.context() as patched:
        patched.setattr(metric, "resampled", some_infinite)
        score, draws = score_predictions(spec, "MeanAngularError", table, None, BOOTSTRAP, (0,))
    assert score.standard_errors.scenes is None
    assert score.ci95 == percentile_interval(draws.bootstrap, 0.95)
    alone = table.set_column(1, "session", pa.array(["one"] * table.num_rows))
    assert score_predictions(spec, "MeanAngularError", alone, None, BOOTSTRAP, (0,))[0].ci95 is None


def test_the_interval_of_a_gap_is_paired(world):
    """What fold and reference share cancels: their gap is known better than either score."""
    spec, own = world.manifest.tasks[AOA], angles(200)
    scores = np.array(own["scores"].to_pylist())[:, 0]
    near = (scores - np.array(own["target"]) + 180) % 360 - 180
    better = (np.array(own["target"]) + 0.9 * near) % 360
    reference = own.set_column(3, PREDICTION_SCHEMA.field("scores"), pa.array([[x] for x in better]))
    scored = [
        score_predictions(spec, "MeanAngularError", t, None, BOOTSTRAP, (0,), refits_of(t, 0.5))
        for t in (own, reference)
    ]
    low, high = gap_interval(*scored, 0.95)
    gap = scored[0][0].score - scored[1][0].score
    assert low < gap < high
    assert low > 0
    assert high - low < 0.3 * (scored[0][0].ci95[1] - scored[0][0].ci95[0])
    undefined = score_predictions(spec, "MeanAngularError", own, "no scenes", BOOTSTRAP, (0,))
    assert gap_interval(scored[0], undefined, 0.95) is None
    other = score_predictions(spec, "MeanAngularError", own.slice(1), None, BOOTSTRAP, (0,))
    with pytest.raises(ValueError, match="expected the same scenes"):
        gap_interval(scored[0], other, 0.95)


def test_a_side_without_refits_takes_those_of_the_other():
    draws = Draws(np.arange(4.0), 9, np.arange(5.0), None)
    bare = Draws(np.ones(4), 9)
    assert less(draws, bare).jackknife.tolist() == less(bare, draws).jackknife.tolist() == [0, 1, 2, 3, 4]
    assert less(bare, bare).jackknife is None
    assert not less(draws, draws).jackknife.any()


def test_the_mean_over_values_adds_their_scenes_and_shares_their_fits():
    rng = np.random.default_rng(0)
    fits = [rng.normal(size=5) for _ in range(2)]
    values = [Draws(rng.normal(0, s, 20_000), 30, f) for s, f in zip((1.0, 2.0), fits, strict=True)]
    parts = MeanDraws.of(values).parts()
    assert parts.scenes.variance == pytest.approx((1 + 4) / 4 * 30 / 29, rel=0.03)
    assert parts.scenes.df == pytest.approx(29 * 25 / 17, rel=0.05)
    assert parts.fit == pytest.approx(fit_part(np.mean(fits, axis=0)))
    half = MeanDraws.of(values, lambda score: 0.5 * score).parts()
    assert half.total.variance == pytest.approx(parts.total.variance / 4)
    average = average_parts([MeanDraws.of(values)] * 2)
    assert average.total.variance == pytest.approx(parts.total.variance / 2)
    assert average.fit.df == 8
    alone = MeanDraws.of([Draws(np.zeros(10), 1)])
    assert alone.parts().total is average_parts([alone, MeanDraws.of(values[:1])]).total is None


def test_paired_parts_are_those_of_the_differences():
    rng = np.random.default_rng(0)
    swing, fit = rng.normal(size=1000), rng.normal(size=5)
    first = MeanDraws.of([Draws(swing + 0.1, 50, fit)])
    second = MeanDraws.of([Draws(swing, 50, fit)])
    assert first.less(second).parts().total.variance == pytest.approx(0, abs=1e-20)
    with pytest.raises(ValueError, match="expected the same resamples"):
        first.less(MeanDraws.of([Draws(swing[1:], 50, fit)]))


def test_a_task_is_scored_with_its_refits_and_gap(world):
    spec = world.manifest.tasks[AOA]
    tables = {value: angles(seed=i) for i, value in enumerate(spec.held_out)}
    tables = {
        value: table.set_column(0, PREDICTION_SCHEMA.field("scene_id"), pa.array([f"{value}{i:03}" for i in range(40)]))
        for value, table in tables.items()
    }
    names = "leave-one-environment-out", "in-distribution"
    plain = {name: {v: (t, None) for v, t in tables.items()} for name in names}
    folds = {name: {v: (t, None, refits_of(t, 3.0, len(name)), 0.1) for v, t in tables.items()} for name in names}
    name = names[0]
    scores, draws = score_task(spec, "E-LOC-AOA", folds, BOOTSTRAP, 0)
    for value in spec.held_out:
        record = scores[name][value]["MeanAngularError"]
        assert record.standard_errors.fit > 0
        assert record.gap_ci95[0] < 0 < record.gap_ci95[1]
        assert parts_of(draws[name, value, "MeanAngularError"]).fit is not None
        assert scores["in-distribution"][value]["MeanAngularError"].gap_ci95 is None
        assert record.regularisation == 0.1
    without, _ = score_task(spec, "E-LOC-AOA", plain, BOOTSTRAP, 0)
    gap = without[name]["E_URBAN"]["MeanAngularError"].gap_ci95
    assert gap == pytest.approx((0, 0))


def test_a_task_without_refits_has_no_jackknife(world):
    """The table of a task outside the average is there, without rows."""
    score, draws = score_predictions(
        world.manifest.tasks[AOA], "MeanAngularError", angles(), None, BOOTSTRAP, (0,), REFIT_SCHEMA.empty_table()
    )
    assert draws.jackknife is score.standard_errors.fit is None


def test_an_undefined_refit_is_no_error(world):
    """A refit whose scores leave the metric undefined counts as missing."""
    with pytest.raises(UndefinedMetricError):
        METRICS["AUC"]([1.0, 2.0], [1, 1])
    spec = world.manifest.tasks[DRONE]
    ids = [f"s{i}" for i in range(4)]
    table = pa.table(
        [ids, [None] * 4, [0.0, 1.0, 0.0, 1.0], [[-1.0], [2.0], [0.5], [0.1]], [None] * 4], schema=PREDICTION_SCHEMA
    )
    found = jackknife_scores(spec, "AUC", table, refits_of(table, 0.0))
    np.testing.assert_allclose(found, 0.75)
