"""What a model cannot see of a release's tasks, before anything runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from common.errors import InputError
from emma.backbones.inputs import Contract
from emma.data.reference import with_reference
from emma.data.release import DataReleaseManifest, ReleaseConfig
from emma.tasks import TaskID, TaskSpec, target_of


def check_view(
    contract: Contract, tasks: Sequence[TaskID], release: ReleaseConfig | DataReleaseManifest, path: str | Path
) -> None:
    """Refuse ``view: csi`` for tasks whose scenes carry no reference symbol.

    Args:
        contract: the model's.
        tasks: those that the model takes.
        release: the release.
        path: the model's config.

    Raises:
        InputError: a task without; the line says which ones can be listed.
    """
    if contract.view != "csi":
        return
    carrying = with_reference(release.rfgen)
    lacking = [task for task in tasks if task in release.tasks and task not in carrying]
    if lacking:
        known = [task for task in carrying if task in release.tasks]
        hint = f"expected tasks: [{', '.join(known)}]" if known else "nor do those of its other tasks"
        scenes = f"scenes of {', '.join(lacking)} in release {release.release}"
        raise InputError(f"{path}: view: csi: {scenes} carry no reference symbol, {hint}")


def unseen(contract: Contract, specs: Mapping[TaskID, TaskSpec]) -> str | None:
    """What lies between antennas and a model that gets one at a time cannot see, in a few words; else None."""
    if not contract.sees_one_antenna:
        return None
    hidden: dict[str, list[str]] = {}
    for task, spec in specs.items():
        if (label := target_of(spec).needs_array) is not None:
            hidden.setdefault(label, []).append(task.value)
    texts = [f"cannot see a {label}: expect the floor on {', '.join(tasks)}" for label, tasks in hidden.items()]
    return f"one antenna at a time {'; '.join(texts)}" if texts else None
