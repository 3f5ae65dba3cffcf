"""How far one task can move the OOD average, and whether the board says so: jackknives, fragility, ranks, pairs."""

import itertools

import numpy as np
import pytest

from common.errors import InputError
from emma import OODAvg, TaskID
from emma.metrics import UndefinedMetricError
from emma.results.aggregate import Entrant, rank
from emma.results.leaderboard import build_board
from emma.results.records import RankFlip

SCORED = ("E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE", "E-ID-FP")
MODELS = ("prior", "random_conv", "dsp")


@pytest.fixture(scope="module")
def runs(small) -> dict:
    return {name: small.run(name) for name in MODELS}


@pytest.fixture(scope="module")
def board(small, runs):
    records = {name: record for name, (record, _) in runs.items()}
    return build_board(small.manifest, records, {name: draws for name, (_, draws) in runs.items()})


@pytest.fixture(scope="module")
def aggregator(small) -> OODAvg:
    return OODAvg(small.manifest.tasks)


def raw(aggregator: OODAvg, normalised: dict[str, float]) -> dict:
    """Fold scores, equal over a task's held-out values, whose normalised task scores are those given."""
    scores = {}
    for task, spec in aggregator.tasks.items():
        low, high = spec.anchors.minimum, spec.anchors.maximum
        x = normalised[task]
        value = high - x * (high - low) if spec.metric == "MeanAngularError" else low + x * (high - low)
        scores[task] = dict.fromkeys(spec.held_out, value)
    return scores


def entrant(aggregator, name: str, normalised, spread: float = 0.0, seed: int = 0, ranked: bool = True) -> Entrant:
    """A model whose replicates scatter about its scores by ``spread`` in every fold, in the metric's own unit."""
    scores = raw(aggregator, normalised)
    rng = np.random.default_rng(seed)
    draws = {
        task: {value: score + spread * rng.standard_normal(500) for value, score in values.items()}
        for task, values in scores.items()
    }
    return Entrant(name, scores, draws, ranked)


def by_hand(specs, values: dict[str, dict[str, float]]) -> float:
    """The OOD average as the protocol writes it: means of means of anchored scores."""
    parts = []
    for task, folds in values.items():
        spec = specs[TaskID(task)]
        mean = sum(folds.values()) / len(folds)
        share = (mean - spec.anchors.minimum) / (spec.anchors.maximum - spec.anchors.minimum)
        parts.append(min(max(1 - share if spec.metric == "MeanAngularError" else share, 0.0), 1.0))
    return sum(parts) / len(parts)


def test_leave_one_task_out_over_the_four_scored_tasks(small, board, record_property) -> None:
    """Each of the four averages is OODAvg over the other three, by the same anchors; min and max are theirs."""
    board, report = board
    for row in board.models:
        values = {t: {v: r.score for v, r in row.tasks[TaskID(t)].values.items()} for t in SCORED}
        assert row.ood_avg == pytest.approx(by_hand(small.manifest.tasks, values), abs=1e-12)
        expected = {t: by_hand(small.manifest.tasks, {k: v for k, v in values.items() if k != t}) for t in SCORED}
        found = row.sensitivity.leave_one_task_out
        assert found.averages == pytest.approx(expected, abs=1e-12)
        assert (found.min, found.max) == pytest.approx((min(expected.values()), max(expected.values())), abs=1e-12)
        assert found.min <= row.ood_avg <= found.max
        swing = found.max - found.min
        record_property(row.model, f"{found.min:.3f} to {found.max:.3f}, median gap {report.median_gap:.3f}")
        assert row.sensitivity.fragile == (swing > report.median_gap)


def test_the_continuity_column_never_enters(small, runs, aggregator) -> None:
    assert {task.value for task in aggregator.tasks} == set(SCORED)
    record, _ = runs["dsp"]
    scores = {t: {v: r.score for v, r in block.values.items()} for t, block in record.tasks.items()}
    without = {t: values for t, values in scores.items() if t != TaskID.E_ID_AMC}
    assert aggregator(scores) == aggregator(without)


def test_the_mean_over_held_out_values_is_not_weighted_by_scenes(small, runs) -> None:
    record, _ = runs["dsp"]
    for block in record.tasks.values():
        assert block.score == pytest.approx(np.mean([value.score for value in block.values.values()]), abs=1e-15)


