"""Channel impulse responses (NPZ and labels.csv) with their line-of-sight class and ranges."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import ClassVar

from common.errors import InputError
from emma.captures.adapters import RealCaptureAdapter, Scenes
from emma.captures.csi import complex_pairs, read_npz, require_rows, rows_of_file
from emma.captures.cutting import unit_power


class CirAdapter(RealCaptureAdapter):
    """The layout of ``uwb.npz``: complex taps ``[n, 256]`` about the detected first path, one antenna."""

    name = "cir"
    converts: ClassVar = {
        "samples": "int16 pairs to complex taps as samples in time, in their order; unit mean power per scene",
        "labels": "the authors' classes by mapping; the class and the range error stay in detail",
    }
    needs: ClassVar = (
        "uwb.npz, and labels.csv with path, label, session, sample_rate_hz, center_freq_hz, true_range_m, "
        "measured_range_m"
    )
    cannot_give: ClassVar = (
        "received signal as sent: the response is the accumulator's, aligned to the first path it detected",
        "absolute power (RSL and FSL are not used)",
        "signal-to-noise ratio (snr_db is 0, snr_regime unknown)",
    )

    def scenes(self) -> Iterator[Scenes]:
        """One chunk."""
        file = "uwb.npz"
        arrays = read_npz(self, file)
        ranges = ("true_range_m", "measured_range_m")
        rows = rows_of_file(self, file, "session", "label", "center_freq_hz", "sample_rate_hz", *ranges)
        taps = complex_pairs(self, file, "cir", arrays, (self.shape.samples if self.shape else 256,))
        require_rows(self, file, arrays, len(rows), "cir", "label", "log")
        for i, (row, label, log) in enumerate(zip(rows, arrays["label"], arrays["log"], strict=True)):
            if (row["label"], row["session"]) != (label, f"log{log}"):
                raise InputError(
                    f"{self.root / file}: row {i}: {label} of log{log}, but labels.csv says {row['label']} of "
                    f"{row['session']}"
                )
            if self.number(row, "sample_rate_hz") != self._rate():
                raise InputError(f"{self.root / 'labels.csv'}: {row['path']}: sample_rate_hz: expected {self._rate()}")
        names = [row["path"] for row in rows]
        yield Scenes(
            unit_power(taps[:, None], names),
            names,
            label=[row["label"] for row in rows],
            session=[row["session"] for row in rows],
            center_frequency_hz=[self.number(row, "center_freq_hz") for row in rows],
            detail=[{"group": row["label"], "range_error_m": _error(row)} for row in rows],
        )


def _error(row: dict[str, str]) -> float | None:
    """Measured less true range [m], None where the set measured none."""
    try:
        error = float(row["measured_range_m"]) - float(row["true_range_m"])
    except ValueError:
        return None
    return error if math.isfinite(error) else None
