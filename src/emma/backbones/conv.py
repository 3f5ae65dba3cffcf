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

#: Filters of the first layer, how many of them go on, and filters of the layers after it; the latter's strides.
_FILTERS, _PASSED, _WIDTHS = 256, 32, (64, 128)
_STRIDES = (4, 4)
#: Positions of the first layer in a scene: longer scenes are strided, since neighbours tell nearly the same.
_POSITIONS = 512
_KERNEL, _GAIN = 9, 2.0


class Encoder(nn.Module):
    """Convolutions over time on the I and Q of every antenna, pooled over time after the first and the last layer.

    Args:
        antennas: A; the input is float32 ``[B, 2A, T]``.

    The first layer's rectified filters mix antennas with their phases, and nothing normalises them: their means are
    functions of the covariance of antennas and lags, which a normalisation by groups would take away. The embedding is
    float32 ``[B, 512]``: these 256 means, and mean and standard deviation of the last layer's 128 channels.
    """

    embedding_dim = _FILTERS + 2 * _WIDTHS[-1]

    def __init__(self, antennas: int) -> None:
        super().__init__()
        self.first = nn.Conv1d(2 * antennas, _FILTERS, _KERNEL, padding=_KERNEL // 2)
        layers: list[nn.Module] = [nn.GroupNorm(8, _PASSED)]
        inputs = _PASSED
        for width, stride in zip(_WIDTHS, _STRIDES, strict=True):
            layers += [nn.Conv1d(inputs, width, _KERNEL, stride=stride, padding=_KERNEL // 2)]
            layers += [nn.GroupNorm(8, width), nn.GELU()]
            inputs = width
        self.layers = nn.Sequential(*layers)

    def forward(self, channels: torch.Tensor) -> torch.Tensor:
        """Embed ``[B, 2A, T]`` as ``[B, 512]``."""
        first, stride = self.first, first_stride(channels.shape[2])
        filtered = nn.functional.conv1d(channels, first.weight, first.bias, stride, _KERNEL // 2)
        filtered = torch.relu(_GAIN * filtered)
        hidden = self.layers(filtered[:, :_PASSED])
        return torch.cat([filtered.mean(dim=2), hidden.mean(dim=2), hidden.std(dim=2)], dim=1)


def first_stride(samples: int) -> int:
    """Stride of the first layer for a scene of so many samples."""
    return max(1, samples // _POSITIONS)


class ConvBackbone:
    """One frozen encoder for each number of antennas."""

    def __init__(self, name: str, encoders: Mapping[int, Encoder], device: str = "cpu") -> None:
        torch.set_num_threads(1)
        self.name, self.embedding_dim, self._device = name, Encoder.embedding_dim, torch.device(device)
        self._encoders = {antennas: encoder.to(self._device).eval() for antennas, encoder in encoders.items()}

    @torch.inference_mode()
    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Embed complex64 ``[B, A, T]`` as float32 ``[B, 512]``; ValueError where no encoder takes A antennas."""
        del sample_rate_hz, center_frequency_hz
        antennas = iq.shape[1]
        if antennas not in self._encoders:
            raise ValueError(f"{self.name}: {antennas} antennas, expected one of {sorted(self._encoders)}")
        channels = torch.from_numpy(as_channels(iq)).to(self._device)
        encoder = self._encoders[antennas]
        return torch.cat([encoder(part) for part in _portions(channels)]).cpu().numpy()


def _portions(channels: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """Scenes ``[B, 2A, T]`` in portions whose activations stay small, 32 MiB in the first layer.

    No portion is a single scene unless all is: for one scene torch takes another kernel, which rounds otherwise.
    """
    size = max(2, first_stride(channels.shape[2]) * 2**15 // channels.shape[2])
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
