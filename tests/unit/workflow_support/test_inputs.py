"""An ONNX file whose input the scenes do not fit is refused in the plan, with the keys to set; nothing runs it."""

import hashlib
import shutil
import sys
from pathlib import Path

import onnx
import pytest
import yaml
from onnx import helper

from common.errors import InputError
from workflow_support.inputs import check_inputs
from workflow_support.plan import Plan

ROOT = Path(__file__).parents[3]
CONFIG = {"release": "tiny", "seed": 0, "eval_split": "DEV", "models": ["net"], "real_captures": "none"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    for name in ("config", "scripts"):
        shutil.copytree(ROOT / name, folder / name)
    return folder


def plan(root, axes, **keys):
    """A plan with a network of an input of these axes; its answer is the mean over the last one."""
    shape = helper.make_tensor_value_info("iq", onnx.TensorProto.FLOAT, axes)
    answer = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    node = helper.make_node("ReduceMean", ["iq"], ["y"], axes=[len(axes) - 1], keepdims=0)
    graph = helper.make_graph([node], "g", [shape], [answer])
    opset = [helper.make_opsetid("", 13)]
    data = helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    (root / "net.onnx").write_bytes(data)
    model = {"name": "net", "onnx": "net.onnx", "weights_sha256": hashlib.sha256(data).hexdigest()}
    (root / "config/models/net.yaml").write_text(yaml.safe_dump(model | {"pretraining": "unknown"} | keys))
    return Plan(CONFIG, root)


FIT = [
    (["B", "C", "T"], {}),
    (["B", 2, "T"], {"antennas": 1}),
    (["B", 2, 504], {"antennas": 1, "samples": 504, "fit": "tile"}),
    (["B", 2, 128], {"antennas": 1, "window": 128}),
    (["B", 16, 256], {"tasks": ["E-LOC-AOA", "E-LOC-LOS"]}),
    (["B", 2, "T"], {"per_antenna": "concat"}),
    (["B", 2, "T"], {"view": "csi", "antennas": 1, "tasks": ["E-LOC-AOA"]}),
]


@pytest.mark.parametrize(("axes", "keys"), FIT)
def test_what_fits_is_let_through_for_every_task_and_not_run(root, axes, keys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    check_inputs(plan(root, axes, **keys))


UNFIT = [
    (["B", 2, 504], {}, "E-LOC-AOA: embed: net.onnx: input iq [B, 2, 504], given [B, 16, 256]: set antennas: 1 and"),
    (["B", 16, 256], {}, "E-ID-DRONE: embed: net.onnx: input iq [B, 16, 256], given [B, 2, 4096]: set antennas: 8"),
    (["B", 2, 504], {"antennas": 1, "samples": 504}, "E-LOC-AOA: samples: expected 504 or more, found 256 (see fit)"),
    (["B", 3, "T"], {}, "net.onnx: input iq [B, 3, T]: layout: expected interleaved, as its axes say"),
    (["B", 7, 9, "T"], {}, "net.onnx: input iq [B, 7, 9, T]: layout: none has such axes; wrap by a factory"),
    (["B", 4], {}, "net.onnx: input iq [B, 4]: expected three or four axes"),
    (["B", 2, "T"], {"antennas": 1, "output": "z"}, "output"),
]


@pytest.mark.parametrize(("axes", "keys", "told"), UNFIT)
def test_what_does_not_fit_is_one_line(root, axes, keys, told):
    made = plan(root, axes, **keys)
    with pytest.raises(InputError) as caught:
        check_inputs(made)
    line = str(caught.value)
    assert line.startswith("config/models/net.yaml: ")
    assert told in line
    assert "\n" not in line
