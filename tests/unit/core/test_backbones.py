"""Model configs, weights by their SHA-256, ONNX files, and the backbones that need no torch."""

import hashlib
import json
import pickle
import struct
import sys

import numpy as np
import onnx
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper
from safetensors.numpy import save

from common.errors import InputError
from common.files import parse
from emma.backbones.base import Backbone, prior
from emma.backbones.config import ModelConfig, load_model_config
from emma.backbones.dsp import build
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract, as_channels, normalise
from emma.backbones.load import load_backbone, load_weights
from emma.backbones.onnx_file import OnnxBackbone

RNG = np.random.default_rng(0)


def scenes(count, antennas, length, seed=0):
    rng = np.random.default_rng(seed)
    shape = (count, antennas, length)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


BASE = {"name": "m", "pretraining": "unknown"}
PRIOR = BASE | {"factory": "emma.backbones.base:prior"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"factory": None}, "expected exactly one"),
        ({"onnx": "m.onnx", "weights_sha256": "0" * 64}, "expected exactly one"),
        ({"weights": "w.safetensors"}, "weights_sha256: expected with weights"),
        ({"weights_sha256": "0" * 64}, "weights_sha256: expected with weights"),
        ({"weights": "w.pt", "weights_sha256": "0" * 64}, "pickles are refused"),
        ({"weights": "w.pkl", "weights_sha256": "0" * 64}, "pickles are refused"),
        ({"weights": "w.safetensors", "weights_sha256": "0" * 63}, "weights_sha256"),
        ({"weights": "../w.safetensors", "weights_sha256": "0" * 64}, "a path inside the project"),
        ({"weights": "/w.safetensors", "weights_sha256": "0" * 64}, "a path inside the project"),
        ({"factory": None, "onnx": "m.bin", "weights_sha256": "0" * 64}, "a .onnx file"),
        ({"factory": None, "onnx": "m.onnx", "weights_sha256": "0" * 64, "options": {"a": 1}}, "holds its own weights"),
        (
            {"factory": None, "onnx": "m.onnx", "weights_sha256": "0" * 64, "layout": "complex"},
            "layout: expected a real one with onnx",
        ),
        ({"output": "y"}, "output: names a tensor of an ONNX file"),
        ({"antennas": 0}, "antennas"),
        ({"antennas": "all"}, "antennas"),
        ({"antennas": "2"}, "antennas"),
        ({"missing_antennas": "zeros"}, "missing_antennas: expected with a number of antennas"),
        ({"samples": -1}, "samples"),
        ({"fit": "pad"}, "fit: expected with a number of samples"),
        ({"fit": "stretch", "samples": 8}, "fit"),
        ({"sample_rate_hz": 0.0}, "sample_rate_hz"),
        ({"layout": "planar"}, "layout"),
        ({"gain_db": 1000.0}, "gain_db"),
        ({"pooling": "sum"}, "pooling"),
        ({"device": "tpu"}, "device"),
        ({"resample": True}, "resample: unknown key"),
        ({"factory": "os.system"}, "factory"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": "64"}, "batch_size: Input should be a valid integer"),
        ({"normalise": "peak"}, "normalise"),
        ({"kind": "winner"}, "kind"),
        ({"tasks": ["E-LOC"]}, "tasks.0"),
        ({"pretraining": "nothing"}, "pretraining"),
        ({"pretraining": {"places": ["E_URBAN"]}}, "places: unknown key"),
        ({"name": "a/b"}, "name"),
    ],
)
def test_a_model_config_that_is_wrong_is_refused(change, message):
    value = {key: item for key, item in (PRIOR | change).items() if item is not None}
    with pytest.raises(InputError, match=r"m\.yaml: ") as caught:
        parse(ModelConfig, value, "m.yaml")
    assert message in str(caught.value)


def test_pretraining_must_be_declared_and_a_model_is_named_as_its_file(tmp_path):
    path = tmp_path / "other.yaml"
    path.write_text(yaml.safe_dump(PRIOR))
    with pytest.raises(InputError, match="name: expected other"):
        load_model_config(path)
    with pytest.raises(InputError, match="pretraining: Field required"):
        parse(ModelConfig, {"name": "m", "factory": "a:b"}, "m.yaml")


