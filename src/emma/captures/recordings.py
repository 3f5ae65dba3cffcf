"""Folders of raw IQ recordings with a labels.csv that states format, rate and label of each file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.captures.adapters import RealCaptureAdapter, Scenes, unit_power, windows

#: numpy type, centre and full scale of a component, by format.
FORMATS = {"cu8": ("u1", 127.5, 127.5), "cs8": ("i1", 0.0, 128.0), "ci16": ("<i2", 0.0, 32768.0), "cf32": ("<f4", 0, 1)}


class LabelledIqAdapter(RealCaptureAdapter):
    """``data/*.cu8`` and ``labels.csv``; the label is in the column that ``mapping.column`` names.

    Where the table has no column ``format``, a file's suffix is its format.
    """

    name = "labelled_iq"
    converts: ClassVar = {
        "samples": "unsigned 8-bit pairs about 127.5 (cs8, ci16 and cf32 too) to complex; unit mean power per scene",
        "rate": "polyphase resampling to the declared rate",
        "length": "the declared window, cut from the declared start",
    }
    cannot_give: ClassVar[tuple[str, ...]] = ("absolute power", "signal-to-noise ratio where the table has no snr_db")

    def scenes(self) -> Iterator[Scenes]:
        """One chunk per recording."""
        column, rows = self.labelled_recordings()
        for row in rows:
            cut = windows(self._samples(row)[None], self.scene, self.number(row, "sample_rate_hz"), row["path"])
            n = len(cut)
            yield Scenes(
                unit_power(cut),
                label=[row[column]] * n,
                session=[self.session(row)] * n,
                center_frequency_hz=[self.number(row, "center_freq_hz", default=0.0)] * n,
                device=[row.get("device")] * n,
                snr_db=[self.number(row, "snr_db")] * n if "snr_db" in row else (),
                detail=[{"group": row[column], "file": row["path"], "window": i} for i in range(n)],
            )

    def session(self, row: Mapping[str, str]) -> str:
        """The table's session."""
        return row["session"]

    def _samples(self, row: Mapping[str, str]) -> NDArray[np.complex64]:
        name = row.get("format") or row["path"].rpartition(".")[2]
        if name not in FORMATS:
            raise InputError(f"{self.root / 'labels.csv'}: {row['path']}: format {name}, expected one of {[*FORMATS]}")
        suffix = row["path"].rpartition(".")[2]
        if suffix in FORMATS and suffix != name:
            raise InputError(f"{self.root / 'labels.csv'}: {row['path']}: format {name} contradicts the file's suffix")
        kind, centre, scale = FORMATS[name]
        data = self.read(row["path"])
        if not data or len(data) % (2 * np.dtype(kind).itemsize):
            raise InputError(f"{self.root / row['path']}: {len(data)} bytes, expected whole {name} samples")
        pairs = (np.frombuffer(data, kind).astype(np.float32) - centre) / scale
        if not np.isfinite(pairs).all():
            raise InputError(f"{self.root / row['path']}: NaN or infinity, expected finite samples")
        return pairs[0::2] + 1j * pairs[1::2]


class MixedIqAdapter(LabelledIqAdapter):
    """Single captures of several formats and rates; the format is a column of the table, a file is a session."""

    name = "mixed_iq"
    cannot_give: ClassVar = (
        "which samples of a file hold the labelled emitter: every window carries the file's label",
        "a carrier where the table has none (written as 0)",
        "absolute power",
        "signal-to-noise ratio (snr_db is 0, snr_regime unknown)",
    )

    def scenes(self) -> Iterator[Scenes]:
        """One chunk per recording."""
        self.labels("format")
        yield from super().scenes()
