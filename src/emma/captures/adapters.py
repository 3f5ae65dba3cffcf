"""What turns a capture set into canonical scenes of the split EMMA-REAL-OOD, with a record of what was converted.

Canonical: complex64 ``[antennas, samples]`` of unit mean power, azimuth in degrees counter-clockwise from the array's
+x axis (the direction that the wave comes from), a wave from +x reaching the element at +x with leading phase.
"""

from __future__ import annotations

import contextlib
import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.doors import read_bytes, require_regular
from common.errors import InputError, advice
from common.files import atomic, write_json
from common.hashing import canonical_json, content_hash, sha256
from emma.captures.antennas import Fitted, bearing, canonical, check_given, on_circle, told
from emma.captures.cutting import Recording, require_complex, unit_power, windows
from emma.captures.records import Conversion, ConversionRecord
from emma.captures.settings import ADAPTER_CLASSES, Adapter, CaptureEntry, SceneShape
from emma.captures.tables import LARGEST_TABLE, Row, number, parse_table
from emma.data.labels import AZIMUTH, CLASS, DETAIL, labels_beside, read_labels, target_field
from emma.data.reference import REFERENCE_START, Reference
from emma.data.release import split_record
from emma.data.samples import convert, iq_hashes
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, read_index, write_scenes
from emma.tasks import TARGETS

#: The split of every captured scene; no fold is ever fit on it.
REAL_SPLIT = "EMMA-REAL-OOD"

#: Largest file of a set, bytes.
LARGEST_RECORDING = 2**32


