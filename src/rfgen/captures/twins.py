"""Matched synthetic sets: scenes with a real set's geometry, band, length and classes, for readouts to be fit on."""

from collections.abc import Iterator
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from common.streams import Seed, complex_normal, stream
from rfgen.captures.array import AnyArray
from rfgen.captures.base import TWIN_SPLITS, Labels, LinkSet, MatchedSet, TwinSplit
from rfgen.captures.limits import (
    Delays,
    Durations,
    Elements,
    Frequencies,
    Hertz,
    Numbers,
    Portion,
    Samples,
    Wavelengths,
)
from rfgen.physics import arrays
from rfgen.physics.fields import Model
from rfgen.physics.types import Complexes, Floats, Ints
from rfgen.scenes.base import COLUMNS, Chunk, Column, add_awgn, frequency_shift
from rfgen.waveforms.angular import frequency_modulate

__all__ = ["TWIN_SPLITS", "AnyArray", "Impulse", "Keyed", "MatchedSet", "Sounding", "TwinRecipe", "generate"]

_Carrier = Annotated[int, Field(ge=-(2**20), le=2**20)]


def _whole(value: object) -> object:
    """A list as a tuple, whose whole numbers may be written as `1.0`."""
    if not isinstance(value, list | tuple):
        return value
    return tuple(int(x) if isinstance(x, float) and x.is_integer() else x for x in value)


class Arc(Model):
    """Elements, or places of one moving antenna, on an arc (`rfgen.physics.arrays.arc`), in carrier wavelengths."""

    elements: Annotated[Elements, Field(description="number of places")]
    spacing_wavelengths: Annotated[Wavelengths, Field(description="distance along the arc, in wavelengths")]
    radius_wavelengths: Annotated[Wavelengths, Field(description="radius of the arc, in wavelengths")]


class Sounding(LinkSet):
    """Channel state information of a moving antenna: sounded `carriers` at `spacing_hz`, one packet per place.

    A packet has a timing of its own in `timing_s`. With `reciprocal` the channel is the product of both directions,
    in which the oscillators' phases cancel, and the linear phase over carriers is taken out of each packet; the scene
    has a row for each place. Without, each packet has a phase of its own and the packets follow one another in one row.
    """

    kind: Annotated[Literal["sounding"], Field(description="channel state information of a moving antenna")]
    arc: Annotated[Arc, Field(description="places of the antenna")]
    carriers: Annotated[
        tuple[_Carrier, ...],
        BeforeValidator(_whole),
        Field(
            max_length=2**16,
            description="numbers of the sounded carriers, two or more, 0 the middle of the band",
            json_schema_extra={"minItems": 2},
        ),
    ]
    spacing_hz: Annotated[Hertz, Field(description="distance of the carriers, in Hz")]
    timing_s: Annotated[Delays, Field(description="delay of a packet, uniform between the two, in seconds")]
    reciprocal: Annotated[bool, Field(description="multiply the channel of both directions")]

    @model_validator(mode="after")
    def _symbol(self) -> "Sounding":
        rows = 1 if self.reciprocal else self.arc.elements
        bins = self.samples // rows
        if self.samples % rows or abs(bins * self.spacing_hz - self.sample_rate_hz) > 1e-6 * self.sample_rate_hz:
            raise ValueError(
                f"samples, sample_rate_hz: expected one symbol of 1 / spacing_hz for each of {rows} packets in a row"
            )
        if len(self.carriers) < 2:
            raise ValueError(f"carriers: {[*self.carriers]}, expected two or more")
        if len(set(self.carriers)) < len(self.carriers):
            raise ValueError("carriers: a carrier occurs twice, expected each once")
        if not all(-bins / 2 <= carrier < bins / 2 for carrier in self.carriers):
            raise ValueError(f"carriers: expected numbers from {-(bins // 2)} to {(bins - 1) // 2}, those of the band")
        if self.timing_s[1] * self.spacing_hz > 1:
            raise ValueError("timing_s: expected delays within a symbol, 1 / spacing_hz")
        return self

    @property
    def antennas(self) -> int:
        """One per place with `reciprocal`, else one."""
        return self.arc.elements if self.reciprocal else 1

    @property
    def places_m(self) -> Floats:
        """Places in metres, `[elements, 2]`."""
        wavelength = arrays.SPEED_OF_LIGHT / self.frequency_hz
        return wavelength * arrays.arc(self.arc.elements, self.arc.spacing_wavelengths, self.arc.radius_wavelengths)

    def make(self, rng: np.random.Generator) -> tuple[Complexes, Labels]:
        """Impulse responses of the sounded channels, and their labels."""
        paths, labels = self.draw_links(rng)
        positions = arrays.arc(self.arc.elements, self.arc.spacing_wavelengths, self.arc.radius_wavelengths)
        carriers = np.array(self.carriers, int)
        phase = np.exp(-2j * np.pi * self.spacing_hz * carriers * paths.delay_s[..., None])
        channel = paths.at(positions) @ phase
        snr_db = rng.uniform(*self.snr_db, self.chunk)
        shape = (self.chunk, self.arc.elements, 1)
        timing = np.exp(-2j * np.pi * self.spacing_hz * carriers * rng.uniform(*self.timing_s, shape))
        csi = add_awgn(channel * timing, snr_db, rng)
        if self.reciprocal:
            csi = remove_linear_phase(csi * add_awgn(channel * timing, snr_db, rng), carriers)
        else:
            csi = csi * np.exp(2j * np.pi * rng.random(shape))
        bins = self.samples if self.reciprocal else self.samples // self.arc.elements
        grid = np.zeros((*csi.shape[:2], bins), complex)
        grid[..., carriers % bins] = csi
        iq = np.fft.ifft(grid)
        return (iq if self.reciprocal else iq.reshape(self.chunk, 1, -1)), labels


