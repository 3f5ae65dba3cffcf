"""A convolutional classifier of RadioML 2018.01A with weights and activations of 8 bits; its last hidden layer.

The network is the baseline of Xilinx's RadioML challenge of 2021, after T. J. O'Shea, T. Roy and T. C. Clancy,
"Over-the-air deep learning based radio signal classification", IEEE JSTSP 12(1), 2018.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from emma.backbones.base import Backbone
from emma.backbones.published.frozen import FrozenModule

#: Samples of a scene, filters of each of the convolutions, and features of each of the dense layers after them.
_SAMPLES, _FILTERS, _FEATURES = 1024, 64, 128
_CONVOLUTIONS, _DENSE = 7, 2
#: Numbers of 8 bits: inputs are multiples of 1/64 in [-2, 2), weights 127 steps to a side, activations 255 above zero.
_INPUT_STEP, _INPUT_LEVELS, _WEIGHT_LEVELS, _LEVELS = 1 / 64, 128, 127, 255
#: Scenes whose activations fit a processor's cache: 1.7 times as fast as 64 at once.
_PORTION = 16
#: Names of the published file that are left out, with the reason.
DROPPED = {
    r"36\..*": "the head for 24 modulations",
    r".*\.num_batches_tracked": "counts of training steps",
}


class Block(nn.Module):
    """Weights without bias, batch normalisation, rectifier, and rounding to 255 steps up to a learned ceiling.

    What goes in and comes out are whole numbers of steps, and so are the weights once they are rounded: every sum is
    below 2**24, exact in float32 in whatever order it is added, so that no rounding depends on the size of a batch.
    """

    ceiling: torch.Tensor
    weight_step: torch.Tensor

    def __init__(self, weights: nn.Conv1d | nn.Linear, features: int) -> None:
        super().__init__()
        self.weights, self.norm = weights, nn.BatchNorm1d(features)
        self.register_buffer("ceiling", torch.ones(()))
        self.register_buffer("weight_step", torch.ones(()), persistent=False)

    def round_weights(self) -> None:
        """Replace the weights by whole numbers of steps, a tensor's greatest magnitude being 127 of them."""
        weight = self.weights.weight
        self.weight_step = (weight.detach().abs().max() / _WEIGHT_LEVELS).clamp_min(torch.finfo(weight.dtype).tiny)
        weight.data = torch.round(weight.data / self.weight_step)

    def forward(self, levels: torch.Tensor, step: torch.Tensor | float) -> tuple[torch.Tensor, torch.Tensor]:
        """Whole numbers of ``step``, ``[B, channels, T]`` or ``[B, features]``, to whole numbers of a step, and it."""
        values = torch.relu(self.norm(self.weights(levels) * (step * self.weight_step)))
        own = self.ceiling / _LEVELS
        return torch.clamp(torch.round(values / own), max=_LEVELS), own


class Net(nn.Module):
    """Seven convolutions of three samples, each followed by a maximum over pairs, then two dense layers."""

    def __init__(self) -> None:
        super().__init__()
        inputs = (2, *[_FILTERS] * (_CONVOLUTIONS - 1))
        self.convolutions = nn.ModuleList(
            Block(nn.Conv1d(channels, _FILTERS, 3, padding=1, bias=False), _FILTERS) for channels in inputs
        )
        widths = (_FILTERS * _SAMPLES >> _CONVOLUTIONS, *[_FEATURES] * (_DENSE - 1))
        self.dense = nn.ModuleList(Block(nn.Linear(width, _FEATURES, bias=False), _FEATURES) for width in widths)

    def forward(self, iq: torch.Tensor) -> torch.Tensor:
        """Embed float32 ``[B, 2, 1024]``, I and Q at unit power, as ``[B, 128]``; ValueError for another shape."""
        if iq.shape[1:] != (2, _SAMPLES):
            raise ValueError(f"expected [batch, 2, {_SAMPLES}], found {list(iq.shape)}")
        levels = torch.clamp(torch.round(iq / _INPUT_STEP), -_INPUT_LEVELS, _INPUT_LEVELS - 1)
        step: torch.Tensor | float = _INPUT_STEP
        for block in self.convolutions:
            levels, step = block(levels, step)
            levels = nn.functional.max_pool1d(levels, 2)
        levels = levels.flatten(1)
        for block in self.dense:
            levels, step = block(levels, step)
        return levels * step


def build(weights: Mapping[str, NDArray[Any]], device: str = "cpu") -> Backbone:
    """The factory; the weights are those of a converted file, by the names of ``names``."""
    net = Net()
    backbone = FrozenModule("radioml_vgg10", _FEATURES, net, weights, device, _PORTION)
    for block in (*net.convolutions, *net.dense):
        assert isinstance(block, Block)
        block.round_weights()
    return backbone


def names() -> dict[str, str]:
    """The published file's names, and this module's.

    The published network is a plain sequence, so its names are places in it: a block of convolution, normalisation,
    rectifier and maximum takes four of them, one of a dense layer three.
    """
    ceiling = "act_quant.fused_activation_quant_proxy.tensor_quant.scaling_impl.value"
    starts = {f"convolutions.{k}": 1 + 4 * k for k in range(_CONVOLUTIONS)}
    starts |= {f"dense.{k}": 2 + 4 * _CONVOLUTIONS + 3 * k for k in range(_DENSE)}
    found = {}
    for block, start in starts.items():
        found[f"{start}.weight"] = f"{block}.weights.weight"
        found[f"{start + 2}.{ceiling}"] = f"{block}.ceiling"
        for part in ("weight", "bias", "running_mean", "running_var"):
            found[f"{start + 1}.{part}"] = f"{block}.norm.{part}"
    return found
