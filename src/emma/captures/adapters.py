"""What turns a capture set into canonical scenes of the split EMMA-REAL-OOD, with a record of what was converted.

Canonical: complex64 ``[antennas, samples]`` of unit mean power, azimuth in degrees counter-clockwise from the array's
+x axis (the direction that the wave comes from), a wave from +x reaching the element at +x with leading phase.
"""

from __future__ import annotations

import contextlib
import csv
import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.errors import InputError
from common.files import atomic, write_json
from common.hashing import canonical_json, content_hash, sha256
from emma.captures.antennas import Fitted, canonical, check_given, told
from emma.captures.records import Conversion, ConversionRecord
from emma.captures.settings import ADAPTER_CLASSES, CaptureEntry, SceneShape
from emma.data.labels import AZIMUTH, CLASS, DETAIL, labels_beside, read_labels
from emma.data.release import split_record
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, read_index, write_scenes

#: The split of every captured scene; no fold is ever fit on it.
REAL_SPLIT = "EMMA-REAL-OOD"


@dataclass(frozen=True)
class Scenes:
    """Converted scenes of one shape: ``iq`` complex64 ``[n, antennas, samples]`` and what is known of each.

    ``label`` holds degrees or a class of the task; ``session`` what is drawn as a whole; ``detail`` further facts.
    """

    iq: NDArray[np.complex64]
    label: Sequence[float | str]
    session: Sequence[str]
    center_frequency_hz: Sequence[float]
    device: Sequence[str | None] = ()
    snr_db: Sequence[float] = ()
    detail: Sequence[Mapping[str, Any]] = field(default=())


