"""Self-supervised training of the convolutional encoders: two views of one scene attract, other scenes repel.

The loss is NT-Xent (Chen et al., arXiv:2002.05709, equation 1). A view keeps what a radio task may ask for: it crops in
time, turns the carrier phase, adds noise and changes the gain, and never mixes antennas. No label is read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping

import torch
from torch import nn

from common.rows import RowFile
from emma.backbones.base import IQ, Embeddings
from emma.backbones.conv import Encoder, seeded_encoder
from emma.backbones.inputs import as_channels, normalise

_LOG = logging.getLogger(__name__)


def train(
    pools: Mapping[str, IQ | RowFile],
    seed: int,
    epochs: int,
    batch: int,
    crop: int,
    temperature: float,
    learning_rate: float,
    lowest_snr_db: float,
    highest_snr_db: float,
) -> dict[str, Embeddings]:
    """Train one encoder per number of antennas.

    Args:
        pools: IQ complex64 ``[N, A, T]`` by pool name; pools with the same A train one encoder in turn.
        seed: seeds the initial weights, the batches and the views.
        epochs: passes over the pools.
        batch: scenes per step; every step takes one pool.
        crop: samples of a view, at most the shortest T.
        temperature: of the contrastive loss.
        learning_rate: peak of a cosine schedule.
        lowest_snr_db: least SNR of the noise that a view adds, against the scene's own power.
        highest_snr_db: greatest such SNR.

    Returns:
        weights named ``A.layer.parameter``.
    """
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    weights: dict[str, Embeddings] = {}
    for antennas in sorted({pool.shape[1] for pool in pools.values()}):
        own = [pools[name] for name in sorted(pools) if pools[name].shape[1] == antennas]
        encoder = seeded_encoder(antennas, seed)
        generator = torch.Generator().manual_seed(seed * 1_000 + antennas)
        with torch.random.fork_rng():
            torch.manual_seed(seed * 1_000 + antennas + 1)
            head = nn.Sequential(nn.Linear(Encoder.embedding_dim, 128), nn.ReLU(), nn.Linear(128, 64))
        parameters = [*encoder.parameters(), *head.parameters()]
        optimiser = torch.optim.AdamW(parameters, lr=learning_rate)
        steps = epochs * math.ceil(sum(len(pool) for pool in own) / batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for step in range(steps):
            pool = own[step % len(own)]
            drawn = torch.randperm(len(pool), generator=generator)[:batch].numpy()
            picked = torch.from_numpy(as_channels(normalise(pool[drawn], "unit_power")))
            snr_db = (lowest_snr_db, highest_snr_db)
            views = torch.cat([_view(picked, crop, snr_db, generator) for _ in range(2)])
            loss = _nt_xent(head(encoder(views)), temperature)
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call] # torch leaves Tensor.backward untyped
            optimiser.step()
            schedule.step()
            if step % 50 == 0:
                _LOG.info("%d antennas, step %d of %d, loss %.3f", antennas, step, steps, loss.item())
        weights |= {f"{antennas}.{name}": value.numpy() for name, value in encoder.state_dict().items()}
    return weights


def _view(channels: torch.Tensor, crop: int, snr_db: tuple[float, float], generator: torch.Generator) -> torch.Tensor:
    """A random crop in time, carrier phase, gain and noise of each scene ``[B, 2A, T]``; antennas keep their places."""
    batch, width, samples = channels.shape
    start = torch.randint(0, samples - crop + 1, (batch, 1, 1), generator=generator)
    cropped = torch.gather(channels, 2, (start + torch.arange(crop)).expand(batch, width, crop))
    pairs = cropped.reshape(batch, width // 2, 2, crop)
    phase = 2 * torch.pi * torch.rand(batch, 1, 1, generator=generator)
    cos, sin = torch.cos(phase), torch.sin(phase)
    turned = torch.stack([cos * pairs[:, :, 0] - sin * pairs[:, :, 1], sin * pairs[:, :, 0] + cos * pairs[:, :, 1]], 2)
    level = snr_db[0] + (snr_db[1] - snr_db[0]) * torch.rand(batch, 1, 1, 1, generator=generator)
    noise: torch.Tensor = torch.randn(turned.shape, generator=generator) * (0.5**0.5) * 10 ** (-level / 20)
    noisy = turned + noise
    power = noisy.square().sum(dim=2, keepdim=True).mean(dim=(1, 3), keepdim=True)
    return (noisy / power.sqrt()).reshape(batch, width, crop)


def _nt_xent(projected: torch.Tensor, temperature: float) -> torch.Tensor:
    """Contrastive loss of ``[2B, K]`` projections whose rows i and i + B are views of one scene."""
    unit = nn.functional.normalize(projected, dim=1)
    similarity = unit @ unit.T / temperature
    similarity.fill_diagonal_(float("-inf"))
    half = len(unit) // 2
    partner = torch.arange(2 * half).roll(half)
    loss: torch.Tensor = nn.functional.cross_entropy(similarity, partner)
    return loss
