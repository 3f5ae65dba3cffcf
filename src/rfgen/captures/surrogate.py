"""Surrogate captures: the release's signals through other multipath and another receiver, written as SigMF recordings.

They are synthetic, say so in every file, and exercise the path from recordings to the gap where no real set is at hand.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from pydantic import Field, model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.captures.multipath import Multipath, draw
from rfgen.fields import Count, Model, Positive, Range, Share
from rfgen.hardware import imbalance
from rfgen.propagation import through
from rfgen.recipe import LOCALISATION, Recipe
from rfgen.scenes import drone, localisation, modulation
from rfgen.scenes.common import noisy, shifted

HARDWARE = "rfgen surrogate receiver"


class SurrogateReceiver(Model):
    """A receiver chain, drawn anew for every session within these limits.

    The sample clock is off by `clock_ppm`; I and Q differ by `gain_imbalance_db` and `phase_imbalance_deg`; a spur at
    zero frequency has `dc_db` of the signal's power; in `interference_share` of the scenes a narrow-band burst lies
    over a part of them at `interference_db` of the signal's power; the RMS is `headroom_db` below full scale of 8 bits.
    """

    clock_ppm: Range
    gain_imbalance_db: Range
    phase_imbalance_deg: Range
    dc_db: Range
    interference_share: Share
    interference_db: Range
    headroom_db: Positive


class Surrogate(Model):
    """A surrogate set: `sessions` recordings of `scenes` scenes each, a share of the links in sight."""

    task: str
    band: str
    sessions: Count = Field(le=99)
    scenes: Count
    los_share: Share
    multipath: Multipath
    receiver: SurrogateReceiver

    @model_validator(mode="after")
    def _even(self) -> "Surrogate":
        if self.task not in (*LOCALISATION, "E-ID-DRONE", "E-ID-AMC"):
            raise ValueError(
                f"task: {self.task} has no surrogate, expected a localisation task, E-ID-DRONE or E-ID-AMC"
            )
        return self


@dataclass(frozen=True)
class Recording:
    """One session: int8 pairs `[scenes * samples, antennas, 2]`, samples a scene, and a label for each scene."""

    number: int
    pairs: np.ndarray
    samples: int
    labels: list[str]


def recordings(surrogate: Surrogate, recipe: Recipe, name: str, seed: Seed) -> Iterator[Recording]:
    """The set's recordings; each depends on (seed, name, its number) alone.

    ValueError where the release's recipe lacks the surrogate's task or band.
    """
    if surrogate.task not in recipe.tasks or surrogate.band not in recipe.tasks[surrogate.task].bands:
        raise ValueError(f"surrogate: no {surrogate.task} in {surrogate.band} in the release's recipe")
    for number in range(surrogate.sessions):
        rng = stream(seed, "surrogate", name, number)
        signal, labels = _scenes(surrogate, recipe, rng)
        received = receive(signal, surrogate.receiver, rng)
        flat = received.transpose(0, 2, 1).reshape(-1, received.shape[1])
        peak = 127 * 10 ** (-surrogate.receiver.headroom_db / 20) / np.sqrt(np.mean(np.abs(flat) ** 2))
        pairs = np.stack([flat.real, flat.imag], axis=-1) * peak
        yield Recording(number, np.clip(np.round(pairs), -128, 127).astype(np.int8), signal.shape[-1], labels)


def _scenes(surrogate: Surrogate, recipe: Recipe, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Received scenes of a session before the receiver's faults, `[n, antennas, samples]`, and their labels."""
    task, n = surrogate.task, surrogate.scenes
    p = recipe.tasks[task]
    los = rng.permutation(n) < round(surrogate.los_share * n)
    bearing = rng.uniform(0.0, 360.0, n)
    positions, on, lead = np.zeros((1, 2)), None, p.samples
    if task in LOCALISATION:
        sent = localisation.uplink(recipe, task, n, 2 * p.samples, rng)
        positions = localisation.positions(p.array)
        labels = [f"{angle:.6f}" for angle in bearing] if task == "E-LOC-AOA" else ["LOS" if x else "NLOS" for x in los]
    elif task == "E-ID-DRONE":
        labels = [("present", "absent")[i % 2] for i in rng.permutation(n)]
        made = [drone.emit(p, rng.choice(p.present if label == "present" else p.absent), rng) for label in labels]
        sent, on, lead = np.stack([x for x, _ in made]), np.stack([x for _, x in made]), drone.LEAD
        sent = shifted(sent[:, None], rng.uniform(-p.offset_hz, p.offset_hz, n) / p.sample_rate_hz)[:, 0]
        on = on[:, lead : lead + p.samples]
    else:
        labels = [p.classes[i % len(p.classes)] for i in rng.permutation(n)]
        sent, lead = np.zeros((n, p.samples), complex), 0
        for name in p.classes:
            rows = np.flatnonzero(np.array(labels) == name)
            sent[rows] = modulation.signals(p, name, len(rows), rng)
    paths = draw(surrogate.multipath, los, bearing, rng)
    received = through(sent, paths.at(positions), paths.delay_s, p.sample_rate_hz)[..., lead : lead + p.samples]
    cfo = rng.uniform(-p.cfo_ppm, p.cfo_ppm, n) * 1e-6 * recipe.bands_hz[surrogate.band] / p.sample_rate_hz
    limits = p.regimes_db.values() if task == "E-ID-AMC" else [p.snr_db]
    snr_db = rng.uniform(min(low for low, _ in limits), max(high for _, high in limits), n)
    return noisy(shifted(received, cfo), snr_db, rng, on), labels


