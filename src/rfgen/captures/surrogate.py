"""Surrogate captures: the release's signals through other multipath and another receiver, written as SigMF recordings.

They are synthetic, say so in every file, and exercise the path from recordings to the gap where no real set is at hand.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.captures.limits import Angles, Decibels, PartsPerMillion, Portion, Scenes
from rfgen.captures.multipath import Multipath, draw
from rfgen.physics.delays import HALF, interpolator
from rfgen.physics.fields import Model
from rfgen.physics.hardware import iq_imbalance
from rfgen.physics.propagation import apply_channel
from rfgen.physics.types import Bools, Complexes, Floats
from rfgen.recipe import Recipe
from rfgen.scenes import TASKS, SceneTask
from rfgen.scenes.base import add_awgn, frequency_shift
from rfgen.scenes.drone import LEAD, TAIL, Drone
from rfgen.scenes.localisation import Localisation
from rfgen.scenes.modulation import Modulation

HARDWARE = "rfgen surrogate receiver"


class SurrogateReceiver(Model):
    """A receiver chain, drawn anew for every session within these limits.

    The sample clock is off by `clock_ppm`; I and Q differ by `gain_imbalance_db` and `phase_imbalance_deg`; a spur at
    zero frequency has `dc_db` of the signal's power; in `interference_share` of the scenes a narrow-band burst lies
    over a part of them at `interference_db` of the signal's power; the RMS is `headroom_db` below full scale of 8 bits.
    """

    clock_ppm: Annotated[PartsPerMillion, Field(description="error of the sample clock, in parts per million")]
    gain_imbalance_db: Annotated[Decibels, Field(description="difference in gain of I and Q, in dB")]
    phase_imbalance_deg: Annotated[Angles, Field(description="error of the right angle between I and Q, in degrees")]
    dc_db: Annotated[Decibels, Field(description="power of the spur at zero frequency over the signal's, in dB")]
    interference_share: Annotated[Portion, Field(description="share of the scenes with a burst of interference")]
    interference_db: Annotated[Decibels, Field(description="power of that burst over the signal's, in dB")]
    headroom_db: Annotated[float, Field(gt=0, le=60, description="full scale of 8 bits over the RMS, in dB")]


class Surrogate(Model):
    """A surrogate set: `sessions` recordings of `scenes` scenes each, a share of the links in sight."""

    task: Annotated[str, Field(description="task of the capture set")]
    band: Annotated[str, Field(description="band of the release's task")]
    sessions: Annotated[int, Field(ge=1, le=99, description="number of recordings")]
    scenes: Annotated[Scenes, Field(description="scenes per recording")]
    los_share: Annotated[Portion, Field(description="share of the links that are in line of sight")]
    multipath: Annotated[Multipath, Field(description="channel in line of sight and out of it")]
    receiver: Annotated[SurrogateReceiver, Field(description="receiver chain, drawn anew for every recording")]

    @model_validator(mode="after")
    def _check_task(self) -> "Surrogate":
        known = [name for name, task in TASKS.items() if _emission.dispatch(task) is not _emission.dispatch(object)]
        if self.task not in known:
            raise ValueError(f"task: {self.task} has no surrogate, expected one of {', '.join(sorted(known))}")
        return self


@dataclass(frozen=True)
class Recording:
    """One session: int8 pairs `[scenes * samples, antennas, 2]`, samples per scene, and a label for each scene."""

    number: int
    pairs: NDArray[np.int8]
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
        yield Recording(number, np.clip(np.round(pairs), -128, 127).astype(np.int8), received.shape[-1], labels)


@dataclass(frozen=True)
class Emission:
    """What n emitters send before any channel.

    `signal` is `[n, LEAD + samples + TAIL]`, of which the scene is the `samples` from `LEAD` on; `active`, of the same
    shape, says where an emitter is on, None where it always is.
    """

    signal: Complexes
    labels: list[str]
    active: Bools | None = None


@functools.singledispatch
def _emission(task: SceneTask, los: Bools, bearing_deg: Floats, rng: np.random.Generator) -> Emission:
    """What is sent over links of the states and bearings given, by the kind of the task."""
    raise TypeError(f"{type(task).__qualname__}: no surrogate")


@_emission.register
def _(task: Localisation, los: Bools, bearing_deg: Floats, rng: np.random.Generator) -> Emission:
    label, *_ = task.link_labels(los, bearing_deg, np.full(len(los), np.nan)).values()
    labels = [f"{value:.6f}" if isinstance(value, float) else str(value) for value in label]
    return Emission(task.uplink(len(los), LEAD + task.samples + TAIL, rng), labels)


@_emission.register
def _(task: Drone, los: Bools, bearing_deg: Floats, rng: np.random.Generator) -> Emission:
    n = len(los)
    labels = [("present", "absent")[i % 2] for i in rng.permutation(n)]
    sent = [task.emit(rng.choice(task.present if label == "present" else task.absent), rng) for label in labels]
    signal, on = np.stack([x for x, _ in sent]), np.stack([x for _, x in sent])
    offset = rng.uniform(-task.offset_hz, task.offset_hz, n) / task.sample_rate_hz
    signal = frequency_shift(signal[:, None], offset)[:, 0]
    return Emission(signal, labels, on)


@_emission.register
def _(task: Modulation, los: Bools, bearing_deg: Floats, rng: np.random.Generator) -> Emission:
    n = len(los)
    labels = [task.classes[i % len(task.classes)] for i in rng.permutation(n)]
    signal = np.zeros((n, LEAD + task.samples + TAIL), complex)
    for name in task.classes:
        rows = np.flatnonzero(np.array(labels) == name)
        signal[rows] = task.signals(name, len(rows), rng, signal.shape[1])
    return Emission(signal, labels)


def _scenes(surrogate: Surrogate, recipe: Recipe, rng: np.random.Generator) -> tuple[Complexes, list[str]]:
    """Received scenes of a session before the receiver's faults, and their labels.

    They are `[n, antennas, samples + 2 HALF]`: with what the receiver's clock needs on either side.
    """
    n, task = surrogate.scenes, recipe.tasks[surrogate.task]
    los = rng.permutation(n) < round(surrogate.los_share * n)
    bearing = rng.uniform(0.0, 360.0, n)
    sent = _emission(task, los, bearing, rng)
    paths = draw(surrogate.multipath, los, bearing, rng)
    gains = paths.at(task.positions(recipe, surrogate.band))
    stretch = slice(LEAD - HALF, LEAD + task.samples + HALF)
    received = apply_channel(sent.signal, gains, paths.delay_s, task.sample_rate_hz, stretch)
    cfo = rng.uniform(-task.cfo_ppm, task.cfo_ppm, n) * 1e-6 * recipe.bands_hz[surrogate.band] / task.sample_rate_hz
    snr_db = rng.uniform(*task.snr_limits_db, n)
    # The SNR is that of the scene, without what is cut off later.
    active = np.ones(sent.signal.shape, bool) if sent.active is None else sent.active.copy()
    active[:, :LEAD] = active[:, LEAD + task.samples :] = False
    return add_awgn(frequency_shift(received, cfo), snr_db, rng, active[:, stretch]), sent.labels


def receive(signal: Complexes, chain: SurrogateReceiver, rng: np.random.Generator) -> Complexes:
    """One session's scenes through its receiver chain, before quantisation.

    `signal` is `[n, antennas, samples + 2 HALF]`, of which the clock leaves `[n, antennas, samples]`.
    """
    n, antennas, samples = len(signal), int(signal.shape[1]), int(signal.shape[2]) - 2 * HALF
    power = np.mean(np.abs(signal) ** 2, axis=(1, 2), keepdims=True)
    signal = signal / np.sqrt(np.where(power > 0, power, 1.0))
    hit = rng.random(n) < chain.interference_share
    level = np.where(hit, 10 ** (rng.uniform(*chain.interference_db, n) / 20), 0.0)
    first, length = rng.uniform(0.0, 0.7, n), rng.uniform(0.1, 0.3, n)
    place = np.arange(-HALF, samples + HALF) / samples
    burst = (place >= first[:, None]) & (place < (first + length)[:, None])
    tone = frequency_shift(np.ones((n, 1, len(place))), rng.uniform(-0.4, 0.4, n)) * burst[:, None]
    # An interferer reaches every element with a phase of its own.
    signal = signal + tone * level[:, None, None] * np.exp(2j * np.pi * rng.random((n, antennas, 1)))
    signal = apply_clock_offset(signal, rng.uniform(*chain.clock_ppm))
    signal = iq_imbalance(signal, rng.uniform(*chain.gain_imbalance_db), rng.uniform(*chain.phase_imbalance_deg))
    spur = complex_normal(rng, (1, antennas, 1))
    received: Complexes = signal + 10 ** (rng.uniform(*chain.dc_db) / 20) * spur / np.abs(spur)
    return received


def apply_clock_offset(signal: Complexes, ppm: float) -> Complexes:
    """`signal` `[..., samples + 2 HALF]` sampled by a clock that is `ppm` fast about the middle, `[..., samples]`.

    Each sample is interpolated from the `2 HALF + 1` about its place, none of which lies beyond the signal's ends.
    """
    samples = signal.shape[-1] - 2 * HALF
    shift = -ppm * 1e-6 * (np.arange(samples) - samples / 2)
    taps = interpolator(np.arange(-HALF, HALF + 1) - shift[:, None])
    around = np.lib.stride_tricks.sliding_window_view(signal, 2 * HALF + 1, axis=-1)
    sampled: Complexes = np.einsum("...sk,sk->...s", around, taps)
    return sampled


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
