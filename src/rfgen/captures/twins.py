"""Twins: scenes like those of a real set, with its geometry, band, length and classes, for heads to be fit on."""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from common.streams import Seed, complex_normal, stream
from rfgen import arrays
from rfgen.captures.multipath import Multipath, draw
from rfgen.fields import Count, Model, NonNegative, Offsets, Positive, Range, Share
from rfgen.scenes.common import COLUMNS, Chunk, noisy, shifted
from rfgen.waveforms.angular import frequency_modulated

TWIN_SPLITS = ("TRAIN", "DEV")


class _Twin(Model):
    """What every twin states; `scenes` counts by split."""

    task: Literal["E-LOC-AOA", "E-LOC-LOS", "E-ID-AMC"]
    frequency_hz: Positive
    sample_rate_hz: Positive
    samples: Count
    snr_db: Range
    chunk: Count
    scenes: dict[Literal["TRAIN", "DEV"], Count]

    @model_validator(mode="after")
    def _whole(self) -> "_Twin":
        for split in TWIN_SPLITS:
            if self.scenes.get(split, 0) % self.chunk or split not in self.scenes:
                raise ValueError(f"scenes.{split}: expected a multiple of the chunk size {self.chunk}")
        return self


class Arc(Model):
    """Elements, or places of one moving antenna, on an arc (`rfgen.arrays.arc`), in wavelengths of the carrier."""

    elements: Count
    spacing_wavelengths: Positive
    radius_wavelengths: Positive


class Sounding(_Twin):
    """Channel state information of a moving antenna: sounded `carriers` at `spacing_hz`, one packet a place.

    A packet has a timing of its own in `timing_s`. With `reciprocal` the channel is the product of both directions,
    in which the oscillators' phases cancel, and the linear phase over carriers is taken out of each packet; the scene
    has a row for each place. Without, each packet has a phase of its own and the packets follow one another in one row.
    """

    kind: Literal["sounding"]
    arc: Arc
    carriers: Offsets
    spacing_hz: Positive
    timing_s: Range
    reciprocal: bool
    los_share: Share
    multipath: Multipath


class Impulse(_Twin):
    """Channel impulse responses of an ultra-wideband receiver, aligned to the first path that it detects.

    The pulse is a raised cosine of `symbol_rate_hz` and `rolloff`; a path is detected where the magnitude first exceeds
    `threshold` times the noise's standard deviation, and comes to lie at sample `first`.
    """

    kind: Literal["impulse"]
    symbol_rate_hz: Positive
    rolloff: Share
    threshold: Positive
    first: Count
    los_share: Share
    multipath: Multipath


class Keyed(_Twin):
    """Short-range transmitters that key a carrier (OOK) or shift it (2FSK), from the start of a packet on.

    A symbol lasts a time of `symbol_s`; OOK codes bits as pulse widths, pulse distances or Manchester halves, 2FSK as
    levels or Manchester halves with `deviation_hz`. A packet has `bits`, and is repeated after `pause_symbols`. The
    carrier is off by `offset_hz`; the receiver has `bits_adc` bits and a DC offset of up to `dc` of full scale.
    """

    kind: Literal["keyed"]
    symbol_s: Range
    bits: Range
    pause_symbols: Range
    deviation_hz: Range
    offset_hz: NonNegative
    lead_s: NonNegative
    bits_adc: Count
    dc: NonNegative


#: The twin of a capture set: the `twin:` mapping of its YAML.
Twin = Annotated[Sounding | Impulse | Keyed, Field(discriminator="kind")]


class TwinRecipe(Model):
    """A twin under its own key, for validation."""

    twin: Twin


