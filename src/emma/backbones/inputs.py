"""What a model is given, by declared rules: antennas, sample rate, length, level, layout; and how tokens are pooled."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from emma.backbones.base import IQ, Embeddings
from emma.backbones.views import SpectrogramRule, spectrogram
from emma.tasks import Strict

#: Scenes in a layout of real numbers, float32.
Channels = NDArray[np.float32]

#: Names of layouts; the axes after the batch of those that are real.
Layout = Literal[
    "complex",
    "channels",
    "stacked",
    "interleaved",
    "pairs",
    "channels_last",
    "image",
    "image_last",
    "column",
    "time_first",
]
AXES: dict[str, tuple[str, ...]] = {
    "channels": ("2A", "T"),
    "channels_last": ("T", "2A"),
    "interleaved": ("A", "2T"),
    "stacked": ("2A", "T"),
    "image": ("1", "2A", "T"),
    "column": ("2A", "1", "T"),
    "pairs": ("A", "T", "2"),
    "image_last": ("2A", "T", "1"),
    "time_first": ("T", "2A", "1"),
}
#: Layouts of a spectrogram ``[B, A, F, N]``; ``channels_last`` is ``[B, F, N, A]``.
_SPECTROGRAM_LAYOUTS: tuple[str | None, ...] = (None, "channels", "channels_last")

#: Greatest whole number in a ratio of sample rates: the resampling filter has 20 times as many taps.
_MOST_RATIO = 1000


class Contract(Strict):
    """How scenes reach a model and how its output is read; by default it gets the scene at unit mean power.

    Rules apply in this order, and each is the identity where it is not declared.

    0. What is embedded by itself (``emma.backbones.units``). ``view: csi`` takes the channel estimate of the scene's
       reference symbol ``[A, carriers]`` in place of its samples (``emma.backbones.views``), and the model gets the
       carriers' spacing as its sample rate. ``per_antenna`` shows each antenna on its own, as a scene of one antenna:
       the rows of all are put side by side (``concat``) or averaged (``mean``), or there is the ``first`` alone; with
       it, ``antennas`` is what the model gets, 1. ``window``
       cuts the scene, after rules 1 and 2, at every ``hop`` samples (``window``, unless declared), drops what is left
       at the end, and pools the rows by ``window_pooling``. All that follows is then done to each window or antenna.
    1. ``antennas``: the first k, or ``any``. A scene of fewer is refused, or filled up last, as ``missing_antennas``
       says: with ``zeros``, or by ``repeat`` of its antennas in turn.
    2. ``sample_rate_hz``: resampled to this rate by ``scipy.signal.resample_poly`` (polyphase, Kaiser 5.0, zeros beyond
       the ends), ``ceil(T * up / down)`` samples; the model gets the new rate.
    3. ``samples``: the first n, or ``any``. A shorter scene is refused (``fit: crop``), or filled up last: with zeros
       after its end (``pad``) or by itself again from its start (``tile``).
    4. ``normalise``: ``unit_power`` (mean power 1 over all samples and antennas of the scene), ``antenna_unit_power``
       (of each antenna), ``max_abs`` (greatest magnitude of the scene 1), ``none``. Silence stays zero.
    5. ``gain_db``: 20 log10 of an amplitude factor.
    6. What was missing is filled up, so that zeros never enter the level.
    7. ``layout``: ``complex`` complex64 ``[B, A, T]``; or float32 ``channels`` ``[B, 2A, T]`` (I and Q of each antenna
       in turn), ``stacked`` ``[B, 2A, T]`` (I of all antennas, then Q of all), ``interleaved`` ``[B, A, 2T]`` (I and Q
       of each sample in turn), ``pairs`` ``[B, A, T, 2]``; or the axes of ``channels`` as ``channels_last``
       ``[B, T, 2A]``, ``image`` ``[B, 1, 2A, T]``, ``image_last`` ``[B, 2A, T, 1]``, ``column`` ``[B, 2A, 1, T]``,
       ``time_first`` ``[B, T, 2A, 1]``.
       Without one, ``complex`` for a factory and ``channels`` for an ONNX file.
       ``view: spectrogram`` gives float32 ``[B, A, F, N]`` instead, frequencies and frames of each antenna; with
       ``channels_last`` ``[B, F, N, A]``.

    ``pooling`` reads float32 ``[B, N, D]``, a sequence of tokens, as ``[B, D]``: ``mean``, ``first`` (a class token) or
    ``max``. ``batch_size`` is the most scenes that a call of ``embed`` gets; an antenna or a window that is
    embedded by itself counts as one.
    """

    view: Annotated[
        Literal["iq", "csi", "spectrogram"],
        Field(
            description="the form in which a scene is given: its samples (`iq`), the channel estimate of its "
            "reference symbol (`csi`, complex `[A, carriers]`), or a `spectrogram`"
        ),
    ] = "iq"
    per_antenna: Annotated[
        Literal["concat", "mean", "first"] | None,
        Field(
            description="for a model of one antenna: each is embedded on its own, and their rows are put side by side "
            "(`concat`) or averaged (`mean`); or the `first` antenna alone"
        ),
    ] = None
    antennas: Annotated[
        Annotated[int, Field(ge=1, le=4096)] | Literal["any"], Field(description="the first k antennas, or `any`")
    ] = "any"
    missing_antennas: Annotated[
        Literal["refuse", "zeros", "repeat"],
        Field(
            description="where a scene has fewer than k: `refuse`, `zeros`, or `repeat` (its antennas again, in turn)"
        ),
    ] = "refuse"
    sample_rate_hz: Annotated[
        Annotated[float, Field(gt=0)] | None,
        Field(
            description="resample to this rate, in Hz (`scipy.signal.resample_poly`; ratios of whole numbers up "
            "to 1000); without it, the scene's own"
        ),
    ] = None
    samples: Annotated[
        Annotated[int, Field(ge=1, le=1 << 24)] | Literal["any"], Field(description="the first n samples, or `any`")
    ] = "any"
    fit: Annotated[
        Literal["crop", "pad", "tile"],
        Field(
            description="where a scene is shorter than n: `crop` (refuse), `pad` (zeros after its end), `tile` "
            "(itself again from its start)"
        ),
    ] = "crop"
    window: Annotated[
        Annotated[int, Field(ge=1, le=1 << 24)] | None,
        Field(description="cut scenes in windows of so many samples, each embedded by itself, instead of `samples`"),
    ] = None
    hop: Annotated[
        Annotated[int, Field(ge=1, le=1 << 24)] | None,
        Field(description="samples from one window to the next; without it, those of a window"),
    ] = None
    window_pooling: Annotated[
        Literal["mean", "max", "mean_std"],
        Field(description="of the windows' rows: `mean`, `max`, or mean and standard deviation side by side"),
    ] = "mean"
    normalise: Annotated[
        Literal["unit_power", "antenna_unit_power", "max_abs", "none"],
        Field(
            description="`unit_power` (the scene, over all antennas, at mean power 1), `antenna_unit_power` (each "
            "antenna), `max_abs` (greatest magnitude 1), `none`"
        ),
    ] = "unit_power"
    gain_db: Annotated[float, Field(ge=-200, le=200, description="amplitude gain after that, in dB (20 log10)")] = 0.0
    spectrogram: Annotated[
        SpectrogramRule | None, Field(description="with `view: spectrogram`: `size`, `hop`, `window`, `scale`")
    ] = None
    layout: Annotated[
        Layout | None,
        Field(
            description="`complex` `[B, A, T]`; float32 `channels` `[B, 2A, T]` (I, Q of each antenna in turn), "
            "`stacked` `[B, 2A, T]` (all I, then all Q), `interleaved` `[B, A, 2T]`, `pairs` `[B, A, T, 2]`, and as "
            "`channels` `channels_last` `[B, T, 2A]`, `image` `[B, 1, 2A, T]`, `image_last` `[B, 2A, T, 1]`, `column` "
            "`[B, 2A, 1, T]`, `time_first` `[B, T, 2A, 1]`; without it `complex`, for `onnx` `channels`"
        ),
    ] = None
    pooling: Annotated[
        Literal["none", "mean", "first", "max"],
        Field(description="for an output `[B, tokens, D]`: `mean`, `first` (a class token), `max`; else `none`"),
    ] = "none"
    batch_size: Annotated[int, Field(ge=1, le=4096, description="most scenes per call of `embed`")] = 64

    @model_validator(mode="after")
    def _rules_have_a_number(self) -> Contract:
        if self.antennas == "any" and self.missing_antennas != "refuse":
            raise ValueError("missing_antennas: expected with a number of antennas")
        if self.samples == "any" and self.window is None and self.fit != "crop":
            raise ValueError("fit: expected with a number of samples")
        return self

    @model_validator(mode="after")
    def _view_has_its_rules(self) -> Contract:
        if (self.view == "spectrogram") != (self.spectrogram is not None):
            raise ValueError("spectrogram: expected with view spectrogram, and only then")
        if self.view == "spectrogram" and self.layout not in _SPECTROGRAM_LAYOUTS:
            raise ValueError("layout: a spectrogram has no I and Q, expected channels or channels_last")
        if self.view == "csi" and (self.sample_rate_hz is not None or self.window is not None):
            raise ValueError("view: csi is not resampled or cut, expected no sample_rate_hz and no window")
        return self

    @model_validator(mode="after")
    def _units_have_their_rules(self) -> Contract:
        if self.window is None and (self.hop is not None or self.window_pooling != "mean"):
            raise ValueError("hop, window_pooling: expected with a window")
        if self.window is not None and self.samples != "any":
            raise ValueError("samples: expected without window, which is the number of samples that the model gets")
        if self.per_antenna is not None and self.missing_antennas != "refuse":
            raise ValueError("missing_antennas: expected without per_antenna, which takes those that there are")
        if self.per_antenna is not None and self.antennas not in ("any", 1):
            raise ValueError("antennas: expected 1 with per_antenna, which shows one at a time")
        return self

    @property
    def sees_one_antenna(self) -> bool:
        """Whether a scene's row depends on single antennas alone and not on what lies between them."""
        return self.per_antenna in {"mean", "first"} or (self.per_antenna is None and self.antennas == 1)


