"""From ``config/models/NAME.yaml`` to a backbone: a factory with safetensors weights, or an ONNX file."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from common.errors import InputError
from common.files import parse, read_yaml
from common.hashing import sha256
from emma.backbones.base import Backbone, Embeddings
from emma.backbones.inputs import Contract, as_channels
from emma.data.provenance import Hash, Pretraining, Provenance
from emma.tasks import Strict, TaskID


class PretrainRule(Strict):
    """Weights that a rule of the DAG trains: the function that does it and its options.

    The function is called as ``function(pools, seed, **options)`` with the PRETRAIN pools by name, and returns the
    weights as named arrays.
    """

    function: Annotated[
        str,
        Field(
            pattern=r"^[\w.]+:\w+$",
            description="`package.module:function`, called with the PRETRAIN pools by name, the seed and "
            "`options`; returns the weights",
        ),
    ]
    options: Annotated[dict[str, int | float | str], Field(description="passed to the function")] = {}  # noqa: RUF012 (pydantic copies defaults)


class ModelConfig(Contract):
    """The content of ``config/models/NAME.yaml``.

    Either ``factory`` ("package.module:function", called with the weights and ``options``) or ``onnx``, or ``truth``
    for an oracle; weights as safetensors with their SHA-256, or made by ``pretrain``. How scenes reach the model is its
    Contract. ``tasks`` limits a model to some tasks; such a model has no OOD average. ``licence`` is the weights' own
    (SPDX).
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="the file's name")]
    kind: Annotated[
        Literal["backbone", "reference", "chance", "oracle", "control"],
        Field(
            description="`backbone`, or what a row outside the ranking is: a textbook `reference`, the floor "
            "(`chance`), an `oracle` of true parameters, or a `control`"
        ),
    ] = "backbone"
    factory: Annotated[
        Annotated[str, Field(pattern=r"^[\w.]+:\w+$")] | None,
        Field(
            description="`package.module:function`, installed or in the project's folder, called with the weights "
            "(arrays by name, or None) and `options`; this or `onnx`. A module or function that is "
            "not there is refused before anything runs, errors of its own imports as the first job "
            "meets it"
        ),
    ] = None
    onnx: Annotated[
        str | None,
        Field(
            description="ONNX file: one input float32 `[batch, 2 antennas, samples]`, I and Q of each antenna in "
            "turn (or another `layout`); one output float32 `[batch, D]`, or `[batch, tokens, D]` "
            "with a `pooling`"
        ),
    ] = None
    truth: Annotated[
        bool,
        Field(
            description="instead of `factory` or `onnx`: the generator writes the embeddings, from the true parameters "
            "of the scenes; for `kind: oracle` alone"
        ),
    ] = False
    weights: Annotated[str | None, Field(description="safetensors file, relative to the project")] = None
    weights_sha256: Annotated[
        Hash | None,
        Field(description="SHA-256 of `weights` or `onnx`, lower-case hexadecimal; required with them"),
    ] = None
    pretrain: Annotated[
        PretrainRule | None,
        Field(description="function that trains the weights on the release's PRETRAIN pool, as a rule of the workflow"),
    ] = None
    options: Annotated[dict[str, int | float | str | bool], Field(description="passed to the factory")] = {}  # noqa: RUF012
    device: Annotated[
        Literal["cpu", "cuda"],
        Field(description="`cpu` or `cuda`, passed to the factory or to onnxruntime; refused where it is absent"),
    ] = "cpu"
    tasks: Annotated[
        tuple[TaskID, ...],
        Field(description="tasks that the model takes; fewer than all scored ones, and it has no OOD average"),
    ] = tuple(TaskID)
    pretraining: Annotated[
        Pretraining | Literal["unknown"], Field(description="what pretraining saw, `{}` for nothing, or `unknown`")
    ]
    licence: Annotated[
        Annotated[str, Field(min_length=1, max_length=200)] | None,
        Field(description="of the weights, an SPDX expression"),
    ] = None

    @model_validator(mode="after")
    def _one_source(self) -> ModelConfig:
        if self.truth != (self.kind == "oracle"):
            raise ValueError("truth: expected with kind oracle, and only then")
        if self.truth and (self.factory, self.onnx, self.weights, self.pretrain, self.options) != (*[None] * 4, {}):
            raise ValueError("truth: the generator's, expected no factory, onnx, weights, pretrain or options")
        if not self.truth and (self.factory is None) == (self.onnx is None):
            raise ValueError("factory, onnx: expected exactly one of them")
        if self.onnx is not None and (self.pretrain is not None or self.weights is not None or self.options):
            raise ValueError("onnx: holds its own weights, expected no weights, options or pretrain")
        pinned = self.weights if self.onnx is None else self.onnx
        if (pinned is not None) != (self.weights_sha256 is not None):
            raise ValueError("weights_sha256: expected with weights or onnx, and only then")
        if pinned is not None and Path(pinned).suffix != (".safetensors" if self.onnx is None else ".onnx"):
            raise ValueError("weights: expected a .safetensors file (or onnx: a .onnx file); pickles are refused")
        if self.onnx is not None and self.layout == "complex":
            raise ValueError("layout: expected channels, stacked or interleaved with onnx")
        if pinned is not None and (Path(pinned).is_absolute() or ".." in Path(pinned).parts):
            raise ValueError("weights: expected a path inside the project")
        if self.pretrain is not None and self.weights is not None:
            raise ValueError("pretrain: expected without weights, which it makes")
        return self


