"""What a capture set is declared to be before it is read: scene shape, classes, twin, anchors, licence, caveats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from common.errors import InputError, advice, near
from common.files import parse, read_yaml
from emma.captures.antennas import StatedArray
from emma.tasks import Anchors, Strict, TaskID, TaskSpec

Adapter = Literal[
    "sigmf",
    "colosseum_assumed",
    "powder_assumed",
    "cosmos_assumed",
    "csi_array",
    "cir",
    "labelled_iq",
    "mixed_iq",
    "sat_audio",
    "beam_sounding",
    "beam_sounding_csi",
]

#: Class of each adapter, ``module:name``, imported where a set is converted; the workflow takes its code from here.
ADAPTER_CLASSES: dict[Adapter, str] = {
    "sigmf": "emma.captures.sigmf:SigmfAdapter",
    "colosseum_assumed": "emma.captures.testbeds:ColosseumAdapter",
    "powder_assumed": "emma.captures.testbeds:PowderAdapter",
    "cosmos_assumed": "emma.captures.testbeds:CosmosAdapter",
    "csi_array": "emma.captures.csi:CsiArrayAdapter",
    "cir": "emma.captures.cir:CirAdapter",
    "labelled_iq": "emma.captures.recordings:LabelledIqAdapter",
    "mixed_iq": "emma.captures.recordings:MixedIqAdapter",
    "sat_audio": "emma.captures.audio:SatAudioAdapter",
    "beam_sounding": "emma.captures.beams:BeamSoundingAdapter",
    "beam_sounding_csi": "emma.captures.pilots:PilotSoundingAdapter",
}

#: Adapters whose sets hold the positions of their array.
GIVES_PLACES: tuple[Adapter, ...] = ("csi_array",)

#: Adapters whose sets hold labels of the task's own kind: the entry maps none.
GIVES_LABELS: tuple[Adapter, ...] = ("beam_sounding", "beam_sounding_csi")

#: What no folder's name has: the workflow reads braces as wildcards, and shows paths in a report.
NO_PATH = re.compile(r"[{}<>\x00-\x1f\x7f]")

_NAME = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class Labels(Strict):
    """Where a set keeps its labels and what they are called in the task.

    ``column`` names the label's column where the layout has several; ``classes`` maps the set's names to the task's
    (empty for an angle, and then the label is degrees).
    """

    column: Annotated[str | None, Field(description="the label's column, where the layout has several")] = None
    classes: Annotated[
        dict[str, str],
        Field(
            description="from the set's names of classes to the task's; none for an angle, whose label is in degrees"
        ),
    ] = {}  # noqa: RUF012 (pydantic copies defaults)


class CaptureEntry(Strict):
    """One entry of ``real_captures`` in ``config/config.yaml``.

    ``name`` is that of ``config/captures/NAME.yaml``; ``path`` is the set's folder, relative to the project, or None
    where the workflow makes the set itself (a surrogate).
    """

    name: Annotated[_NAME, Field(description="name of a file in `captures/`")]
    adapter: Annotated[
        Adapter,
        Field(description="reader of the set's file layout ([docs/captures.md](../docs/captures.md))"),
    ]
    path: Annotated[
        str | None,
        Field(
            description="the set's folder, relative to the project; none for a surrogate set, which the workflow writes"
        ),
    ] = None
    task: Annotated[TaskID, Field(description="task that the set is scored on")]
    mapping: Annotated[Labels, Field(description="where the set keeps its labels, and what the task calls them")] = (
        Labels()
    )
    leave_out: Annotated[
        tuple[str, ...],
        Field(description="recordings that are not read, such as a copy of another; shown in the conversion record"),
    ] = ()

    @field_validator("path")
    @classmethod
    def _plain(cls, value: str | None) -> str | None:
        if value is not None and NO_PATH.search(value):
            raise ValueError("expected a folder's name without braces, angle brackets and control characters")
        return value


class SceneShape(Strict):
    """The canonical scene that a recording becomes.

    ``samples`` at ``sample_rate_hz``; ``windows`` of them per recording, evenly spread from source sample ``start`` on.
    Recordings are taken to far higher rates, and windows share samples, only where ``upsample`` and ``overlap`` say so.
    ``channels`` and ``header_bytes`` are of raw files; SigMF recordings say these themselves.
    ``array`` says how the antennas stood and how bearings were measured.
    """

    samples: Annotated[int, Field(ge=1, description="samples per scene")]
    sample_rate_hz: Annotated[
        float, Field(ge=1, le=1e12, allow_inf_nan=False, description="sample rate of a scene, in Hz")
    ]
    start: Annotated[
        int, Field(ge=0, description="first sample that is used of a recording, or of a SigMF annotation")
    ] = 0
    windows: Annotated[int, Field(ge=1, description="scenes per recording or annotation, evenly spread")] = 1
    overlap: Annotated[
        bool, Field(description="windows may share samples; those of one recording or annotation then count as one")
    ] = False
    upsample: Annotated[
        bool, Field(description="recordings may be taken up by more than a quarter in rate, their band partly empty")
    ] = False
    channels: Annotated[int, Field(ge=1, description="interleaved channels of a raw file or WAV, the antennas")] = 1
    header_bytes: Annotated[int, Field(ge=0, description="bytes at the start of a raw file that are no samples")] = 0
    trailer_samples: Annotated[int, Field(ge=0, description="samples at the end of a recording that are not used")] = 0
    array: Annotated[
        StatedArray | None,
        Field(description="how the antennas stood, and how bearings were measured; required of a real set of angles"),
    ] = None


class CaptureSet(Strict):
    """The content of ``config/captures/NAME.yaml``.

    ``kind``: ``surrogate`` for a set that the generator wrote; never real. ``session`` says what is drawn as a whole
    in the bootstrap. ``apart`` names values of the scenes' own group that are also shown alone. ``twin``: ``release``
    where the set has the release's own format, else the generator's recipe of scenes like the set's, with
    ``classes`` and ``anchors`` declared here. ``surrogate`` is the recipe of a set that the workflow writes.
    ``demonstration``: shown with its n, never part of a model's gap. ``twin: none``: a demonstration without a
    synthetic side, scored by readouts fit on its own other sessions.
    """

    name: Annotated[_NAME, Field(description="the file's name")]
    kind: Annotated[
        Literal["real", "surrogate"], Field(description="`real`, or `surrogate` for a set that the generator writes")
    ]
    task: Annotated[TaskID, Field(description="task that the set is scored on")]
    source: Annotated[str, Field(description="where the set comes from; shown wherever its score is")]
    licence: Annotated[str, Field(description="the set's licence; shown wherever its score is")]
    session: Annotated[str, Field(description="what the bootstrap draws as a whole; shown wherever its score is")]
    caveats: Annotated[
        tuple[str, ...], Field(description="sentences that are shown wherever its score is; at least one")
    ]
    scene: Annotated[
        SceneShape | None, Field(description="the scene that a recording becomes; without it, the set's own shape")
    ] = None
    classes: Annotated[
        tuple[str, ...],
        Field(
            description="classes that the set shares with its matched synthetic set; none for an angle, or where "
            "`twin` is `release`"
        ),
    ] = ()
    anchors: Annotated[
        Anchors | None, Field(description="frozen anchors of a matched synthetic set of its own; else the release's")
    ] = None
    anchor_law: Annotated[str | None, Field(description="where these anchors come from")] = None
    apart: Annotated[tuple[str, ...], Field(description="groups of the set's scenes that are also shown alone")] = ()
    twin: Annotated[
        dict[str, Any] | Literal["release", "none"],
        Field(
            description="the matched synthetic set, on whose TRAIN scenes readouts are fit: `release` where the "
            "set has the release's format, else the recipe of scenes like the set's (`rfgen.captures.twins`); `none` "
            "for a demonstration without any, scored by readouts of its own other sessions alone"
        ),
    ]
    surrogate: Annotated[
        dict[str, Any] | None,
        Field(
            description="recipe of a surrogate set (`rfgen.captures.surrogate`); with `kind: surrogate`, and only then"
        ),
    ] = None
    demonstration: Annotated[bool, Field(description="shown with its number of scenes, never part of a gap")] = False

    @property
    def matched(self) -> bool:
        """Whether it has a matched synthetic set of its own."""
        return isinstance(self.twin, dict)

    @property
    def array(self) -> StatedArray | None:
        """The array that ``scene`` states."""
        return None if self.scene is None else self.scene.array

    @field_validator("caveats")
    @classmethod
    def _some(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("expected at least one sentence")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> CaptureSet:
        if self.task is TaskID.E_ID_FP and self.twin == "release":
            raise ValueError(
                "twin: release: E-ID-FP has no gap: its readout enrols the release's own devices, and no capture holds "
                "those; expected twin: none, a demonstration"
            )
        if self.twin == "none" and not self.demonstration:
            raise ValueError("demonstration: expected true with twin: none, which has no synthetic side")
        if (self.surrogate is not None) != (self.kind == "surrogate"):
            raise ValueError("surrogate: expected with kind surrogate, and only then")
        own = self.twin != "release"
        if own != (self.anchors is not None) or own != (self.anchor_law is not None):
            raise ValueError("anchors, anchor_law: expected with a twin's own recipe, and only then")
        if not own and self.classes:
            raise ValueError("classes: the release's own where twin is release, expected none")
        return self


_MODULATIONS = ("OOK", "2FSK", "GFSK", "BPSK", "QPSK", "8PSK", "16QAM", "64QAM", "4PAM", "AM-DSB", "FM")

#: The sets that a run reads where the configuration names none: what the generator writes with another receiver.
DEFAULT_CAPTURES = tuple(
    CaptureEntry(name=f"surrogate_{short}", adapter="sigmf", task=task, mapping=Labels(classes=classes))
    for short, task, classes in (
        ("aoa", TaskID.E_LOC_AOA, {}),
        ("los", TaskID.E_LOC_LOS, {name: name for name in ("NLOS", "LOS")}),
        ("drone", TaskID.E_ID_DRONE, {name: name for name in ("absent", "present")}),
        ("amc", TaskID.E_ID_AMC, {name: name for name in _MODULATIONS}),
    )
)


def load_capture_set(
    root: str | Path, entry: CaptureEntry, tasks: Mapping[TaskID, TaskSpec] | None = None
) -> CaptureSet:
    """Read ``config/captures/NAME.yaml`` of an entry.

    Args:
        root: the project's folder.
        entry: the set's entry.
        tasks: the release's; where given, the labels that the entry maps to are checked against the task.

    Raises:
        InputError: no such file, a wrong key, or a file that contradicts the entry.
    """
    path = Path(root) / "config" / "captures" / f"{entry.name}.yaml"
    if not path.is_file() and (meant := near(entry.name, sorted(file.stem for file in path.parent.glob("*.yaml")))):
        raise InputError(f"{path}: no such file, did you mean {meant}?")
    declared = parse(CaptureSet, read_yaml(path), path)
    if declared.name != entry.name:
        raise InputError(f"{path}: name: expected {entry.name}, the file's name, found {declared.name}")
    if declared.task != entry.task:
        raise InputError(f"{path}: task: {declared.task}, expected {entry.task} as in real_captures")
    if (entry.path is None) != (declared.kind == "surrogate"):
        raise InputError(f"real_captures.{entry.name}: path: expected for a set of kind real, and only then")
    if entry.path is not None and not (Path(root) / entry.path).is_dir():
        raise InputError(f"real_captures.{entry.name}: path: {entry.path} is no folder")
    angles = declared.task is TaskID.E_LOC_AOA and declared.kind == "real"
    if angles and declared.array is None and entry.adapter not in GIVES_PLACES:
        raise InputError(f"{path}: scene.array: expected with angles: how the array stood, and how they were measured")
    mapped = entry.adapter not in GIVES_LABELS
    if declared.twin != "release" and mapped and bool(declared.classes) != bool(entry.mapping.classes):
        raise InputError(
            f"real_captures.{entry.name}: mapping.classes: expected where {path} names classes, and only then"
        )
    for name in entry.mapping.classes.values():
        if declared.classes and name not in declared.classes:
            raise InputError(f"real_captures.{entry.name}: mapping.classes: {name} is not among the classes of {path}")
    if tasks is not None:
        spec = tasks[entry.task]
        # Devices of a set without a synthetic side are its own.
        own = declared.twin == "none" and declared.classes
        check_mapping(entry, spec.model_copy(update={"classes": declared.classes}) if own else spec)
    return declared


def check_mapping(entry: CaptureEntry, spec: TaskSpec) -> None:
    """InputError unless an entry maps its labels to what the task has: its classes, or degrees."""
    where, named = f"real_captures.{entry.name}: mapping.classes:", entry.mapping.classes
    if entry.adapter in GIVES_LABELS:
        if named:
            raise InputError(f"{where} {[*named]}, expected none: adapter {entry.adapter} holds the labels itself")
        return
    if not spec.classes and named:
        raise InputError(f"{where} {[*named]}, expected none: labels of {entry.task} are degrees")
    if spec.classes and not named:
        raise InputError(f"{where} expected the set's names of the classes of {entry.task}, found none")
    if others := sorted(set(named.values()) - set(spec.classes)):
        raise InputError(f"{where} {others[0]!r} is no class of {entry.task}, {advice(others[0], spec.classes)}")
    if "" in {name.strip() for name in named}:
        raise InputError(f"{where} an empty name, expected the set's own names of classes")
