"""What pretraining bought: every model against its control, on the same folds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from common.errors import InputError
from emma.evaluation.records import Draws
from emma.evaluation.uncertainty import MeanDraws
from emma.results.ranking import Standing, average_interval, gain_interval
from emma.results.records import Bought, Difference, RunRecord
from emma.tasks import TaskID


def compare_controls(
    runs: Iterable[RunRecord],
    standings: Mapping[str, Standing],
    replicates: Mapping[str, Mapping[TaskID, Mapping[str, Draws]]],
    level: float,
) -> dict[str, Bought]:
    """The comparison of every model that has a control on the board.

    Args:
        runs: all runs.
        standings: OOD averages and their draws by model.
        replicates: draws of the primary scores by model, task and held-out value.
        level: coverage of the intervals.

    Raises:
        InputError: draws of the two are missing, or of other scenes.
    """
    by_name = {run.model: run for run in runs}
    found = {}
    for control in by_name.values():
        run = by_name.get(control.control_of or "")
        if run is None:
            continue
        try:
            averages = _averages(standings[run.model], standings[control.model], level)
            tasks = {
                task: _task(run, control, task, replicates, level) for task in run.tasks if task in control.tasks
            }
        except (KeyError, ValueError) as error:
            raise InputError(f"model {run.model}: replicates of it and its control: {error}") from None
        found[run.model] = Bought(model=control.model, ood_avg=averages, tasks=tasks)
    return found


def _averages(own: Standing, other: Standing, level: float) -> Difference:
    if own.ood_avg is None or other.ood_avg is None:
        return Difference(score=other.ood_avg, difference=None, ci95=None)
    gain = own.ood_avg - other.ood_avg
    return Difference(
        score=other.ood_avg, difference=gain, ci95=average_interval(gain, own.draws, other.draws, level)
    )


def _task(
    run: RunRecord,
    control: RunRecord,
    task: TaskID,
    replicates: Mapping[str, Mapping[TaskID, Mapping[str, Draws]]],
    level: float,
) -> Difference:
    block, other = run.tasks[task], control.tasks[task]
    if block.score is None or other.score is None:
        return Difference(score=other.score, difference=None, ci95=None)
    sign = 1.0 if block.direction == "higher" else -1.0

    gain = sign * (block.score - other.score)
    # The variance of a difference knows no sign: the draws keep the metric's own.
    own, others = (
        MeanDraws.of([replicates[name][task][value] for value in block.values])
        for name in (run.model, control.model)
    )
    return Difference(score=other.score, difference=gain, ci95=gain_interval(gain, own, others, level))