def prepare(iq: IQ, sample_rate_hz: float, contract: Contract) -> tuple[IQ | Channels, float]:
    """Scenes as the contract declares them.

    Args:
        iq: complex64 ``[B, A, T]``.
        sample_rate_hz: their sample rate.
        contract: the model's.

    Returns:
        the array that ``embed`` gets, and its sample rate.

    Raises:
        ValueError: too few antennas or samples, or a ratio of rates that whole numbers up to 1000 do not give.
    """
    antennas = iq.shape[1] if contract.antennas == "any" else contract.antennas
    if iq.shape[1] < antennas and contract.missing_antennas == "refuse":
        raise ValueError(f"antennas: expected {antennas} or more, found {iq.shape[1]} (see missing_antennas)")
    iq = iq[:, :antennas]
    if contract.sample_rate_hz is not None:
        iq, sample_rate_hz = resampled(iq, sample_rate_hz, contract.sample_rate_hz), contract.sample_rate_hz
    samples = iq.shape[2] if contract.samples == "any" else contract.samples
    if iq.shape[2] < samples and contract.fit == "crop":
        raise ValueError(f"samples: expected {samples} or more, found {iq.shape[2]} (see fit)")
    iq = normalise(iq[:, :, :samples], contract.normalise, contract.gain_db)
    iq = _fill(iq, 1, antennas, zeros=contract.missing_antennas == "zeros")
    iq = _fill(iq, 2, samples, zeros=contract.fit == "pad")
    if contract.spectrogram is not None:
        shown = spectrogram(iq, contract.spectrogram)
        last = contract.layout == "channels_last"
        return np.ascontiguousarray(np.moveaxis(shown, 1, -1)) if last else shown, sample_rate_hz
    return lay_out(iq, contract.layout or "complex"), sample_rate_hz


