"""What stands in an ONNX file: its tensors, the layout that its input has, a tensor cut out as output, its weights."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from common.errors import InputError
from emma.backbones.inputs import AXES

#: Length of an axis: a number, the file's name for one that it leaves open, or None.
Dims = tuple[int | str | None, ...]

#: Domains of operators that onnxruntime brings.
_DOMAINS = {"", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft"}

#: Operators that draw random numbers, so that the same scenes do not give the same answer.
_RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}

#: Operators behind a classifier's last layer: they move or squash its scores and learn nothing.
_SQUASH = {"LogSoftmax", "Sigmoid", "Softmax"}
_PASS = {"Cast", "Dropout", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}

#: Types of floating weights.
_FLOATING = {onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16, onnx.TensorProto.DOUBLE}

#: Floating numbers that the optimiser of a network never touched: an operator takes them as sizes.
_SIZES = {"Resize", "Upsample"}

#: Most classes that the last layer of a network without softmax may have and still be read as a classifier's.
_CLASSES = 64

#: Fewest samples that are believed when a layout is guessed.
_FEWEST_SAMPLES = 16


@dataclass(frozen=True)
class Tensor:
    """A tensor by name, its axes (None: unknown), and its type as numpy names it (or ``undefined``)."""

    name: str
    dims: Dims | None
    dtype: str

    def __str__(self) -> str:
        """Its name and axes."""
        return self.name if self.dims is None else f"{self.name} {told(self.dims)}"


@dataclass(frozen=True)
class Head:
    """The last layer of a classifier: ``softmax`` or ``linear``, its classes, and the tensor before it."""

    kind: str
    classes: int | None
    hidden: Tensor


@dataclass(frozen=True)
class BatchNorm:
    """A batch normalisation: its node, its input tensor, and the initialisers of its running mean and variance."""

    node: str
    input: str
    mean: str
    variance: str


@dataclass(frozen=True)
class Fit:
    """A layout that fits an input, and what the file fixes of antennas and samples."""

    layout: str
    antennas: int | None
    samples: int | None


def told(dims: Sequence[int | str | None]) -> str:
    """Axes as a reader knows them: ``[B, 2, 504]``, the batch first."""
    first = "B" if dims and not isinstance(dims[0], int) else None
    return f"[{', '.join(str(first if first and not place else dim or '?') for place, dim in enumerate(dims))}]"


def read_graph(data: bytes, path: str) -> onnx.ModelProto:
    """Parse a file.

    Raises:
        InputError: no ONNX file, or weights in a file beside it.
    """
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:  # noqa: BLE001 (protobuf raises types of its own)
        raise InputError(f"{path}: expected an ONNX file ({' '.join(str(error).split())[:80]})") from None
    if not model.graph.node:
        raise InputError(f"{path}: expected an ONNX file with at least one node, found none; export it again")
    for tensor in _tensors(model):
        if onnx.external_data_helper.uses_external_data(tensor):
            place = next((entry.value for entry in tensor.external_data if entry.key == "location"), "?")
            raise InputError(
                f"{path}: expected an ONNX file with its weights within, found them in {place} beside it, where no "
                "SHA-256 pins them; write one file: onnx.save(onnx.load(OLD), NEW)"
            )
    return model


def with_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph with the axes of its inner tensors, as far as they are known."""
    try:
        return onnx.shape_inference.infer_shapes(model, data_prop=True)
    except Exception:  # noqa: BLE001 (shapes are a help, not a need: onnxruntime infers its own)
        return model


def inputs(model: onnx.ModelProto) -> tuple[Tensor, ...]:
    """Inputs that have no initialiser, in the file's order."""
    given = {tensor.name for tensor in model.graph.initializer}
    return tuple(_tensor(value) for value in model.graph.input if value.name not in given)


def outputs(model: onnx.ModelProto) -> tuple[Tensor, ...]:
    """Outputs in the file's order."""
    return tuple(_tensor(value) for value in model.graph.output)


def tensors(model: onnx.ModelProto) -> dict[str, Tensor]:
    """What the nodes of the graph compute, by name and in their order; inner graphs left out."""
    graph = model.graph
    known = {value.name: _tensor(value) for value in (*graph.value_info, *graph.output)}
    names = [name for node in graph.node for name in node.output if name]
    return {name: known.get(name, Tensor(name, None, "undefined")) for name in names}


