"""What a backbone costs, against numbers counted by hand."""

from __future__ import annotations

import numpy as np
import onnx
import pyarrow as pa
import pytest
import torch
from onnx import helper, numpy_helper
from safetensors.numpy import save_file
from torch import nn

from emma.backbones.base import Prior
from emma.backbones.cost import NO_GRAPH, count_macs, count_parameters, dead_features
from emma.backbones.inputs import Contract
from emma.backbones.onnx_file import OnnxBackbone
from emma.data.costs import TaskCost

SCENES = 3


class Torch:
    """A torch module as a backbone; ``[B, 2A, T]`` in."""

    name = "torch"

    def __init__(self, module: nn.Module, width: int) -> None:
        self.held, self.embedding_dim = {"of two antennas": [module.eval()]}, width

    @torch.inference_mode()
    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        del sample_rate_hz, center_frequency_hz
        return self.held["of two antennas"][0](torch.from_numpy(np.ascontiguousarray(iq))).numpy()


class Last(nn.Module):
    """A recurrent layer over ``[B, C, T]``, its last state."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, given):
        return self.layer(given.transpose(1, 2))[0][:, -1]


class Tokens(nn.Module):
    """A transformer's layer over ``[B, C, T]``, the mean of its tokens."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, given):
        return self.layer(given.transpose(1, 2)).mean(dim=1)


class Dot(nn.Module):
    """Scaled dot-product attention of ``[B, C, T]`` with itself, and nothing else."""

    def forward(self, given):
        tokens = given.transpose(1, 2)[:, None]
        return nn.functional.scaled_dot_product_attention(tokens, tokens, tokens)[:, 0].mean(dim=1)


def counted(backbone, **contract):
    rng = np.random.default_rng(1)
    iq = (rng.standard_normal((SCENES, 2, 16, 2)) @ [1, 1j]).astype(np.complex64)
    index = pa.table({"sample_rate_hz": [1e6] * SCENES, "center_frequency_hz": [1e9] * SCENES})
    return count_macs(backbone, iq, index, Contract(layout="channels", **contract))


def attention(tokens, width, inner):
    """A transformer's layer by hand: projections, scores and sums over them, two linear layers."""
    return tokens * (4 * width * width + 2 * width * inner) + 2 * tokens * tokens * width


@pytest.mark.parametrize(
    ("module", "width", "macs", "parameters"),
    [
        (nn.Sequential(nn.Conv1d(4, 6, 5), nn.Flatten()), 72, 12 * 6 * 4 * 5, 6 * 4 * 5 + 6),
        (nn.Sequential(nn.Conv1d(4, 6, 5, stride=2, groups=2, padding=2), nn.Flatten()), 48, 8 * 6 * 2 * 5, 66),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 10, bias=False)), 10, 640, 640),
        (nn.Sequential(nn.Flatten(), nn.ReLU()), 64, 0, 0),
        (Last(nn.LSTM(4, 5, batch_first=True)), 5, 16 * 4 * 5 * (4 + 5), 4 * 5 * (4 + 5) + 40),
        (Tokens(nn.TransformerEncoderLayer(4, 2, 7, batch_first=True)), 4, attention(16, 4, 7), 163),
        (Dot(), 4, 2 * 16 * 16 * 4, 0),
    ],
    ids=["conv", "grouped conv", "linear", "no product", "lstm", "transformer", "attention"],
)
def test_torch_is_counted_as_by_hand(module, width, macs, parameters):
    backbone = Torch(module, width)
    assert counted(backbone) == (macs, None)
    assert count_parameters(backbone) == parameters


def test_a_batch_a_portion_or_one_scene_at_a_time_cost_the_same():
    backbone = Torch(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), 10)
    assert {counted(backbone, batch_size=size) for size in (1, 2, 64)} == {(640, None)}


def test_what_the_contract_does_to_a_scene_is_included():
    backbone = Torch(nn.Sequential(nn.Flatten(), nn.Linear(128, 10)), 10)
    assert counted(backbone, samples=32, fit="tile") == (1280, None)


