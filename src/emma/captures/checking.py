"""What a folder of captures holds, what is missing before it can be read, and which keys to write; no scene is made."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from common.doors import files_below
from common.errors import InputError
from common.hashing import sha256
from emma.captures.adapters import RealCaptureAdapter, RecordingsAdapter, adapter, adapter_class
from emma.captures.antennas import StatedArray, bearing
from emma.captures.cutting import Recording, require_complex, windows
from emma.captures.settings import ADAPTER_CLASSES, Adapter, CaptureEntry, Labels, SceneShape
from emma.tasks import TaskID

#: The adapter of a folder that holds such a file, the first that fits; of the others, labels.csv is what they share.
_SIGNS: tuple[tuple[str, Adapter], ...] = (
    ("**/*.sigmf-meta", "sigmf"),
    ("**/*.sigmf", "sigmf"),
    ("va16.npz", "csi_array"),
    ("csi64.npz", "csi_array"),
    ("uwb.npz", "cir"),
    ("**/*.npy", "sat_audio"),
    ("labels.csv", "labelled_iq"),
)
#: Different labels that are shown.
_SHOWN = 20


@dataclass
class Findings:
    """What was found, in lines: what is ``there``, ``faults`` to mend before a run, ``keys`` to write."""

    there: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All lines, faults last, so that they are seen."""
        keys = ["keys to write:", *(f"  {line}" for line in self.keys)] if self.keys else []
        return "\n".join([*self.there, *keys, *(f"fault: {line}" for line in self.faults)]) + "\n"


def check_captures(
    root: str | Path,
    name: Adapter | None = None,
    *,
    column: str | None = None,
    shape: SceneShape | None = None,
    task: TaskID = TaskID.E_ID_AMC,
) -> Findings:
    """Read every recording of a folder as an adapter would, and gather all that is wrong.

    Args:
        root: the set's folder.
        name: the adapter; None for the one whose files are there.
        column: the label's column in ``labels.csv``.
        shape: the scene; where given, windows are cut too, and channels are compared with its array.
        task: whose labels are expected; without classes, degrees.

    Raises:
        InputError: no such folder.
    """
    root = Path(root)
    if not root.is_dir():
        raise InputError(f"{root}: expected the folder of the capture set")
    files = files_below(root)
    name = name or next((kind for sign, kind in _SIGNS if any(root.glob(sign))), None)
    if name is None:
        suffixes = Counter(path.suffix or path.name for path in files)
        found = ", ".join(f"{count} {suffix}" for suffix, count in sorted(suffixes.items())) or "no file"
        missing = [f"adapter {one}: missing {adapter_class(one).needs}" for one in ADAPTER_CLASSES]
        return Findings([f"{root}: {found}"], missing)
    entry = CaptureEntry(name="set", adapter=name, path=str(root), task=task, mapping=Labels(column=column))
    made = adapter(root, entry, shape)
    findings = Findings([f"{root}: adapter {name}, which needs {made.needs}"])
    if isinstance(made, RecordingsAdapter):
        _recordings(made, findings, shape)
    else:
        _table(made, findings)
    return findings


def _recordings(made: RecordingsAdapter, findings: Findings, shape: SceneShape | None) -> None:
    """What the recordings hold, one by one."""
    try:
        names = made.names()
    except InputError as error:
        findings.faults.append(str(error))
        return
    findings.faults += made.astray()
    found: list[Recording] = []
    copies: dict[str, str] = {}
    for name in names:
        try:
            found.append(_whole(made.recording(name), copies, shape))
        except InputError as error:
            findings.faults += [] if str(error) in findings.faults else [str(error)]
    findings.there += map(_line, found)
    channels = sorted({recording.pairs.shape[1] for recording in found})
    if len(channels) > 1:
        findings.faults.append(f"{made.root}: recordings of {channels} channels, expected one number in a set")
    array = None if shape is None else shape.array
    if array is not None and channels and channels != [array.elements]:
        findings.faults.append(f"{made.root}: {channels[0]} channels, but scene.array has {array.elements} elements")
    wrong = _no_bearings(made, found)
    bearings = made.entry.task is TaskID.E_LOC_AOA or not wrong
    findings.faults += wrong.values() if bearings else []
    if found:
        _summary(made, found, findings, array, bearings=bearings)


