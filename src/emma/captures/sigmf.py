"""SigMF recordings (https://sigmf.org): every annotation with a label is a scene, of one or more channels.

Keys are those of the SigMF specification, 1.2. The sigmf package validates metadata; samples are read here, since it
leaves `core:offset` and the headers of later captures to its user, and centres unsigned bytes at 128.
"""

from __future__ import annotations

import contextlib
import copy
import hashlib
import itertools
import lzma
import math
import posixpath
import tarfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from common.doors import bounded_memory, files_below, read_bytes
from common.errors import InputError, advice
from common.files import parse_json
from emma.captures.adapters import LARGEST_RECORDING, RecordingsAdapter
from emma.captures.cutting import Recording, check_rate
from emma.captures.formats import FORMATS, is_text
from emma.captures.segments import segments, spans

#: Complex sample formats by the specification's names.
DATATYPES = {name: kind for name, kind in FORMATS.items() if name in {"cu8", "ci8"} or name.endswith(("_le", "_be"))}
#: What may stand in a `core:` key where the schema, which takes 2000.0 for an integer, would let a fraction pass.
_WHOLE = {
    "global": ("core:num_channels", "core:offset", "core:trailing_bytes"),
    "captures": ("core:sample_start", "core:header_bytes", "core:global_index"),
    "annotations": ("core:sample_start", "core:sample_count"),
}
_META, _DATA, _COLLECTION = ".sigmf-meta", ".sigmf-data", ".sigmf-collection"
_ARCHIVES = (".sigmf", ".sigmf.gz", ".sigmf.xz")
#: Largest metadata, bytes, and most captures and annotations of a recording, and channels.
_LARGEST_META, _MOST_OBJECTS, _MOST_CHANNELS = 2**24, 10_000, 4096
#: Most files of an archive, and bytes that a compressed one unpacks to: what it takes is not what it is.
_MOST_MEMBERS, _LARGEST_UNPACKED = 20_000, 2**29


@dataclass(frozen=True)
class _Pair:
    """A recording as it lies: its metadata's name ``meta`` in the folder, or in the archive ``place``."""

    name: str
    place: Path
    meta: str
    packed: bool = False


