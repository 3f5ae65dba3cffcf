"""What a network scores untrained: the same network with the entries of every weight tensor in another order.

A permutation keeps the architecture, and the values of every tensor to the last one; only what training put in their
places is lost. Running statistics of normalisation layers belong to the order that was, and most features behind them
would be constant: they are estimated again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.errors import InputError
from common.streams import Seed, stream
from emma.backbones.base import IQ, Backbone, Embeddings
from emma.backbones.config import ControlConfig
from emma.backbones.embed import UnsuitedError, embed_batch
from emma.backbones.load import build_backbone, build_onnx, load_weights, onnx_bytes
from emma.backbones.modules import modules_of
from emma.backbones.onnx_file import OnnxBackbone
from emma.backbones.onnx_graph import batch_norms, floating_weights
from emma.data.scenes import first_scenes

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)

Weights = Mapping[str, NDArray[Any]]

#: Scenes by the name of their pool, complex64 ``[n, A, T]``, with the index rows that give their rate and carrier.
Pools = Mapping[str, tuple[pa.Table, IQ]]

#: What torch calls the running statistics of a normalisation layer, at the end of their names.
_MEAN, _VARIANCE = "running_mean", "running_var"

#: Scenes of a pool that statistics are estimated on, and how many of them go through the network together.
SCENES, _BATCH = 512, 128


def read_pool(path: str | Path) -> tuple[pa.Table, IQ]:
    """The first scenes of a pool's file."""
    return first_scenes(path, SCENES)


def original_weights(
    config: ControlConfig, root: str | Path = ".", trained: str | Path | None = None
) -> dict[str, NDArray[Any]]:
    """The weights that a control permutes, by name; ``trained`` is the file that the model's pretrain rule made."""
    if config.onnx is not None:
        weights = floating_weights(onnx_bytes(config, root))
        # numpy, and safetensors with it, has no bfloat16.
        return {name: tensor for name, tensor in weights.items() if np.issubdtype(tensor.dtype, np.floating)}
    if config.weights is not None:
        return load_weights(Path(root) / config.weights, config.weights_sha256)[0]
    if trained is None:
        raise InputError(f"model {config.control_of}: pretrain: expected the weights that the rule makes")
    return load_weights(trained)[0]


def permuted(weights: Weights, seed: Seed, statistics: Collection[str] = ()) -> dict[str, NDArray[Any]]:
    """Weights by name, the entries of every floating tensor in an order that (seed, name) draws.

    Tensors of whole numbers and of one element stay, and so do ``statistics``, those of normalisation layers.
    """
    return {
        name: weights[name] if name in statistics else _permuted(name, weights[name], seed) for name in sorted(weights)
    }


def running_statistics(config: ControlConfig, weights: Weights, root: str | Path = ".") -> list[str]:
    """Names of the running means and variances among a model's weights, as torch names them or its graph uses them."""
    if config.onnx is not None:
        norms = batch_norms(onnx_bytes(config, root))
        return sorted({name for norm in norms for name in (norm.mean, norm.variance)} & set(weights))
    return [name for name in sorted(weights) if name.endswith((_MEAN, _VARIANCE))]


def unlike_permuted(weights: Weights, made: Weights, seed: Seed, statistics: Collection[str] = ()) -> str | None:
    """The first tensor of a control that is not the model's, permuted; ``statistics`` are not looked at."""
    expected = permuted(weights, seed, statistics)
    for name in sorted({*expected, *made} - set(statistics)):
        if name not in expected or name not in made or not _same(expected[name], made[name]):
            return name
    return None


def _same(first: NDArray[Any], second: NDArray[Any]) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def _permuted(name: str, tensor: NDArray[Any], seed: Seed) -> NDArray[Any]:
    if not np.issubdtype(tensor.dtype, np.floating) or tensor.size < 2:
        return tensor
    return stream(seed, "control", name).permutation(tensor.ravel()).reshape(tensor.shape)


def control_weights(
    config: ControlConfig, weights: Weights, pools: Pools, seed: Seed, root: str | Path = "."
) -> dict[str, NDArray[Any]]:
    """The weights of a model's control.

    Args:
        config: the control's config.
        weights: the model's weights by name.
        pools: scenes of the PRETRAIN pools; those that the model does not take are left out.
        seed: the run's seed.
        root: folder that the config's paths are relative to.

    Returns:
        permuted weights, with running statistics of the pools' scenes.

    Raises:
        InputError: a layer has running statistics, and no pool is there that the model takes.
    """
    statistics = running_statistics(config, weights, root)
    shuffled = permuted(weights, seed, statistics)
    if not statistics:
        return shuffled
    if config.onnx is not None:
        return shuffled | _statistics_of_onnx(config, shuffled, pools, root)
    return shuffled | _statistics_of_torch(config, shuffled, statistics, pools, root)


