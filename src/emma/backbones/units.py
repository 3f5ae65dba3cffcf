"""What single calls of a model see of a scene: an antenna on its own, a window of a long scene; and how rows join."""

from __future__ import annotations

import numpy as np

from emma.backbones.base import IQ, Embeddings
from emma.backbones.inputs import Contract, resampled


def inner(contract: Contract) -> Contract:
    """The rules that are left for each unit: a window is the scene, so that its number of samples is the model's."""
    return contract if contract.window is None else contract.model_copy(update={"samples": contract.window})


def antennas_alone(contract: Contract, antennas: int) -> int:
    """Antennas of a scene that are embedded on their own; 1 where the model gets all of them together."""
    return antennas if contract.per_antenna in {"concat", "mean"} else 1


def windows_of(contract: Contract, samples: int) -> int:
    """Windows of a scene of so many samples: those that lie in it, or one that it does not fill."""
    if contract.window is None:
        return 1
    return max(1 + (samples - contract.window) // (contract.hop or contract.window), 1)


def cut(iq: IQ, sample_rate_hz: float, contract: Contract) -> tuple[IQ, float]:
    """Scenes as units, which share their memory, and their sample rate.

    Args:
        iq: complex64 ``[B, A, T]``.
        sample_rate_hz: their sample rate.
        contract: the model's.

    Returns:
        complex64 ``[B, antennas alone, windows, antennas together, samples]``, and the rate, which is another where
        windows are cut of resampled scenes.

    Raises:
        ValueError: a ratio of rates that the contract's resampling does not take.
    """
    alone = antennas_alone(contract, iq.shape[1])
    units = iq[:, None] if contract.per_antenna is None else iq[:, :alone, None]
    if contract.window is None:
        return units[:, :, None], sample_rate_hz
    if contract.sample_rate_hz is not None:
        units, sample_rate_hz = resampled(units, sample_rate_hz, contract.sample_rate_hz), contract.sample_rate_hz
    if units.shape[3] < contract.window:
        return units[:, :, None], sample_rate_hz
    windows = np.lib.stride_tricks.sliding_window_view(units, contract.window, axis=3)
    return windows[:, :, :, :: contract.hop or contract.window].swapaxes(2, 3), sample_rate_hz


def join(rows: Embeddings, contract: Contract) -> Embeddings:
    """Embeddings of units ``[B, antennas alone, windows, D]`` as rows of scenes ``[B, width]``: windows, then antennas.

    A standard deviation is that of the windows there are (divided by their number).
    """
    batch, antennas, _, _ = rows.shape
    if contract.window is None:
        pooled = rows[:, :, 0]
    elif contract.window_pooling == "max":
        pooled = rows.max(axis=2)
    else:
        moments = [rows.mean(axis=2, dtype=np.float64)]
        if contract.window_pooling == "mean_std":
            moments.append(rows.std(axis=2, dtype=np.float64))
        pooled = np.concatenate(moments, axis=2).astype(np.float32)
    if contract.per_antenna == "mean":
        joined: Embeddings = pooled.mean(axis=1, dtype=np.float64).astype(np.float32)
    else:
        joined = pooled.reshape(batch, antennas * pooled.shape[2])
    return joined


def joined_width(contract: Contract, width: int, antennas: int) -> int:
    """Width of a scene's row, where the model's own is ``width`` and the scene has so many antennas."""
    alone = antennas_alone(contract, antennas) if contract.per_antenna == "concat" else 1
    return width * alone * (2 if contract.window_pooling == "mean_std" else 1)
