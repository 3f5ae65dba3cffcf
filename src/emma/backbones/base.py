"""What a backbone is, and the floor that every backbone is read against."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

#: Scenes ``[B, A, T]`` and embeddings ``[B, D]``; what is computed between them in double precision.
IQ = NDArray[np.complex64]
Embeddings = NDArray[np.float32]
Complex = NDArray[np.complex128]
Floats = NDArray[np.float64]


@runtime_checkable
class Backbone(Protocol):
    """A frozen map from IQ to a vector. It never sees a label, a task name or other metadata of a scene.

    Attributes:
        name: the model's name on the board.
        embedding_dim: width D of its embeddings; 0 for a model without features.
    """

    name: str
    embedding_dim: int

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Embed scenes.

        Args:
            iq: complex64 ``[B, A, T]``: scenes, antennas, samples; float32 where the model's config declares another
                layout (``emma.backbones.inputs.Contract``).
            sample_rate_hz: samples per second, the same for the batch.
            center_frequency_hz: carrier that the baseband refers to, the same for the batch.

        Returns:
            float32 ``[B, D]``, or ``[B, N, D]`` where the config declares a pooling; a scene's row depends on that
            scene alone.
        """
        ...


class Prior:
    """No features at all: every readout falls to its floor (mean direction, class prior, chance)."""

    name = "prior"
    embedding_dim = 0

    def embed(self, iq: IQ, sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Empty rows ``[B, 0]``."""
        del sample_rate_hz, center_frequency_hz
        return np.zeros((len(iq), 0), np.float32)


def prior(weights: None = None) -> Backbone:
    """Build the chance floor."""
    del weights
    return Prior()
