"""Whether scenes fit the models' ONNX files: asked before the first job, of the files' graphs alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.backbones.config import ControlConfig, ModelConfig
from emma.backbones.dense import task_contract
from emma.data.reference import REFERENCE_START, Reference
from rfgen.scenes.base import SceneTask
from workflow_support.plan import Plan


def check_inputs(plan: Plan) -> None:
    """Refuse, before anything runs, a graph whose input the scenes of a task do not fit.

    Raises:
        InputError: names the model's config, the task, and the keys to set.
    """
    for name, model in plan.models.items():
        if model.onnx is not None and not isinstance(model, ControlConfig):
            _check_input(plan, name, model, model.onnx)


def _check_input(plan: Plan, name: str, model: ModelConfig, onnx: str) -> None:
    # Both load libraries that few runs need.
    from emma.backbones.embed import embed_batch
    from emma.backbones.load import onnx_bytes
    from emma.backbones.onnx_input import silent_backbone

    where = f"config/models/{name}.yaml"
    try:
        backbone = silent_backbone(name, onnx_bytes(model, plan.root), onnx, model, model.output)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    for task in plan.tasks_of(name):
        scenes = plan.recipe.tasks[task]
        iq = np.zeros((1, scenes.antennas, scenes.samples), np.complex64)
        try:
            embed_batch(backbone, iq, _index(scenes, plan), task_contract(model, plan.spec(task)))
        except InputError as error:
            raise InputError(f"{where}: {task}: {str(error).removeprefix(f'model {name}: ')}") from None


def _index(scenes: SceneTask, plan: Plan) -> pa.Table:
    """The row of a scene with the columns that a model's input depends on."""
    carrier = plan.recipe.bands_hz[scenes.bands[0]]
    index = pa.table({"sample_rate_hz": [scenes.sample_rate_hz], "center_frequency_hz": [carrier]})
    if (reference := Reference.of(scenes.known_symbol())) is None:
        return index
    start = pa.array([reference.prefix], pa.int64())
    return index.append_column(REFERENCE_START, start).replace_schema_metadata(reference.metadata)