class SigmfAdapter(RecordingsAdapter):
    """A folder of SigMF recordings or archives, each checked against its ``core:sha512`` and its own metadata.

    An annotation's ``core:label`` is the class, or the azimuth in degrees; an annotation may be longer than a scene,
    and gives ``windows`` scenes. A recording is one session unless its global ``emma:session`` says another.
    """

    name = "sigmf"
    converts: ClassVar = {
        "samples": f"{', '.join(DATATYPES)} to complex, full scale 1; unit mean power per scene",
        "rate": "polyphase resampling to the declared rate",
        "antennas": "SigMF channels, in their order",
        "labels": "core:label of annotations",
    }
    cannot_give: ClassVar = ("absolute power", "signal-to-noise ratio (snr_db is 0, snr_regime unknown)")
    needs: ClassVar = "SigMF recordings (*.sigmf-meta with its data, or *.sigmf), every annotation with a core:label"
    #: folders in which recordings lie, as a pattern
    folder: ClassVar[str] = "**"

    def names(self) -> list[str]:
        """Metadata files and recordings in archives, by their path without suffix."""
        self._pairs = {pair.name: pair for pair in sorted(self._found(), key=lambda pair: pair.name)}
        if not self._pairs:
            others = sorted({path.suffix for path in self._files() if not is_text(path)})
            found = f"files {', '.join(others)} (adapter labelled_iq reads raw files)" if others else "none"
            raise InputError(f"{self.root}: expected recordings {self.folder}/*{_META}, found {found}")
        return [*self._pairs]

    def label(self, meta: Path, annotation: dict[str, Any]) -> str | None:
        """The set's own name of what an annotation marks."""
        del meta
        label: str | None = annotation.get("core:label")
        return label

    def session(self, meta: Path, metadata: dict[str, Any]) -> str | None:
        """What a recording belongs to; recordings of one session are drawn together. None for a session of its own."""
        del meta
        session: str | None = metadata["global"].get("emma:session")
        return session

    def recording(self, name: str) -> Recording:
        """One recording, its annotations as spans."""
        pair = self._pairs[name]
        where = f"{pair.place}: {pair.meta}" if pair.packed else str(pair.place)
        metadata = self._described(pair, where)
        head = metadata["global"]
        data = self._bytes(pair, _dataset_of(pair.meta, head))
        kind, channels = DATATYPES[head["core:datatype"]], head.get("core:num_channels", 1)
        parts, payload = segments(metadata, data, kind.width * channels, where)
        if "core:sha512" in head and hashlib.sha512(data).hexdigest() != head["core:sha512"].lower():
            raise InputError(f"{where}: core:sha512: not the hash of the data beside it, expected what was described")
        labels = [self.label(pair.place, annotation) for annotation in metadata["annotations"]]
        if not all(isinstance(label, str) and label.strip() for label in labels):
            raise InputError(f"{where}: annotations: no core:label, expected one in every annotation")
        labelled = spans(metadata, parts, [str(label) for label in labels], where)
        if any(one.stop > other.start for one, other in itertools.pairwise(labelled)):
            self.note("Annotations in bands apart hold the same samples: each scene holds the whole band", name)
        session = self.session(pair.place, metadata)
        if not isinstance(session, str | None):
            raise InputError(f"{where}: emma:session: {session!r}, expected text")
        origin, expected = head.get("emma:kind", "real"), "surrogate" if self.entry.path is None else "real"
        if origin != expected:
            raise InputError(f"{where}: emma:kind: {origin}, expected {expected}: a surrogate is never called real")
        return Recording(
            name,
            kind.pairs(payload, channels, where),
            kind,
            float(head["core:sample_rate"]),
            labelled,
            name if session is None else session,
            str(head["core:hw"]) if "core:hw" in head else None,
            detail={"recording": name.rpartition("/")[2], "kind": origin},
        )

    def astray(self) -> Iterator[str]:
        """Recordings outside the layout's folders, and files of samples that no metadata names."""
        files = [path for path in self._files() if not is_text(path)]
        wanted = set(self.root.glob(f"{self.folder}/*"))
        named = {self.root / self._dataset_name(path) for path in files if path.name.endswith(_META)}
        for path in files:
            if path.name.endswith((_META, *_ARCHIVES)):
                if path not in wanted:
                    yield f"{path}: expected recordings of adapter {self.name} in folders {self.folder}"
            elif path.name.endswith(_COLLECTION):
                self.note("Collections are not read: each recording is one of its own", self._name(path))
            elif path not in named:
                expected = "its metadata beside it" if path.name.endswith(_DATA) else "SigMF recordings alone"
                yield f"{path}: expected {expected}, found none: its samples would be left out"

    def _found(self) -> Iterator[_Pair]:
        """Recordings and archives of the folder."""
        for path in self._files():
            if path.name.endswith(_META):
                yield _Pair(self._name(path).removesuffix(_META), path, self._name(path))
            elif path.name.endswith(_ARCHIVES):
                for member in self._members(path):
                    if member.endswith(_META):
                        yield _Pair(f"{self._name(path)}/{member.removesuffix(_META)}", path, member, packed=True)

    def _files(self) -> list[Path]:
        return files_below(self.root)

    def _dataset_name(self, meta: Path) -> str:
        """The dataset's file of a metadata file that may be broken, which is said where the recording is read."""
        try:
            head = parse_json(read_bytes(meta, _LARGEST_META), meta)["global"]
        except (InputError, OSError, KeyError, TypeError):
            head = {}
        return _dataset_of(self._name(meta), head if isinstance(head, dict) else {})

    def _name(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _members(self, archive: Path) -> list[str]:
        """Files of a tar archive by name; the archive's hash goes into the record."""
        self.read(self._name(archive))
        names: list[str] = []
        size = 0
        with self._open(archive) as tar:
            for member in tar:
                size += member.size
                if len(names) > _MOST_MEMBERS or size > self._unpacked(archive):
                    raise InputError(f"{archive}: more than {_MOST_MEMBERS} files or {self._unpacked(archive)} bytes")
                names.append(member.name if member.isfile() else "")
        return sorted(filter(None, names))

    def _unpacked(self, archive: Path) -> int:
        """Most bytes that an archive may hold."""
        return LARGEST_RECORDING if archive.suffix == _ARCHIVES[0] else _LARGEST_UNPACKED

    @contextlib.contextmanager
    def _open(self, archive: Path) -> Iterator[tarfile.TarFile]:
        try:
            with bounded_memory(archive, self._unpacked(archive) + 2**28), tarfile.open(archive) as tar:
                yield tar
        except InputError:
            raise
        except (tarfile.TarError, EOFError, OSError, ValueError, LookupError, zlib.error, lzma.LZMAError) as error:
            raise InputError(f"{archive}: expected a complete tar archive, plain, gz or xz ({error})") from None

    def _bytes(self, pair: _Pair, member: str, most: int = LARGEST_RECORDING) -> bytes:
        """A file of a recording, at most so many bytes, by its name in the archive or the folder."""
        if not pair.packed:
            if not (self.root / member).is_file():
                raise InputError(f"{self.root / member}: no such file, although its metadata is there")
            return self.read(member, most)
        with self._open(pair.place) as tar:
            try:
                file = tar.extractfile(member)
            except KeyError:
                file = None
            if file is None:
                raise InputError(f"{pair.place}: {member}: no such file, although its metadata is there")
            if tar.getmember(member).size > most:
                raise InputError(f"{pair.place}: {member}: expected at most {most} bytes")
            return file.read()

    def _described(self, pair: _Pair, where: str) -> dict[str, Any]:
        """Metadata after every check that needs no sample."""
        metadata = parse_json(self._bytes(pair, pair.meta, _LARGEST_META), where)
        head = metadata.get("global") if isinstance(metadata, dict) else None
        if not isinstance(head, dict):
            raise InputError(f"{where}: global: expected the SigMF global object")
        datatype, rate = str(head.get("core:datatype")), head.get("core:sample_rate")
        if datatype not in DATATYPES:
            real = "real-valued, " if datatype.startswith("r") else ""
            raise InputError(f"{where}: core:datatype: {datatype}, {real}{advice(datatype, DATATYPES)}")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            raise InputError(f"{where}: core:sample_rate: {str(rate)[:80]}, expected a rate in hertz")
        check_rate(rate, where)
        if head.get("core:metadata_only"):
            raise InputError(f"{where}: core:metadata_only: expected a recording, with its samples")
        if "/" in str(head.get("core:dataset", "")):
            raise InputError(f"{where}: core:dataset: {head['core:dataset']}, expected a file beside the metadata")
        _require_few(metadata, where)
        _require_whole(metadata, where)
        _validate(metadata, where)
        for extension in head.get("core:extensions", []):
            if extension.get("optional") is False:
                raise InputError(f"{where}: core:extensions: {extension['name']}: not optional, expected none such")
        if not metadata["annotations"]:
            raise InputError(f"{where}: annotations: expected at least one, with a label")
        return dict(metadata)


def _require_few(metadata: Mapping[str, Any], where: str) -> None:
    """InputError for more captures or annotations than are looked at one by one, or no number of channels."""
    for part in ("captures", "annotations"):
        if isinstance(objects := metadata.get(part), list) and len(objects) > _MOST_OBJECTS:
            raise InputError(f"{where}: {part}: {len(objects)}, expected at most {_MOST_OBJECTS}")
    channels = metadata["global"].get("core:num_channels", 1)
    if type(channels) is not int or not 0 < channels <= _MOST_CHANNELS:
        raise InputError(f"{where}: core:num_channels: {str(channels)[:80]}, expected 1 to {_MOST_CHANNELS}")


def _require_whole(metadata: Mapping[str, Any], where: str) -> None:
    """InputError for an index or count that is no whole number."""
    for part, keys in _WHOLE.items():
        objects = metadata.get(part)
        for item in objects if isinstance(objects, list) else [objects]:
            for key in keys:
                value = item.get(key, 0) if isinstance(item, dict) else 0
                if type(value) is not int or value < 0:
                    raise InputError(f"{where}: {part}: {key}: {value}, expected a whole number of 0 or more")


def _dataset_of(meta: str, head: Mapping[str, Any]) -> str:
    """The dataset's file beside a metadata file: ``core:dataset``, or the same name as the metadata's."""
    named = head.get("core:dataset")
    return meta.removesuffix(_META) + _DATA if named is None else posixpath.join(posixpath.dirname(meta), str(named))


def _validate(metadata: dict[str, Any], where: str) -> None:
    """InputError unless the sigmf package finds the metadata valid: schema, order, declared extensions."""
    from sigmf import SigMFFile
    from sigmf.error import SigMFError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            SigMFFile(metadata=copy.deepcopy(metadata)).validate()
        except (SigMFError, Warning, KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{where}: expected SigMF metadata ({error})") from None
        except Exception as error:
            if type(error).__module__.partition(".")[0] != "jsonschema":
                raise
            place = getattr(error, "json_path", "$").removeprefix("$.")
            raise InputError(f"{where}: {place}: {getattr(error, 'message', error)}, expected SigMF metadata") from None
