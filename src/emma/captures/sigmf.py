"""SigMF recordings (https://sigmf.org): every annotation with a label is a scene, of one or more channels."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from common.errors import InputError
from common.files import read_json
from common.hashing import sha256
from emma.captures.adapters import RealCaptureAdapter, Scenes, unit_power, windows

#: Sample formats that are read; the value is the bytes of one complex sample of one channel.
DATATYPES = {"cu8": 2, "ci8": 2, "ci16_le": 4, "ci16_be": 4, "cf32_le": 8, "cf32_be": 8}


class SigmfAdapter(RealCaptureAdapter):
    """A folder of SigMF recordings, each checked against its ``core:sha512`` and its own metadata.

    An annotation's ``core:label`` is the class, or the azimuth in degrees; an annotation may be longer than a scene,
    and gives ``windows`` scenes. A recording is one session unless its global ``emma:session`` says another.
    """

    name = "sigmf"
    converts: ClassVar = {
        "samples": "cu8, ci8, ci16 and cf32 to complex float, full scale 1; then unit mean power per scene",
        "rate": "polyphase resampling to the declared rate",
        "antennas": "SigMF channels, in their order",
        "labels": "core:label of annotations",
    }
    cannot_give: ClassVar = ("absolute power", "signal-to-noise ratio (snr_db is 0, snr_regime unknown)")
    #: which metadata files of the folder are recordings
    pattern: ClassVar[str] = "**/*.sigmf-meta"

    def scenes(self) -> Iterator[Scenes]:
        """One chunk of scenes per recording."""
        metas = sorted(self.root.glob(self.pattern))
        if not metas:
            raise InputError(f"{self.root}: expected recordings {self.pattern}, found none")
        datas = {path.with_suffix("") for path in self.root.glob("**/*.sigmf-data")}
        if alone := sorted(datas - {path.with_suffix("") for path in metas}):
            raise InputError(f"{alone[0]}.sigmf-data: expected its metadata beside it, found none")
        for meta in metas:
            yield self._recording(meta)

    def label(self, meta: Path, annotation: dict[str, Any]) -> str | None:
        """The set's own name of what an annotation marks."""
        del meta
        return annotation.get("core:label")

    def session(self, meta: Path, metadata: dict[str, Any]) -> str:
        """What a recording belongs to; recordings of one session are drawn together."""
        return str(metadata["global"].get("emma:session", meta.relative_to(self.root).with_suffix("").as_posix()))

    def _recording(self, meta: Path) -> Scenes:
        recording, metadata = self._open(meta)
        head, shape = metadata["global"], self.scene
        rate = float(head["core:sample_rate"])
        iq, labels, carriers = [], [], []
        for annotation in metadata["annotations"]:
            label = self.label(meta, annotation)
            if label is None:
                raise InputError(f"{meta}: annotations: no core:label, expected one in every annotation")
            start = annotation["core:sample_start"]
            count = annotation.get("core:sample_count", recording.sample_count - start)
            if start < 0 or count < 1 or start + count > recording.sample_count:
                raise InputError(
                    f"{meta}: annotations: samples {start} to {start + count}, expected within the recording's "
                    f"{recording.sample_count}"
                )
            samples = np.atleast_2d(np.asarray(recording.read_samples(start, count)).T)
            if not np.isfinite(samples).all():
                raise InputError(f"{meta.with_suffix('.sigmf-data')}: NaN or infinity, expected finite samples")
            cut = windows(samples, shape, rate, meta)
            iq.append(cut)
            labels += [self._value(meta, label)] * len(cut)
            carriers += [self._carrier(metadata, start)] * len(cut)
        session = self.session(meta, metadata)
        device = str(head["core:hw"]) if "core:hw" in head else None
        kind, expected = head.get("emma:kind", "real"), "surrogate" if self.entry.path is None else "real"
        if kind != expected:
            raise InputError(f"{meta}: emma:kind: {kind}, expected {expected}: a surrogate is never called real")
        detail = {"recording": meta.stem, "kind": kind}
        n = len(labels)
        return Scenes(unit_power(np.concatenate(iq)), labels, [session] * n, carriers, [device] * n, (), [detail] * n)

    def _value(self, meta: Path, label: str) -> float | str:
        if not self.labels_are_angles:
            return label
        try:
            return float(label)
        except ValueError:
            raise InputError(f"{meta}: annotations: core:label {label!r}, expected degrees") from None

    @staticmethod
    def _carrier(metadata: dict[str, Any], start: int) -> float:
        before = [c for c in metadata["captures"] if c["core:sample_start"] <= start]
        return float(before[-1].get("core:frequency", 0.0)) if before else 0.0

    def _open(self, meta: Path) -> tuple[Any, dict[str, Any]]:
        """The recording by the sigmf package, after what it does not check has been checked."""
        from sigmf import SigMFFile
        from sigmf.error import SigMFError

        relative = self.inside(meta.relative_to(self.root).as_posix()).relative_to(self.root).as_posix()
        metadata = read_json(meta)
        head = metadata.get("global") if isinstance(metadata, dict) else None
        if not isinstance(head, dict):
            raise InputError(f"{meta}: global: expected the SigMF global object")
        datatype, rate = head.get("core:datatype"), head.get("core:sample_rate")
        if datatype not in DATATYPES:
            raise InputError(f"{meta}: core:datatype: {datatype}, expected one of {', '.join(DATATYPES)}")
        if not isinstance(rate, int | float) or not rate > 0:
            raise InputError(f"{meta}: core:sample_rate: {rate}, expected a rate in hertz")
        if not metadata.get("annotations"):
            raise InputError(f"{meta}: annotations: expected at least one, with a label")
        data = meta.with_suffix(".sigmf-data")
        if not data.is_file():
            raise InputError(f"{data}: no such file, although its metadata is there")
        width = DATATYPES[datatype] * int(head.get("core:num_channels", 1))
        if data.stat().st_size == 0 or data.stat().st_size % width:
            raise InputError(f"{data}: {data.stat().st_size} bytes, expected whole samples of {width} bytes each")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                # The package compares core:sha512 where the metadata states it.
                recording = SigMFFile(metadata=metadata, data_file=data)
                recording.validate()
            except (SigMFError, Warning, KeyError, TypeError, ValueError) as error:
                raise InputError(f"{meta}: expected a valid SigMF recording ({error})") from None
            except Exception as error:
                if type(error).__module__.partition(".")[0] != "jsonschema":
                    raise
                raise InputError(f"{meta}: expected SigMF metadata ({getattr(error, 'message', error)})") from None
        for path in (relative, data.relative_to(self.root).as_posix()):
            self._read[path] = sha256((self.root / path).read_bytes())
        return recording, metadata
