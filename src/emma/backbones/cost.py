"""What a backbone costs, counted and so the same everywhere: parameters, multiply-accumulates, width, bytes.

Time and memory are measured, on one machine, and stand apart (``emma.backbones.speed``).
"""

from __future__ import annotations

import contextlib
import math
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.rows import RowFile
from emma.backbones.base import IQ, Backbone, Embeddings
from emma.backbones.config import ModelConfig
from emma.backbones.dense import row_width
from emma.backbones.embed import embed_batch
from emma.backbones.features import dead_features
from emma.backbones.inputs import Contract
from emma.backbones.modules import held_by, modules_of
from emma.data.costs import Cost, TaskCost
from emma.data.provenance import Provenance
from emma.data.scenes import iterate_scenes
from emma.tasks import TaskID

#: A session of onnxruntime, inputs of it, and the number of runs with inputs of their shapes.
Run = tuple[Any, dict[str, NDArray[Any]], int]

#: Why there is no count.
NO_GRAPH = "no torch or ONNX graph to count"


def cost_of(
    config: ModelConfig,
    backbone: Backbone,
    provenance: Provenance,
    scenes: Mapping[TaskID, tuple[IQ, pa.Table]],
    trained: Mapping[TaskID, Embeddings | RowFile],
    weights: Path | None = None,
    contracts: Mapping[TaskID, Contract] | None = None,
) -> Cost:
    """What a model is and costs.

    Args:
        config: its config.
        backbone: it, loaded.
        provenance: its provenance.
        scenes: by task, complex64 ``[n, A, T]`` with their index rows, as ``count_macs`` takes them.
        trained: by task, embeddings ``[N, D]`` of TRAIN scenes.
        weights: its file of weights, if it has one.
        contracts: its contract for tasks with windows (``emma.backbones.dense``).
    """
    tasks = {}
    for task, (iq, index) in scenes.items():
        contract = (contracts or {}).get(task, config)
        macs, reason = count_macs(backbone, iq, index, contract)
        dead = dead_features(trained[task]) if task in trained else None
        width = row_width(contract, backbone.embedding_dim, iq.shape)
        tasks[task] = TaskCost(macs=macs, uncounted=reason, width=width, dead_features=dead)
    return Cost(
        model=config.name,
        # After the calls above, which lazy modules wait for.
        parameters=count_parameters(backbone, weights),
        weights_bytes=None if weights is None else weights.stat().st_size,
        tasks=tasks,
        description=config.description,
        link=config.link,
        licence=config.licence,
        model_provenance=provenance,
    )


def first_batches(paths: Mapping[TaskID, Path], size: int) -> dict[TaskID, tuple[IQ, pa.Table]]:
    """The first ``size`` scenes of each file, complex64 ``[n, A, T]``, with their index rows: what is counted on."""
    chunks = {task: next(iterate_scenes(path, verify=False)) for task, path in paths.items()}
    return {task: (iq[:size], index.slice(0, size)) for task, (index, iq) in chunks.items()}


def count_macs(backbone: Backbone, iq: IQ, index: pa.Table, contract: Contract) -> tuple[int | None, str | None]:
    """Multiply-accumulates per scene of one call, as the workflow embeds scenes.

    Convolutions and matrix products of torch (``torch.utils.flop_counter``) and of onnxruntime (``onnx_macs``) count;
    what is added, normalised or Fourier-transformed does not, nor does what NumPy computes.

    Args:
        backbone: the model.
        iq: complex64 ``[n, A, T]``; best a full batch, since a graph of a fixed batch computes one in any case.
        index: their index rows.
        contract: how scenes reach the model.

    Returns:
        the count, rounded; or None and the reason.

    Raises:
        InputError: the scenes do not fit, as ``embed_batch`` says.
    """
    with _onnx_runs() as runs, _torch_flops() as flops:
        embed_batch(backbone, iq, index, contract)
    total = 0
    for session, feeds, times in runs.values():
        from emma.backbones.onnx_macs import graph_macs

        try:
            total += times * graph_macs(_graph(session), feeds)
        except ValueError as error:
            return None, str(error)
    if not runs and not flops() and not modules_of(backbone):
        return None, NO_GRAPH
    return round((total + flops() / 2) / len(iq)), None


def count_parameters(backbone: Backbone, weights: Path | None = None) -> int:
    """Distinct floating parameters of the torch modules of a backbone; else of its ONNX graphs, else of its weights.

    Args:
        backbone: the model, whose attributes, lists and mappings are looked through.
        weights: its safetensors or ONNX file, if it has one.
    """
    if modules := modules_of(backbone):
        parameters = {id(item): item for module in modules for item in module.parameters()}
        if parameters:
            return sum(item.numel() for item in parameters.values() if item.is_floating_point() or item.is_complex())
    if (runtime := sys.modules.get("onnxruntime")) and (sessions := held_by(backbone, runtime.InferenceSession)):
        from emma.backbones.onnx_macs import graph_parameters

        return sum(graph_parameters(_graph(session)) for session in sessions)
    if weights is not None and weights.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(weights, "numpy") as file:
            slices = [file.get_slice(name) for name in sorted(file.keys())]
            return sum(math.prod(part.get_shape()) for part in slices if "F" in part.get_dtype())
    return 0


@contextlib.contextmanager
def _torch_flops() -> Iterator[Any]:
    """Count what torch computes; yields a function that gives the floating-point operations when it is over."""
    if "torch" not in sys.modules:
        yield lambda: 0
        return
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    counter = FlopCounterMode(display=False)
    fast = torch.backends.mha.get_fastpath_enabled()
    # Fused layers (LSTM of oneDNN, fast and flash attention) would count for nothing: they are computed step by step.
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            with torch.backends.mkldnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH), counter:
                yield counter.get_total_flops
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def _onnx_runs() -> Iterator[dict[object, Run]]:
    """Note the runs of onnxruntime's sessions: each session with one of its inputs of a shape, and how often."""
    runs: dict[object, Run] = {}
    if "onnxruntime" not in sys.modules:
        yield runs
        return
    from onnxruntime import InferenceSession

    run = InferenceSession.run

    def noted(session: Any, output_names: Any, input_feed: Mapping[str, NDArray[Any]], run_options: Any = None) -> Any:
        key = (id(session), *((name, np.shape(input_feed[name])) for name in sorted(input_feed)))
        _, feeds, times = runs.get(key, (session, dict(input_feed), 0))
        runs[key] = (session, feeds, times + 1)
        return run(session, output_names, input_feed, run_options)

    with patch.object(InferenceSession, "run", noted):
        yield runs


def _graph(session: Any) -> Any:
    """The graph that a session of onnxruntime was made from, which it keeps under private names."""
    import onnx

    data = getattr(session, "_model_bytes", None)
    return onnx.load_from_string(data) if data is not None else onnx.load(session._model_path)
