"""A graph without end is ended, and said in one line."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from common.errors import InputError
from emma.backbones import onnx_file


def test_a_loop_without_end_is_ended(monkeypatch):
    monkeypatch.setattr(onnx_file, "_MOST_SECONDS", 0.5)
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["go"]), helper.make_node("Add", ["v", "one"], ["w"])],
        "body",
        [value("i", TensorProto.INT64, []), value("c", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, None)],
        [value("go", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, None)],
    )
    stored = {"most": np.int64(2**62), "yes": np.bool_(True), "one": np.float32(1)}
    graph = helper.make_graph(
        [helper.make_node("Loop", ["most", "yes", "x"], ["l"], body=body), helper.make_node("Flatten", ["l"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, ["B", 2, 8])],
        [value("y", TensorProto.FLOAT, ["B", 16])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in stored.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(InputError, match="a run of 2 scenes took over"):
        onnx_file.OnnxBackbone("m", model.SerializeToString(), "m.onnx").embed(
            np.zeros((2, 1, 8), np.complex64), 1.0, 1.0
        )
