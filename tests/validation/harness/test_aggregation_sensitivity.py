"""How far one task can move the OOD average, and whether the board says so: jackknives, fragility, ranks, pairs."""

import itertools

import numpy as np
import pytest

from common.errors import InputError
from emma import OODAvg, TaskID
from emma.evaluation.records import Draws
from emma.metrics import UndefinedMetricError
from emma.results.leaderboard import build_board
from emma.results.ranking import Entrant, rank
from emma.results.records import RankFlip

SCORED = ("E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE", "E-ID-FP")
MODELS = ("random_conv", "dsp")


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
        task: {value: Draws(score + spread * rng.standard_normal(500), 100) for value, score in values.items()}
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
            replicates = {t: {v: Draws(x + jitter[t], 100) for v, x in v_.items()} for t, v_ in shifted.items()}
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
                value: Draws(
                    score + aggregator.tasks[task].anchors.maximum * (swing + 0.005 * rng.standard_normal(1000)), 100
                )
                for value, score in values.items()
            }
            for task, values in scores.items()
        }
        entrants.append(Entrant(name, scores, draws))
    standings, _ = rank(aggregator, entrants, 0.95)
    assert standings["a"].separable_from_next is True
    assert standings["b"].separable_from_next is False
    assert standings["c"].separable_from_next is None
    assert standings["a"].p_value_against_next < 1e-3


def test_more_comparisons_ask_more_of_each(aggregator) -> None:
    """A distance that tells two models apart does not tell neighbours apart among twelve (Holm)."""
    noise = np.random.default_rng(6).standard_normal(1000)
    noise = 0.01 * (noise - noise.mean()) / noise.std()

    def board(count: int, step: float = 0.04):
        # Neighbours swing against one another: every distance is some 2.4 standard errors.
        entrants = []
        for number in range(count):
            scores = raw(aggregator, dict.fromkeys(SCORED, 0.9 - step * number))
            moved = (-1) ** number * noise
            draws = {
                task: {v: Draws(x + aggregator.tasks[task].anchors.maximum * moved, 100) for v, x in values.items()}
                for task, values in scores.items()
            }
            entrants.append(Entrant(f"m{number:02}", scores, draws))
        return rank(aggregator, entrants, 0.95)[0]

    assert 0.01 < board(2)["m00"].p_value_against_next < 0.05
    assert board(2)["m00"].separable_from_next is True
    assert [standing.separable_from_next for standing in board(12).values()].count(True) == 0


def test_a_model_against_itself_is_not_separable(small, runs) -> None:
    record, draws = runs["dsp"]
    twin = record.model_copy(update={"model": "twin"})
    board, _ = build_board(small.manifest, {"a": record, "b": twin}, {"dsp": draws, "twin": draws})
    assert [row.rank for row in board.models] == [1, 1]
    assert board.models[0].separable_from_next is False


def test_resamples_are_the_same_scenes_for_every_model(small, runs) -> None:
    """Replicates of one fold correlate between unlike models exactly as far as their scores do on the same scenes."""
    prior = small.run("prior")
    draws = [run[1][TaskID.E_LOC_LOS]["E_URBAN"].bootstrap for run in (runs["dsp"], runs["dsp"], prior)]
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


def fleet(aggregator, levels, rng, spread: float = 0.02) -> list[Entrant]:
    """Models whose scores err about their levels by scenes and fits alike, drawn as a bootstrap and a jackknife are.

    Each fold's scenes and each task's fits add errors of deviation ``spread`` on the anchors' scale, half of whose
    variance all models share. Bootstrap draws over G scenes lie about the score with (G - 1) / G of that variance;
    five refits lie about it as means without a fifth of the fit scenes do.
    """
    models, units = len(levels), 40
    root = np.sqrt(0.5)

    def shared(*size: int) -> np.ndarray:
        return spread * root * (rng.standard_normal(size)[None] + rng.standard_normal((models, *size)))

    scores: list[dict] = [{} for _ in levels]
    draws: list[dict] = [{} for _ in levels]
    for task, spec in aggregator.tasks.items():
        low, high = spec.anchors.minimum, spec.anchors.maximum
        none, full = (high, low) if spec.metric == "MeanAngularError" else (low, high)

        def to_raw(x, none=none, full=full):
            return none + x * (full - none)

        groups = shared(5)
        fit = groups.mean(1) * np.sqrt(5)
        without = (groups.sum(1, keepdims=True) - groups) / 4 * np.sqrt(5)
        for value in spec.held_out:
            error = shared()
            resampled = shared(300) * np.sqrt((units - 1) / units)
            for model, level in enumerate(levels):
                at = level + error[model] + fit[model]
                scores[model].setdefault(task, {})[value] = to_raw(at)
                jackknife = to_raw(level + error[model] + without[model])
                draws[model].setdefault(task, {})[value] = Draws(to_raw(at + resampled[model]), units, jackknife)
    return [Entrant(f"m{i:02}", *each) for i, each in enumerate(zip(scores, draws, strict=True))]


