"""Controls: the same network with permuted weights, and statistics of its normalisation layers estimated again."""

import numpy as np
import onnx
import pyarrow as pa
import pytest
import torch
import yaml
from safetensors.numpy import save_file

from common.confine import landlock_version
from common.errors import InputError
from common.hashing import sha256
from emma.backbones.apart import ApartBackbone
from emma.backbones.config import ControlConfig, load_model_config
from emma.backbones.controls import control_weights, original_weights, permuted, running_statistics, unlike_permuted
from emma.backbones.embed import embed_batch
from emma.backbones.load import build_backbone, load_backbone, load_weights, weights_bytes

NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv1d(2, 8, 5), nn.BatchNorm1d(8)
        self.second, self.last = nn.Conv1d(8, 16, 5), nn.BatchNorm1d(16, affine=False)

    def forward(self, x):
        return torch.relu(self.last(self.second(torch.relu(self.norm(self.first(x)))))).mean(dim=2)

class Holder:
    name, embedding_dim = "net", 16

    def __init__(self, net):
        self.parts = {"inner": [net.eval()]}

    @torch.inference_mode()
    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        return self.parts["inner"][0](torch.from_numpy(iq)).numpy()

def build(weights):
    net = Net()
    net.load_state_dict({name.removeprefix("net/"): torch.from_numpy(value) for name, value in weights.items()})
    return Holder(net)
"""


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A network with running statistics, trained into a corner: its layers expect inputs that it never gets."""
    rng = np.random.default_rng(3)

    def drawn(*shape):
        return rng.normal(size=shape).astype(np.float32)

    weights = {
        "net/first.weight": drawn(8, 2, 5),
        "net/first.bias": drawn(8),
        "net/norm.weight": np.ones(8, np.float32),
        "net/norm.bias": np.zeros(8, np.float32),
        "net/norm.running_mean": np.full(8, 900, np.float32),
        "net/norm.running_var": np.ones(8, np.float32),
        "net/norm.num_batches_tracked": np.array(5),
        "net/second.weight": drawn(16, 8, 5),
        "net/second.bias": drawn(16),
        "net/last.running_mean": np.full(16, 800, np.float32),
        "net/last.running_var": np.ones(16, np.float32),
        "net/last.num_batches_tracked": np.array(5),
    }
    # A module of its own name: what was imported once stays.
    (tmp_path / "net_of_controls.py").write_text(NET)
    save_file(weights, tmp_path / "net.safetensors")
    config = {
        "name": "net",
        "factory": "net_of_controls:build",
        "weights": "net.safetensors",
        "weights_sha256": sha256((tmp_path / "net.safetensors").read_bytes()),
        "antennas": 1,
        "layout": "channels",
        "pretraining": {"environments": ["E_URBAN"]},
    }
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    return weights


def pool(scenes=48, samples=64, antennas=1, seed=5):
    rng = np.random.default_rng(seed)
    iq = rng.normal(size=(scenes, antennas, samples, 2)).astype(np.float32).view(np.complex64)[..., 0]
    index = pa.table({"sample_rate_hz": np.full(scenes, 1e6), "center_frequency_hz": np.full(scenes, 1e9)})
    return index, iq


def test_a_permutation_keeps_every_value_and_no_place():
    weights = {
        "a": np.arange(1000, dtype=np.float32).reshape(10, 100),
        "b": np.arange(1000, dtype=np.float32).reshape(10, 100),
        "half": np.arange(50, dtype=np.float16),
        "steps": np.arange(9),
        "scale": np.float32([3.5]),
        "norm.running_var": np.arange(4, dtype=np.float32),
    }
    found = permuted(weights, 0, ["norm.running_var"])
    assert set(found) == set(weights)
    for name, tensor in weights.items():
        assert found[name].dtype == tensor.dtype
        assert found[name].shape == tensor.shape
        np.testing.assert_array_equal(np.sort(found[name], axis=None), np.sort(tensor, axis=None))
    assert (found["a"] == weights["a"]).mean() < 0.02
    assert (found["half"] != weights["half"]).any()
    for name in ("steps", "scale", "norm.running_var"):
        np.testing.assert_array_equal(found[name], weights[name])
    # Each tensor has an order of its own, and the seed draws it.
    assert (found["a"] != found["b"]).any()
    assert (permuted(weights, 1)["a"] != found["a"]).any()
    np.testing.assert_array_equal(permuted(dict(reversed(weights.items())), 0)["a"], found["a"])