class RealCaptureAdapter(ABC):
    """One published layout of captures.

    Args:
        root: the set's folder; no file outside it is read.
        entry: the set's entry in the configuration.
        shape: the canonical scene; None where the set already holds scenes.

    Attributes:
        name: the adapter's name in the configuration.
        converts: what it converts, and how.
        cannot_give: what the set does not hold.
    """

    name: ClassVar[str]
    converts: ClassVar[Mapping[str, str]]
    cannot_give: ClassVar[tuple[str, ...]]

    def __init__(self, root: str | Path, entry: CaptureEntry, shape: SceneShape | None = None) -> None:
        self.root, self.entry, self.shape = Path(root), entry, shape
        if not self.root.is_dir():
            raise InputError(f"{root}: expected the folder of the capture set")
        self._read: dict[str, str] = {}

    @abstractmethod
    def scenes(self) -> Iterator[Scenes]:
        """The set's scenes; InputError for anything that is not what the layout promises."""

    def geometry(self) -> Sequence[Sequence[float]] | None:
        """Element positions ``[elements, 2]`` in wavelengths, where the set gives them."""
        return None

    def places_m(self) -> Sequence[Sequence[float]] | None:
        """Element positions ``[elements, 2]`` in metres, where the set gives them."""
        return None

    def convert(
        self,
        scene_path: str | Path,
        index_path: str | Path,
        record_path: str | Path,
        fitted: Fitted | None = None,
    ) -> ConversionRecord:
        """Write canonical scenes, their index, the labels beside it and the conversion record; all or none.

        Raises:
            InputError: the set is not what its layout promises, or not what its readout is fit on, ``fitted``.
        """
        paths = (scene_path, index_path, labels_beside(index_path), record_path)
        with contextlib.ExitStack() as stack:
            scenes, index, labels, record = (stack.enter_context(atomic(path)) for path in paths)
            array = None if self.shape is None else self.shape.array
            check_given(self.root, array, self.places_m())
            framed = (
                canonical(self.root, chunk, self._rate(), array, fitted, angles=self.labels_are_angles)
                for chunk in self.scenes()
            )
            chunks = (SceneChunk(chunk.iq, self._metadata(chunk), self._labels(chunk)) for chunk in framed)
            write_scenes(scenes, index, chunks, self._label, labels_path=labels)
            done = told(array, fitted, angles=self.labels_are_angles)
            content = self._record(index, labels, done)
            write_json(record, content.model_dump(mode="json"))
        return content

    @property
    def labels_are_angles(self) -> bool:
        """Whether labels are degrees; they are names of classes where the entry maps classes."""
        return not self.entry.mapping.classes

    @property
    def _label(self) -> pa.Field:
        """The column that carries the set's labels."""
        return AZIMUTH if self.labels_are_angles else CLASS

    def _labels(self, scenes: Scenes) -> dict[str, list[Any]]:
        """Label columns; ``detail`` where the set gives further facts."""
        values = [
            self._class(str(x)) if isinstance(x, str) or not self.labels_are_angles else x % 360.0 for x in scenes.label
        ]
        columns: dict[str, list[Any]] = {self._label.name: values}
        detail = [canonical_json(value).decode() for value in scenes.detail]
        return columns | ({DETAIL.name: detail} if detail else {})

    def _metadata(self, scenes: Scenes) -> dict[str, list[Any]]:
        n = len(scenes.iq)
        carriers = [float(value) for value in scenes.center_frequency_hz]
        known: dict[str, list[Any]] = {
            "task": [self.entry.task.value] * n,
            "split": [REAL_SPLIT] * n,
            "device": list(scenes.device) or [None] * n,
            "session": list(scenes.session),
            "frequency_band": [f"{value / 1e9:.4g}GHz" if value else "unknown" for value in carriers],
            "snr_regime": ["unknown"] * n,
            "snr_db": list(scenes.snr_db) or [0.0] * n,
            "sample_rate_hz": [self._rate()] * n,
            "center_frequency_hz": carriers,
        }
        return {name: known.get(name, [None] * n) for name in METADATA_SCHEMA.names}

    @property
    def scene(self) -> SceneShape:
        """The canonical scene; InputError where the set declares none."""
        if self.shape is None:
            raise InputError(f"{self.entry.name}: scene: expected samples and sample_rate_hz for adapter {self.name}")
        return self.shape

    def _rate(self) -> float:
        return self.scene.sample_rate_hz

    def _class(self, label: str) -> str:
        classes = self.entry.mapping.classes
        if label not in classes:
            raise InputError(
                f"{self.root}: label {label}: not in mapping.classes of {self.entry.name}, expected one of {[*classes]}"
            )
        return classes[label]

    def _record(self, index_path: Path, labels_path: Path, done: Mapping[str, str]) -> ConversionRecord:
        index, labels = read_index(index_path), read_labels(labels_path, self._label)
        positions = self.geometry()
        content = Conversion(
            adapter=self.name,
            set=self.entry.name,
            task=self.entry.task,
            split=REAL_SPLIT,
            scene=self.shape,
            mapping=self.entry.mapping,
            converts={**self.converts, **done},
            cannot_give=self.cannot_give,
            geometry_wavelengths=None if positions is None else tuple(map(tuple, positions)),
            files_sha256=dict(sorted(self._read.items())),
            sessions=len(set(index["session"].to_pylist())),
            **split_record(index, labels).model_dump(),
        )
        return ConversionRecord(**dict(content), record_sha256=content_hash(content.model_dump(mode="json")))

    def inside(self, relative: str) -> Path:
        """The path of a file of the set; InputError for one that lies outside its folder or is not there."""
        path = self.root / relative
        if Path(relative).is_absolute() or not path.resolve().is_relative_to(self.root.resolve()):
            raise InputError(f"{self.root}: {relative}: expected a path inside the set's folder")
        if not path.is_file():
            raise InputError(f"{path}: no such file, although it has a label")
        return path

    def read(self, relative: str) -> bytes:
        """The bytes of a file of the set, whose hash goes into the record."""
        try:
            data = self.inside(relative).read_bytes()
        except OSError as error:
            raise InputError(f"{self.root / relative}: cannot be read ({error.strerror})") from None
        self._read[relative] = sha256(data)
        return data

    def labels(self, *needed: str) -> list[dict[str, str]]:
        """Rows of ``labels.csv``; InputError where it lacks one of the ``needed`` columns, or names a path twice."""
        text = self.read("labels.csv")
        try:
            rows = list(csv.DictReader(text.decode("utf-8").splitlines(), strict=True))
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{self.root / 'labels.csv'}: expected CSV ({error})") from None
        if not rows:
            raise InputError(f"{self.root / 'labels.csv'}: expected at least one row")
        for name in ("path", "session", *needed):
            if any(row.get(name) is None for row in rows):
                raise InputError(f"{self.root / 'labels.csv'}: {name}: expected this column in every row")
        seen: set[str] = set()
        for row in rows:
            if row["path"] in seen:
                raise InputError(f"{self.root / 'labels.csv'}: {row['path']} occurs twice, expected one label per path")
            seen.add(row["path"])
        return rows

    def labelled_recordings(self) -> tuple[str, list[dict[str, str]]]:
        """The label's column and the rows of ``labels.csv``; InputError unless rows and files of ``data`` match."""
        column = self.entry.mapping.column or "label"
        rows = self.labels(column, "sample_rate_hz", "center_freq_hz")
        self._rate()
        for row in rows:
            self.inside(row["path"])
        self.all_labelled([row["path"] for row in rows], "data/*")
        return column, rows

    def all_labelled(self, labelled: Sequence[str], pattern: str) -> None:
        """InputError where a file that ``pattern`` matches has no label."""
        found = {path.relative_to(self.root).as_posix() for path in self.root.glob(pattern) if path.is_file()}
        if missing := sorted(found - set(labelled)):
            raise InputError(f"{self.root / missing[0]}: expected a label in labels.csv, found none")

    def number(self, row: Mapping[str, str], name: str, *, default: float | None = None) -> float:
        """A number of a row of ``labels.csv``; ``default`` where the field is empty."""
        try:
            value = default if not row[name] and default is not None else float(row[name])
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise InputError(f"{self.root / 'labels.csv'}: {row['path']}: {name}: {row[name]!r}, expected a number")
        return value