def receive(signal: np.ndarray, chain: SurrogateReceiver, rng: np.random.Generator) -> np.ndarray:
    """Scenes `[n, antennas, samples]` of one session through its receiver chain, before quantisation."""
    n, antennas, samples = signal.shape
    power = np.mean(np.abs(signal) ** 2, axis=(1, 2), keepdims=True)
    signal = signal / np.sqrt(np.where(power > 0, power, 1.0))
    hit = rng.random(n) < chain.interference_share
    level = np.where(hit, 10 ** (rng.uniform(*chain.interference_db, n) / 20), 0.0)
    first, length = rng.uniform(0.0, 0.7, n), rng.uniform(0.1, 0.3, n)
    place = np.arange(samples) / samples
    burst = (place >= first[:, None]) & (place < (first + length)[:, None])
    tone = shifted(np.ones((n, 1, samples)), rng.uniform(-0.4, 0.4, n)) * burst[:, None]
    # An interferer reaches every element with a phase of its own.
    signal = signal + tone * level[:, None, None] * np.exp(2j * np.pi * rng.random((n, antennas, 1)))
    signal = off_clock(signal, rng.uniform(*chain.clock_ppm))
    signal = imbalance(signal, rng.uniform(*chain.gain_imbalance_db), rng.uniform(*chain.phase_imbalance_deg))
    spur = complex_normal(rng, (1, antennas, 1))
    return signal + 10 ** (rng.uniform(*chain.dc_db) / 20) * spur / np.abs(spur)


def off_clock(signal: np.ndarray, ppm: float) -> np.ndarray:
    """`signal` `[..., samples]` sampled by a clock that is `ppm` fast about the window's middle.

    The derivative carries the shift: it is far below a sample over a scene (at 100 ppm 0.2 of one in 4,096 samples).
    """
    samples = signal.shape[-1]
    shift = -ppm * 1e-6 * (np.arange(samples) - samples / 2)
    turn = 2j * np.pi * np.fft.fftfreq(samples)
    spectrum = np.fft.fft(signal)
    return signal + shift * np.fft.ifft(turn * spectrum) + shift**2 / 2 * np.fft.ifft(turn**2 * spectrum)


def write(recording: Recording, surrogate: Surrogate, recipe: Recipe, folder: Path) -> None:
    """Write one recording as `session-NN.sigmf-data` and `.sigmf-meta` in `folder`, labelled as a surrogate."""
    from sigmf import SigMFFile

    session = f"session-{recording.number:02d}"
    data = folder / f"{session}.sigmf-data"
    data.write_bytes(recording.pairs.tobytes())
    metadata = SigMFFile(
        data_file=str(data),
        global_info={
            "core:datatype": "ci8",
            "core:sample_rate": recipe.tasks[surrogate.task].sample_rate_hz,
            "core:num_channels": recording.pairs.shape[1],
            "core:hw": HARDWARE,
            "core:description": "Surrogate: synthetic samples, not a capture.",
            "core:extensions": [{"name": "emma", "version": "0.1.0", "optional": True}],
            "emma:kind": "surrogate",
            "emma:session": session,
        },
    )
    metadata.add_capture(0, metadata={"core:frequency": recipe.bands_hz[surrogate.band]})
    for scene, label in enumerate(recording.labels):
        metadata.add_annotation(scene * recording.samples, recording.samples, metadata={"core:label": label})
    metadata.tofile(str(folder / f"{session}.sigmf-meta"), pretty=True, overwrite=True)
