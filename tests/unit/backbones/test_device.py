"""``device``: what is found is used and written down; no machine of these tests has a GPU, so finding one is acted."""

import onnx
import onnxruntime
import pytest
import torch
from onnx import helper
from torch import nn

from common.errors import InputError
from common.hashing import sha256
from emma.backbones.base import prior
from emma.backbones.config import ModelConfig
from emma.backbones.device import used_device
from emma.backbones.load import load_backbone
from emma.data.provenance import Provenance, provenance_of

FACTORY = {"name": "m", "factory": "emma.backbones.base:prior", "pretraining": "unknown"}


@pytest.fixture
def told(monkeypatch):
    """Options that the factory was called with."""
    calls = []

    def build(weights, device="cpu"):
        calls.append(device)
        return prior()

    monkeypatch.setattr("emma.backbones.base.prior", build)
    return calls


@pytest.mark.parametrize(
    ("found", "asked", "device"),
    [(True, "auto", "cuda"), (False, "auto", "cpu"), (True, "cuda", "cuda"), (True, "cpu", "cpu")],
)
def test_auto_is_the_gpu_that_torch_finds(monkeypatch, told, found, asked, device):
    monkeypatch.setattr("torch.cuda.is_available", lambda: found)
    _, provenance = load_backbone(ModelConfig(**FACTORY, device=asked))
    assert told == [device]
    assert provenance.device == device


def test_a_factory_that_takes_no_device_stays_on_the_cpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: pytest.fail("torch was asked"))
    assert load_backbone(ModelConfig(**FACTORY, device="auto"))[1].device == "cpu"


def test_the_device_is_where_the_numbers_are(monkeypatch, told):
    class Net:
        name, embedding_dim = "m", 1

        def __init__(self, device):
            self.nets = {"a": nn.Linear(1, 1, device=device)}

    assert used_device(Net("meta"), "cpu") == "meta"
    # Told of a GPU, and on the CPU all the same.
    assert used_device(Net("cpu"), "cuda") == "cpu"
    assert used_device(prior(), "cuda") == "cuda"


class Session(onnxruntime.InferenceSession):
    """A session of a library that is built for a GPU: it takes the provider's name, and may find none."""

    finds = True

    def __init__(self, data, options, providers):
        self.asked = providers
        super().__init__(data, options, providers=["CPUExecutionProvider"])

    def get_providers(self):
        return self.asked if self.finds else ["CPUExecutionProvider"]


@pytest.fixture
def file(tmp_path, monkeypatch):
    graph = helper.make_graph(
        [helper.make_node("ReduceMax", ["x"], ["y"], axes=[2], keepdims=0)],
        "g",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["B", 2, "T"])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", 2])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data = model.SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    monkeypatch.setattr("onnxruntime.InferenceSession", Session)
    given = {"name": "m", "pretraining": "unknown", "onnx": "m.onnx", "weights_sha256": sha256(data)}
    return lambda device: load_backbone(ModelConfig(**given, device=device), tmp_path)[1].device


BOTH = ["CUDAExecutionProvider", "CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("providers", "finds", "asked", "device"),
    [
        (BOTH, True, "auto", "cuda"),
        (BOTH, False, "auto", "cpu"),
        (BOTH[1:], False, "auto", "cpu"),
        (BOTH, True, "cuda", "cuda"),
        (BOTH, True, "cpu", "cpu"),
    ],
)
def test_auto_is_the_gpu_that_onnxruntime_finds(monkeypatch, file, providers, finds, asked, device):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: providers)
    monkeypatch.setattr(Session, "finds", finds)
    assert file(asked) == device


def test_a_gpu_that_is_asked_for_and_not_found_is_refused(monkeypatch, file):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: BOTH)
    monkeypatch.setattr(Session, "finds", False)
    with pytest.raises(InputError, match="model m: device: onnxruntime has no cuda here, expected cpu or auto"):
        file("cuda")


def test_the_device_is_written_where_it_is_another_than_the_cpu():
    cpu = Provenance.of("m", ModelConfig(**FACTORY), "unknown")
    assert "device" not in cpu.model_dump(mode="json")
    cuda = cpu.model_copy(update={"device": "cuda"})
    assert cuda.model_dump(mode="json")["device"] == "cuda"
    assert provenance_of(cuda.metadata, "t") == cuda != cpu
    assert torch.device(cuda.device).type == "cuda"


def test_the_default_moves_no_hash():
    assert Provenance.of("m", ModelConfig(**FACTORY, device="cpu"), "unknown") == Provenance.of(
        "m", ModelConfig(**FACTORY), "unknown"
    )
