"""A network exported to ONNX as a backbone: writes weights/onnx_export.onnx and config/models/onnx_export.yaml."""

import argparse
import hashlib
from pathlib import Path

import torch
import yaml
from torch import nn


class Net(nn.Module):
    """Two convolutions over I and Q of one antenna, then mean magnitudes over time."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv1d(2, 32, 9, 2), nn.ReLU(), nn.Conv1d(32, 96, 9, 4), nn.ReLU())

    def forward(self, iq: torch.Tensor) -> torch.Tensor:
        """Float32 ``[B, 2, T]`` to ``[B, 96]``."""
        return self.layers(iq).mean(dim=2)


def main() -> None:
    """Export the network, here an untrained one, and write the config that pins it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")
    root = parser.parse_args().root
    torch.manual_seed(0)
    # One file, weights within; any batch, any length.
    axes = ({0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC},)
    names = {"input_names": ["iq"], "output_names": ["embedding"], "dynamic_shapes": axes, "verbose": False}
    program = torch.onnx.export(Net().eval(), (torch.zeros(2, 2, 256),), **names)
    data = program.model_proto.SerializeToString()
    config = {
        "name": "onnx_export",
        "onnx": "weights/onnx_export.onnx",
        "weights_sha256": hashlib.sha256(data).hexdigest(),
        "antennas": 1,
        "pretraining": {},  # untrained: it has seen nothing
    }
    for path, content in (
        (root / config["onnx"], data),
        (root / "config/models/onnx_export.yaml", yaml.safe_dump(config, sort_keys=False).encode()),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


if __name__ == "__main__":
    main()
