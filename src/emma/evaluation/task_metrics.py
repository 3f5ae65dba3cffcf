"""The metrics of a task as its release pins them, and whether they measure what the task predicts.

Apart from TaskSpec, which scene and fit jobs read too: they must not depend on the code of a metric.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from common.errors import InputError, near
from emma.metrics import METRICS, Metric, TopKAccuracy, make_metric
from emma.tasks import Target, TaskID, TaskSpec, target_of


def metric_of(spec: TaskSpec, name: str) -> Metric:
    """A metric with the task's pinned ``k`` and ``tokenizer``; ValueError for an unknown name or tokenizer."""
    return make_metric(name, k=spec.k, tokenizer=spec.tokenizer)


def _fits(target: Target, name: str) -> bool:
    """Whether a metric measures a target; no for one whose data are not installed."""
    try:
        return target.form_for(METRICS[name]) is not None
    except ImportError:
        return False


def check_metrics(tasks: Mapping[TaskID, TaskSpec], source: str | Path) -> None:
    """Refuse a task whose metrics do not measure its target, lack a pinned key, or have another unit.

    Args:
        tasks: the declarations of a release's tasks.
        source: what to call them in an error.

    Raises:
        InputError: names the key and what was expected, or what a metric needs that is not installed.
    """
    for task, spec in tasks.items():
        target, where = target_of(spec), f"{source}: tasks.{task}"
        names = (spec.metric, *spec.secondary_metrics)
        for name in names:
            try:
                fits = name in METRICS and target.form_for(METRICS[name]) is not None
            except ImportError as error:
                # Those of this task alone: what other tasks could need is nothing to stop for.
                raise InputError(f"{where}.metric: {name}: {error}") from None
            if not fits:
                fitting = [known for known in METRICS if _fits(target, known)]
                fault = f"does not measure target {spec.target}" if name in METRICS else "is unknown"
                forms = f"a metric that takes {' or '.join(target.forms)}"
                told = f"expected {', '.join(fitting) or forms}"
                if name not in METRICS and (meant := near(name, fitting)):
                    told += f"; did you mean {meant}?"
                raise InputError(f"{where}.metric: {name} {fault}, {told}")
        for key in ("k", "tokenizer"):
            if getattr(spec, key) is not None and not any(key in METRICS[name].release_keys for name in names):
                raise InputError(f"{where}.{key}: none of {', '.join(names)} takes it")
        if "TopKAccuracy" in names and (k := TopKAccuracy().k if spec.k is None else spec.k) >= len(spec.classes):
            raise InputError(f"{where}.k: {k}, expected fewer than the {len(spec.classes)} classes")
        try:
            unit = metric_of(spec, spec.metric).unit
        except ValueError as error:
            raise InputError(f"{where}: {error}") from None
        if spec.unit != unit:
            raise InputError(f"{where}.unit: {spec.unit}, expected {unit}, that of {spec.metric}")