def test_an_outlier_task_makes_the_average_fragile(aggregator) -> None:
    even = {f"m{i}": dict.fromkeys(SCORED, 0.2 + 0.2 * i) for i in range(3)}
    standings, statistics = rank(aggregator, [entrant(aggregator, n, s) for n, s in even.items()], 0.95)
    assert statistics.median_gap == pytest.approx(0.2)
    assert [standings[name].fragile for name in even] == [False] * 3
    even["m2"] = dict.fromkeys(SCORED, 0.4) | {"E-ID-FP": 1.0}
    standings, statistics = rank(aggregator, [entrant(aggregator, n, s) for n, s in even.items()], 0.95)
    # Without E-ID-FP m2 falls from 0.55 to 0.4, with it and without another task it stands at 0.6.
    assert statistics.median_gap == pytest.approx(0.175)
    assert standings["m2"].leave_one_task_out["E-ID-FP"] == pytest.approx(0.4)
    assert standings["m2"].fragile is True
    assert standings["m0"].fragile is False


def test_the_median_gap_is_between_adjacent_ranked_models(aggregator) -> None:
    levels = {"a": 0.9, "b": 0.8, "reference": 0.5, "c": 0.4, "d": 0.1}
    entrants = [
        entrant(aggregator, name, dict.fromkeys(SCORED, level), ranked=name != "reference")
        for name, level in levels.items()
    ]
    standings, statistics = rank(aggregator, entrants, 0.95)
    assert statistics.gaps == pytest.approx((0.1, 0.4, 0.3))
    assert statistics.median_gap == pytest.approx(0.3)
    assert {name: s.rank for name, s in standings.items()} == {"a": 1, "b": 2, "c": 3, "d": 4, "reference": None}
    assert standings["reference"].fragile is standings["reference"].separable_from_next is None


def test_one_model_has_no_gap_and_no_fragility(aggregator) -> None:
    standings, statistics = rank(aggregator, [entrant(aggregator, "alone", dict.fromkeys(SCORED, 0.5))], 0.95)
    assert statistics.median_gap is None
    assert standings["alone"].fragile is standings["alone"].separable_from_next is None


def test_rank_flips_are_named(aggregator) -> None:
    steady = dict.fromkeys(SCORED, 0.5)
    peaked = dict.fromkeys(SCORED, 0.45) | {"E-LOC-AOA": 0.9}
    entrants = [entrant(aggregator, "peaked", peaked), entrant(aggregator, "steady", steady)]
    _, statistics = rank(aggregator, entrants, 0.95)
    assert statistics.ranking == ("peaked", "steady")
    assert statistics.rank_flips.leave_one_task_out == (RankFlip(dropped="E-LOC-AOA", ranking=("steady", "peaked")),)
    assert statistics.rank_flips.leave_one_value_out == ()


def test_a_dropped_environment_goes_from_all_its_tasks_at_once(small, aggregator) -> None:
    scores = raw(aggregator, dict.fromkeys(SCORED, 0.5))
    for task in ("E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE"):
        spec = small.manifest.spec(task)
        best = spec.anchors.minimum if spec.metric == "MeanAngularError" else spec.anchors.maximum
        scores[TaskID(task)] = scores[TaskID(task)] | {"E_RURAL": best}
    dropped = aggregator.leave_one_value_out(scores)
    units = small.manifest.spec("E-ID-FP").held_out
    assert set(dropped) == {"environment=E_URBAN", "environment=E_RURAL", *(f"device={unit}" for unit in units)}
    assert dropped["environment=E_RURAL"] == pytest.approx(0.5)
    assert dropped["environment=E_URBAN"] == pytest.approx((3 * 1.0 + 0.5) / 4)
    assert dropped["device=U01"] == pytest.approx(aggregator(scores))


def test_anchors_bound_what_one_task_can_do(small) -> None:
    """Whatever a badly chosen pair of anchors does to one of T tasks, the average moves by 1 / T at most."""
    scores = raw(OODAvg(small.manifest.tasks), dict.fromkeys(SCORED, 0.5))
    for task in SCORED:
        found = []
        for minimum, maximum in itertools.product((-1e3, 0.0, 0.2, 0.7), (0.71, 1.0, 1e3)):
            spec = small.manifest.spec(task)
            anchors = spec.anchors.model_copy(update={"minimum": minimum, "maximum": maximum})
            tasks = small.manifest.tasks | {TaskID(task): spec.model_copy(update={"anchors": anchors})}
            found.append(OODAvg(tasks)(scores))
        assert max(found) - min(found) <= 1 / len(SCORED) + 1e-12
        assert min(found) >= 0.5 * 3 / 4 - 1e-12