class Impulse(LinkSet):
    """Channel impulse responses of an ultra-wideband receiver, aligned to the first path that it detects.

    The pulse is a raised cosine of `symbol_rate_hz` and `rolloff`; a path is detected where the magnitude first exceeds
    `threshold` times the noise's standard deviation, and comes to lie at sample `first`.
    """

    kind: Annotated[Literal["impulse"], Field(description="channel impulse responses of an ultra-wideband receiver")]
    symbol_rate_hz: Annotated[Hertz, Field(description="symbol rate of the raised-cosine pulse, in Hz")]
    rolloff: Annotated[Portion, Field(description="rolloff of the pulse")]
    threshold: Annotated[
        float, Field(gt=0, le=1e6, description="magnitude that is detected, in standard deviations of the noise")
    ]
    first: Annotated[Samples, Field(description="sample at which the first detected path lies")]

    @model_validator(mode="after")
    def _detects(self) -> "Impulse":
        if self.first >= self.samples:
            raise ValueError(f"first: expected a sample of the {self.samples} of a scene")
        if (1 + self.rolloff) * self.symbol_rate_hz > self.sample_rate_hz:
            raise ValueError("symbol_rate_hz, rolloff: expected a pulse within the sampled band")
        if self.snr_db[0] <= 20 * np.log10(self.threshold):
            raise ValueError("snr_db, threshold: expected the strongest path above the threshold at every ratio")
        return self

    def make(self, rng: np.random.Generator) -> tuple[Complexes, Labels]:
        """Impulse responses as the receiver aligns them, and their labels."""
        paths, labels = self.draw_links(rng)
        # Room in front of the first path for the alignment, and for what a late detection moves in.
        front = 2 * self.first
        time = (np.arange(front + 2 * self.samples) - front) / self.sample_rate_hz - rng.random((self.chunk, 1)) / (
            self.sample_rate_hz
        )
        response = np.zeros(time.shape, complex)
        for gain, delay in zip(paths.gain.T, paths.delay_s.T, strict=True):
            response += gain[:, None] * raised_cosine((time - delay[:, None]) * self.symbol_rate_hz, self.rolloff)
        peak = np.abs(response).max(axis=1, keepdims=True)
        deviation = peak * 10 ** (-rng.uniform(*self.snr_db, (self.chunk, 1)) / 20)
        response += deviation * complex_normal(rng, response.shape)
        detected = (np.abs(response[:, self.first : -self.samples]) > self.threshold * deviation).argmax(axis=1)
        rows = detected[:, None] + np.arange(self.samples)
        return np.take_along_axis(response, rows, axis=1)[:, None], labels


