"""LWM 1.0: a transformer that learned to fill in masked parts of channels between a base station and its users.

S. Alikhani, G. Charan and A. Alkhateeb, "Large wireless model (LWM): a foundation model for wireless channels",
arXiv:2411.08872.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import nn

from emma.backbones.base import Backbone
from emma.backbones.published.frozen import FrozenModule

#: Antennas and carriers of a channel; real numbers of a token; what every number of the class token is.
ANTENNAS, CARRIERS, _TOKEN, _CLASS = 32, 32, 16, 0.2
_LAYERS, _WIDTH, _HEADS, _HEAD_WIDTH, _HIDDEN = 12, 64, 12, 5, 256
_TOKENS = 1 + 2 * ANTENNAS * CARRIERS // _TOKEN
_EPSILON = 1e-6
#: Names of the published file that are left out, with the reason.
DROPPED = {
    r"(linear|norm|decoder)\..*|decoder_bias": "the head that fills in masked tokens",
    r"layers\.\d+\.(enc_self_attn|pos_ffn)\.norm\..*": "normalisations that the forward pass never calls",
}


class Norm(nn.Module):
    """Mean 0 and deviation 1 (of n - 1) over the last axis, then a gain and an offset of each feature."""

    def __init__(self) -> None:
        super().__init__()
        self.gain, self.offset = nn.Parameter(torch.ones(_WIDTH)), nn.Parameter(torch.zeros(_WIDTH))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """``[..., 64]`` to the same shape."""
        deviation, mean = torch.std_mean(values, dim=-1, keepdim=True)
        return self.gain * (values - mean) / (deviation + _EPSILON) + self.offset


class Layer(nn.Module):
    """Attention of 12 heads of 5, then a hidden layer of 256; one normalisation, between the two."""

    def __init__(self) -> None:
        super().__init__()
        inner = _HEADS * _HEAD_WIDTH
        self.query, self.key, self.value = (nn.Linear(_WIDTH, inner) for _ in range(3))
        self.join, self.norm = nn.Linear(inner, _WIDTH), Norm()
        self.widen, self.narrow = nn.Linear(_WIDTH, _HIDDEN), nn.Linear(_HIDDEN, _WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """``[B, N, 64]`` to the same shape."""
        query, key, value = (
            linear(tokens).reshape(*tokens.shape[:2], _HEADS, _HEAD_WIDTH).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        context = nn.functional.scaled_dot_product_attention(query, key, value)
        attended: torch.Tensor = self.norm(tokens + self.join(context.transpose(1, 2).flatten(2)))
        added: torch.Tensor = self.narrow(torch.relu(self.widen(attended)))
        return attended + added


class Net(nn.Module):
    """The encoder, over a class token and 128 tokens of a channel."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.places, self.norm = nn.Linear(_TOKEN, _WIDTH), nn.Embedding(_TOKENS, _WIDTH), Norm()
        self.layers = nn.ModuleList(Layer() for _ in range(_LAYERS))

    def encode(self, tokens: torch.Tensor) -> torch.Tensor:
        """Encode tokens float32 ``[B, 129, 16]``, the class token first, as ``[B, 129, 64]``."""
        tokens = self.norm(self.embed(tokens) + self.places.weight)
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens

    def forward(self, csi: torch.Tensor) -> torch.Tensor:
        """Embed channels complex64 ``[B, A, K]`` as ``[B, 129, 64]``: the class token, then those of the channel."""
        return self.encode(as_tokens(fill(csi)))


def fill(csi: torch.Tensor) -> torch.Tensor:
    """The 32 antennas and 32 carriers that the network takes, at unit mean power.

    The network was trained on 32 antennas in a row and 32 neighbouring carriers of 30 kHz, simulated and scaled by a
    constant after which the mean power of a set is about 1. So carriers are the 32 in the middle, no wider apart than
    they come; and antennas are repeated in place (1 1 1 1 2 2 2 2 ...), since rows were never silent and neighbours
    alike. Nothing of this was chosen by a score.

    Args:
        csi: complex64 ``[B, A, K]``, carriers in the order of their frequency; A divides 32, K is 32 or more.

    Returns:
        complex64 ``[B, 32, 32]``; silence stays zero.

    Raises:
        ValueError: another number of antennas, or fewer carriers.
    """
    antennas, carriers = csi.shape[1:]
    if ANTENNAS % antennas or carriers < CARRIERS:
        raise ValueError(
            f"expected antennas that divide {ANTENNAS} and {CARRIERS} carriers or more, "
            f"found {antennas} antennas and {carriers} carriers"
        )
    first = (carriers - CARRIERS) // 2
    csi = csi[:, :, first : first + CARRIERS]
    power = csi.abs().square().mean(dim=(1, 2), keepdim=True)
    csi = csi * torch.where(power > 0, power, 1).rsqrt()
    return csi.repeat_interleave(ANTENNAS // antennas, dim=1)


def as_tokens(channels: torch.Tensor) -> torch.Tensor:
    """Tokens float32 ``[B, 129, 16]`` of channels complex64 ``[B, 32, 32]``.

    The class token, then 64 of the real part and 64 of the imaginary one, each of 16 neighbouring carriers of an
    antenna.
    """
    flat = torch.cat([channels.real.flatten(1), channels.imag.flatten(1)], dim=1)
    return nn.functional.pad(flat.reshape(len(flat), _TOKENS - 1, _TOKEN), (0, 0, 1, 0), value=_CLASS)


def build(weights: Mapping[str, NDArray[Any]], device: str = "cpu") -> Backbone:
    """The factory; the weights are those of a converted file, by the names of ``names``."""
    return FrozenModule("lwm_v1", _WIDTH, Net(), weights, device)


def names() -> dict[str, str]:
    """The published file's names, and this module's."""
    affine = ("weight", "bias")
    found = {"embedding.pos_embed.weight": "places.weight"}
    found |= {f"embedding.proj.{part}": f"embed.{part}" for part in affine}
    parts = {"enc_self_attn.W_Q": "query", "enc_self_attn.W_K": "key", "enc_self_attn.W_V": "value"}
    parts |= {"enc_self_attn.linear": "join", "pos_ffn.fc1": "widen", "pos_ffn.fc2": "narrow"}
    norms = {"embedding.norm": "norm"} | {f"layers.{k}.norm": f"layers.{k}.norm" for k in range(_LAYERS)}
    for old, own in norms.items():
        found |= {f"{old}.alpha": f"{own}.gain", f"{old}.bias": f"{own}.offset"}
    for layer in range(_LAYERS):
        for old, own in parts.items():
            found |= {f"layers.{layer}.{old}.{part}": f"layers.{layer}.{own}.{part}" for part in affine}
    return found
