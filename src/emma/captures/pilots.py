"""Measured channels of beam soundings, heard through pilots of E-CH-CSI: what is sent, and noise, are synthetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.streams import complex_normal, stream
from emma.backbones.views import channel_estimate
from emma.captures.adapters import Scenes
from emma.captures.beams import CARRIER_HZ, PROBE_STEP, SPACING_HZ, TAPS, Soundings
from emma.captures.cutting import unit_power
from emma.data.reference import Reference

Complexes = NDArray[np.complex128]

#: Carriers of a label; as many on either side of the centre.
CARRIERS = 64
#: Symbols of a scene: the FFT, which holds these carriers where they were sounded, the prefix, and their number.
SIZE, PREFIX, COMBS = 128, 32, 2
SAMPLES = COMBS * (SIZE + PREFIX)
#: Between these ratios in dB of signal to added noise, those of the task, every one is as likely.
SNR_DB = 0.0, 20.0
#: Mean power of a carrier, of the strongest one's, below which it was not sounded: what rounding leaves is at -140 dB.
_SOUNDED = 1e-10


class PilotSoundingAdapter(Soundings):
    """A scene is two symbols with combs of pilots, sent over the channels of every fourth beam; its label is these.

    A label is ``[8, 64]``, probes by carriers, at a root mean square of 1 and turned by the phase of the scene's own
    least-squares estimate at the first probe, the mean over its carriers: as E-CH-CSI declares.
    """

    name = "beam_sounding_csi"
    target = "channel"
    converts: ClassVar = {
        "labels": "measured: of the FFT of the 256 taps the 32 sounded carriers nearest the centre on either side, "
        "at their own frequencies; rms 1, turned by the phase of the scene's own least-squares estimate at the first "
        "probe",
        "antennas": "measured: every fourth of the 31 transmit beams, from the first on, in place of antennas",
        "samples": "synthetic: two OFDM symbols of 128 carriers with the pilots of E-CH-CSI on every second carrier in "
        "use, random QPSK between, times the measured channel; each symbol's prefix is its own end (circular "
        "convolution), no offset of the carrier; unit mean power per scene over its probes",
        "noise": "synthetic: white, uniform from 0 to 20 dB below the scene's power (snr_db)",
    }
    cannot_give: ClassVar = (
        "patterns of the beams: nothing synthetic is like this set",
        "carriers between those that were sounded, 146 of 256",
        "the sounder's own noise by itself: it is part of the label, and not of snr_db",
        "samples of a receiver: what is heard is worked out from the sounding",
        "absolute power",
    )

    def scenes(self) -> Iterator[Scenes]:
        """One chunk per campaign."""
        reference: Reference | None = None
        for campaign, taps in self.campaigns(SAMPLES, SIZE * SPACING_HZ):
            response = np.fft.fft(taps[:, ::PROBE_STEP].astype(np.complex128))
            known = pilots(self._nearest(campaign, response))
            reference = reference or known
            if known != reference:
                raise InputError(f"{self.root / campaign}.npz: h: other carriers than before, expected one set of them")
            channel = response[..., known.carriers]
            n, draws = len(taps), [stream(self.name, campaign, position) for position in range(len(taps))]
            names = [f"{campaign}.npz#{position}" for position in range(n)]
            clean = received(channel, np.stack([sent(known, rng) for rng in draws]), known)
            snr_db = np.array([rng.uniform(*SNR_DB) for rng in draws])
            noise = np.stack([complex_normal(rng, clean.shape[1:]) for rng in draws])
            noise *= np.sqrt(np.mean(np.abs(clean) ** 2, axis=(1, 2)) / 10 ** (snr_db / 10))[:, None, None]
            iq, start = unit_power(clean + noise, names), np.full(n, PREFIX)
            phase = np.angle(channel_estimate(iq, start, known)[:, 0].mean(axis=1))
            size = np.sqrt(np.mean(np.abs(channel) ** 2, axis=(1, 2)))
            turned = channel * (np.exp(-1j * phase) / size)[:, None, None]
            yield Scenes(
                iq,
                names,
                label=list(np.ascontiguousarray(turned, np.complex64).view(np.float32).reshape(n, -1)),
                session=[campaign] * n,
                center_frequency_hz=[CARRIER_HZ] * n,
                snr_db=snr_db.tolist(),
                detail=[{"position": position} for position in range(n)],
                reference=known,
                reference_start=start.tolist(),
            )

    def _nearest(self, campaign: str, response: Complexes) -> list[int]:
        """Numbers of the sounded carriers nearest the centre, in order of frequency, of responses ``[n, 8, 256]``."""
        power = np.mean(np.abs(response) ** 2, axis=(0, 1))
        sounded = np.flatnonzero(power > _SOUNDED * power.max())
        above = sounded[(sounded > 0) & (sounded < SIZE // 2)][: CARRIERS // 2]
        below = sounded[sounded >= TAPS - SIZE // 2][-CARRIERS // 2 :] - TAPS
        if min(len(above), len(below)) < CARRIERS // 2:
            raise InputError(
                f"{self.root / campaign}.npz: h: {len(below)} and {len(above)} carriers below and above the centre, "
                f"expected {CARRIERS // 2} of the {SIZE // 2} on either side"
            )
        return [*below.tolist(), *above.tolist()]


def pilots(carriers: list[int]) -> Reference:
    """The values of E-CH-CSI on carriers of these numbers, in their order.

    A Zadoff-Chu sequence of root 1 and length 65 without its middle (3GPP TS 36.211, 5.5.1.1 and 6.11.1).
    """
    n = np.delete(np.arange(CARRIERS + 1), CARRIERS // 2)
    values = np.exp(-1j * np.pi * n * (n + 1) / (CARRIERS + 1))
    pairs = tuple((float(value.real), float(value.imag)) for value in values)
    return Reference(size=SIZE, prefix=PREFIX, carriers=tuple(carriers), values=pairs, combs=COMBS)


def sent(reference: Reference, rng: np.random.Generator) -> Complexes:
    """Values ``[combs, carriers]`` of the symbols of a scene: random QPSK, and the pilots of each symbol's comb."""
    values: Complexes = (rng.integers(2, size=(COMBS, CARRIERS, 2)) * 2 - 1) @ np.array([1, 1j]) / np.sqrt(2)
    for symbol in range(COMBS):
        values[symbol, symbol::COMBS] = reference.sent[symbol::COMBS]
    return values


def received(channel: Complexes, values: Complexes, reference: Reference) -> Complexes:
    """Samples ``[n, probes, samples]`` of values ``[n, combs, carriers]`` over channels ``[n, probes, carriers]``.

    Every symbol is convolved with the channel circularly, and its prefix is its own end.
    """
    grid = np.zeros((*channel.shape[:2], COMBS, SIZE), np.complex128)
    grid[..., reference.carriers] = channel[:, :, None] * values[:, None]
    time = np.fft.ifft(grid) * (SIZE / np.sqrt(CARRIERS))
    whole: Complexes = np.concatenate([time[..., -PREFIX:], time], axis=-1).reshape(*channel.shape[:2], -1)
    return whole
