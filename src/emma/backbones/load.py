"""From a model's config to its backbone: a factory with safetensors weights, or an ONNX file."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from common.doors import read_bytes
from common.errors import InputError
from common.hashing import sha256
from emma.backbones.base import Backbone
from emma.backbones.config import ControlConfig, ModelConfig
from emma.backbones.device import for_factory, for_onnx, used_device
from emma.data.provenance import Provenance

if TYPE_CHECKING:
    from emma.backbones.onnx_file import OnnxBackbone


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


def weights_bytes(weights: Mapping[str, NDArray[Any]]) -> bytes:
    """Weights by name as the content of a safetensors file, names in order and every shape as it is."""
    from safetensors.numpy import save

    # ascontiguousarray would make a vector of a scalar.
    return save({name: np.asarray(weights[name], order="C") for name in sorted(weights)})


def _read_pinned(path: str | Path, expected_sha256: str | None) -> bytes:
    data = read_bytes(path)
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
        trained: weights that a rule made: of a model with ``pretrain``, or of a control.

    Returns:
        the backbone, and its provenance.
    """
    weights, digest = stored_weights(config, root, trained)
    backbone, device = _built(config, weights, root)
    provenance = Provenance.of(config.name, config, config.pretraining, digest or config.weights_sha256)
    return backbone, provenance.model_copy(update={"device": used_device(backbone, device)})


def provenance_with(config: ModelConfig, trained: Path | None, device: str, isolation: str) -> Provenance:
    """The provenance of a model that is loaded elsewhere: see ``load_backbone``, and ``Provenance`` for the rest."""
    digest = config.weights_sha256 if trained is None else sha256(_read_pinned(trained, None))
    provenance = Provenance.of(config.name, config, config.pretraining, digest)
    return provenance.model_copy(update={"device": device, "isolation": isolation})


def stored_weights(
    config: ModelConfig, root: str | Path = ".", trained: str | Path | None = None
) -> tuple[dict[str, NDArray[Any]] | None, str | None]:
    """A model's safetensors weights by name and the SHA-256 of their file, or None twice; see ``load_backbone``."""
    if isinstance(config, ControlConfig) or config.pretrain is not None:
        if trained is None:
            field = "pretrain" if config.pretrain is not None else "control"
            raise InputError(f"model {config.name}: {field}: expected the weights that the rule makes")
        return load_weights(trained)
    if config.weights is not None:
        return load_weights(Path(root) / config.weights, config.weights_sha256)
    return None, None


def build_backbone(config: ModelConfig, weights: Mapping[str, NDArray[Any]] | None, root: str | Path = ".") -> Backbone:
    """The backbone of a config with the given weights by name, None for those of its ONNX file or for none."""
    return _built(config, weights, root)[0]


def _built(config: ModelConfig, weights: Mapping[str, NDArray[Any]] | None, root: str | Path) -> tuple[Backbone, str]:
    """The backbone, and the device that it was told to run on."""
    if config.truth:
        raise InputError(f"model {config.name}: truth: the generator writes its embeddings, expected a model to load")
    if config.onnx is not None:
        onnx = build_onnx(config, onnx_bytes(config, root), weights)
        return onnx, onnx.device
    assert config.factory is not None
    return _call_factory(config, config.factory, weights, root)


def weights_file(config: ModelConfig, root: str | Path = ".", trained: Path | None = None) -> Path | None:
    """The file of a model's weights: that which a rule made, or the pinned one; None where it has none."""
    return trained or (Path(root) / config.pinned if config.pinned else None)


def build_onnx(config: ModelConfig, data: bytes, weights: Mapping[str, NDArray[Any]] | None) -> OnnxBackbone:
    """The backbone in an ONNX file's content, with other numbers for weights by name."""
    from emma.backbones.onnx_file import DeviceError, OnnxBackbone

    path, devices = str(config.onnx), for_onnx(config.device)
    more: dict[str, Any] = {"contract": config, "output": config.output, "weights": weights}
    # A library that is built for a GPU finds none on many a machine.
    for device in devices[:-1]:
        with contextlib.suppress(DeviceError):
            return OnnxBackbone(config.name, data, path, device, **more)
    return OnnxBackbone(config.name, data, path, devices[-1], **more)


def onnx_bytes(config: ModelConfig, root: str | Path = ".") -> bytes:
    """The content of a model's ONNX file; InputError where it is not the pinned one."""
    return _read_pinned(Path(root) / str(config.onnx), config.weights_sha256)


def _call_factory(
    config: ModelConfig, reference: str, weights: Mapping[str, NDArray[Any]] | None, root: str | Path
) -> tuple[Backbone, str]:
    factory = load_function(reference, f"model {config.name}: factory", root)
    try:
        device = for_factory(config.device, factory)
    except ValueError as error:
        raise InputError(f"model {config.name}: device: {error}") from None
    options = dict(config.options) | ({"device": device} if device != "cpu" else {})
    try:
        backbone = factory(weights, **options)
    except (TypeError, ValueError, KeyError, RuntimeError, AssertionError) as error:
        raise InputError(
            f"model {config.name}: factory: {reference} refused its weights or options ({error})"
        ) from None
    if not isinstance(backbone, Backbone):
        raise InputError(f"model {config.name}: factory: expected an object with name, embedding_dim and embed")
    return backbone, device