def test_weights_are_those_of_their_sha_256(tmp_path):
    data = save({"a": np.arange(4, dtype=np.float32)})
    path = tmp_path / "w.safetensors"
    path.write_bytes(data)
    weights, digest = load_weights(path, sha(data))
    np.testing.assert_array_equal(weights["a"], [0, 1, 2, 3])
    assert digest == sha(data)
    with pytest.raises(InputError, match=f"weights_sha256: expected {'0' * 64}, found {digest}"):
        load_weights(path, "0" * 64)
    with pytest.raises(InputError, match=r"w\.safetensors: no such file"):
        load_weights(tmp_path / "none" / "w.safetensors")


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("the pickle was run",))


def _bfloat16() -> bytes:
    head = json.dumps({"x": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(head)) + head + bytes(4)


@pytest.mark.parametrize("data", [pickle.dumps(Trap()), b"", save({"a": np.ones(9)})[:-8], _bfloat16()])
def test_what_is_not_safetensors_is_refused_whatever_its_name(tmp_path, data):
    path = tmp_path / "w.safetensors"
    path.write_bytes(data)
    config = ModelConfig(**PRIOR, weights="w.safetensors", weights_sha256=sha(data))
    with pytest.raises(InputError, match=r"w\.safetensors: expected"):
        load_backbone(config, tmp_path)


@pytest.mark.parametrize(
    ("factory", "options"),
    [
        ("nowhere:x", {}),
        ("json:nothing", {}),
        ("..x:y", {}),
        ("emma_broken_module:x", {}),
        ("emma.backbones.base:prior", {"depth": 3}),
        ("json:dumps", {}),
        ("math:sqrt", {}),
        ("emma_broken_module_2:refuses", {}),
    ],
)
def test_a_factory_that_fails_is_one_line(tmp_path, monkeypatch, factory, options):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "emma_broken_module.py").write_text("1 / 0\n")
    (tmp_path / "emma_broken_module_2.py").write_text("def refuses(weights):\n    raise ValueError('no\\nsuch')\n")
    with pytest.raises(InputError, match="model m: factory: "):
        load_backbone(ModelConfig(**BASE, factory=factory, options=options))


def test_provenance_names_config_and_weights(tmp_path):
    backbone, provenance = load_backbone(ModelConfig(**PRIOR))
    assert isinstance(backbone, Backbone)
    assert provenance.weights_sha256 is None
    other = load_backbone(ModelConfig(**PRIOR, batch_size=7))[1]
    assert other.config_sha256 != provenance.config_sha256
    rule = {"function": "a:b", "options": {}}
    with pytest.raises(InputError, match="pretrain: expected the weights that the rule makes"):
        load_backbone(ModelConfig(**PRIOR, pretrain=rule))
    data = save({"a": np.ones(2)})
    (tmp_path / "t.safetensors").write_bytes(data)
    trained = load_backbone(ModelConfig(**PRIOR, pretrain=rule), trained=tmp_path / "t.safetensors")[1]
    assert trained.weights_sha256 == sha(data)


# ONNX

MATRIX = RNG.normal(size=(32, 4)).astype(np.float32)


def graph(inputs=("B", 2, 16), outputs=("B", 4), kind=TensorProto.FLOAT, spare=False) -> onnx.ModelProto:
    weights = helper.make_tensor("W", TensorProto.FLOAT, MATRIX.shape, MATRIX.tobytes(), raw=True)
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "W"], ["y"])]
    given = [helper.make_tensor_value_info("x", kind, inputs)]
    given += [helper.make_tensor_value_info("z", kind, ["B"])] if spare else []
    made = helper.make_graph(nodes, "g", given, [helper.make_tensor_value_info("y", kind, outputs)], [weights])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_an_onnx_file_is_a_backbone(tmp_path):
    data = graph().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    backbone, provenance = load_backbone(ModelConfig(**BASE, onnx="m.onnx", weights_sha256=sha(data)), tmp_path)
    iq = scenes(5, 1, 16)
    found = backbone.embed(iq, 1.0, 1.0)
    pairs = np.concatenate([iq.real, iq.imag], axis=1).reshape(5, 32)
    np.testing.assert_allclose(found, pairs @ MATRIX, rtol=1e-5, atol=1e-5)
    assert (backbone.embedding_dim, found.dtype, provenance.weights_sha256) == (4, np.float32, sha(data))
    with pytest.raises(InputError, match="weights_sha256: expected"):
        load_backbone(ModelConfig(**BASE, onnx="m.onnx", weights_sha256="0" * 64), tmp_path)


