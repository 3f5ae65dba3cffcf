"""E-ID-FP: the same standard frame from many units of one model, in sessions that change everything but the unit."""

import numpy as np

from common.streams import Seed, complex_normal, stream
from rfgen import hardware
from rfgen.propagation import frequency_response
from rfgen.recipe import SPLITS, Fingerprint, Recipe, SessionChannel
from rfgen.scenes.common import Chunk, levelled, metadata, noisy, snr_range
from rfgen.waveforms import ofdm

TASK = "E-ID-FP"
# Samples after the window, so that nothing ends inside it.
TAIL = 64


def roster(recipe: Recipe, split: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Units and receivers of a split."""
    source = recipe.pretrain if split == "PRETRAIN" else recipe.tasks[TASK]
    return source.units, source.receivers


def header() -> np.ndarray:
    """The 52 carrier values of the frame's fixed header symbol."""
    return ofdm.random_values(stream(0, "header"), (52,), "BPSK")


def make(recipe: Recipe, split: str, key: tuple, seed: Seed) -> Chunk:
    """One chunk: `chunk` captures of every unit in one session, in random order.

    In session s unit u meets receiver (u + s + shift) mod R: within a unit and split every session has another
    receiver, at every session number the units are spread over the receivers, and the shift (a third of R for each
    split) gives a unit other receivers in DEV and HOLDOUT than in TRAIN, where there are enough of them.
    """
    session, band, number = key
    p: Fingerprint = recipe.tasks[TASK]
    units, receivers = roster(recipe, split)
    shift = SPLITS.index(split) * (len(receivers) // 3)
    parts = []
    for u, name in enumerate(units):
        rx_name = receivers[(u + session + shift) % len(receivers)]
        iq, snr_db = _captures(recipe, split, key, name, rx_name=rx_name, seed=seed)
        label = f"{split}-{name}-S{session}"
        parts.append((iq, snr_db, name, rx_name, label))
    order = stream(seed, TASK, split, "order", session, band, number).permutation(len(units) * p.chunk)

    def each(position: int) -> list[str]:
        return [parts[i // p.chunk][position] for i in order]

    iq, snr_db = (np.concatenate([part[i] for part in parts])[order] for i in (0, 1))
    pool = split == "PRETRAIN"
    columns = {
        "device": each(2),
        "session": each(4),
        "receiver": each(3),
        "link_id": [f"{split}/{TASK}/{name}" for name in each(4)],
        "label_class": [None] * len(order) if pool else each(2),
        "detail": [f"S{session}"] * len(order),
    }
    return Chunk(key, iq, metadata(recipe, TASK, split, band, snr_db, **columns))


def _captures(
    recipe: Recipe, split: str, key: tuple, name: str, *, rx_name: str, seed: Seed
) -> tuple[np.ndarray, np.ndarray]:
    """A unit's captures of one chunk, and their SNR."""
    session, band, number = key
    p: Fingerprint = recipe.tasks[TASK]
    carrier, rate = recipe.bands_hz[band], p.sample_rate_hz
    day = stream(seed, TASK, split, name, "session", session, band)
    tx = hardware.drifted(hardware.unit(recipe.hardware_seed, name, p.population), p.population, p.drift, day)
    rx = hardware.receiver(recipe.hardware_seed, rx_name, p.receiver)
    taps = _session_channel(p.channel, day)
    rng = stream(seed, TASK, split, name, session, band, number)
    n, length = p.chunk, p.samples + TAIL
    snr_db = rng.uniform(*snr_range(recipe, TASK, split), n)
    frames = np.stack([ofdm.wifi_frame(rng, length, "QPSK", header()) for _ in range(n)])
    sent = hardware.transmit(frames, tx, carrier, rate, rng)
    lead = rng.integers(int(p.lead_in[0]), int(p.lead_in[1]) + 1, n)
    place = np.arange(length) - lead[:, None]
    on = place >= 0
    sent = np.where(on, np.take_along_axis(sent, np.maximum(place, 0), axis=1), 0.0)
    change = complex_normal(rng, (n, len(taps[0])))
    gains = taps[0] + np.sqrt(p.channel.change) * taps[2] * change
    response = frequency_response(gains[:, None], np.broadcast_to(taps[1], gains.shape), length, rate)
    received = np.fft.ifft(np.fft.fft(sent)[:, None] * response)[..., : p.samples]
    heard = hardware.receive(noisy(received, snr_db, rng, on[:, : p.samples])[:, 0], rx, carrier, rate)
    return levelled(heard[:, None], recipe, rng), snr_db


def _session_channel(p: SessionChannel, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gains, delays [s] and standard deviations of a session's taps: exponential profile, the first one Rician."""
    spread, k = rng.uniform(*p.delay_spread_s), 10 ** (rng.uniform(*p.k_factor_db) / 10)
    delays = np.concatenate([[0.0], np.sort(rng.exponential(spread, p.taps - 1))])
    power = np.exp(-delays / spread)
    power /= power.sum() * (1 + k)
    gains = np.sqrt(power) * complex_normal(rng, (p.taps,))
    gains[0] += np.sqrt(k / (1 + k)) * np.exp(2j * np.pi * rng.random())
    return gains, delays, np.sqrt(power)