def resampled(iq: IQ, rate: float, target: float) -> IQ:
    """Scenes complex64 ``[..., T]`` at another rate; ValueError for a ratio beyond whole numbers up to 1000."""
    ratio = Fraction(target) / Fraction(rate)
    if max(ratio.numerator, ratio.denominator) > _MOST_RATIO:
        raise ValueError(f"sample_rate_hz: {target:g} from {rate:g} is no ratio of whole numbers up to {_MOST_RATIO}")
    if ratio == 1:
        return iq
    from scipy.signal import resample_poly

    made: IQ = resample_poly(iq, ratio.numerator, ratio.denominator, axis=-1).astype(np.complex64)
    return made


def normalise(iq: IQ, recipe: str, gain_db: float = 0.0) -> IQ:
    """Scale scenes complex64 ``[B, A, T]`` to a level, then by a gain; silence stays zero."""
    if recipe == "none" and not gain_db:
        return iq
    if recipe == "none":
        level = np.ones((len(iq), 1, 1))
    elif recipe == "max_abs":
        level = np.abs(iq.astype(np.complex128)).max(axis=(1, 2), keepdims=True)
    else:
        axes = 2 if recipe == "antenna_unit_power" else (1, 2)
        power = np.mean(iq.real.astype(np.float64) ** 2 + iq.imag.astype(np.float64) ** 2, axis=axes, keepdims=True)
        level = np.sqrt(power)
    gain = 10.0 ** (gain_db / 20)
    scaled: IQ = (iq * np.divide(gain, level, out=np.zeros_like(level), where=level > 0)).astype(np.complex64)
    return scaled


