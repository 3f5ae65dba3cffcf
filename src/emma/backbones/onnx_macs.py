"""Multiply-accumulates of an ONNX graph, from the shapes of one run of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
import onnx.inliner
from numpy.typing import NDArray
from onnx import helper

Shape = Sequence[int]

#: Operators that are no sum of products of constant size, or that hold one within: their graphs are not counted.
_OPAQUE = frozenset({"Attention", "DeformConv", "Loop", "Scan"})


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    return next((helper.get_attribute_value(item) for item in node.attribute if item.name == name), default)


def _convolution(node: onnx.NodeProto, out: Shape, weight: Shape) -> int:
    """Each output is a sum over the channels of its group and the kernel."""
    del node
    return math.prod(out) * math.prod(weight[1:])


def _product(node: onnx.NodeProto, out: Shape, left: Shape) -> int:
    """Each output is a sum over the left operand's last axis, in Gemm its first where that is transposed."""
    return math.prod(out) * left[0 if _attribute(node, "transA", 0) else -1]


def _recurrence(node: onnx.NodeProto, given: Shape, weight: Shape, state: Shape) -> int:
    """Each step multiplies its input by W and its state by R, which hold all directions and gates."""
    del node
    return math.prod(given[:2]) * (math.prod(weight) + math.prod(state))


def _contraction(node: onnx.NodeProto, *shapes: Shape) -> int:
    """Two operands' indices, each once, summed over or not."""
    terms = _attribute(node, "equation", b"").decode().replace(" ", "").partition("->")[0].split(",")
    if any("." in term for term in terms) or len(terms) != 2:
        raise ValueError("Einsum of other than two plain operands is not counted")
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        sizes |= zip(term, shape, strict=True)
    return math.prod(sizes.values())


#: By operator: the tensors whose shapes decide (inputs by number, -1 the output), and the count that follows from them.
_COUNTED: dict[str, tuple[tuple[int, ...], Callable[..., int]]] = {
    "Conv": ((-1, 1), _convolution),
    "ConvInteger": ((-1, 1), _convolution),
    "QLinearConv": ((-1, 3), _convolution),
    # Transposed, it is each input that is multiplied by the kernels.
    "ConvTranspose": ((0, 1), _convolution),
    "Gemm": ((-1, 0), _product),
    "MatMul": ((-1, 0), _product),
    "MatMulInteger": ((-1, 0), _product),
    "QLinearMatMul": ((-1, 0), _product),
    "LSTM": ((0, 1, 2), _recurrence),
    "GRU": ((0, 1, 2), _recurrence),
    "RNN": ((0, 1, 2), _recurrence),
    "Einsum": ((0, 1), _contraction),
}


def graph_macs(model: onnx.ModelProto, feeds: Mapping[str, NDArray[Any]]) -> int:
    """Multiply-accumulates of one run: those of convolutions, matrix products, recurrent layers and contractions.

    Additions of biases, normalisations, activations and Fourier transforms are not counted.

    Args:
        model: the graph, with its weights.
        feeds: the inputs of the run, whose shapes decide.

    Raises:
        ValueError: an operator that holds products which cannot be counted, named.
    """
    import onnxruntime

    model = onnx.inliner.inline_local_functions(model)
    nodes = []
    for node in model.graph.node:
        if node.domain not in {"", "ai.onnx"} or node.op_type in _OPAQUE:
            raise ValueError(f"the operator {node.op_type} of the graph is not counted")
        if any(_holds_products(item.g) for item in node.attribute if item.type == onnx.AttributeProto.GRAPH):
            raise ValueError(f"the graph within {node.op_type} is not counted")
        if node.op_type in _COUNTED:
            own = [node.output[0] if place < 0 else node.input[place] for place in _COUNTED[node.op_type][0]]
            nodes.append((node, own))
    names = sorted({name for _, own in nodes for name in own})
    if not names:
        return 0
    # The run itself says the shapes: inference would give up where one depends on a value.
    shaped = onnx.ModelProto()
    shaped.CopyFrom(model)
    del shaped.graph.output[:]
    for number, name in enumerate(names):
        shaped.graph.node.append(helper.make_node("Shape", [name], [f"emma_shape_{number}"]))
        shaped.graph.output.append(helper.make_tensor_value_info(f"emma_shape_{number}", onnx.TensorProto.INT64, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(shaped.SerializeToString(), options, providers=["CPUExecutionProvider"])
    given = {item.name: feeds[item.name] for item in session.get_inputs()}
    shapes = dict(zip(names, (values.tolist() for values in session.run(None, given)), strict=True))
    return sum(_COUNTED[node.op_type][1](node, *(shapes[name] for name in own)) for node, own in nodes)


def _holds_products(graph: onnx.GraphProto) -> bool:
    """Whether a graph within a node, or one within that, has an operator that counts."""
    return any(
        node.op_type in _COUNTED
        or node.op_type in _OPAQUE
        or any(_holds_products(item.g) for item in node.attribute if item.type == onnx.AttributeProto.GRAPH)
        for node in graph.node
    )


def graph_parameters(model: onnx.ModelProto) -> int:
    """Floating numbers among a graph's initial values."""
    return sum(math.prod(tensor.dims) for tensor in model.graph.initializer if _is_floating(tensor))


def _is_floating(tensor: onnx.TensorProto) -> bool:
    kind = onnx.TensorProto.DataType.Name(tensor.data_type)
    return "FLOAT" in kind or kind == "DOUBLE"
