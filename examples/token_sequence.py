"""A transformer whose tokens are pooled: writes weights/token_sequence.safetensors and its config in config/models."""

import argparse
import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
import yaml
from safetensors.torch import save
from torch import nn

_PATCH, _SAMPLES, _WIDTH = 16, 256, 96


class Transformer(nn.Module):
    """A class token and a token for every 16 samples of one antenna, through two layers of attention."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = nn.Linear(2 * _PATCH, _WIDTH)
        self.start = nn.Parameter(torch.randn(1, 1, _WIDTH) / 10)
        self.place = nn.Parameter(torch.randn(1, 1 + _SAMPLES // _PATCH, _WIDTH) / 10)
        layer = nn.TransformerEncoderLayer(_WIDTH, 4, 2 * _WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, iq: torch.Tensor) -> torch.Tensor:
        """Float32 ``[B, 1, 2 T]``, I and Q of each sample in turn, to tokens ``[B, 1 + T / 16, 96]``."""
        patches = self.patch(iq.reshape(len(iq), -1, 2 * _PATCH))
        return self.encoder(torch.cat([self.start.expand(len(iq), 1, _WIDTH), patches], dim=1) + self.place)


class TokenBackbone:
    """Gives all tokens; ``pooling`` in the config says what is read of them."""

    name, embedding_dim = "token_sequence", _WIDTH

    def __init__(self, net: Transformer, device: str) -> None:
        self.net, self.device = net.to(device).eval(), device

    def embed(self, iq: np.ndarray, sample_rate_hz: float, center_frequency_hz: float) -> np.ndarray:
        """Float32 ``[B, 1, 2 T]`` to tokens float32 ``[B, N, D]``."""
        del sample_rate_hz, center_frequency_hz
        with torch.inference_mode():
            return self.net(torch.from_numpy(iq).to(self.device)).cpu().numpy()


def build(weights: Mapping[str, np.ndarray], device: str = "cpu") -> TokenBackbone:
    """The factory that the config names."""
    torch.set_num_threads(1)
    net = Transformer()
    net.load_state_dict({name: torch.tensor(values) for name, values in weights.items()})
    return TokenBackbone(net, device)


def main() -> None:
    """Save weights, here of an untrained network, and the config that pins them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    root = parser.parse_args().root
    torch.manual_seed(0)
    data = save(Transformer().state_dict())
    config = {
        "name": "token_sequence",
        "factory": "examples.token_sequence:build",
        "weights": "weights/token_sequence.safetensors",
        "weights_sha256": hashlib.sha256(data).hexdigest(),
        "antennas": 1,
        "samples": _SAMPLES,
        "layout": "interleaved",
        "pooling": "mean",  # or first, the class token
        "pretraining": {},  # untrained: it has seen nothing
    }
    for path, content in (
        (root / config["weights"], data),
        (root / "config/models/token_sequence.yaml", yaml.safe_dump(config, sort_keys=False).encode()),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