def _fill(iq: IQ, axis: int, length: int, *, zeros: bool) -> IQ:
    """Fill an axis up to ``length`` with zeros, or with itself again from its start."""
    present = iq.shape[axis]
    if present >= length:
        return iq
    if zeros:
        return np.pad(iq, [(0, length - present if place == axis else 0) for place in range(3)])
    repeated: IQ = np.take(iq, np.arange(length) % present, axis=axis)
    return repeated


def lay_out(iq: IQ, layout: str) -> IQ | Channels:
    """Complex64 ``[B, A, T]`` in the layout that a contract names."""
    if layout == "complex":
        return iq
    if layout == "stacked":
        return np.concatenate([iq.real, iq.imag], axis=1)
    interleaved: Channels = np.ascontiguousarray(iq).view(np.float32)
    if layout == "interleaved":
        return interleaved
    if layout == "pairs":
        return interleaved.reshape(*iq.shape, 2)
    channels = as_channels(iq)
    if layout in {"channels_last", "time_first"}:
        turned = np.ascontiguousarray(channels.transpose(0, 2, 1))
        return turned if layout == "channels_last" else turned[..., None]
    # Those that are left only add an axis of length one.
    return np.expand_dims(channels, 1 + AXES[layout].index("1")) if "1" in AXES[layout] else channels


def as_channels(iq: IQ) -> Channels:
    """Complex64 ``[B, A, T]`` as float32 ``[B, 2A, T]``: I and Q of each antenna in turn."""
    batch, antennas, samples = iq.shape
    pairs = np.ascontiguousarray(iq).view(np.float32).reshape(batch, antennas, samples, 2)
    return np.ascontiguousarray(pairs.transpose(0, 1, 3, 2)).reshape(batch, 2 * antennas, samples)


def pool(values: Embeddings, pooling: str) -> Embeddings:
    """Tokens float32 ``[B, N, D]`` as ``[B, D]``; what is no sequence, and ``none``, comes back as it was."""
    if pooling == "none" or values.ndim != 3 or not values.shape[1]:
        return values
    if pooling == "first":
        return values[:, 0]
    pooled: Embeddings = (
        values.max(axis=1) if pooling == "max" else values.mean(axis=1, dtype=np.float64).astype(np.float32)
    )
    return pooled
