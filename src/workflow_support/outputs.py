"""Whether the files of a run can be written: asked before its first job."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from common.errors import InputError
from common.places import check_places
from workflow_support.plan import Plan


def check_outputs(plan: Plan, others: Iterable[str] = ()) -> None:
    """Refuse, before anything runs, a place of a result that is no folder, is not writable, or has no room.

    Args:
        plan: of the run.
        others: further files that rules write, relative to the project.

    Raises:
        InputError: names the place.
    """
    layout = plan.layout
    files = {layout.board, layout.manifest, layout.archive(plan.release.release), layout.board_as("html")}
    files |= {layout.report("speed"), layout.figures / "overview.svg", Path(".snakemake/metadata/record")}
    files |= {layout.channels("TRAIN"), layout.log("board"), *map(Path, others)}
    for task in plan.tasks:
        files |= {layout.scenes(task, "TRAIN"), *(layout.side(task, *fold, "eval") for fold in plan.folds(task))}
    for model in [*plan.models, *plan.submissions]:
        files |= {layout.run(model), layout.cost(model), layout.probes(model), layout.weights(model)}
        files |= {layout.metrics(*place) for place in plan.model_folds(model)}
        files |= {layout.embeddings(model, task) for task in plan.tasks_of(model)}
    for model in plan.models:
        files |= {layout.capture_metrics(name, model) for name in plan.captures_of(model)}
    try:
        check_places(plan.root / file for file in files)
    except InputError as error:
        raise InputError(str(error).removeprefix(f"{plan.root}/")) from None