def adapter(root: str | Path, entry: CaptureEntry, shape: SceneShape | None = None) -> RealCaptureAdapter:
    """The adapter that an entry names, at work on the set in ``root``."""
    module, _, name = ADAPTER_CLASSES[entry.adapter].partition(":")
    kind: type[RealCaptureAdapter] = getattr(importlib.import_module(module), name)
    return kind(root, entry, shape)


def unit_power(iq: NDArray[Any]) -> NDArray[np.complex64]:
    """Scenes ``[n, antennas, samples]`` at mean power 1, complex64; a silent scene stays zero."""
    power = np.mean(np.abs(iq) ** 2, axis=(1, 2), keepdims=True)
    return (iq / np.sqrt(np.where(power > 0, power, 1.0))).astype(np.complex64)


def resample(iq: NDArray[Any], rate_hz: float, target_hz: float) -> NDArray[Any]:
    """Change the sample rate of ``[..., samples]`` by scipy's polyphase filter (``scipy.signal.resample_poly``)."""
    if rate_hz == target_hz:
        return iq
    from scipy.signal import resample_poly

    ratio = Fraction(target_hz / rate_hz).limit_denominator(10_000)
    resampled: NDArray[Any] = resample_poly(iq, ratio.numerator, ratio.denominator, axis=-1)
    return resampled


def windows(iq: NDArray[Any], shape: SceneShape, rate_hz: float, source: str | Path) -> NDArray[Any]:
    """Cut a recording ``[antennas, samples]`` into scenes ``[windows, antennas, shape.samples]`` at the wanted rate.

    Windows are spread evenly from ``shape.start`` to the end; each is resampled with a margin of its own length on
    either side where the recording has it.

    Raises:
        InputError: the recording is too short for one window.
    """
    need = math.ceil(shape.samples * rate_hz / shape.sample_rate_hz)
    room = iq.shape[-1] - shape.start - need
    if room < 0:
        raise InputError(f"{source}: {iq.shape[-1]} samples, expected at least {shape.start + need}")
    cut = []
    for start in shape.start + np.linspace(0, room, shape.windows).astype(int):
        margin = min(start, need) if rate_hz != shape.sample_rate_hz else 0
        # The margin is a whole number of output samples, so that the window starts where it is said to.
        skip = int(margin * shape.sample_rate_hz / rate_hz)
        first = start - round(skip * rate_hz / shape.sample_rate_hz)
        made = resample(iq[:, first : start + 2 * need], rate_hz, shape.sample_rate_hz)
        cut.append(made[:, skip : skip + shape.samples])
    return np.stack(cut)