def load_model_config(path: str | Path) -> ModelConfig:
    """Read and validate a model's config; the file's name must be the model's."""
    config = parse(ModelConfig, read_yaml(path), path)
    if config.name != Path(path).stem:
        raise InputError(f"{path}: name: expected {Path(path).stem}, the file's name, found {config.name}")
    return config


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


class OnnxBackbone:
    """A backbone in an ONNX file.

    Its one input is float32 of rank three, ``[batch, 2 antennas, samples]`` with I and Q of each antenna in turn unless
    the config declares another layout; its one output is float32 ``[batch, D]``, or ``[batch, tokens, D]`` with a
    pooling, D fixed in the file. Weights are in the file itself, never beside it.
    """

    def __init__(self, name: str, data: bytes, path: str, device: str = "cpu") -> None:
        import onnxruntime

        provider = "CUDAExecutionProvider" if device == "cuda" else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise InputError(f"model {name}: device: onnxruntime has no {device} here, expected cpu")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        # Weights in files beside the graph would escape its SHA-256: there is no folder to read them from.
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", os.devnull)
        try:
            self._session = onnxruntime.InferenceSession(data, options, providers=[provider])
        except Exception as error:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            raise InputError(f"{path}: expected an ONNX file ({' '.join(str(error).split())[:200]})") from None
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        shape = outputs[0].shape if len(outputs) == 1 else [None]
        if len(inputs) != 1 or len(inputs[0].shape) != 3 or len(shape) not in {2, 3} or not isinstance(shape[-1], int):
            raise InputError(
                f"{path}: expected one input [batch, 2 antennas, samples], one output [batch, D] or [batch, tokens, D] "
                "with D fixed"
            )
        self.name, self.embedding_dim, self._input = name, shape[-1], inputs[0].name

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Run the graph; complex scenes as channels. ValueError where it does not take them."""
        del sample_rate_hz, center_frequency_hz
        given: NDArray[np.float32] = as_channels(iq) if np.iscomplexobj(iq) else iq
        try:
            values: Embeddings = self._session.run(None, {self._input: given})[0]
        except Exception as error:  # noqa: BLE001 (onnxruntime raises its own types from C++)
            raise ValueError(" ".join(str(error).split())[:200]) from None
        return values
