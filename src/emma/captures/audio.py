"""Demodulated satellite audio: real samples, whose analytic signal serves as IQ. For tests of the reading alone."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from common.errors import InputError
from emma.captures.adapters import RealCaptureAdapter, Scenes, unit_power, windows


class SatAudioAdapter(RealCaptureAdapter):
    """``data/*.npy`` (int16 audio) and ``labels.csv``; each satellite is a session."""

    name = "sat_audio"
    converts: ClassVar = {
        "samples": "int16 audio to its analytic signal (scipy.signal.hilbert); unit mean power per scene",
        "rate": "polyphase resampling to the declared rate",
    }
    cannot_give: ClassVar = (
        "IQ: FSK and AFSK files are discriminator audio, BPSK files single-sideband audio",
        "absolute power",
        "signal-to-noise ratio (snr_db is 0, snr_regime unknown)",
    )

    def scenes(self) -> Iterator[Scenes]:
        """One chunk per recording."""
        from scipy.signal import hilbert

        column, rows = self.labelled_recordings()
        for row in rows:
            data = self.read(row["path"])
            try:
                audio = np.load(io.BytesIO(data), allow_pickle=False)
            except (ValueError, OSError, EOFError) as error:
                raise InputError(f"{self.root / row['path']}: expected a complete NPY file ({error})") from None
            if audio.ndim != 1 or audio.dtype != np.int16:
                raise InputError(f"{self.root / row['path']}: {audio.dtype} {audio.shape}, expected int16 [samples]")
            analytic = hilbert(audio.astype(np.float64) / 32768.0)[None]
            cut = windows(analytic, self.scene, self.number(row, "sample_rate_hz"), row["path"])
            n = len(cut)
            yield Scenes(
                unit_power(cut),
                label=[row[column]] * n,
                session=[row["session"]] * n,
                center_frequency_hz=[self.number(row, "center_freq_hz", default=0.0)] * n,
                detail=[{"group": row[column], "file": row["path"]}] * n,
            )