def generate(twin: Sounding | Impulse | Keyed, name: str, split: str, seed: Seed) -> Iterator[Chunk]:
    """Chunks of a twin's scenes in TRAIN or DEV, each of unit mean power.

    `name` and `seed` name the random streams; a chunk's depends on (seed, name, split, number) alone.
    """
    make = {"sounding": _sounded, "impulse": _impulses, "keyed": _keyed}[twin.kind]
    for number in range(twin.scenes[split] // twin.chunk):
        rng = stream(seed, "twin", name, split, number)
        iq, labels = make(twin, rng)
        iq /= np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))
        known = {
            "task": twin.task,
            "split": split,
            "environment": "TWIN",
            "frequency_band": f"{twin.frequency_hz / 1e9:.4g}GHz",
            "snr_regime": "unknown",
            "snr_db": 0.0,
            "sample_rate_hz": twin.sample_rate_hz,
            "center_frequency_hz": twin.frequency_hz,
        }
        columns = {column: [known.get(column)] * len(iq) for column in COLUMNS}
        columns["link_id"] = [f"{name}/{split}/{number}/{i}" for i in range(len(iq))]
        yield Chunk((split, number), iq.astype(np.complex64), columns | labels)


def _sights(twin: Sounding | Impulse, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, dict]:
    """State and bearing of each link, and its label; the states are balanced to the declared share in every chunk."""
    los = rng.permutation(twin.chunk) < round(twin.los_share * twin.chunk)
    bearing = rng.uniform(0.0, 360.0, twin.chunk)
    if twin.task == "E-LOC-AOA":
        return los, bearing, {"label_azimuth_deg": bearing.tolist()}
    return los, bearing, {"label_class": ["LOS" if x else "NLOS" for x in los]}


def _sounded(twin: Sounding, rng: np.random.Generator) -> tuple[np.ndarray, dict]:
    los, bearing, labels = _sights(twin, rng)
    paths = draw(twin.multipath, los, bearing, rng)
    arc = twin.arc
    positions = arrays.arc(arc.elements, arc.spacing_wavelengths, arc.radius_wavelengths)
    carriers = np.array(twin.carriers, int)
    turn = np.exp(-2j * np.pi * twin.spacing_hz * carriers * paths.delay_s[..., None])
    channel = paths.at(positions) @ turn
    snr_db = rng.uniform(*twin.snr_db, twin.chunk)
    shape = (twin.chunk, arc.elements, 1)
    timing = np.exp(-2j * np.pi * twin.spacing_hz * carriers * rng.uniform(*twin.timing_s, shape))
    csi = noisy(channel * timing, snr_db, rng)
    if twin.reciprocal:
        csi = without_slope(csi * noisy(channel * timing, snr_db, rng), carriers)
    else:
        csi = csi * np.exp(2j * np.pi * rng.random(shape))
    bins = twin.samples if twin.reciprocal else twin.samples // arc.elements
    grid = np.zeros((*csi.shape[:2], bins), complex)
    grid[..., carriers % bins] = csi
    iq = np.fft.ifft(grid)
    return (iq if twin.reciprocal else iq.reshape(twin.chunk, 1, -1)), labels


def without_slope(channel: np.ndarray, carriers: np.ndarray) -> np.ndarray:
    """`channel` `[..., carriers]` without its linear phase over carriers; the phase at carrier 0 stays."""
    phase = np.unwrap(np.angle(channel))
    centred = carriers - carriers.mean()
    slope = phase @ centred / (centred @ centred)
    return channel * np.exp(-1j * slope[..., None] * carriers)


def _impulses(twin: Impulse, rng: np.random.Generator) -> tuple[np.ndarray, dict]:
    los, bearing, labels = _sights(twin, rng)
    paths = draw(twin.multipath, los, bearing, rng)
    # Room in front of the first path for the alignment, and for what a late detection moves in.
    front = 2 * twin.first
    time = (np.arange(front + 2 * twin.samples) - front) / twin.sample_rate_hz - rng.random((twin.chunk, 1)) / (
        twin.sample_rate_hz
    )
    response = np.zeros(time.shape, complex)
    for gain, delay in zip(paths.gain.T, paths.delay_s.T, strict=True):
        response += gain[:, None] * raised_cosine((time - delay[:, None]) * twin.symbol_rate_hz, twin.rolloff)
    peak = np.abs(response).max(axis=1, keepdims=True)
    deviation = peak * 10 ** (-rng.uniform(*twin.snr_db, (twin.chunk, 1)) / 20)
    response += deviation * complex_normal(rng, response.shape)
    found = (np.abs(response[:, twin.first : -twin.samples]) > twin.threshold * deviation).argmax(axis=1)
    rows = found[:, None] + np.arange(twin.samples)
    return np.take_along_axis(response, rows, axis=1)[:, None], labels


