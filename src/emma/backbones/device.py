"""Where a backbone runs: on the CPU, the same numbers everywhere, or on a GPU, whose numbers are near them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from emma.backbones.base import Backbone
from emma.backbones.modules import modules_of

#: What a config may ask for, and what a backbone can be on.
Asked = Literal["auto", "cpu", "cuda"]


def for_onnx(asked: Asked) -> tuple[str, ...]:
    """Devices to try in turn for an ONNX file; the last one's refusal counts."""
    if asked != "auto":
        return (asked,)
    import onnxruntime

    return ("cuda", "cpu") if "CUDAExecutionProvider" in onnxruntime.get_available_providers() else ("cpu",)


def for_factory(asked: Asked, factory: Callable[..., Any]) -> str:
    """The device that a factory is told of.

    ``auto`` is the GPU that torch finds, where the factory takes a ``device``.

    Raises:
        ValueError: a GPU is asked for and torch finds none.
    """
    if asked == "cpu" or (asked == "auto" and not _takes_device(factory)):
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if asked == "cuda":
        raise ValueError("torch has no cuda here, expected cpu or auto")
    return "cpu"


def _takes_device(factory: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(item.name == "device" or item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters)


def used_device(backbone: Backbone, told: str) -> str:
    """The device that a backbone is on: where its torch modules keep their numbers, else the one that it was told."""
    modules = modules_of(backbone)
    kinds = {tensor.device.type for module in modules for tensor in (*module.parameters(), *module.buffers())}
    return min(kinds - {"cpu"}, default="cpu") if kinds else told
