"""A torch module with given weights as a backbone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from emma.backbones.base import Embeddings


class FrozenModule:
    """A backbone that calls a torch module, on one thread.

    Args:
        name: on the board.
        embedding_dim: width D of the module's answer.
        module: takes what the config's contract hands on, as a tensor; answers float32 ``[B, D]`` or ``[B, N, D]``.
        weights: all of the module's parameters and buffers by name, and no others; RuntimeError otherwise. Counts of
            training steps (``num_batches_tracked``) may be left out.
        device: of torch.
        portion: scenes of one pass on a CPU, so that their activations stay in its cache; by default a whole batch.
            For modules whose numbers do not depend on it.

    Attributes:
        module: the module, in evaluation mode.
    """

    def __init__(
        self,
        name: str,
        embedding_dim: int,
        module: nn.Module,
        weights: Mapping[str, NDArray[Any]],
        device: str = "cpu",
        portion: int | None = None,
    ) -> None:
        torch.set_num_threads(1)
        self.name, self.embedding_dim, self._device = name, embedding_dim, torch.device(device)
        module.load_state_dict({key: torch.from_numpy(np.array(value)) for key, value in weights.items()})
        self.module = module.to(self._device).eval()
        self._portion = portion if self._device.type == "cpu" else None

    @torch.inference_mode()
    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Embed what the contract hands on, ``[B, ...]``; ValueError where the module does not take its shape."""
        del sample_rate_hz, center_frequency_hz
        given = torch.from_numpy(iq).to(self._device)
        values: Embeddings = (
            torch.cat([self.module(part) for part in torch.split(given, self._portion or len(iq))]).cpu().numpy()
        )
        return values
