"""The form in which a model gets a scene: its samples, the channel estimate of a known symbol, or a spectrogram."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from emma.backbones.base import IQ
from emma.data.reference import Reference
from emma.tasks import Strict

#: Least power in decibels: -120, far below the noise of a scene at unit power. Silence has it.
FLOOR_DB = -120.0


class SpectrogramRule(Strict):
    """How a scene becomes a spectrogram: see ``spectrogram``."""

    size: Annotated[int, Field(ge=2, le=1 << 16, description="samples of a frame, and number of frequencies")]
    hop: Annotated[int, Field(ge=1, le=1 << 16, description="samples from one frame to the next")]
    window: Annotated[
        Literal["boxcar", "hann", "hamming", "blackman", "blackmanharris", "flattop"],
        Field(description="window of a frame, periodic, as `scipy.signal.get_window` gives it"),
    ] = "hann"
    scale: Annotated[
        Literal["db", "magnitude", "power"],
        Field(description="`magnitude` (of a tone of amplitude 1: 1), `power` (its square), `db` (from -120)"),
    ] = "db"


def channel_estimate(iq: IQ, starts: NDArray[np.int64], reference: Reference) -> IQ:
    """Least-squares estimate of the channel on each carrier of a known symbol.

    H[k] = Y[k] / X[k], Y being the FFT of the symbol's body and X what was sent in the same scale: a channel of gain 1
    gives 1, and noise of power N0 per sample and a sent signal of power 1 give an error of power N0 K / N on each of K
    carriers of an FFT of N (J.-J. van de Beek et al., On channel estimation in OFDM systems, VTC 1995). A
    delay by d samples, up to the prefix, is the phase -2 pi k d / N. Nothing is corrected: neither an offset of the
    carrier nor the phase that it has grown to. DC carries nothing and is left out. Where the values are dealt out to
    several symbols, each carrier's estimate is that of the symbol that has its value.

    Args:
        iq: complex64 ``[B, A, T]``.
        starts: sample ``[B]`` at which the body of the symbol, or of the first one, starts.
        reference: the symbol.

    Returns:
        complex64 ``[B, A, K]``, carriers in order of frequency.

    Raises:
        ValueError: a body that does not lie in the scene.
    """
    period, carriers = reference.size + reference.prefix, np.array(reference.carriers)
    if len(starts) and not 0 <= starts.min() <= starts.max() <= reference.last_start(iq.shape[2]):
        raise ValueError(f"view csi: the reference symbol does not lie within the {iq.shape[2]} samples of a scene")
    comb = np.arange(reference.combs)[:, None] * period
    places = starts[:, None, None, None] + comb + np.arange(reference.size)
    bodies = np.take_along_axis(iq[:, :, None], places, axis=3).astype(np.complex128)
    heard = np.fft.fft(bodies)[:, :, np.arange(len(carriers)) % reference.combs, carriers]
    # What unit power of the sent signal makes of each carrier's value.
    gain = reference.size / np.sqrt(np.mean(np.abs(reference.sent) ** 2) * len(reference.carriers))
    estimate: IQ = (heard / (gain * reference.sent)).astype(np.complex64)
    return estimate


def spectrogram(iq: IQ, rule: SpectrogramRule) -> NDArray[np.float32]:
    """Two-sided short-time spectra by ``scipy.signal.ShortTimeFFT``, of frames that lie in the scene.

    Args:
        iq: complex64 ``[B, A, T]``.
        rule: size, hop, window and scale.

    Returns:
        float32 ``[B, A, F, N]``: F = size frequencies from the most negative on, DC at F // 2, and
        N = 1 + (T - size) // hop frames, the first of which starts at the first sample.

    Raises:
        ValueError: fewer samples than a frame has.
    """
    from scipy.signal import ShortTimeFFT, get_window

    samples = iq.shape[2]
    if samples < rule.size:
        raise ValueError(f"spectrogram.size: expected at most the {samples} samples of a scene, found {rule.size}")
    window = get_window(rule.window, rule.size)
    frames = ShortTimeFFT(window, rule.hop, fs=1.0, fft_mode="centered", scale_to="magnitude", phase_shift=None)
    # Frame p begins at sample p * hop: scipy counts frames by their middle.
    spectra = frames.stft(iq.astype(np.complex128), 0, 1 + (samples - rule.size) // rule.hop, k_offset=frames.m_num_mid)
    values = np.abs(spectra)
    if rule.scale != "magnitude":
        values = values**2
    if rule.scale == "db":
        values = 10 * np.log10(np.maximum(values, 10 ** (FLOOR_DB / 10)))
    shown: NDArray[np.float32] = values.astype(np.float32)
    return shown