def test_an_onnx_file_that_does_not_take_the_scenes_is_one_line():
    backbone = OnnxBackbone("m", graph().SerializeToString(), "m.onnx")
    for iq in (scenes(3, 8, 16), scenes(3, 1, 17)):
        with pytest.raises(ValueError, match=r"m\.onnx: input x \[B, 2, 16\], given .*: set (antennas: 1|samples: 16)"):
            backbone.embed(iq, 1.0, 1.0)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"inputs": ("B", 32)}, r"input x \[B, 32\]: expected three or four axes"),
        ({"kind": TensorProto.DOUBLE}, "expected an ONNX file that onnxruntime runs"),
        ({"spare": True}, r"inputs x \[B, 2, 16\], z \[B\]: expected one"),
    ],
)
def test_an_onnx_file_of_another_shape_is_refused(model, message):
    with pytest.raises(InputError, match=rf"m\.onnx: {message}"):
        OnnxBackbone("m", graph(**model).SerializeToString(), "m.onnx")


def test_an_onnx_file_may_return_tokens(tmp_path):
    node = helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 1])
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["B", *shape]) for name, shape in TOKENS.items()]
    made = helper.make_graph([node], "g", given[:1], given[1:])
    data = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    config = ModelConfig(**BASE, onnx="m.onnx", weights_sha256=sha(data), layout="stacked", pooling="max")
    iq, index = scenes(5, 1, 16), pa.table({"sample_rate_hz": [2e7] * 5, "center_frequency_hz": [1e9] * 5})
    found = embed_batch(load_backbone(config, tmp_path)[0], iq, index, config)
    unit = normalise(iq, "unit_power")
    np.testing.assert_array_equal(found, np.stack([unit.real.max(axis=(1, 2)), unit.imag.max(axis=(1, 2))], axis=1))


TOKENS = {"x": (2, "T"), "y": ("T", 2)}


def test_a_device_that_is_not_there_is_one_line(tmp_path, monkeypatch):
    data = graph().SerializeToString()
    (tmp_path / "m.onnx").write_bytes(data)
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(InputError, match="model m: device: onnxruntime has no cuda here, expected cpu or auto"):
        load_backbone(ModelConfig(**BASE, onnx="m.onnx", weights_sha256=sha(data), device="cuda"), tmp_path)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(InputError, match="model m: device: torch has no cuda here, expected cpu or auto"):
        load_backbone(ModelConfig(**PRIOR, device="cuda"))


def test_a_factory_is_told_of_a_device_that_is_not_the_cpu(monkeypatch):
    told = []
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("emma.backbones.base.prior", lambda weights, **options: told.append(options) or prior())
    for device in ("cuda", "cpu"):
        load_backbone(ModelConfig(**PRIOR, device=device, options={"width": 3}))
    assert told == [{"width": 3, "device": "cuda"}, {"width": 3}]