def test_neighbours_far_apart_are_separable_on_a_board_of_sixty(aggregator) -> None:
    """The least p of a bootstrap's counts, 2 / 1001, times 59 comparisons could separate nobody."""
    levels, rng = np.linspace(0.05, 0.95, 60), np.random.default_rng(3)
    standings, _ = rank(aggregator, fleet(aggregator, levels, rng, spread=0.001), 0.95)
    told = [standing.separable_from_next for standing in standings.values()]
    assert told.count(True) == 59
    assert told.count(None) == 1
    # Differences below their error are not.
    standings, _ = rank(aggregator, fleet(aggregator, levels, rng, spread=0.05), 0.95)
    assert not any(standing.separable_from_next for standing in standings.values())


def test_sixty_equal_models_are_told_apart_in_one_board_of_twenty_at_most(aggregator, record_property) -> None:
    """The family-wise error over 59 comparisons of neighbours, which ranking itself has chosen."""
    rng, boards = np.random.default_rng(4), 40
    wrong = 0
    for _ in range(boards):
        standings, _ = rank(aggregator, fleet(aggregator, [0.5] * 60, rng), 0.95)
        wrong += any(standing.separable_from_next for standing in standings.values())
    record_property("family-wise error", wrong / boards)
    assert wrong / boards <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / boards)


def test_two_equal_models_are_told_apart_as_often_as_the_level_says(aggregator, record_property) -> None:
    """One comparison: neither blind nor rash. Without the part of the fit it is rash."""
    rng, boards = np.random.default_rng(5), 600
    found = {"all": 0, "scenes": 0}
    for _ in range(boards):
        entrants = fleet(aggregator, [0.5, 0.5], rng)
        bare = [
            Entrant(
                e.name,
                e.scores,
                {t: {v: Draws(d.bootstrap, d.units) for v, d in own.items()} for t, own in e.replicates.items()},
            )
            for e in entrants
        ]
        for name, given in (("all", entrants), ("scenes", bare)):
            standings, _ = rank(aggregator, given, 0.95)
            found[name] += any(standing.separable_from_next for standing in standings.values())
    record_property("rate", found)
    error = 2 * np.sqrt(0.05 * 0.95 / boards)
    assert found["all"] / boards <= 0.05 + error
    assert found["scenes"] / boards > 0.05 + error


def test_a_rank_has_the_range_that_it_takes_when_the_same_is_dropped_for_all(aggregator) -> None:
    """``peaked`` leads by one task and falls behind without it; ``last`` stays last whatever goes."""
    levels = {
        "peaked": dict.fromkeys(SCORED, 0.45) | {"E-LOC-AOA": 0.9},
        "steady": dict.fromkeys(SCORED, 0.5),
        "last": dict.fromkeys(SCORED, 0.1),
    }
    standings, _ = rank(aggregator, [entrant(aggregator, name, s) for name, s in levels.items()], 0.95)
    assert {name: standing.rank_range for name, standing in standings.items()} == {
        "peaked": (1, 2),
        "steady": (1, 2),
        "last": (3, 3),
    }
    ranks = standings["peaked"].rank_ranges
    assert (ranks.leave_one_task_out, ranks.leave_one_value_out, ranks.leave_one_fifth_out) == ((1, 2), (1, 1), None)


def test_a_range_of_ranks_pairs_the_refits(aggregator) -> None:
    """Fits that swing together keep their order; one that swings alone does not."""
    swing = 0.02 * np.array([-1.0, 1.0, -1.0, 1.0, 0.0])
    scores = {name: raw(aggregator, dict.fromkeys(SCORED, level)) for name, level in (("a", 0.501), ("b", 0.5))}

    def board(own: np.ndarray, other: np.ndarray):
        entrants = []
        for (name, folds), moved in zip(scores.items(), (own, other), strict=True):
            draws = {
                task: {
                    value: Draws(np.full(9, x), 9, x + aggregator.tasks[task].anchors.maximum * moved)
                    for value, x in values.items()
                }
                for task, values in folds.items()
            }
            entrants.append(Entrant(name, folds, draws))
        return rank(aggregator, entrants, 0.95)[0]

    assert board(swing, swing)["a"].rank_ranges.leave_one_fifth_out == (1, 1)
    assert board(swing, -swing)["a"].rank_ranges.leave_one_fifth_out == (1, 2)
    assert board(swing, -swing)["b"].rank_range == (1, 2)
    assert board(swing, swing)["a"].fragile is False


def test_every_scored_row_says_whether_it_beats_the_floor(small, runs) -> None:
    """One-sided and paired, against the row of kind chance; the floor itself, and a board without one, say nothing."""
    every = runs | {"prior": small.run("prior")}
    records, draws = ({name: run[part] for name, run in every.items()} for part in (0, 1))
    board, _ = build_board(small.manifest, records, draws)
    rows = {row.model: row for row in board.models}
    assert (rows["prior"].kind, rows["prior"].rank) == ("chance", None)
    assert rows["prior"].ood_avg is not None
    assert all(block.beats_floor is None for block in rows["prior"].tasks.values())
    for name in MODELS:
        for task, block in rows[name].tasks.items():
            better = block.score - rows["prior"].tasks[task].score
            better = better if block.direction == "higher" else -better
            assert (block.beats_floor.p < 0.5) == (better > 0), (name, task)
            assert block.beats_floor.one_sided is True
    assert rows["dsp"].tasks[TaskID.E_LOC_AOA].beats_floor.p < 0.01
    alone, _ = build_board(small.manifest, {"a": records["dsp"]}, {"dsp": draws["dsp"]})
    assert all(block.beats_floor is None for block in alone.models[0].tasks.values())