def _whole(recording: Recording, copies: dict[str, str], shape: SceneShape | None) -> Recording:
    """The same recording, once its samples are new to ``copies`` (names by hash) and its windows can be cut."""
    content = np.ascontiguousarray(recording.pairs).view(np.uint8).reshape(-1).data
    first = copies.setdefault(sha256(content), recording.name)
    if first != recording.name:
        raise InputError(f"{recording.name}: the same samples as {first}, expected one of them under leave_out")
    require_complex(recording)
    if shape is not None:
        for span in recording.spans:
            deque(windows(recording, span, shape), maxlen=0)
    return recording


def _table(made: RealCaptureAdapter, findings: Findings) -> None:
    """What labels.csv says of a set whose samples lie in NPZ files."""
    try:
        rows = made.labels("session", "label")
    except InputError as error:
        findings.faults.append(str(error))
        return
    files = Counter(row["path"].partition("#")[0] for row in rows)
    for file, count in sorted(files.items()):
        findings.there.append(f"{file}: {count} rows of labels.csv")
        if not (made.root / file).is_file():
            findings.faults.append(f"{made.root / file}: no such file, although labels.csv names it")
    findings.there.append(_sessions({row["session"] for row in rows}))


def _line(recording: Recording) -> str:
    """A recording in a line."""
    marks = Counter(span.label for span in recording.spans)
    carriers = sorted({span.carrier_hz or 0.0 for span in recording.spans})
    return (
        f"{recording.name}: {np.dtype(recording.format.kind).name} pairs, channels: {recording.pairs.shape[1]}, "
        f"{recording.rate_hz:.12g} Hz, {len(recording.pairs)} samples, carrier "
        f"{', '.join(f'{carrier:.12g} Hz' if carrier else 'unknown' for carrier in carriers)}, session "
        f"{recording.session}, labels {_counts(marks)}"
    )


def _counts(marks: Counter[str]) -> str:
    shown = [f"{label} ({count})" for label, count in sorted(marks.items())[:_SHOWN]]
    return ", ".join([*shown, "..."] if len(marks) > _SHOWN else shown)


def _sessions(sessions: set[str]) -> str:
    one = "; an interval needs two or more" if len(sessions) == 1 else ""
    return f"{len(sessions)} sessions, which intervals draw as a whole{one}"


def _summary(
    made: RecordingsAdapter,
    found: list[Recording],
    findings: Findings,
    array: StatedArray | None,
    *,
    bearings: bool,
) -> None:
    marks = Counter(span.label for recording in found for span in recording.spans)
    findings.there += [
        f"{len(found)} recordings, {sum(marks.values())} labelled spans: {_counts(marks)}",
        _sessions({recording.session for recording in found}),
        *made.caveats(),
    ]
    rate = min(recording.rate_hz for recording in found)
    shortest = min((span.stop - span.start) / one.rate_hz for one in found for span in one.spans)
    samples = 2 ** int(math.log2(max(shortest * rate, 1.0)))
    classes = "" if bearings else f", mapping: {{classes: {{{', '.join(_class_keys(marks))}}}}}"
    findings.keys = [
        f"under real_captures: {{name: NAME, adapter: {made.name}, path: {made.root}, task: TASK{classes}}}",
        f"in config/captures/NAME.yaml: scene: {{samples: {samples}, sample_rate_hz: {rate:.12g}}}, and the keys of "
        "docs/captures.md",
    ]
    if bearings:
        frame = "in the frame that scene.array must state" if array is None else f"in the frame {array.frame}"
        findings.keys.append(f"labels are bearings in degrees, {frame}; or classes, where mapping.classes names them")


def _class_keys(marks: Counter[str]) -> Iterator[str]:
    return (f"{label}: CLASS" for label in sorted(marks)[:_SHOWN])


def _no_bearings(made: RecordingsAdapter, found: list[Recording]) -> dict[str, str]:
    """Labels that are no bearings, and what is said of each."""
    wrong = {}
    for one in found:
        for span in one.spans:
            try:
                bearing(span.label, f"{made.root}: {one.name}")
            except InputError as error:
                wrong[span.label] = str(error)
    return wrong