@dataclass(frozen=True)
class Scenes:
    """Converted scenes of one shape: ``iq`` complex64 ``[n, antennas, samples]`` and what is known of each.

    ``name`` says where a scene comes from, in messages. ``label`` is the set's own: degrees, one of its classes, or
    what the adapter's ``target`` encodes;
    ``session`` is what is drawn as a whole; ``center_frequency_hz`` 0 where nobody states it; ``detail`` further facts.
    With a ``reference`` symbol, one for the whole set, ``reference_start`` says at which sample each scene has it.
    """

    iq: NDArray[np.complex64]
    name: Sequence[str]
    label: Sequence[Any]
    session: Sequence[str]
    center_frequency_hz: Sequence[float]
    device: Sequence[str | None] = ()
    snr_db: Sequence[float] = ()
    detail: Sequence[Mapping[str, Any]] = field(default=())
    reference: Reference | None = None
    reference_start: Sequence[int] = ()


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
        needs: what the set's folder has to hold, in a line.
        keys: of the scene in the configuration, those that it heeds; another one is refused, not left out.
        target: the kind of label that the layout itself holds; None where labels are degrees or classes, as the entry
            says.
    """

    name: ClassVar[str]
    target: ClassVar[str | None] = None
    needs: ClassVar[str]
    keys: ClassVar[frozenset[str]] = frozenset({"samples", "sample_rate_hz", "array"})
    converts: ClassVar[Mapping[str, str]]
    cannot_give: ClassVar[tuple[str, ...]]

    def __init__(self, root: str | Path, entry: CaptureEntry, shape: SceneShape | None = None) -> None:
        self.root, self.entry, self.shape = Path(root), entry, shape
        if not self.root.is_dir():
            raise InputError(f"{root}: expected the folder of the capture set")
        stated = set(shape.model_dump(exclude_defaults=True)) if shape else set()
        if unheeded := sorted(stated - self.keys):
            raise InputError(f"{entry.name}: scene.{unheeded[0]}: adapter {self.name} does not heed it, expected none")
        self._read: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._notes: dict[str, list[str]] = {}

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
            InputError: the set is not what its layout promises, or not what its readout is fit on, ``fitted``; two
                of its scenes are the same samples.
        """
        self._read, self._names, self._notes = {}, {}, {}
        paths = (scene_path, index_path, labels_beside(index_path), record_path)
        with contextlib.ExitStack() as stack:
            scenes, index, labels, record = (stack.enter_context(atomic(path)) for path in paths)
            array = None if self.shape is None else self.shape.array
            check_given(self.root, array, self.places_m())
            framed = (
                canonical(self.root, self._numbered(chunk), self._rate(), array, fitted, angles=self.labels_are_angles)
                for chunk in self.scenes()
            )
            chunks = map(self._chunk, framed)
            write_scenes(scenes, index, chunks, self._label, labels_path=labels)
            done = told(array, fitted, angles=self.labels_are_angles)
            content = self._record(index, labels, done)
            write_json(record, content.model_dump(mode="json"))
        return content

    @property
    def labels_are_angles(self) -> bool:
        """Whether labels are degrees; they are names of classes where the entry maps classes."""
        return self.target is None and not self.entry.mapping.classes

    @property
    def _label(self) -> pa.Field:
        """The column that carries the set's labels."""
        if self.target is not None:
            return target_field(TARGETS[self.target])
        return AZIMUTH if self.labels_are_angles else CLASS

    def _numbered(self, scenes: Scenes) -> Scenes:
        """The same scenes with angles as numbers; InputError for one that is none."""
        if not self.labels_are_angles:
            return scenes
        named = zip(scenes.label, scenes.name, strict=True)
        return replace(scenes, label=[bearing(label, f"{self.root}: {name}") for label, name in named])

    def _chunk(self, scenes: Scenes) -> SceneChunk:
        """Scenes as they are written; InputError where samples occur twice in the set."""
        for name, iq_sha256 in zip(scenes.name, iq_hashes(convert(scenes.iq)), strict=True):
            if iq_sha256 in self._names:
                raise InputError(
                    f"{self.root}: {name}: the same samples as {self._names[iq_sha256]}, expected every scene once (a "
                    f"copied file can be named under leave_out of real_captures.{self.entry.name})"
                )
            self._names[iq_sha256] = name
        return SceneChunk(scenes.iq, self._metadata(scenes), self._labels(scenes), scenes.reference)

    def _labels(self, scenes: Scenes) -> dict[str, list[Any]]:
        """Label columns; ``detail`` where the set gives further facts."""
        if self.labels_are_angles:
            values: list[Any] = [on_circle(float(label)) for label in scenes.label]
        elif self.target is not None:
            values = list(scenes.label)
        else:
            values = [self._class(*item) for item in zip(scenes.label, scenes.name, strict=True)]
        columns = {self._label.name: values}
        detail = [canonical_json(value).decode() for value in scenes.detail]
        return columns | ({DETAIL.name: detail} if detail else {})

    def _metadata(self, scenes: Scenes) -> dict[str, list[Any]]:
        n = len(scenes.iq)
        if empty := [name for name, text in zip(scenes.name, scenes.session, strict=True) if not text.strip()]:
            raise InputError(f"{self.root}: {empty[0]}: session: empty, expected what is drawn as a whole")
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
        columns = {name: known.get(name, [None] * n) for name in METADATA_SCHEMA.names}
        return columns | ({REFERENCE_START.name: list(scenes.reference_start)} if scenes.reference else {})

    @property
    def scene(self) -> SceneShape:
        """The canonical scene; InputError where the set declares none."""
        if self.shape is None:
            raise InputError(f"{self.entry.name}: scene: expected samples and sample_rate_hz for adapter {self.name}")
        return self.shape

    def _rate(self) -> float:
        return self.scene.sample_rate_hz

    def _class(self, label: float | str, name: str) -> str:
        classes = self.entry.mapping.classes
        if str(label) not in classes:
            raise InputError(
                f"{self.root}: {name}: label {label}: not in mapping.classes of {self.entry.name}, "
                f"{advice(str(label), classes)}"
            )
        return classes[str(label)]

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
            disjoint=self.disjoint(index.num_rows),
            caveats=tuple(self.caveats()),
            **split_record(index, labels).model_dump(),
        )
        return ConversionRecord(**dict(content), record_sha256=content_hash(content.model_dump(mode="json")))

    def inside(self, relative: str) -> Path:
        """The path of a file of the set; InputError for one that lies outside its folder or is not there."""
        path = self.root / relative
        # Of a path that no file can have, what is wrong is said below.
        outside = Path(relative).is_absolute()
        with contextlib.suppress(OSError, ValueError):
            outside |= not path.resolve().is_relative_to(self.root.resolve())
        if outside:
            raise InputError(f"{self.root}: {relative}: expected a path inside the set's folder")
        try:
            require_regular(path)
        except InputError as error:
            raise InputError(f"{error}, although it has a label") from None
        return path

    def read(self, relative: str, most: int = LARGEST_RECORDING) -> bytes:
        """The bytes of a file of the set, at most so many, whose hash goes into the record."""
        data = read_bytes(self.inside(relative), most)
        self._read[relative] = sha256(data)
        return data

    def labels(self, *needed: str) -> list[Row]:
        """Rows of ``labels.csv`` (``emma.captures.tables``); InputError where it lacks a ``needed`` column."""
        path = self.root / "labels.csv"
        if not path.is_file():
            raise InputError(f"{path}: no such file, expected {self.needs}")
        return parse_table(self.read(path.name, LARGEST_TABLE), path, *needed)

    def number(self, row: Row, name: str, *, default: float | None = None) -> float:
        """A number of a row of ``labels.csv``; ``default`` where the field is empty."""
        return number(row, name, self.root / "labels.csv", default=default)

    def note(self, sentence: str, name: str) -> None:
        """A caveat of the conversion, and a recording that it holds for."""
        names = self._notes.setdefault(sentence, [])
        if name not in names:
            names.append(name)

    def caveats(self) -> list[str]:
        """Sentences that the conversion adds to the set's own, each with the recordings that it holds for."""
        return [
            f"{sentence} ({len(names)}: {', '.join(names[:3])}{', ...' if len(names) > 3 else ''})."
            for sentence, names in sorted(self._notes.items())
        ]

    def disjoint(self, scenes: int) -> int:
        """Scenes, of which those that may share samples count as one."""
        return scenes