def _statistics_of_torch(
    config: ControlConfig, weights: Weights, names: Sequence[str], pools: Pools, root: str | Path
) -> dict[str, NDArray[Any]]:
    """Running statistics by name, as the layers of a torch module meet them on the pools."""
    # A factory may name and place weights as it likes: numbers that occur once show which layer holds which tensor.
    marked = {name: np.full_like(weights[name], place) for place, name in enumerate(names, start=1)}
    backbone = build_backbone(config, {**weights, **marked}, root)
    layers = [layer for module in modules_of(backbone) for layer in module.modules() if _is_running(layer)]
    held = {
        (number, key): name
        for name, mark in marked.items()
        for number, layer in enumerate(layers)
        for key in (_MEAN, _VARIANCE)
        if np.array_equal(getattr(layer, key).numpy(), mark)
    }
    with _measured(layers) as moments:
        through = sum(_pass(config, backbone, *pools[name]) for name in sorted(pools))
    if not through:
        raise _no_pool(config)
    found = {
        held[place]: value.astype(weights[held[place]].dtype)
        for number, moment in enumerate(moments)
        for place, value in (((number, _MEAN), moment.mean), ((number, _VARIANCE), moment.variance))
        if place in held and moment.count
    }
    if left := [name for name in names if name not in found]:
        _LOG.warning("%s: %d running statistics met no scene and stay, %s first", config.name, len(left), left[0])
    return found


def _no_pool(config: ControlConfig) -> InputError:
    return InputError(
        f"model {config.name}: control: running statistics are estimated on PRETRAIN pools, of which the model takes "
        "none: expected control: false"
    )


def _statistics_of_onnx(
    config: ControlConfig, weights: Weights, pools: Pools, root: str | Path
) -> dict[str, NDArray[Any]]:
    """Running statistics by name, layer by layer: each meets the pools behind those that are estimated already."""
    data = onnx_bytes(config, root)
    found: dict[str, NDArray[Any]] = {}
    for norm in batch_norms(data):
        tap = _Tap(build_onnx(config, data, {**weights, **found}), norm.input)
        if not sum(_pass(config.model_copy(update={"pooling": "none"}), tap, *pools[name]) for name in sorted(pools)):
            raise _no_pool(config)
        for name, value in ((norm.mean, tap.moments.mean), (norm.variance, tap.moments.variance)):
            found[name] = value.astype(weights[name].dtype)
    return found


class _Tap:
    """A graph in the place of a backbone: it embeds nothing, and takes down the moments of one of its tensors."""

    embedding_dim = 0

    def __init__(self, graph: OnnxBackbone, tensor: str) -> None:
        self.name, self._graph, self._tensor = graph.name, graph, tensor
        self.moments = _Moments()

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Empty rows ``[B, 0]``."""
        del sample_rate_hz, center_frequency_hz
        self.moments.add(self._graph.run_tensor(self._tensor, iq))
        return np.zeros((len(iq), 0), np.float32)


def _is_running(layer: torch.nn.Module) -> bool:
    return all(getattr(layer, key, None) is not None for key in (_MEAN, _VARIANCE))


class _Moments:
    """Mean and variance per channel, axis 1, over all batches that a layer met."""

    def __init__(self) -> None:
        self.count = 0
        self._sum, self._squares = np.zeros(1), np.zeros(1)

    def add(self, values: NDArray[Any]) -> None:
        """Take a batch ``[B, C, ...]`` in."""
        rows = np.moveaxis(values, 1, 0).reshape(values.shape[1], -1).astype(np.float64)
        self._join(rows.shape[1], rows.sum(axis=1), (rows**2).sum(axis=1))

    def join(self, other: _Moments) -> None:
        """Take in what another met."""
        self._join(other.count, other._sum, other._squares)

    def _join(self, count: int, total: NDArray[np.float64], squares: NDArray[np.float64]) -> None:
        self.count += count
        self._sum, self._squares = self._sum + total, self._squares + squares

    @property
    def mean(self) -> NDArray[np.float64]:
        """``[C]``."""
        return self._sum / self.count

    @property
    def variance(self) -> NDArray[np.float64]:
        """``[C]``."""
        return np.maximum(self._squares / self.count - self.mean**2, 0.0)


@contextmanager
def _measured(layers: Sequence[torch.nn.Module]) -> Iterator[list[_Moments]]:
    """Let every layer normalise by the batch that it gets, and take the moments of all batches down.

    ``torch.optim.swa_utils.update_bn`` asks for a module and a loader; a backbone is neither.
    """
    import torch

    moments = [_Moments() for _ in layers]

    def hook(moment: _Moments) -> Callable[[torch.nn.Module, tuple[Any, ...]], None]:
        def measure(layer: torch.nn.Module, given: tuple[Any, ...]) -> None:
            own = _Moments()
            own.add(given[0].detach().cpu().numpy())
            moment.join(own)
            for key, value in ((_MEAN, own.mean), (_VARIANCE, own.variance)):
                getattr(layer, key).copy_(torch.from_numpy(value))

        return measure

    handles = [layer.register_forward_pre_hook(hook(moment)) for layer, moment in zip(layers, moments, strict=True)]
    try:
        yield moments
    finally:
        for handle in handles:
            handle.remove()


def _pass(config: ControlConfig, backbone: Backbone, index: pa.Table, iq: IQ) -> int:
    """Embed a pool's scenes in even batches, since statistics of a few are poor; how many the model took."""
    contract = config.model_copy(update={"batch_size": _BATCH})
    try:
        embed_batch(backbone, iq, index, contract)
    except UnsuitedError:
        return 0
    return len(iq)