class Keyed(MatchedSet):
    """Short-range transmitters that key a carrier (OOK) or shift it (2FSK), from the start of a packet on.

    A symbol lasts a time of `symbol_s`; OOK codes bits as pulse widths, pulse distances or Manchester halves, 2FSK as
    levels or Manchester halves with `deviation_hz`. A packet has `bits`, and is repeated after `pause_symbols`. The
    carrier is off by `offset_hz`; the receiver has `bits_adc` bits and a DC offset of up to `dc` of full scale.
    """

    kind: Annotated[Literal["keyed"], Field(description="short-range transmitters, on-off or frequency-shift keyed")]
    symbol_s: Annotated[Durations, Field(description="duration of a symbol, uniform between the two, in seconds")]
    bits: Annotated[Numbers, Field(description="bits of a packet, uniform between the two")]
    pause_symbols: Annotated[Numbers, Field(description="pause between packets, uniform between the two, in symbols")]
    deviation_hz: Annotated[Frequencies, Field(description="frequency deviation of 2FSK, uniform between the two")]
    offset_hz: Annotated[float, Field(ge=0, le=1e12, description="greatest carrier offset, either way, in Hz")]
    lead_s: Annotated[float, Field(ge=0, le=1e3, description="longest time before the first packet, in seconds")]
    bits_adc: Annotated[int, Field(ge=1, le=32, description="bits of the receiver's converter")]
    dc: Annotated[Portion, Field(description="greatest direct-current offset, as a share of full scale")]

    @model_validator(mode="after")
    def _is_seen(self) -> "Keyed":
        rate = self.sample_rate_hz
        if self.bits[0] < 1 or int(self.bits[0]) != self.bits[0] or int(self.bits[1]) != self.bits[1]:
            raise ValueError("bits: expected whole numbers, one or more")
        if self.symbol_s[0] * rate < 1:
            raise ValueError("symbol_s: expected one sample or more")
        if self.offset_hz + self.deviation_hz[1] > rate / 2:
            raise ValueError(f"offset_hz, deviation_hz: expected a signal within the {rate:g} Hz sampled")
        if self.lead_s * rate >= self.samples:
            raise ValueError("lead_s: expected less than a scene")
        return self

    @property
    def classes(self) -> tuple[str, ...]:
        """OOK and 2FSK."""
        return ("OOK", "2FSK")

    def make(self, rng: np.random.Generator) -> tuple[Complexes, Labels]:
        """Received packets, half of them OOK and half 2FSK, and their labels."""
        names = [("OOK", "2FSK")[i % 2] for i in rng.permutation(self.chunk)]
        signal, active = np.zeros((2, self.chunk, self.samples))
        for row, name in enumerate(names):
            signal[row], active[row] = self._packets(name, rng)
        ook = np.array([name == "OOK" for name in names])[:, None]
        wave = np.where(ook, signal, active * frequency_modulate(np.where(ook, 0.0, signal)))[:, None]
        offset = rng.uniform(-self.offset_hz, self.offset_hz, self.chunk) / self.sample_rate_hz
        sent = frequency_shift(wave, offset) * np.exp(2j * np.pi * rng.random(self.chunk))[:, None, None]
        received = add_awgn(sent, rng.uniform(*self.snr_db, self.chunk), rng, active > 0)
        received /= np.abs(received).max(axis=(1, 2), keepdims=True)
        received += self.dc * (rng.uniform(-1, 1, (self.chunk, 2)) @ [1, 1j])[:, None, None]
        levels = 2 ** (self.bits_adc - 1)
        real, imaginary = (
            np.round(np.clip(part * levels, -levels, levels - 1)) for part in (received.real, received.imag)
        )
        return real + 1j * imaginary, {"class": names, "detail": names}

    def _packets(self, name: str, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """What one transmitter does: level (OOK) or frequency in cycles per sample (2FSK), and where it is on."""
        bits = rng.integers(2, size=int(rng.integers(int(self.bits[0]), int(self.bits[1]) + 1)))
        deviation = rng.uniform(*self.deviation_hz) / self.sample_rate_hz
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
        symbol = rng.uniform(*self.symbol_s) * self.sample_rate_hz
        pause = rng.uniform(*self.pause_symbols)
        lead = rng.uniform(0.0, self.lead_s) * self.sample_rate_hz / symbol
        repeats = int(np.ceil(self.samples / (symbol * (durations.sum() + pause)))) + 1
        edges = np.cumsum([lead, *np.tile([*durations, pause], repeats)]) * symbol
        values, active = (np.array([0, *np.tile([*x, 0], repeats)]) for x in (levels, np.ones(len(levels))))
        where = np.searchsorted(edges, np.arange(self.samples), side="right")
        scale = 1.0 if name == "OOK" else deviation
        return scale * values[where], active[where].astype(float)


#: The twin of a capture set: the `twin:` mapping of its YAML.
Twin = Annotated[AnyArray | Sounding | Impulse | Keyed, Field(discriminator="kind")]


class TwinRecipe(Model):
    """A twin under its own key, for validation."""

    twin: Twin


def generate(twin: MatchedSet, name: str, split: TwinSplit, seed: Seed) -> Iterator[Chunk]:
    """Chunks of a twin's scenes in TRAIN or DEV, each of unit mean power.

    `name` and `seed` name the random streams; a chunk's depends on (seed, name, split, number) alone.
    """
    for number in range(twin.scenes[split] // twin.chunk):
        iq, labels = twin.make(stream(seed, "twin", name, split, number))
        iq /= np.sqrt(np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True))
        n = len(iq)
        known: dict[str, Column] = {
            "task": [twin.task] * n,
            "split": [split] * n,
            "environment": ["TWIN"] * n,
            # Each chunk of an array has a front end of its own.
            "session": [f"{name}/{split}/{number}" if isinstance(twin, AnyArray) else None] * n,
            "frequency_band": [f"{twin.frequency_hz / 1e9:.4g}GHz"] * n,
            "snr_regime": ["unknown"] * n,
            "snr_db": [0.0] * n,
            "sample_rate_hz": [twin.sample_rate_hz] * n,
            "center_frequency_hz": [twin.frequency_hz] * n,
            "link_id": [f"{name}/{split}/{number}/{i}" for i in range(n)],
        }
        columns: dict[str, Column] = {column: known.get(column, [None] * n) for column in COLUMNS}
        yield Chunk((split, number), iq.astype(np.complex64), columns, labels)


def remove_linear_phase(channel: Complexes, carriers: Ints) -> Complexes:
    """`channel` `[..., carriers]` without its linear phase over carriers; the phase at carrier 0 stays."""
    phase = np.unwrap(np.angle(channel))
    centred = carriers - carriers.mean()
    slope = phase @ centred / (centred @ centred)
    flat: Complexes = channel * np.exp(-1j * slope[..., None] * carriers)
    return flat


def raised_cosine(t: Floats, rolloff: float) -> Floats:
    """Raised-cosine pulse at times `t` in symbols, 1 at t = 0."""
    edge = np.abs(np.abs(2 * rolloff * t) - 1) < 1e-9
    with np.errstate(divide="ignore", invalid="ignore"):
        pulse = np.sinc(t) * np.cos(np.pi * rolloff * t) / (1 - (2 * rolloff * t) ** 2)
    return np.where(edge, np.pi / 4 * np.sinc(1 / (2 * rolloff)) if rolloff else 0.0, pulse)