def cut(model: onnx.ModelProto, output: str, path: str) -> onnx.ModelProto:
    """The part of a graph that ``output`` needs; other outputs, and inputs and initialisers without use, are gone.

    Raises:
        InputError: no node computes ``output``, or it cannot be cut out.
    """
    import onnx_ir

    if output not in (names := tensors(model)):
        close = difflib.get_close_matches(output, names, n=3) or [tensor.name for tensor in outputs(model)][:3]
        raise InputError(f"{path}: output: no tensor {output!r} in the file; expected one such as {', '.join(close)}")
    if model.graph.sparse_initializer:
        raise InputError(f"{path}: output: nothing is cut out of a graph with sparse weights; export them dense")
    try:
        whole = onnx_ir.from_proto(model)
        part = onnx_ir.convenience.extract(whole.graph, [tensor.name for tensor in inputs(model)], [output])
    except Exception as error:  # noqa: BLE001 (a file may hold what the extractor does not know)
        reason = " ".join(str(error).split())[:100]
        raise InputError(
            f"{path}: output: {output!r} cannot be cut out, expected the graph's own output ({reason})"
        ) from None
    for value in [value for value in part.inputs if not value.uses()]:
        part.inputs.remove(value)
    functions = list(whole.functions.values())
    return onnx_ir.to_proto(onnx_ir.Model(part, ir_version=model.ir_version, functions=functions))


def check_graph(model: onnx.ModelProto, path: str) -> None:
    """Refuse what no run could make right.

    Raises:
        InputError: an operator of a domain that onnxruntime lacks, random numbers, training mode, NaN among weights.
    """
    own = {(function.domain, function.name) for function in model.functions}
    stored = _stored(model)
    for node in _nodes(model):
        place = f"{path}: node {node.name or node.output[0]!r} ({node.op_type})"
        if node.domain not in _DOMAINS and (node.domain, node.op_type) not in own:
            raise InputError(
                f"{place}: an operator of the domain {node.domain!r}, which onnxruntime lacks; export with standard "
                "operators, or name a tensor before it by output"
            )
        if node.op_type in _RANDOM:
            raise InputError(f"{place}: random numbers, expected the same answer twice; export without it")
        if _trains(node, stored):
            raise InputError(
                f"{place}: in training mode, so that rows depend on their batch or on chance; export after model.eval()"
            )
    for name, values in floating_weights(model).items():
        if np.isnan(values).any():
            raise InputError(f"{path}: weights {name!r}: NaN, expected finite numbers; export a network that learnt")


def _trains(node: onnx.NodeProto, stored: Mapping[str, onnx.TensorProto]) -> bool:
    """Whether a node normalises by its batch or drops at random."""
    if node.op_type == "BatchNormalization":
        # Before version 14 further outputs told it.
        return sum(map(bool, node.output)) > 1 or any(
            entry.name == "training_mode" and entry.i for entry in node.attribute
        )
    if node.op_type != "Dropout" or len(node.input) < 3 or node.input[2] not in stored:
        return False
    return bool(onnx.numpy_helper.to_array(stored[node.input[2]]).any())


def fits(dims: Dims, layout: str) -> Fit | None:
    """What the axes of an input say of antennas and samples in a layout; None where they have no such layout."""
    axes = AXES[layout]
    if len(dims) != len(axes) + 1:
        return None
    found: dict[str, int] = {}
    for axis, dim in zip(axes, dims[1:], strict=True):
        if not isinstance(dim, int):
            continue
        factor = 2 if axis in {"2A", "2T"} else 1
        if dim % factor or (axis.isdigit() and dim != int(axis)):
            return None
        found[axis.lstrip("2")] = dim // factor
    return Fit(layout, found.get("A"), found.get("T"))


def guess_layout(dims: Dims) -> Fit | None:
    """The layout that the axes of an input speak for: a fixed 1 or 2 where it has one, fewer antennas than samples."""
    for layout, axes in AXES.items():
        fit = fits(dims, layout)
        if fit is None or any(
            axis.isdigit() and not isinstance(dims[1 + place], int) for place, axis in enumerate(axes)
        ):
            continue
        samples = _FEWEST_SAMPLES if fit.samples is None else fit.samples
        if samples >= _FEWEST_SAMPLES and (fit.samples is None or (fit.antennas or 1) < samples):
            return fit
    return None


def find_head(model: onnx.ModelProto, output: str) -> Head | None:
    """The classifier's last layer that ``output`` comes from, or None where it is an embedding as it stands.

    ``model`` is one ``with_shapes``. A softmax tells a classifier; without one, a linear layer that narrows to 64
    numbers or fewer does.
    """
    makers = {name: node for node in model.graph.node for name in node.output}
    stored = _stored(model)
    known = tensors(model)
    kind, name, classes = "linear", output, _width(known.get(output))
    while (node := makers.get(name)) is not None:
        fed = [given for given in node.input if given and given not in stored]
        if node.op_type in _SQUASH:
            kind = "softmax"
        elif node.op_type in {"Gemm", "MatMul", "Conv"} and len(fed) == 1:
            hidden = known.get(fed[0])
            before = _width(hidden)
            if hidden is None or before is None:
                return None
            narrows = classes is not None and classes <= min(_CLASSES, before - 1)
            return Head(kind, classes, hidden) if kind == "softmax" or (narrows and node.op_type != "Conv") else None
        elif not (node.op_type in _PASS or (node.op_type == "Add" and len(fed) == 1)):
            return None
        if not fed:
            return None
        name = fed[0]
    return None


