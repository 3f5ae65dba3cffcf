"""What ``config/models/NAME.yaml`` may say: the keys of a model's config, and how it is read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from common.errors import InputError
from common.files import parse, read_yaml
from emma.backbones.inputs import Contract
from emma.data.provenance import Hash, Pretraining
from emma.tasks import Strict, TaskID


class PretrainRule(Strict):
    """Weights that a rule of the DAG trains: the function that does it and its options.

    The function is called as ``function(pools, seed, **options)`` with the PRETRAIN pools by name, and returns the
    weights as named arrays. A pool is a ``common.rows.RowFile`` of complex64 ``[N, A, T]``: ``len``, ``shape``,
    ``pool[numbers]`` and ``pool[a:b]`` read scenes from disk as arrays, ``np.asarray(pool)`` reads all of them.
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


class Expects(Strict):
    """What a network was trained on, for ``scripts/check_backbone.py`` to compare scenes with; it changes no input."""

    samples_per_symbol: Annotated[
        Annotated[float, Field(gt=0)] | None,
        Field(description="samples per symbol of the modulations that it was trained on"),
    ] = None
    rms: Annotated[
        Annotated[float, Field(gt=0)] | None,
        Field(description="root mean square of the magnitude of the complex samples that it was trained on"),
    ] = None


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
            description="ONNX file, its weights within: one floating input `[batch, 2 antennas, samples]`, I and Q of "
            "each antenna in turn (or another `layout`); one output `[batch, D]`, or `[batch, tokens, D]` with a "
            "`pooling`"
        ),
    ] = None
    output: Annotated[
        Annotated[str, Field(min_length=1)] | None,
        Field(description="tensor of the ONNX graph that is the embedding; without it, the graph's one output"),
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
        Literal["cpu", "cuda", "auto"],
        Field(
            description="`cpu`, whose scores are those that are published; `cuda`, passed to the factory or to "
            "onnxruntime and refused where it is absent; `auto`: a GPU where torch or onnxruntime finds one"
        ),
    ] = "cpu"
    control: Annotated[
        bool | None,
        Field(
            description="whether a row of kind `control` stands beside it: the same network with every weight tensor "
            "permuted; without the key, for every backbone with weights"
        ),
    ] = None
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
    description: Annotated[
        Annotated[str, Field(pattern=r"^\S.*\S$", max_length=200)] | None,
        Field(description="one line for readers of the board; it enters no hash and makes nothing stale"),
    ] = None
    link: Annotated[
        Annotated[str, Field(pattern=r"^https://[^\s\"'<>]+$", max_length=500)] | None,
        Field(description="where the model comes from, `https://...`; it enters no hash and makes nothing stale"),
    ] = None

    expects: Annotated[
        Expects | None,
        Field(description="what it was trained on, for `check_backbone.py` to compare with scenes; it enters no hash"),
    ] = None

    @property
    def pinned(self) -> str | None:
        """The file whose SHA-256 is pinned: ``weights``, or ``onnx``."""
        return self.weights if self.onnx is None else self.onnx

    @property
    def has_weights(self) -> bool:
        """Whether there are weights, in a file or made by its pretrain rule."""
        return any(source is not None for source in (self.onnx, self.weights, self.pretrain))

    @property
    def has_control(self) -> bool:
        """Whether its control is scored beside it."""
        return (self.kind == "backbone" and self.has_weights) if self.control is None else self.control

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
        pinned = self.pinned
        if (pinned is not None) != (self.weights_sha256 is not None):
            raise ValueError("weights_sha256: expected with weights or onnx, and only then")
        if pinned is not None and Path(pinned).suffix != (".safetensors" if self.onnx is None else ".onnx"):
            raise ValueError("weights: expected a .safetensors file (or onnx: a .onnx file); pickles are refused")
        if self.onnx is not None and self.layout == "complex":
            raise ValueError("layout: expected a real one with onnx, such as channels, stacked or interleaved")
        if self.onnx is None and self.output is not None:
            raise ValueError("output: names a tensor of an ONNX file, expected with onnx")
        if pinned is not None and (Path(pinned).is_absolute() or ".." in Path(pinned).parts):
            raise ValueError("weights: expected a path inside the project")
        if self.control and not self.has_weights:
            raise ValueError("control: expected a model with weights, whose tensors can be permuted")
        if self.pretrain is not None and self.weights is not None:
            raise ValueError("pretrain: expected without weights, which it makes")
        return self


#: What the name of a model's control ends with.
CONTROL_SUFFIX = ".control"


class ControlConfig(ModelConfig):
    """The config of a control, which no file holds: that of a model under another name, its weights made by a rule.

    What the model's pretraining saw is gone with the order of its weights, so that a control declares nothing.

    Attributes:
        control_of: the model whose weights are permuted.
    """

    control_of: str

    @classmethod
    def of(cls, config: ModelConfig) -> ControlConfig:
        """The control of a model with weights."""
        own = {"name": config.name + CONTROL_SUFFIX, "kind": "control", "control_of": config.name}
        told = {"description": f"{config.name} with the entries of every weight tensor permuted"}
        return cls(**(dict(config) | own | told | {"control": None, "pretraining": Pretraining()}))


def config_file(path: str | Path) -> Path:
    """The file that holds the config of ``NAME.yaml``: of a control's, that of its model."""
    path = Path(path)
    stem = path.stem.removesuffix(CONTROL_SUFFIX)
    return path if path.is_file() or stem == path.stem else path.with_name(f"{stem}.yaml")


def load_model_config(path: str | Path) -> ModelConfig:
    """Read and validate a model's config; the file's name must be the model's.

    A path ``NAME.control.yaml`` that is no file is the control of ``NAME.yaml``.
    """
    file = config_file(path)
    config = parse(ModelConfig, read_yaml(file), file)
    if config.name != file.stem:
        raise InputError(f"{file}: name: expected {file.stem}, the file's name, found {config.name}")
    if config.name.endswith(CONTROL_SUFFIX):
        raise InputError(f"{file}: name: {CONTROL_SUFFIX} ends the names of controls, which the workflow makes itself")
    if file == Path(path):
        return config
    if not config.has_control:
        raise InputError(f"{file}: control: {config.name} has none, expected a backbone with weights and control: true")
    return ControlConfig.of(config)