def test_statistics_are_those_of_the_pool(model):
    """Right values by NumPy: mean and variance of what the two layers get, the second behind the first's new ones."""
    config = load_model_config("net.control.yaml")
    assert isinstance(config, ControlConfig)
    index, iq = pool()
    made = control_weights(config, original_weights(config), {"one": (index, iq)}, seed=0)
    shuffled = permuted(model, 0)

    def convolved(x, name):
        windows = np.lib.stride_tricks.sliding_window_view(x, 5, axis=2).transpose(0, 2, 1, 3)
        flat = windows.reshape(*windows.shape[:2], -1)
        kernel = shuffled[f"net/{name}.weight"].reshape(len(shuffled[f"net/{name}.weight"]), -1)
        return (flat @ kernel.T + shuffled[f"net/{name}.bias"]).transpose(0, 2, 1)

    power = np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))
    scaled = iq / power
    given = np.concatenate([scaled.real, scaled.imag], axis=1).astype(np.float64)
    first = convolved(given, "first")
    np.testing.assert_allclose(made["net/norm.running_mean"], first.mean(axis=(0, 2)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made["net/norm.running_var"], first.var(axis=(0, 2)), rtol=1e-4)
    normal = (first - first.mean(axis=(0, 2))[:, None]) / np.sqrt(first.var(axis=(0, 2)) + 1e-5)[:, None]
    second = convolved(np.maximum(normal, 0), "second")
    np.testing.assert_allclose(made["net/last.running_mean"], second.mean(axis=(0, 2)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(made["net/last.running_var"], second.var(axis=(0, 2)), rtol=1e-3)
    assert made["net/norm.num_batches_tracked"] == 5


def test_a_control_that_is_no_permutation_is_named(model):
    made = permuted(model, 0)
    assert unlike_permuted(model, made, 0) is None
    # Statistics are estimated on the pools, which a reader of the results need not have.
    mean = ["net/norm.running_mean"]
    assert unlike_permuted(model, made | {mean[0]: np.ones(8, np.float32)}, 0, mean) is None
    assert unlike_permuted(model, made | {mean[0]: np.ones(8, np.float32)}, 0) == mean[0]
    assert unlike_permuted(model, model, 0) == "net/first.bias"
    assert unlike_permuted(model, made, 1) == "net/first.bias"
    assert unlike_permuted(model, made | {"net/second.bias": made["net/second.bias"] * 2}, 0) == "net/second.bias"
    assert unlike_permuted(model, {n: v for n, v in made.items() if n != "net/norm.bias"}, 0) == "net/norm.bias"


def test_a_file_of_weights_keeps_every_shape(model, tmp_path):
    """A scalar stays one, so that what is read again is what was permuted."""
    (tmp_path / "made.safetensors").write_bytes(weights_bytes(permuted(model, 0)))
    read, _ = load_weights("made.safetensors")
    assert read["net/norm.num_batches_tracked"].shape == ()
    assert unlike_permuted(model, read, 0) is None


def test_without_new_statistics_features_would_be_dead(model):
    config = load_model_config("net.control.yaml")
    index, iq = pool()
    made = control_weights(config, original_weights(config), {"one": (index, iq)}, seed=0)

    def alive(weights):
        return int((embed_batch(build_backbone(config, weights), iq, index, config).std(axis=0) > 0).sum())

    assert alive(permuted(model, 0)) == 0
    assert alive(made) == 16


def test_pools_that_the_model_does_not_take_are_left_out(model):
    config = load_model_config("net.control.yaml")
    weights = original_weights(config)
    made = control_weights(config, weights, {"one": pool(), "short": pool(samples=3)}, seed=0)
    alone = control_weights(config, weights, {"one": pool()}, seed=0)
    np.testing.assert_array_equal(made["net/last.running_mean"], alone["net/last.running_mean"])
    with pytest.raises(InputError, match=r"net.control: control: running statistics .* takes none"):
        control_weights(config, weights, {"short": pool(samples=3)}, seed=0)
    with pytest.raises(InputError, match=r"takes none"):
        control_weights(config, weights, {}, seed=0)


def test_a_control_is_another_model_with_its_own_weights(model, tmp_path):
    config = load_model_config("net.control.yaml")
    save_file(control_weights(config, model, {"one": pool()}, seed=0), tmp_path / "made.safetensors")
    backbone, provenance = load_backbone(config, ".", "made.safetensors")
    original, own = load_backbone(load_model_config("net.yaml"))
    assert provenance.name == "net.control"
    assert provenance.weights_sha256 == sha256((tmp_path / "made.safetensors").read_bytes())
    assert provenance.config_sha256 != own.config_sha256
    # What its model met in pretraining, a control has not.
    assert provenance.pretraining.environments == ()
    index, iq = pool()
    rows = [embed_batch(each, iq, index, config) for each in (backbone, original)]
    assert (rows[0] != rows[1]).any()
    with pytest.raises(InputError, match="control: expected the weights that the rule makes"):
        load_backbone(config)


@pytest.mark.parametrize(
    ("change", "control"),
    [
        ({}, True),
        ({"control": False}, False),
        ({"kind": "reference"}, False),
        ({"kind": "reference", "control": True}, True),
    ],
)
def test_which_models_have_a_control(model, change, control, tmp_path):
    text = yaml.safe_load((tmp_path / "net.yaml").read_text()) | change
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(text))
    assert load_model_config("net.yaml").has_control is control
    if control:
        assert load_model_config("net.control.yaml").kind == "control"
    else:
        with pytest.raises(InputError, match=r"net.yaml: control: net has none"):
            load_model_config("net.control.yaml")


def test_what_a_control_asks_of_a_config(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\nfactory: emma.backbones.dsp:build\npretraining: {}\ncontrol: true\n")
    with pytest.raises(InputError, match="control: expected a model with weights"):
        load_model_config(path)
    path = tmp_path / "mine.control.yaml"
    path.write_text("name: mine.control\nfactory: emma.backbones.dsp:build\npretraining: {}\n")
    with pytest.raises(InputError, match="ends the names of controls"):
        load_model_config(path)


@pytest.fixture
def graph(tmp_path, monkeypatch):
    """An ONNX file with two normalisations behind convolutions, whose statistics are of inputs that never come."""
    rng = np.random.default_rng(7)

    def tensor(name, *shape, value=None):
        values = rng.normal(size=shape) if value is None else np.full(shape, value)
        return onnx.numpy_helper.from_array(values.astype(np.float32), name)

    weights = [
        tensor("w1", 6, 2, 3), tensor("w2", 5, 6, 3),
        tensor("g1", 6, value=1), tensor("b1", 6, value=0), tensor("m1", 6, value=700), tensor("v1", 6, value=2),
        tensor("g2", 5, value=1), tensor("b2", 5, value=0), tensor("m2", 5, value=900), tensor("v2", 5, value=2),
    ]  # fmt: skip
    node = onnx.helper.make_node
    nodes = [
        node("Conv", ["iq", "w1"], ["c1"]),
        node("BatchNormalization", ["c1", "g1", "b1", "m1", "v1"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"]),
        node("BatchNormalization", ["c2", "g2", "b2", "m2", "v2"], ["n2"]),
        node("Relu", ["n2"], ["r2"]),
        node("GlobalAveragePool", ["r2"], ["y"]),
    ]
    given = onnx.helper.make_tensor_value_info("iq", onnx.TensorProto.FLOAT, ["batch", 2, "samples"])
    answer = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["batch", 5, 1])
    made = onnx.helper.make_graph(nodes, "net", [given], [answer], weights)
    model = onnx.helper.make_model(made, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())
    digest = sha256((tmp_path / "net.onnx").read_bytes())
    config = {"name": "net", "onnx": "net.onnx", "weights_sha256": digest, "antennas": 1, "pretraining": {}}
    (tmp_path / "net.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.chdir(tmp_path)
    return load_model_config("net.control.yaml")


def test_a_graph_is_permuted_and_its_statistics_estimated(graph, tmp_path):
    weights = original_weights(graph)
    index, iq = pool()
    made = control_weights(graph, weights, {"one": (index, iq)}, seed=0)
    assert running_statistics(graph, weights) == ["m1", "m2", "v1", "v2"]
    np.testing.assert_array_equal(np.sort(made["w1"], axis=None), np.sort(weights["w1"], axis=None))
    assert (made["w1"] != weights["w1"]).any()
    # By torch, an implementation of its own.
    power = np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))
    scaled = torch.from_numpy(np.concatenate([(iq / power).real, (iq / power).imag], axis=1))
    first = torch.nn.functional.conv1d(scaled, torch.from_numpy(made["w1"]))
    np.testing.assert_allclose(made["m1"], first.mean(dim=(0, 2)), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(made["v1"], first.var(dim=(0, 2), correction=0), rtol=1e-4)
    normal = torch.relu(torch.nn.functional.batch_norm(first, None, None, training=True))
    second = torch.nn.functional.conv1d(normal, torch.from_numpy(made["w2"]))
    np.testing.assert_allclose(made["m2"], second.mean(dim=(0, 2)), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(made["v2"], second.var(dim=(0, 2), correction=0), rtol=1e-3)
    save_file(made, tmp_path / "made.safetensors")
    backbone, _ = load_backbone(graph, ".", "made.safetensors")
    expected = torch.relu(torch.nn.functional.batch_norm(second, None, None, training=True)).mean(dim=2)
    np.testing.assert_allclose(embed_batch(backbone, iq, index, graph), expected, atol=1e-3)
    assert unlike_permuted(weights, made, 0, ["m1", "m2", "v1", "v2"]) is None
    with pytest.raises(InputError, match=r"takes none"):
        control_weights(graph, weights, {}, seed=0)


@pytest.mark.skipif(not landlock_version(), reason="this system has no Landlock")
def test_a_confined_control_reads_the_network_that_its_weights_fill(graph, tmp_path):
    """The file of the network lies anywhere in the project, beside code and weights."""
    save_file(original_weights(graph), tmp_path / "made.safetensors")
    with ApartBackbone(graph, graph, trained=tmp_path / "made.safetensors", root=tmp_path) as control:
        assert control.provenance.isolation == "landlock"