def test_a_factory_may_stand_in_the_projects_folder(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", [*sys.path])
    (tmp_path / "my_models").mkdir()
    (tmp_path / "my_models" / "net.py").write_text("from emma.backbones.base import prior as build\n")
    config = ModelConfig(**BASE, factory="my_models.net:build")
    assert load_backbone(config, tmp_path)[0].embedding_dim == 0
    assert sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize("data", [b"", b"junk", pickle.dumps({"a": 1}), graph().SerializeToString()[:-40]])
def test_what_is_no_onnx_file_is_refused(data):
    with pytest.raises(InputError, match=r"m\.onnx: expected an ONNX file"):
        OnnxBackbone("m", data, "m.onnx")


def test_weights_beside_an_onnx_file_would_escape_its_hash_and_are_refused(tmp_path, monkeypatch):
    onnx.save_model(graph(), tmp_path / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    data = (tmp_path / "m.onnx").read_bytes()
    assert (tmp_path / "w.bin").stat().st_size >= MATRIX.nbytes
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"m\.onnx: expected an ONNX file"):
        load_backbone(ModelConfig(**BASE, onnx="m.onnx", weights_sha256=sha(data)), tmp_path)


# Samples on their way in


def test_channels_are_i_and_q_of_each_antenna_in_turn():
    iq = scenes(2, 3, 5)
    channels = as_channels(iq)
    assert channels.shape == (2, 6, 5)
    for antenna in range(3):
        np.testing.assert_array_equal(channels[:, 2 * antenna], iq[:, antenna].real)
        np.testing.assert_array_equal(channels[:, 2 * antenna + 1], iq[:, antenna].imag)
    np.testing.assert_array_equal(as_channels(iq[:, :, ::2]), channels[:, :, ::2])


@given(st.floats(-18, 18))
@settings(max_examples=30, deadline=None)
def test_unit_power_is_of_the_whole_scene_and_free_of_gain(exponent):
    iq = scenes(3, 4, 32) * np.array([1, 2, 0.5, 3], np.float32)[None, :, None]
    found = normalise((iq * 10**exponent).astype(np.complex64), "unit_power")
    assert found.dtype == np.complex64
    np.testing.assert_allclose((np.abs(found.astype(complex)) ** 2).mean(axis=(1, 2)), 1.0, rtol=1e-5)
    np.testing.assert_allclose(found, normalise(iq, "unit_power"), rtol=1e-4, atol=1e-6)
    # What one antenna has over another is the scene's own.
    gains = found[:, 1:, 0] / found[:, :1, 0]
    np.testing.assert_allclose(gains, iq[:, 1:, 0] / iq[:, :1, 0], rtol=1e-4)


def test_a_silent_scene_stays_silent_and_none_is_none():
    iq = scenes(2, 1, 8)
    iq[1] = 0
    assert not normalise(iq, "unit_power")[1].any()
    assert np.isfinite(normalise(iq, "unit_power")).all()
    assert normalise(iq, "none") is iq


# Shipped


def test_the_prior_has_no_features():
    assert prior().embed(scenes(3, 8, 16), 1.0, 1.0).shape == (3, 0)


@pytest.mark.parametrize(("antennas", "length"), [(1, 1024), (8, 256), (2, 4096), (12, 256)])
def test_dsp_has_one_width_and_a_row_depends_on_its_scene_alone(antennas, length):
    backbone = build()
    iq = scenes(6, antennas, length)
    found = backbone.embed(iq, 2e7, 2.4e9)
    assert found.shape == (6, backbone.embedding_dim)
    assert found.dtype == np.float32
    assert np.isfinite(found).all()
    np.testing.assert_allclose(backbone.embed(iq[2:3], 2e7, 2.4e9), found[2:3], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(backbone.embed(iq * np.float32(0.01), 2e7, 2.4e9), found, rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(backbone.embed(iq, 2e7, 2.4e9), found)


@pytest.mark.parametrize("antennas", [1, 8])
@pytest.mark.parametrize("kind", ["silent", "constant", "one sample"])
def test_dsp_is_finite_on_degenerate_scenes(antennas, kind):
    iq = np.zeros((2, antennas, 256), np.complex64)
    iq[:, :, : {"silent": 0, "constant": 256, "one sample": 1}[kind]] = 1 + 1j
    assert np.isfinite(build().embed(iq, 2e7, 2.4e9)).all()


def test_dsp_sees_a_wave_turn_around_the_array():
    # One plane wave: the phase between neighbours of the covariance follows the bearing.
    elements = np.exp(1j * np.pi / 4 * np.arange(8))
    signal = scenes(1, 1, 256)[0, 0]
    found = []
    for bearing in (0.0, 90.0):
        phases = np.pi * np.real(elements * np.exp(-1j * np.deg2rad(bearing)))
        found.append(build().embed((np.exp(1j * phases)[:, None] * signal)[None].astype("c8"), 2e7, 2.4e9)[0])
    assert np.abs(found[0][:64] - found[1][:64]).max() > 0.1
    np.testing.assert_allclose(found[0][72:], found[1][72:], atol=0.05)


def test_a_length_that_dsp_cannot_take_is_one_line():
    index = pa.table({"sample_rate_hz": [2e7, 2e7], "center_frequency_hz": [1e9, 1e9]})
    with pytest.raises(InputError, match="model dsp: embed: "):
        embed_batch(build(), scenes(2, 1, 100), index, Contract(batch_size=8))
