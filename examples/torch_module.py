"""A torch module as a backbone: writes weights/torch_module.safetensors and config/models/torch_module.yaml."""

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import yaml
from safetensors.torch import save
from torch import nn


class Net(nn.Module):
    """Two convolutions over I and Q of one antenna, then means and deviations over time."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(2, 32, 9, 2), nn.GELU(), nn.Conv1d(32, width, 9, 4), nn.GELU())

    def forward(self, iq: torch.Tensor) -> torch.Tensor:
        """Float32 ``[B, 2, T]`` to ``[B, 2 * width]``."""
        features = self.layers(iq)
        return torch.cat([features.mean(dim=2), features.std(dim=2)], dim=1)


class TorchBackbone:
    """What the benchmark calls."""

    name = "torch_module"

    def __init__(self, net: Net, width: int, device: str) -> None:
        self.net, self.device, self.embedding_dim = net.to(device).eval(), device, 2 * width

    def embed(self, iq: np.ndarray, sample_rate_hz: float, center_frequency_hz: float) -> np.ndarray:
        """Float32 ``[B, 2, T]``, as the config's layout asks, to float32 ``[B, D]``."""
        del sample_rate_hz, center_frequency_hz
        with torch.inference_mode():
            return self.net(torch.from_numpy(iq).to(self.device)).cpu().numpy()


def build(weights: Mapping[str, np.ndarray], width: int, device: str = "cpu") -> TorchBackbone:
    """The factory that the config names: called with the weights by name, and the config's options."""
    torch.set_num_threads(1)
    net = Net(width)
    net.load_state_dict({name: torch.tensor(values) for name, values in weights.items()})
    return TorchBackbone(net, width, device)


def main() -> None:
    """Save weights, here of an untrained network, and the config that pins them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    root = parser.parse_args().root
    torch.manual_seed(0)
    data = save(Net(width=64).state_dict())
    config = {
        "name": "torch_module",
        "factory": "examples.torch_module:build",
        "options": {"width": 64},
        "weights": "weights/torch_module.safetensors",
        "weights_sha256": hashlib.sha256(data).hexdigest(),
        "antennas": 1,
        "layout": "channels",
        "pretraining": {},  # untrained: it has seen nothing
    }
    for path, content in (
        (root / config["weights"], data),
        (root / "config/models/torch_module.yaml", yaml.safe_dump(config, sort_keys=False).encode()),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
