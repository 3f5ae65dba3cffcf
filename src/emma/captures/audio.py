"""Demodulated satellite audio: real samples, whose analytic signal serves as IQ. For tests of the reading alone."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.npy import read_npy
from emma.captures.adapters import RecordingsAdapter
from emma.captures.formats import FORMATS, Format
from emma.captures.recordings import LabelledIqAdapter
from emma.captures.tables import Row


class SatAudioAdapter(LabelledIqAdapter):
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
    keys = RecordingsAdapter.keys
    needs: ClassVar = "labels.csv with path, label, session, sample_rate_hz, center_freq_hz, and int16 NPY files"

    def samples(self, row: Row, rate_hz: float) -> tuple[Format, NDArray[Any]]:
        """The analytic signal of a row's file, ``[samples, 1, 2]``."""
        from scipy.signal import hilbert

        del rate_hz
        source, data = self.root / row["path"], self.read(row["path"])
        audio = read_npy(data, source)
        if audio.ndim != 1 or audio.dtype != np.int16 or not audio.size:
            raise InputError(f"{source}: {audio.dtype} {audio.shape}, expected int16 [samples]")
        analytic = hilbert(audio.astype(np.float64) / 32768.0)
        return FORMATS["cf64"], analytic.view(np.float64).reshape(-1, 1, 2)
