"""Beam soundings: the channel of every transmit beam at places along a path (one NPZ per campaign)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.captures.adapters import RealCaptureAdapter, Scenes
from emma.captures.csi import read_npz
from emma.captures.cutting import unit_power

#: Transmit beams of a probe: every fourth, as a receiver that sweeps a quarter of the codebook hears them.
PROBE_STEP = 4
#: Beams of a campaign, delay taps of a beam, and how far the carriers of the sounding lie apart.
BEAMS, TAPS, SPACING_HZ = 31, 256, 240_000.0
CARRIER_HZ = 28e9


class Soundings(RealCaptureAdapter, ABC):
    """The layout of ``CAMPAIGN.npz``: ``h`` complex64 ``[positions, 31, 256]``, delay taps of each transmit beam.

    A scene is one position. Campaigns are the sessions: positions of one lie a step apart.
    """

    keys = frozenset({"samples", "sample_rate_hz"})
    needs: ClassVar = "CAMPAIGN.npz with h [positions, 31, 256], one file per campaign"

    def campaigns(self, samples: int, rate_hz: float) -> Iterator[tuple[str, NDArray[Any]]]:
        """Name and taps ``[positions, 31, 256]`` of each campaign, some power at every position.

        Raises:
            InputError: no campaign, another layout, or a scene declared with other samples or another rate.
        """
        files = sorted(path.name for path in self.root.glob("*.npz") if path.stem not in self.entry.leave_out)
        if not files:
            raise InputError(f"{self.root}: expected {self.needs}")
        if (self.scene.samples, self.scene.sample_rate_hz) != (samples, rate_hz):
            raise InputError(f"{self.entry.name}: scene: expected {samples} samples at {rate_hz:.0f} Hz")
        for file in files:
            taps = read_npz(self, file).get("h")
            if taps is None or taps.dtype.kind != "c" or taps.shape[1:] != (BEAMS, TAPS):
                found = "nothing" if taps is None else f"{taps.dtype} {list(taps.shape)}"
                raise InputError(f"{self.root / file}: h: {found}, expected complex [positions, {BEAMS}, {TAPS}]")
            if not np.isfinite(taps).all():
                raise InputError(f"{self.root / file}: h: NaN or infinity, expected finite numbers")
            if not taps.any(axis=(1, 2)).all():
                raise InputError(f"{self.root / file}: h: a position without power, expected some in every one")
            yield file.removesuffix(".npz"), taps


class BeamSoundingAdapter(Soundings):
    """A scene is the taps of every fourth beam, one row each, as samples in time; its label the power of all 31 beams.

    The strongest has 1.
    """

    name = "beam_sounding"
    target = "beam"
    converts: ClassVar = {
        "samples": "delay taps as samples in time, in their order; unit mean power per scene over its probes",
        "antennas": "every fourth of the 31 transmit beams, from the first on, in place of antennas",
        "labels": "mean power of the taps of each of the 31 beams over that of the strongest",
    }
    cannot_give: ClassVar = (
        "patterns of the beams: nothing synthetic is like this set",
        "samples between the taps, and the noise of a probe by itself",
        "absolute power",
        "signal-to-noise ratio (snr_db is 0, snr_regime unknown)",
    )

    def scenes(self) -> Iterator[Scenes]:
        """One chunk per campaign."""
        for campaign, taps in self.campaigns(TAPS, TAPS * SPACING_HZ):
            power = np.mean(np.abs(taps.astype(np.complex128)) ** 2, axis=2)
            names = [f"{campaign}.npz#{position}" for position in range(len(taps))]
            yield Scenes(
                unit_power(taps[:, ::PROBE_STEP].astype(np.complex64), names),
                names,
                label=list((power / power.max(axis=1, keepdims=True)).astype(np.float32)),
                session=[campaign] * len(taps),
                center_frequency_hz=[CARRIER_HZ] * len(taps),
                detail=[{"position": position} for position in range(len(taps))],
            )