class RecordingsAdapter(RealCaptureAdapter):
    """A set of recordings, which are cut into scenes; a subclass says which there are and reads them."""

    keys = RealCaptureAdapter.keys | {"start", "windows", "overlap", "upsample", "trailer_samples"}

    @abstractmethod
    def names(self) -> list[str]:
        """The set's recordings in their order, by name; InputError where there is none."""

    @abstractmethod
    def astray(self) -> Iterator[str]:
        """Files and labels that do not match, each said in a line; after ``names``."""

    @abstractmethod
    def recording(self, name: str) -> Recording:
        """One recording; InputError for one that is not what its layout promises."""

    def scenes(self) -> Iterator[Scenes]:
        """One chunk of scenes per recording."""
        self._rate()
        first: tuple[str, int] | None = None
        for recording in self.recordings():
            channels = recording.pairs.shape[1]
            name, expected = first = first or (recording.name, channels)
            if channels != expected:
                raise InputError(
                    f"{self.root}: {recording.name}: {channels} channels, expected {expected} as in {name}"
                )
            yield self._cut(recording)

    def recordings(self) -> Iterator[Recording]:
        """The recordings that are read, in their order."""
        return map(self.recording, self.chosen())

    def chosen(self) -> list[str]:
        """Names of the recordings that are read; InputError where ``leave_out`` names one that is not there."""
        names, left = self.names(), self.entry.leave_out
        if fault := next(self.astray(), None):
            raise InputError(fault)
        if unknown := sorted(set(left) - set(names)):
            raise InputError(f"real_captures.{self.entry.name}: leave_out: {unknown[0]} is no recording of {self.root}")
        for name in left:
            self.note("Recordings left out, as declared", name)
        return [name for name in names if name not in left]

    def disjoint(self, scenes: int) -> int:
        """One per recording or annotation where windows may overlap."""
        return scenes // self.scene.windows if self.scene.overlap else scenes

    def _cut(self, recording: Recording) -> Scenes:
        require_complex(recording)
        found, shape = recording, self.scene
        cut = [(span, i, *made) for span in found.spans for i, made in enumerate(windows(found, span, shape))]
        if shape.sample_rate_hz > found.rate_hz:
            self.note(f"Rates below the scenes' {shape.sample_rate_hz:.12g} Hz: their band is partly empty", found.name)
        if not all(span.carrier_hz for span in found.spans):
            self.note("Carriers unknown, written as 0 Hz in band unknown", found.name)
        if shape.overlap and shape.windows > 1:
            self.note("Windows that may share samples: those of one recording or annotation count as one", found.name)
        spans, numbers, names, iq = zip(*cut, strict=True)
        n = len(cut)
        return Scenes(
            unit_power(np.stack(iq), names),
            names,
            label=[span.label for span in spans],
            session=[found.session] * n,
            center_frequency_hz=[span.carrier_hz or 0.0 for span in spans],
            device=[found.device] * n,
            snr_db=[found.snr_db] * n,
            detail=[{**found.detail, "window": i} for i in numbers],
        )


def adapter(root: str | Path, entry: CaptureEntry, shape: SceneShape | None = None) -> RealCaptureAdapter:
    """The adapter that an entry names, at work on the set in ``root``."""
    return adapter_class(entry.adapter)(root, entry, shape)


def adapter_class(name: Adapter) -> type[RealCaptureAdapter]:
    """The adapter of a name."""
    module, _, kind = ADAPTER_CLASSES[name].partition(":")
    found: type[RealCaptureAdapter] = getattr(importlib.import_module(module), kind)
    return found
