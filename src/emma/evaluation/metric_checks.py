"""Whether a release's metrics measure what its tasks predict: checked where metrics are known, once at each door.

Apart from TaskSpec, which scene and fit jobs read too: they must not depend on the code of a metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from common.errors import InputError
from emma.metrics import METRICS
from emma.tasks import TaskID, TaskSpec, target_of


def check_metrics(tasks: Mapping[TaskID, TaskSpec], source: str | Path) -> None:
    """Refuse a task whose metrics do not measure its target, or whose unit is not its metric's.

    Args:
        tasks: the declarations of a release's tasks.
        source: what to call them in an error.

    Raises:
        InputError: names the key and what was expected.
    """
    for task, spec in tasks.items():
        target = target_of(spec)
        for name in (spec.metric, *spec.secondary_metrics):
            if name not in METRICS or target.form_for(METRICS[name]) is None:
                expected = ", ".join(known for known in METRICS if target.form_for(METRICS[known]) is not None)
                raise InputError(
                    f"{source}: tasks.{task}.metric: {name} does not measure target {spec.target}, expected {expected}"
                )
        if spec.unit != (unit := METRICS[spec.metric].unit):
            raise InputError(f"{source}: tasks.{task}.unit: {spec.unit}, expected {unit}, that of {spec.metric}")