def test_shared_parameters_count_once_and_fast_paths_are_as_they_were():
    shared = nn.Linear(64, 64)
    backbone = Torch(nn.Sequential(nn.Flatten(), shared, shared), 64)
    backbone.again = shared
    before = torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.is_available()
    assert counted(backbone) == (2 * 64 * 64, None)
    assert count_parameters(backbone) == 64 * 64 + 64
    assert (torch.backends.mha.get_fastpath_enabled(), torch.backends.mkldnn.is_available()) == before


def graph(nodes, weights, width, given=("B", 4, 16)):
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    made = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", width])],
        tensors,
    )
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return OnnxBackbone("onnx", model.SerializeToString(), "onnx.onnx")


def zeros(*shape):
    return np.full(shape, 0.1, np.float32)


def test_onnx_is_counted_as_by_hand_where_shapes_hang_on_a_run():
    # [B, 4, 16] -> conv [B, 6, 12] -> transposed [B, 3, 14] -> flat by a Shape node -> gemm 8 -> matmul 5.
    backbone = graph(
        [
            helper.make_node("Conv", ["x", "k"], ["c"]),
            helper.make_node("ConvTranspose", ["c", "t"], ["d"]),
            helper.make_node("Shape", ["d"], ["s"], end=1),
            helper.make_node("Concat", ["s", "rest"], ["to"], axis=0),
            helper.make_node("Reshape", ["d", "to"], ["f"]),
            helper.make_node("Gemm", ["f", "g", "b"], ["h"], transB=1),
            helper.make_node("MatMul", ["h", "m"], ["y"]),
        ],
        {
            "k": zeros(6, 4, 5),
            "t": zeros(6, 3, 3),
            "g": zeros(8, 42),
            "b": zeros(8),
            "m": zeros(8, 5),
            "rest": np.array([-1], np.int64),
        },
        5,
    )
    macs = 12 * 6 * 4 * 5 + 12 * 6 * 3 * 3 + 42 * 8 + 8 * 5
    assert counted(backbone) == (macs, None)
    assert {counted(backbone, batch_size=size) for size in (1, 2)} == {(macs, None)}
    assert count_parameters(backbone) == 6 * 4 * 5 + 6 * 3 * 3 + 8 * 42 + 8 + 40


def test_onnx_recurrences_and_contractions():
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["t", "w", "r"], ["", "h"], hidden_size=5),
        helper.make_node("Squeeze", ["h", "first"], ["q"]),
        helper.make_node("Einsum", ["q", "e"], ["y"], equation="bi,ij->bj"),
    ]
    weights = {"w": zeros(1, 20, 4), "r": zeros(1, 20, 5), "e": zeros(5, 3), "first": np.array([0], np.int64)}
    assert counted(graph(nodes, weights, 3)) == (16 * (80 + 100) + 15, None)


def test_what_cannot_be_counted_says_why():
    body = helper.make_graph(
        [helper.make_node("MatMul", ["f", "m"], ["z"])],
        "then",
        [],
        [helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["B", 5])],
    )
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("If", ["yes"], ["y"], then_branch=body, else_branch=body),
    ]
    macs, reason = counted(graph(nodes, {"m": zeros(64, 5), "yes": np.array(True)}, 5))
    assert macs is None
    assert reason == "the graph within If is not counted"


def test_numpy_backbones_have_no_count(tmp_path):
    assert counted(Prior()) == (None, NO_GRAPH)
    assert count_parameters(Prior()) == 0
    save_file({"a": zeros(3, 4), "n": np.arange(7)}, tmp_path / "w.safetensors")
    assert count_parameters(Prior(), tmp_path / "w.safetensors") == 12
    with pytest.raises(ValueError, match="uncounted: expected where macs is null"):
        TaskCost(macs=None, uncounted=None, width=0, dead_features=0)


def test_dead_features():
    values = np.random.default_rng(0).standard_normal((50, 6)).astype(np.float32)
    values[:, 1], values[:, 4] = 0, 3 + 1e-6 * values[:, 4]
    assert dead_features(values) == 2
    assert dead_features(values[:1]) == 0
    assert dead_features(np.zeros((5, 0), np.float32)) == 0
