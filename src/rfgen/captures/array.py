"""Matched synthetic sets of any array: a tone, a keyed burst or OFDM, received by elements wherever they stand."""

from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from rfgen.captures.base import Labels, LinkSet
from rfgen.captures.limits import Deviation, Hertz, Portions, Shifts, Spread
from rfgen.physics.arrays import SPEED_OF_LIGHT
from rfgen.physics.propagation import FLAT, GUARD, apply_channel, lead_samples
from rfgen.physics.types import Bools, Complexes, Floats
from rfgen.scenes.base import add_awgn, frequency_shift
from rfgen.waveforms import ofdm
from rfgen.waveforms.linear import pulse_shape

# Of a burst's root-raised-cosine pulses; and the size and prefix of OFDM symbols, in samples.
_ROLLOFF, _SIZE, _PREFIX = 0.35, 64, 16
_Coordinate = Annotated[float, Field(ge=-1e4, le=1e4)]


def _pairs(value: object) -> object:
    return tuple(tuple(x) if isinstance(x, list) else x for x in value) if isinstance(value, list) else value


class AnyArray(LinkSet):
    """Scenes of one emitter at an array of any shape.

    Every chunk is received by a front end of its own: elements keep errors of gain and phase that calibration left.
    """

    kind: Annotated[Literal["array"], Field(description="any array, as `scene.array` states it")]
    positions_m: Annotated[
        tuple[tuple[_Coordinate, _Coordinate], ...],
        BeforeValidator(_pairs),
        Field(min_length=1, max_length=4096, description="places of the elements in metres; those of `scene.array`"),
    ]
    excitation: Annotated[
        Literal["tone", "burst", "ofdm"],
        Field(
            description="what is sent: an unmodulated `tone`, a `burst` of QPSK that is keyed on and off, or random "
            "`ofdm` symbols"
        ),
    ]
    bandwidth_hz: Annotated[
        Hertz | None, Field(description="occupied bandwidth of a burst or of OFDM; none for a tone")
    ] = None
    offset_hz: Annotated[
        Shifts, Field(description="centre of the signal from the carrier, uniform between the two, in Hz")
    ] = (0.0, 0.0)
    duty: Annotated[Portions, Field(description="share of the scene that a burst lasts, uniform between the two")] = (
        0.5,
        1.0,
    )
    gain_error_db: Annotated[
        Spread, Field(description="standard deviation of the elements' gain that calibration left, in dB")
    ] = 0.0
    phase_error_deg: Annotated[
        Deviation, Field(description="standard deviation of the elements' phase that calibration left, in degrees")
    ] = 0.0

    @model_validator(mode="after")
    def _in_band(self) -> "AnyArray":
        if (self.bandwidth_hz is None) != (self.excitation == "tone"):
            raise ValueError(
                f"bandwidth_hz: expected with excitation burst or ofdm, and only then, not {self.excitation}"
            )
        width = self.bandwidth_hz or 0.0
        if max(map(abs, self.offset_hz)) + width / 2 > FLAT * self.sample_rate_hz / 2:
            raise ValueError(
                f"offset_hz, bandwidth_hz: expected a signal within {FLAT:g} of the {self.sample_rate_hz:g} Hz sampled"
            )
        if self.excitation == "ofdm" and width * _SIZE < 2 * self.sample_rate_hz:
            raise ValueError(f"bandwidth_hz: expected at least two of {_SIZE} carriers of the sampled band")
        if self.excitation == "burst" and self.duty[0] * self.samples * width < 4 * self.sample_rate_hz:
            raise ValueError("duty, bandwidth_hz: expected a burst of four symbols or more")
        return self

    @model_validator(mode="after")
    def _tells_bearings(self) -> "AnyArray":
        if self.classes:
            return self
        places = np.array(self.positions_m)
        _, size, axes = np.linalg.svd(places - places.mean(axis=0))
        if not size[0] > 0:
            raise ValueError("scene.array: one element, expected two or more for bearings")
        if len(size) > 1 and size[1] > 1e-6 * size[0]:
            return self
        axis = np.degrees(np.arctan2(axes[0, 1], axes[0, 0]))
        low, high = self.bearing_deg
        if (low - axis + 1e-6) % 180.0 + high - low > 180.0 + 3e-6:
            raise ValueError(
                f"bearing_deg: a linear array does not tell its sides apart, expected bearings of one side, as "
                f"[{axis % 180:g}, {axis % 180 + 180:g}]"
            )
        return self

    @property
    def antennas(self) -> int:
        """Elements of the array."""
        return len(self.positions_m)

    def make(self, rng: np.random.Generator) -> tuple[Complexes, Labels]:
        """Received scenes of one front end, and their labels."""
        paths, labels = self.draw_links(rng)
        paths = paths.with_power()
        gains = paths.at(np.array(self.positions_m) * self.frequency_hz / SPEED_OF_LIGHT)
        decibels, degrees = rng.standard_normal((2, self.antennas))
        left = 10 ** (self.gain_error_db * decibels / 20) * np.exp(1j * np.radians(self.phase_error_deg * degrees))
        lead = lead_samples(paths.delay_s.max(), self.sample_rate_hz)
        window = slice(lead, lead + self.samples)
        sent, active = self.sent(window, rng)
        timing = rng.random((self.chunk, 1)) / self.sample_rate_hz
        received = apply_channel(sent, gains * left[:, None], paths.delay_s + timing, self.sample_rate_hz, window)
        offset = rng.uniform(*self.offset_hz, self.chunk) / self.sample_rate_hz
        snr_db = rng.uniform(*self.snr_db, self.chunk)
        return add_awgn(frequency_shift(received, offset), snr_db, rng, active), labels

    def sent(self, window: slice, rng: np.random.Generator) -> tuple[Complexes, Bools]:
        """What n emitters send, `[chunk, window.stop + GUARD]`, and where in the window they are on."""
        n, length = self.chunk, window.stop + GUARD
        on = np.ones((n, length), bool)
        ratio = (self.bandwidth_hz or 0.0) / self.sample_rate_hz
        if self.excitation == "tone":
            signal = np.ones((n, length), complex)
        elif self.excitation == "ofdm":
            active = ofdm.carriers(2 * int(ratio * _SIZE / 2), _SIZE)
            values = ofdm.random_values(rng, (n, length // (_SIZE + _PREFIX) + 2, len(active)), "QPSK")
            start = rng.integers(_SIZE + _PREFIX, size=n)
            stream = ofdm.modulate(values, active, _SIZE, _PREFIX)
            signal = np.take_along_axis(stream, start[:, None] + np.arange(length), axis=1)
        else:
            period = (1 + _ROLLOFF) / ratio
            symbols = ofdm.random_values(rng, (n, int(length / period) + 16), "QPSK")
            shape = np.full(n, period), np.full(n, _ROLLOFF), rng.random(n)
            signal = pulse_shape(symbols, length, *shape)
            lasts = rng.uniform(*self.duty, n) * self.samples
            first: Floats = window.start + rng.random(n) * (self.samples - lasts)
            place = np.arange(length)
            on = (place >= first[:, None]) & (place < (first + lasts)[:, None])
        return signal * on, on[:, window]