def candidates(model: onnx.ModelProto) -> list[tuple[Tensor, int]]:
    """Tensors of a graph ``with_shapes`` that are one vector a scene, the last first, each with its width."""
    found = [(tensor, _width(tensor)) for tensor in tensors(model).values() if tensor.dtype.startswith("float")]
    return [(tensor, width) for tensor, width in reversed(found) if width is not None]


def _width(tensor: Tensor | None) -> int | None:
    """Width of one vector a scene: the only axis after the batch that is not of length one."""
    if tensor is None or tensor.dims is None or len(tensor.dims) < 2:
        return None
    wide = [dim for dim in tensor.dims[1:] if dim != 1] or [1]
    return wide[0] if len(wide) == 1 and isinstance(wide[0], int) else None


def floating_weights(model: onnx.ModelProto | bytes) -> dict[str, NDArray[Any]]:
    """Floating weights by name: initialisers, and constant nodes by the name of their output.

    Left out are numbers that only say a size (those of ``Resize``), and those of inner graphs.
    """
    model = onnx.load_model_from_string(model) if isinstance(model, bytes) else model
    uses: dict[str, set[str]] = {}
    for node in _nodes(model):
        for name in node.input:
            uses.setdefault(name, set()).add(node.op_type)
    kept = _stored(model)
    return {
        name: onnx.numpy_helper.to_array(tensor)
        for name, tensor in kept.items()
        if tensor.data_type in _FLOATING and not uses.get(name, set()) & _SIZES
    }


def batch_norms(model: onnx.ModelProto | bytes) -> list[BatchNorm]:
    """Batch normalisations whose running mean and variance are weights of the file, in the order of the graph."""
    model = onnx.load_model_from_string(model) if isinstance(model, bytes) else model
    kept = _stored(model)
    return [
        BatchNorm(node.name or node.output[0], node.input[0], node.input[3], node.input[4])
        for node in model.graph.node
        if node.op_type == "BatchNormalization" and {node.input[3], node.input[4]} <= kept.keys()
    ]


def set_weights(model: onnx.ModelProto, weights: Mapping[str, NDArray[Any]], path: str) -> None:
    """Put other numbers in place of initialisers and constants, by name.

    Raises:
        InputError: no such weights, or of another shape.
    """
    kept = _stored(model)
    for name, values in weights.items():
        if name not in kept or tuple(kept[name].dims) != values.shape:
            found = f"of shape {list(kept[name].dims)}" if name in kept else "no such weights"
            raise InputError(f"{path}: weights {name!r}: expected shape {list(values.shape)}, found {found}")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kept[name].data_type)
        kept[name].CopyFrom(onnx.numpy_helper.from_array(values.astype(dtype), name))


def _stored(model: onnx.ModelProto) -> dict[str, onnx.TensorProto]:
    """Initialisers, and tensors of constant nodes by the name of their output; inner graphs left out."""
    constants = {
        node.output[0]: entry.t
        for node in model.graph.node
        if node.op_type == "Constant"
        for entry in node.attribute
        if entry.name == "value"
    }
    return {tensor.name: tensor for tensor in model.graph.initializer} | constants


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Every node, those of inner graphs and of functions too."""
    yield from _within(model.graph.node)
    for function in model.functions:
        yield from _within(function.node)


def _within(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for entry in node.attribute:
            for graph in (entry.g, *entry.graphs):
                yield from _within(graph.node)


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor that the file holds."""
    inner = [graph for node in _nodes(model) for entry in node.attribute for graph in (entry.g, *entry.graphs)]
    for graph in (model.graph, *inner):
        yield from graph.initializer
        yield from (part for sparse in graph.sparse_initializer for part in (sparse.values, sparse.indices))
    for node in _nodes(model):
        for entry in node.attribute:
            yield from (entry.t, *entry.tensors)


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    kind = value.type.tensor_type
    dims: Dims | None = None
    if kind.HasField("shape"):
        dims = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in kind.shape.dim)
    try:
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)).name
    except (KeyError, ValueError, TypeError):
        dtype = "undefined"
    return Tensor(value.name, dims, dtype)
