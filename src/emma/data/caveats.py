"""Caveats that follow from what a release scores: its degrees of freedom, and what its intervals are over."""

from __future__ import annotations

from collections.abc import Mapping

from emma.tasks import TaskID, TaskSpec, target_of

#: Axes of fewer values than this are named: a mean over them has too few degrees of freedom to be taken for granted.
_FEW = 10

_WORDS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


def derived_caveats(tasks: Mapping[TaskID, TaskSpec]) -> tuple[str, ...]:
    """Sentences that the specs imply, to stand wherever an aggregate or an interval is shown.

    Args:
        tasks: specs of the release's tasks.

    Returns:
        what the OOD average is, if any task enters it, with the degrees of freedom of the axes that have few values;
        and what intervals are over.
    """
    averaged = {task: spec for task, spec in tasks.items() if spec.in_ood_avg}
    sentences = []
    if averaged:
        few = "; ".join(_freedom(averaged))
        ranking = "OOD-avg is a comparative ranking under a fixed protocol, not a population estimate of transfer"
        sentences.append(f"{ranking}{': ' + few if few else ''}. Read every aggregate with its components.")
    enrolling = ", ".join(task for task, spec in tasks.items() if target_of(spec).enrols)
    sessions = f" (sessions, and those that enrol, for {enrolling})" if enrolling else ""
    fits = " and the averaged tasks' fits" if averaged else ""
    sentences.append(
        f"Intervals are over scenes{sessions}{fits}, given these held-out values; they do not cover new environments or"
        " devices."
    )
    return tuple(sentences)


def _freedom(tasks: Mapping[TaskID, TaskSpec]) -> list[str]:
    """Degrees of freedom of each axis that has few values; tasks are named where those of an axis differ in number."""
    counts: dict[str, dict[int, list[str]]] = {}
    for task, spec in tasks.items():
        counts.setdefault(spec.ood_axis.value, {}).setdefault(len(spec.held_out), []).append(task.value)
    said = []
    for axis, by_count in counts.items():
        for count, names in by_count.items():
            if count >= _FEW:
                continue
            where = f" in {', '.join(names)}" if len(by_count) > 1 else ""
            degrees = "1 degree" if count == 2 else f"{count - 1} degrees"
            values = f"the {axis.replace('_', ' ')} axis has {_WORDS[count]} values{where}"
            said.append(f"{values}, so that a mean over it has {degrees} of freedom")
    return said
