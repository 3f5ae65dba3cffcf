"""Convolutional backbones on torch: one seeded and untrained, one trained without labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from emma.backbones.base import IQ, Backbone, Embeddings
from emma.backbones.inputs import as_channels

_WIDTHS = (32, 64, 128)
_KERNEL, _STRIDES = 9, (1, 4, 4)


class Encoder(nn.Module):
    """Strided convolutions over time on the I and Q of every antenna, pooled to means and deviations.

    Args:
        antennas: A; the input is float32 ``[B, 2A, T]``.

    The embedding is float32 ``[B, 256]``: mean and standard deviation over time of the last layer's 128 channels.
    """

    embedding_dim = 2 * _WIDTHS[-1]

    def __init__(self, antennas: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        inputs = 2 * antennas
        for width, stride in zip(_WIDTHS, _STRIDES, strict=True):
            layers += [nn.Conv1d(inputs, width, _KERNEL, stride=stride, padding=_KERNEL // 2), nn.GroupNorm(8, width)]
            layers += [nn.GELU()]
            inputs = width
        self.layers = nn.Sequential(*layers)

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        """Embed ``[B, 2A, T]`` as ``[B, 256]``."""
        hidden = self.layers(channels)
        return torch.cat([hidden.mean(dim=2), hidden.std(dim=2)], dim=1)


class ConvBackbone:
    """One frozen encoder for each number of antennas."""

    def __init__(self, name: str, encoders: Mapping[int, Encoder], device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self.name, self.embedding_dim, self._device = name, Encoder.embedding_dim, torch.device(device)
        self._encoders = {antennas: encoder.to(self._device).eval() for antennas, encoder in encoders.items()}

    @torch.inference_mode()
    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Embed complex64 ``[B, A, T]`` as float32 ``[B, 256]``; ValueError where no encoder takes A antennas."""
        del sample_rate_hz, center_frequency_hz
        antennas = iq.shape[1]
        if antennas not in self._encoders:
            raise ValueError(f"{self.name}: {antennas} antennas, expected one of {sorted(self._encoders)}")
        channels = torch.from_numpy(as_channels(iq)).to(self._device)
        encoder = self._encoders[antennas]
        return torch.cat([encoder(part) for part in _portions(channels)]).cpu().numpy()


def _portions(channels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Scenes ``[B, 2A, T]`` in portions whose activations stay in a processor's cache, four MiB in the first layer.

    No portion is a single scene unless all is: for one scene torch takes another kernel, which rounds otherwise.
    """
    size = max(2, 2**15 // channels.shape[2])
    if channels.device.type != "cpu" or len(channels) <= size + 1:
        return (channels,)
    portions = torch.split(channels, size)
    return portions if len(portions[-1]) > 1 else (*portions[:-2], torch.cat(portions[-2:]))


def seeded_encoder(antennas: int, seed: int) -> Encoder:
    """An encoder whose initial weights depend on (seed, antennas) alone."""
    with torch.random.fork_rng():
        torch.manual_seed(seed * 1_000 + antennas)
        return Encoder(antennas)


def random_conv(weights: None = None, seed: int = 0, antennas: str = "1,8", device: str = "cpu") -> Backbone:
    """Untrained encoders for the given numbers of antennas, drawn from ``seed``: what the architecture alone brings."""
    del weights
    numbers = [int(number) for number in antennas.split(",")]
    return ConvBackbone("random_conv", {number: seeded_encoder(number, seed) for number in numbers}, device)


def ssl_conv(weights: Mapping[str, NDArray[Any]], device: str = "cpu") -> Backbone:
    """Encoders with weights named ``A.layer.parameter``, A the number of antennas, as ``pretrain`` makes them."""
    encoders = {}
    for antennas in sorted({int(name.partition(".")[0]) for name in weights}):
        state = {
            name.partition(".")[2]: torch.from_numpy(np.array(value))
            for name, value in weights.items()
            if name.startswith(f"{antennas}.")
        }
        encoders[antennas] = Encoder(antennas)
        encoders[antennas].load_state_dict(state)
    return ConvBackbone("ssl_conv", encoders, device)
