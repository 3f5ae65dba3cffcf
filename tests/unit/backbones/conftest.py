"""Published networks: their files where EMMA_PUBLIC_BACKBONES names the folder, and made-up states of their shapes."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

from emma.backbones.published import lwm_v1, radioml_vgg10

FILES = {
    "radioml_vgg10": "vgg10_w8a8.pth",
    "lwm_v1": "lwm_model_weights.pth",
    "kjs_res_20db": "kjs_res_20dB.onnx",
}


@pytest.fixture
def published_file():
    """Name of a recipe to its published file; the test is skipped where there is none."""
    folder = os.environ.get("EMMA_PUBLIC_BACKBONES")
    if not folder:
        pytest.skip("EMMA_PUBLIC_BACKBONES names no folder of published networks")
    return lambda name: Path(folder) / FILES[name]


@pytest.fixture(scope="session")
def made_up_state():
    """Name of a recipe to tensors under the published names, drawn by a seed, with some that are left out."""

    def draw(name):
        network = {"radioml_vgg10": radioml_vgg10, "lwm_v1": lwm_v1}[name]
        shapes = {key: tuple(value.shape) for key, value in network.Net().state_dict().items()}
        rng = np.random.default_rng(0)
        state = {}
        for key, own in network.names().items():
            centre, spread = (1.0, 0.2) if own.endswith(("gain", "norm.weight", "running_var")) else (0.0, 0.1)
            state[key] = rng.normal(centre, spread, shapes[own]).astype(np.float32)
            if own.endswith("running_var"):
                state[key] = np.abs(state[key])
            if own.endswith("ceiling"):
                state[key] = np.array(4.0, np.float32)
        left_out = {
            "radioml_vgg10": {"36.bias": (24,), "2.num_batches_tracked": ()},
            "lwm_v1": {"decoder_bias": (16,), "layers.3.pos_ffn.norm.alpha": (64,)},
        }
        return state | {key: np.ones(shape, np.float32) for key, shape in left_out[name].items()}

    return draw


@pytest.fixture(scope="session")
def checkpoint():
    """Write a state as torch does, and say where."""

    def save(state, path):
        torch.save({key: torch.from_numpy(np.array(value)) for key, value in state.items()}, path)
        return path

    return save
