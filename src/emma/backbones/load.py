"""From a model's config to its backbone: a factory with safetensors weights, or an ONNX file."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from common.errors import InputError
from common.hashing import sha256
from emma.backbones.base import Backbone
from emma.backbones.config import ModelConfig
from emma.backbones.onnx_file import OnnxBackbone
from emma.data.provenance import Provenance


def load_weights(path: str | Path, expected_sha256: str | None = None) -> tuple[dict[str, NDArray[Any]], str]:
    """Read safetensors weights; InputError if they are missing, broken or not those expected.

    Returns:
        the arrays by name, and the SHA-256 of the file.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    data = _read_pinned(path, expected_sha256)
    try:
        return load(data), sha256(data)
    except SafetensorError as error:
        raise InputError(f"{path}: expected a safetensors file ({error})") from None
    except KeyError as error:
        raise InputError(f"{path}: expected types that numpy has, found {error}") from None


def _read_pinned(path: str | Path, expected_sha256: str | None) -> bytes:
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: weights cannot be read ({error.strerror})") from None
    if expected_sha256 is not None and sha256(data) != expected_sha256:
        raise InputError(f"{path}: weights_sha256: expected {expected_sha256}, found {sha256(data)}")
    return data


def load_function(reference: str, field: str, root: str | Path = ".") -> Callable[..., Any]:
    """Import ``package.module:function``, installed or in the project's folder; InputError names ``field``."""
    module, _, name = reference.partition(":")
    # Last, so that a folder of the project hides no installed module.
    if (folder := str(Path(root).resolve())) not in sys.path:
        sys.path.append(folder)
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as error:  # noqa: BLE001 (a module that is loaded by name may raise anything)
        raise InputError(f"{field}: {reference} cannot be imported ({error})") from None
    return function


def load_backbone(
    config: ModelConfig, root: str | Path = ".", trained: str | Path | None = None
) -> tuple[Backbone, Provenance]:
    """Build a model's backbone.

    Args:
        config: the model's config.
        root: folder that its paths are relative to.
        trained: weights that its ``pretrain`` rule made.

    Returns:
        the backbone, and its provenance.
    """
    if config.truth:
        raise InputError(f"model {config.name}: truth: the generator writes its embeddings, expected a model to load")
    backbone: Backbone
    if config.onnx is not None:
        data = _read_pinned(Path(root) / config.onnx, config.weights_sha256)
        backbone = OnnxBackbone(config.name, data, config.onnx, config.device)
        digest = config.weights_sha256
    elif config.factory is not None:  # the config has one of the two
        weights: dict[str, NDArray[Any]] | None = None
        digest = None
        if config.weights is not None:
            weights, digest = load_weights(Path(root) / config.weights, config.weights_sha256)
        elif config.pretrain is not None:
            if trained is None:
                raise InputError(f"model {config.name}: pretrain: expected the weights that the rule makes")
            weights, digest = load_weights(trained)
        backbone = _call_factory(config, config.factory, weights, root)
    return backbone, Provenance.of(config.name, config, config.pretraining, digest)


def _call_factory(
    config: ModelConfig, reference: str, weights: Mapping[str, NDArray[Any]] | None, root: str | Path
) -> Backbone:
    if config.device == "cuda":
        import torch

        if not torch.cuda.is_available():
            raise InputError(f"model {config.name}: device: torch has no cuda here, expected cpu")
    factory = load_function(reference, f"model {config.name}: factory", root)
    options = dict(config.options) | ({"device": config.device} if config.device != "cpu" else {})
    try:
        backbone = factory(weights, **options)
    except (TypeError, ValueError, KeyError, RuntimeError, AssertionError) as error:
        raise InputError(
            f"model {config.name}: factory: {reference} refused its weights or options ({error})"
        ) from None
    if not isinstance(backbone, Backbone):
        raise InputError(f"model {config.name}: factory: expected an object with name, embedding_dim and embed")
    return backbone