def test_models_that_do_not_differ_are_rarely_told_apart(aggregator) -> None:
    """Replicates of two models that differ by sampling alone: at most the level's share is separable, Holm or not."""
    told, boards, draws = 0, 200, 400
    rng = np.random.default_rng(1)
    scores = raw(aggregator, dict.fromkeys(SCORED, 0.5))
    for _ in range(boards):
        entrants = []
        for name in ("a", "b", "c"):
            # A model's error, and resamples about it of the same spread, as a bootstrap's are.
            noise = {t: 0.02 * s.anchors.maximum * rng.standard_normal() for t, s in aggregator.tasks.items()}
            shifted = {t: {v: x + noise[t] for v, x in values.items()} for t, values in scores.items()}
            jitter = {t: 0.02 * s.anchors.maximum * rng.standard_normal(draws) for t, s in aggregator.tasks.items()}
            replicates = {t: {v: x + jitter[t] for v, x in values.items()} for t, values in shifted.items()}
            entrants.append(Entrant(name, shifted, replicates))
        standings, _ = rank(aggregator, entrants, 0.95)
        told += any(standing.separable_from_next for standing in standings.values())
    assert told / boards < 0.05 + 3 * np.sqrt(0.05 * 0.95 / boards)


def test_models_that_differ_are_told_apart_and_shared_noise_cancels(aggregator) -> None:
    """Two models under the same resamples: their common swing does not hide a small steady difference."""
    rng = np.random.default_rng(2)
    swing = 0.05 * rng.standard_normal(1000)
    entrants = []
    for name, level in (("a", 0.52), ("b", 0.50), ("c", 0.4999)):
        scores = raw(aggregator, dict.fromkeys(SCORED, level))
        draws = {
            task: {
                value: score + aggregator.tasks[task].anchors.maximum * (swing + 0.005 * rng.standard_normal(1000))
                for value, score in values.items()
            }
            for task, values in scores.items()
        }
        entrants.append(Entrant(name, scores, draws))
    standings, _ = rank(aggregator, entrants, 0.95)
    assert standings["a"].separable_from_next is True
    assert standings["b"].separable_from_next is False
    assert standings["c"].separable_from_next is None
    assert standings["a"].p_value_against_next == pytest.approx(2 * 2 / 1001)  # Holm doubles the smallest of two


def test_a_model_against_itself_is_not_separable(small, runs) -> None:
    record, draws = runs["dsp"]
    twin = record.model_copy(update={"model": "twin"})
    board, _ = build_board(small.manifest, {"a": record, "b": twin}, {"dsp": draws, "twin": draws})
    assert [row.rank for row in board.models] == [1, 1]
    assert board.models[0].separable_from_next is False


def test_resamples_are_the_same_scenes_for_every_model(small, runs) -> None:
    """Replicates of one fold correlate between unlike models exactly as far as their scores do on the same scenes."""
    draws = [runs[name][1][TaskID.E_LOC_LOS]["E_URBAN"] for name in ("dsp", "dsp", "prior")]
    assert np.array_equal(draws[0], draws[1])
    assert np.ptp(draws[2]) == 0.0  # a constant answer has balanced accuracy one half in every resample


def test_a_missing_or_undefined_fold_leaves_no_average(aggregator) -> None:
    """An undefined held-out value is never averaged away."""
    scores = raw(aggregator, dict.fromkeys(SCORED, 0.5))
    for lacking in ({"E_URBAN": 0.7, "E_RURAL": None}, {"E_URBAN": 0.7}):
        with pytest.raises(UndefinedMetricError, match="E_RURAL"):
            aggregator(scores | {TaskID.E_LOC_LOS: lacking})
    with pytest.raises(UndefinedMetricError, match="E-LOC-LOS was not run"):
        aggregator({task: values for task, values in scores.items() if task != "E-LOC-LOS"})


@pytest.mark.parametrize("lost", ["model", "task", "value"])
def test_missing_replicates_are_refused(small, runs, lost: str) -> None:
    """An interval over fewer folds than the score would be another number's interval."""
    record, draws = runs["dsp"]
    draws = {task: dict(values) for task, values in draws.items()}
    if lost == "task":
        del draws[TaskID.E_ID_DRONE]
    if lost == "value":
        del draws[TaskID.E_ID_DRONE]["E_RURAL"]
    with pytest.raises(InputError, match="dsp: bootstrap replicates"):
        build_board(small.manifest, {"a": record}, {} if lost == "model" else {"dsp": draws})
