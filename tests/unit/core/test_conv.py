"""The convolutional encoders and their training; the only tests here that import torch."""

import numpy as np
import pytest
import torch
from safetensors.numpy import save

from common.errors import InputError
from common.hashing import sha256
from emma.backbones.config import ModelConfig
from emma.backbones.contrastive import _nt_xent, _view, train
from emma.backbones.conv import random_conv, seeded_encoder, ssl_conv
from emma.backbones.inputs import as_channels
from emma.backbones.load import load_backbone

OPTIONS = {
    "epochs": 2,
    "batch": 4,
    "crop": 64,
    "temperature": 0.2,
    "learning_rate": 1e-3,
    "lowest_snr_db": 0.0,
    "highest_snr_db": 20.0,
}


def scenes(count, antennas, length, seed=0):
    rng = np.random.default_rng(seed)
    shape = (count, antennas, length)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(np.complex64)


def test_the_seed_and_the_antennas_alone_decide_the_weights():
    iq = scenes(3, 1, 256)
    torch.manual_seed(1)
    found = random_conv().embed(iq, 1.0, 1.0)
    torch.manual_seed(2)
    state = torch.random.get_rng_state()
    np.testing.assert_array_equal(random_conv(antennas="1").embed(iq, 1.0, 1.0), found)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert np.abs(random_conv(seed=1).embed(iq, 1.0, 1.0) - found).max() > 1e-3
    assert found.shape == (3, random_conv().embedding_dim)
    assert found.dtype == np.float32


def test_a_row_depends_on_its_scene_alone():
    iq = scenes(5, 8, 256)
    backbone = random_conv()
    found = backbone.embed(iq, 1.0, 1.0)
    for row in range(5):
        np.testing.assert_allclose(backbone.embed(iq[row : row + 1], 2.0, 3.0), found[row : row + 1], atol=1e-5)


def test_other_numbers_of_antennas_are_refused():
    with pytest.raises(ValueError, match=r"2 antennas, expected one of \[1, 8\]"):
        random_conv().embed(scenes(1, 2, 256), 1.0, 1.0)


def test_training_is_deterministic_and_its_weights_load(tmp_path):
    pools = {"b": scenes(6, 1, 96), "a": scenes(5, 1, 80, 1), "c": scenes(4, 2, 96, 2)}
    weights = train(pools, 3, **OPTIONS)
    again = train(dict(reversed(pools.items())), 3, **OPTIONS)
    assert weights.keys() == again.keys()
    for name, value in weights.items():
        np.testing.assert_array_equal(again[name], value)
    other = train(pools, 4, **OPTIONS)
    assert any(np.abs(other[name] - value).max() > 0 for name, value in weights.items())
    start = seeded_encoder(1, 3).state_dict()
    assert any(np.abs(weights[f"1.{name}"] - value.numpy()).max() > 1e-4 for name, value in start.items())
    data = save(weights)
    (tmp_path / "w.safetensors").write_bytes(data)
    factory = {"factory": "emma.backbones.conv:ssl_conv", "weights": "w.safetensors", "weights_sha256": sha256(data)}
    backbone, provenance = load_backbone(ModelConfig(name="m", pretraining={}, **factory), tmp_path)
    assert provenance.weights_sha256 == sha256(data)
    for antennas in (1, 2):
        iq = scenes(2, antennas, 128, 9)
        np.testing.assert_array_equal(backbone.embed(iq, 1.0, 1.0), ssl_conv(weights).embed(iq, 1.0, 1.0))


@pytest.mark.parametrize("weights", [{"abc": np.zeros(3, np.float32)}, {"1.layers.0.weight": np.zeros(3, np.float32)}])
def test_weights_that_do_not_fit_are_one_line(tmp_path, weights):
    data = save(weights)
    (tmp_path / "w.safetensors").write_bytes(data)
    config = {"factory": "emma.backbones.conv:ssl_conv", "weights": "w.safetensors", "weights_sha256": sha256(data)}
    with pytest.raises(InputError, match="refused its weights or options"):
        load_backbone(ModelConfig(name="m", pretraining="unknown", **config), tmp_path)
    with pytest.raises(InputError, match="refused its weights or options"):
        config = {"factory": "emma.backbones.conv:random_conv", "options": {"antennas": "x"}}
        load_backbone(ModelConfig(name="m", pretraining="unknown", **config))


def test_a_view_keeps_what_lies_between_antennas():
    iq = scenes(3, 4, 128)
    generator = torch.Generator().manual_seed(0)
    view = _view(torch.from_numpy(as_channels(iq)), 32, (200.0, 200.0), generator).numpy()
    found = view[:, 0::2] + 1j * view[:, 1::2]
    for scene, samples in zip(found, iq, strict=True):
        # At 200 dB the view is the scene's own window, turned and scaled as a whole.
        windows = [samples[:, start : start + 32] for start in range(97)]
        matches = [abs(np.vdot(w, scene)) / np.linalg.norm(w) / np.linalg.norm(scene) for w in windows]
        assert max(matches) == pytest.approx(1.0, abs=1e-5)


def test_the_loss_is_that_of_its_paper():
    rng = np.random.default_rng(0)
    projected = rng.normal(size=(8, 5))
    unit = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    exponentials = np.exp(unit @ unit.T / 0.3)
    losses = []
    for row in range(8):
        partner = (row + 4) % 8
        others = [exponentials[row, column] for column in range(8) if column != row]
        losses.append(-np.log(exponentials[row, partner] / sum(others)))
    assert _nt_xent(torch.from_numpy(projected), 0.3).item() == pytest.approx(np.mean(losses))
