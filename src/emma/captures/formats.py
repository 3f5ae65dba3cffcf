"""Sample formats of recordings: how the numbers of a file become complex samples. One table for every reader."""

from __future__ import annotations

import io
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError

Iq = NDArray[np.complex128]


@dataclass(frozen=True)
class Format:
    """A sample format: I and Q of type ``kind``; ``(value - centre) / scale`` is between -1 and 1."""

    kind: str
    centre: float
    scale: float

    @property
    def width(self) -> int:
        """Bytes of one complex sample of one channel."""
        return 2 * np.dtype(self.kind).itemsize

    @property
    def rest(self) -> float:
        """Greatest magnitude of I and Q in silence: unsigned codes have no zero, and rest on the two about it."""
        return (0.5 + 1e-9) / self.scale if self.centre else 0.0

    def pairs(self, data: bytes | memoryview, channels: int, source: str | Path) -> NDArray[Any]:
        """The numbers of a file as they are stored, ``[samples, channels, 2]``.

        Raises:
            InputError: no sample, part of a sample, NaN or infinity.
        """
        width = self.width * channels
        if not len(data) or len(data) % width:
            raise InputError(f"{source}: {len(data)} bytes, expected whole samples of {width} bytes each")
        return finite(np.frombuffer(data, self.kind).reshape(-1, channels, 2), source)

    def iq(self, pairs: NDArray[Any]) -> Iq:
        """Complex samples ``[channels, samples]`` of stored numbers ``[samples, channels, 2]``."""
        values = (pairs.astype(np.float64) - self.centre) / self.scale
        return np.ascontiguousarray((values[..., 0] + 1j * values[..., 1]).T)


#: Numbers by name: type, and what the codes of silence and full scale are. An unsigned code of n bits stands for the
#: middle of its step, so that codes c and 2^n - 1 - c are opposite values.
_NUMBERS = {
    "u8": ("u1", 127.5, 127.5),
    "i8": ("i1", 0.0, 128.0),
    "u16": ("u2", 32767.5, 32767.5),
    "i16": ("i2", 0.0, 32768.0),
    "u32": ("u4", 2147483647.5, 2147483647.5),
    "i32": ("i4", 0.0, 2147483648.0),
    "f32": ("f4", 0.0, 1.0),
    "f64": ("f8", 0.0, 1.0),
}

#: Complex formats by their SigMF names, and by the suffixes of raw files, which are little-endian.
FORMATS = {
    f"c{name}{end}": Format(order + kind, centre, scale)
    for name, (kind, centre, scale) in _NUMBERS.items()
    for end, order in (("", "<"), ("_le", "<"), ("_be", ">"))
    if not end or not kind.endswith("1")
}
FORMATS |= {name.replace("ci", "cs"): FORMATS[name] for name in ("ci8", "ci16", "ci32")}

# What scipy raises for a WAV file whose header lies.
_BROKEN = (ValueError, EOFError, struct.error, ArithmeticError, TypeError, LookupError, NameError, MemoryError)

#: Suffixes of files that hold no samples: a folder may hold them beside its recordings.
_TEXTS = {".md", ".txt", ".csv", ".json", ".yaml", ".yml", ".pdf", ".html", ".png", ".jpg", ".py", ".rst", ".cff"}


def is_text(path: Path) -> bool:
    """Whether a file of a set is taken for a text beside its recordings: by its suffix, or a name such as LICENSE."""
    name = path.name
    return path.suffix.lower() in _TEXTS or name.startswith(".") or (not path.suffix and name.isupper())


def finite(values: NDArray[Any], source: str | Path) -> NDArray[Any]:
    """The same values; InputError for NaN or infinity."""
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InputError(f"{source}: NaN or infinity, expected finite samples")
    return values


def read_wav(data: bytes, channels: int, source: str | Path) -> tuple[Format, NDArray[Any], float]:
    """Format, stored numbers ``[samples, channels, 2]`` and sample rate [Hz] of a WAV file of I and Q in turn.

    Raises:
        InputError: no complete WAV file, or not two tracks per channel.
    """
    from scipy.io import wavfile

    with warnings.catch_warnings():
        # Receivers add chunks of their own, which do no harm; a file that ends too early does.
        warnings.simplefilter("ignore", wavfile.WavFileWarning)
        warnings.filterwarnings("error", "Reached EOF prematurely", wavfile.WavFileWarning)
        try:
            rate, tracks = wavfile.read(io.BytesIO(data))
        except (*_BROKEN, wavfile.WavFileWarning) as error:
            raise InputError(f"{source}: expected a complete WAV file ({error})") from None
    tracks = tracks.reshape(len(tracks), -1)
    kinds = {np.dtype(found.kind): found for found in FORMATS.values()}
    if not len(tracks) or tracks.shape[1] != 2 * channels or tracks.dtype not in kinds:
        found = f"{tracks.shape[1]} tracks of {tracks.dtype}"
        raise InputError(f"{source}: {found}, expected {2 * channels} (I and Q for each of {channels} channels)")
    return kinds[tracks.dtype], finite(tracks.reshape(len(tracks), channels, 2), source), float(rate)