def raised_cosine(t: np.ndarray, rolloff: float) -> np.ndarray:
    """Raised-cosine pulse at times `t` in symbols, 1 at t = 0."""
    edge = np.abs(np.abs(2 * rolloff * t) - 1) < 1e-9
    with np.errstate(divide="ignore", invalid="ignore"):
        pulse = np.sinc(t) * np.cos(np.pi * rolloff * t) / (1 - (2 * rolloff * t) ** 2)
    return np.where(edge, np.pi / 4 * np.sinc(1 / (2 * rolloff)) if rolloff else 0.0, pulse)


def _keyed(twin: Keyed, rng: np.random.Generator) -> tuple[np.ndarray, dict]:
    names = [("OOK", "2FSK")[i % 2] for i in rng.permutation(twin.chunk)]
    signal, on = np.zeros((2, twin.chunk, twin.samples))
    for row, name in enumerate(names):
        signal[row], on[row] = _packets(twin, name, rng)
    keyed = np.array([name == "OOK" for name in names])[:, None]
    wave = np.where(keyed, signal, on * frequency_modulated(np.where(keyed, 0.0, signal)))[:, None]
    offset = rng.uniform(-twin.offset_hz, twin.offset_hz, twin.chunk) / twin.sample_rate_hz
    sent = shifted(wave, offset) * np.exp(2j * np.pi * rng.random(twin.chunk))[:, None, None]
    received = noisy(sent, rng.uniform(*twin.snr_db, twin.chunk), rng, on > 0)
    received /= np.abs(received).max(axis=(1, 2), keepdims=True)
    received += twin.dc * (rng.uniform(-1, 1, (twin.chunk, 2)) @ [1, 1j])[:, None, None]
    levels = 2 ** (twin.bits_adc - 1)
    quantised = (np.round(np.clip(part * levels, -levels, levels - 1)) for part in (received.real, received.imag))
    real, imaginary = quantised
    return real + 1j * imaginary, {"label_class": names, "detail": names}


def _packets(twin: Keyed, name: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """What one transmitter does: level (OOK) or frequency in cycles per sample (2FSK), and where it is on."""
    bits = rng.integers(2, size=int(rng.integers(int(twin.bits[0]), int(twin.bits[1]) + 1)))
    deviation = rng.uniform(*twin.deviation_hz) / twin.sample_rate_hz
    coding = rng.integers(3 if name == "OOK" else 2)
    if coding == 0:  # Manchester halves
        durations, levels = np.ones(2 * len(bits)), np.stack([bits, 1 - bits], axis=1).ravel()
    elif name == "2FSK":
        durations, levels = np.ones(len(bits)), bits
    else:  # pulse widths, or distances between pulses
        pulse = 1.0 + bits if coding == 1 else np.ones(len(bits))
        gap = 2.0 - bits if coding == 1 else 1.0 + 2.0 * bits
        durations, levels = np.stack([pulse, gap], axis=1).ravel(), np.tile([1, 0], len(bits))
    levels = levels if name == "OOK" else 2 * levels - 1
    symbol = rng.uniform(*twin.symbol_s) * twin.sample_rate_hz
    pause = rng.uniform(*twin.pause_symbols)
    lead = rng.uniform(0.0, twin.lead_s) * twin.sample_rate_hz / symbol
    repeats = int(np.ceil(twin.samples / (symbol * (durations.sum() + pause)))) + 1
    edges = np.cumsum([lead, *np.tile([*durations, pause], repeats)]) * symbol
    values, active = (np.array([0, *np.tile([*x, 0], repeats)]) for x in (levels, np.ones(len(levels))))
    where = np.searchsorted(edges, np.arange(twin.samples), side="right")
    scale = 1.0 if name == "OOK" else deviation
    return scale * values[where], active[where].astype(float)
