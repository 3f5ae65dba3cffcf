"""The OOD average is not dominated by one task, one environment or another model; where it is, the board says so."""

from pathlib import Path

import numpy as np
import pytest

from emma.aggregate import Entrant, OODAvg, rank
from emma.metrics import UndefinedMetricError
from emma.release import load_release_config

ROOT = Path(__file__).resolve().parents[3]
TASKS = load_release_config(ROOT / "config" / "releases" / "v0.1.yaml").tasks
SCORED = {task: spec for task, spec in TASKS.items() if spec.in_ood_avg}
GOOD = {"E-LOC-AOA": 9.0, "E-LOC-LOS": 0.9, "E-ID-DRONE": 0.95, "E-ID-FP": 0.7}
FAIR = {"E-LOC-AOA": 45.0, "E-LOC-LOS": 0.7, "E-ID-DRONE": 0.75, "E-ID-FP": 0.4}


def entrant(name: str, levels: dict[str, float], shift: float = 0.0, spread: float = 1e-3) -> Entrant:
    """A model with one level a task, the first held-out value better than the others by ``shift``."""
    scores = {}
    for task, spec in SCORED.items():
        bonus = [shift if number == 0 else 0.0 for number in range(len(spec.held_out))]
        scores[task] = {value: levels[task] + extra for value, extra in zip(spec.held_out, bonus, strict=True)}
    draws = np.random.default_rng(len(name)).normal(0, spread, 400)
    replicates = {task: {value: score + draws for value, score in values.items()} for task, values in scores.items()}
    return Entrant(name, scores, replicates)


def by_hand(levels: dict[str, float], without: str | None = None) -> float:
    """The OOD average from its formula, anchors written out."""
    normal = {
        "E-LOC-AOA": (90 - levels["E-LOC-AOA"]) / 90,
        "E-LOC-LOS": (levels["E-LOC-LOS"] - 0.5) / 0.5,
        "E-ID-DRONE": (levels["E-ID-DRONE"] - 0.5) / 0.5,
        "E-ID-FP": (levels["E-ID-FP"] - 1 / 12) / (11 / 12),
    }
    return float(np.mean([value for task, value in normal.items() if task != without]))


def test_leave_one_task_out_reapplies_the_same_anchors():
    """Each of the four jackknifed averages is the formula without one task, under unchanged anchors."""
    standings, _ = rank(OODAvg(TASKS), [entrant("good", GOOD)], 0.95)
    assert standings["good"].ood_avg == pytest.approx(by_hand(GOOD), rel=1e-12)
    assert set(standings["good"].leave_one_task_out) == {task.value for task in SCORED}
    for task, average in standings["good"].leave_one_task_out.items():
        assert average == pytest.approx(by_hand(GOOD, without=task), rel=1e-12)


def test_an_environment_is_dropped_from_all_its_tasks_at_once():
    """Without E_URBAN, every environment task rests on E_RURAL alone, and the devices are as they were."""
    model = entrant("good", GOOD, shift=0.04)
    standings, _ = rank(OODAvg(TASKS), [model], 0.95)
    dropped = standings["good"].leave_one_value_out
    assert {"environment=E_URBAN", "environment=E_RURAL", "device=U01", "device=U12"} <= set(dropped)
    rest = {task: (GOOD[task] if task != "E-ID-FP" else GOOD[task] + 0.04 / 12) for task in GOOD}
    assert dropped["environment=E_URBAN"] == pytest.approx(by_hand(rest), rel=1e-9)


def test_fragile_is_a_range_beyond_the_median_gap():
    """Two models far apart and even over tasks are not fragile; a lopsided one is, beside a near rival."""
    even = {"E-LOC-AOA": 18.0, "E-LOC-LOS": 0.9, "E-ID-DRONE": 0.9, "E-ID-FP": 0.8167}
    poor = {"E-LOC-AOA": 81.0, "E-LOC-LOS": 0.55, "E-ID-DRONE": 0.55, "E-ID-FP": 0.175}
    standings, _ = rank(OODAvg(TASKS), [entrant("even", even), entrant("poor", poor)], 0.95)
    assert [standings[name].fragile for name in ("even", "poor")] == [False, False]
    lopsided = {"E-LOC-AOA": 1.0, "E-LOC-LOS": 0.5, "E-ID-DRONE": 0.5, "E-ID-FP": 1 / 12}
    near = lopsided | {"E-LOC-AOA": 3.0, "E-LOC-LOS": 0.505}
    standings, statistics = rank(OODAvg(TASKS), [entrant("lopsided", lopsided), entrant("near", near)], 0.95)
    assert [standings[name].fragile for name in ("lopsided", "near")] == [True, True]
    assert statistics["rank_flips"]["leave_one_task_out"]


def test_other_models_and_other_scores_move_no_normalised_value():
    """Anchors come from the release alone: a model's own numbers are bit-identical in any company."""
    alone, _ = rank(OODAvg(TASKS), [entrant("good", GOOD)], 0.95)
    company = [entrant("good", GOOD), entrant("fair", FAIR), entrant("best", GOOD | {"E-LOC-AOA": 0.0})]
    among, _ = rank(OODAvg(TASKS), company, 0.95)
    for field in ("ood_avg", "ci95", "leave_one_task_out", "leave_one_value_out"):
        assert getattr(alone["good"], field) == getattr(among["good"], field)


def test_ranks_that_cannot_be_told_apart_say_so():
    """A gap far inside the resamples' spread is not separable; a gap far outside is, after Holm's correction."""
    close = {task: level + (0.01 if task == "E-LOC-AOA" else 0.0) for task, level in GOOD.items()}
    models = [entrant("a", GOOD, spread=0.05), entrant("bb", close, spread=0.05), entrant("ccc", FAIR, spread=0.05)]
    standings, _ = rank(OODAvg(TASKS), models, 0.95)
    assert standings["a"].separable_from_next is False
    assert standings["bb"].separable_from_next is True
    assert standings["ccc"].separable_from_next is None


def test_a_missing_or_undefined_fold_leaves_no_average():
    """An undefined held-out value is never averaged away."""
    scores = {task: dict(values) for task, values in entrant("good", GOOD).scores.items()}
    scores[next(iter(SCORED))]["E_RURAL"] = None
    with pytest.raises(UndefinedMetricError, match="E_RURAL"):
        OODAvg(TASKS)(scores)
    del scores[next(iter(SCORED))]["E_RURAL"]
    with pytest.raises(UndefinedMetricError, match="E_RURAL"):
        OODAvg(TASKS)(scores)
