"""The `floor_events:` section of the workflow's configuration, checked, and the commands that it stands for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict, cast

from common.errors import InputError, advice
from floor_events.protocol import (
    DEFAULT_PAUSE_SECONDS,
    DEFAULT_RECALLS,
    DEFAULT_RESAMPLES,
    PRE_BOUNDARY,
    Protocol,
    Run,
    check_count,
)

ALIGNED, EGOSPEAK_RAW = "aligned", "egospeak_raw"
EVALUATION, CALIBRATION = "evaluation", "calibration"
WHERE = "config/config.yaml: floor_events"

_RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ANY_RUN: dict[str, _Kind] = {"name": str, "kind": str, "path": str, "calibration_path": (str, type(None))}
_Kind = type | tuple[type, ...]
# key -> (type, default); a default of ... makes the key required
_KEYS: dict[str, tuple[_Kind, object]] = {
    "enabled": (bool, False),
    "target_root": (str, ...),
    "sessions": (list, ...),
    "calibration_sessions": ((list, type(None)), None),
    "calibration_note": ((str, type(None)), None),
    "runs": (list, ...),
    "matched_recalls": (list, list(DEFAULT_RECALLS)),
    "midturn_pause_max_seconds": ((int, float), DEFAULT_PAUSE_SECONDS),
    "decision_timing": (str, PRE_BOUNDARY),
    "recording_boundaries": ((str, type(None)), None),
    "intersect_valid": (bool, False),
    "allow_in_sample_test_thresholds": (bool, False),
    "bootstrap_resamples": (int, DEFAULT_RESAMPLES),
    "seed": (int, 0),
    "audit_sample": (int, 0),
    "print_event_timelines": (int, 0),
}


class _Run(TypedDict):
    name: str
    kind: str
    path: str
    calibration_path: NotRequired[str | None]


class _Section(TypedDict):
    """The section with its defaults, once every key has been checked."""

    enabled: bool
    target_root: str
    sessions: list[str]
    calibration_sessions: list[str] | None
    calibration_note: str | None
    runs: list[_Run]
    matched_recalls: list[float]
    midturn_pause_max_seconds: float
    decision_timing: str
    recording_boundaries: str | None
    intersect_valid: bool
    allow_in_sample_test_thresholds: bool
    bootstrap_resamples: int
    seed: int
    audit_sample: int
    print_event_timelines: int


@dataclass(frozen=True)
class Conversion:
    """One call of the converter, for one raw run's evaluation or calibration sessions: its rule's name and files."""

    rule: str
    folder: str
    options: list[str]
    inputs: list[str]
    outputs: list[str]


@dataclass(frozen=True)
class FloorPlan:
    """What the workflow does for the floor events: conversions, then one evaluation; paths are texts as configured."""

    conversions: list[Conversion]
    options: list[str]
    inputs: list[str]
    outputs: list[str]


def plan(section: object, results: str, where: str = WHERE) -> FloorPlan | None:
    """The plan of a `floor_events:` section for outputs under `results`/floor_events; None where it is off.

    Off is an absent section or `enabled: false`. Raises one line that names the key, on an unknown
    or missing key, a wrong type, or anything the protocol's guards refuse.
    """
    if section is None:
        return None
    if not isinstance(section, Mapping):
        raise InputError(f"{where}: expected a mapping of keys, found {type(section).__name__}")
    _check_keys(section, set(_KEYS), where)
    if not _value(section, "enabled", where):
        return None
    # The casts state what each check has just seen; the type of an item of a list is checked below.
    values = cast(_Section, {key: _value(section, key, where) for key in _KEYS})
    kinds = _check_run_entries(values["runs"], where)
    for key, names in (("sessions", values["sessions"]), ("calibration_sessions", values["calibration_sessions"])):
        if not all(isinstance(name, str) for name in names or []):
            raise InputError(f"{where}.{key}: expected a list of session names")
    if not all(_is_a(recall, (int, float)) for recall in values["matched_recalls"]):
        raise InputError(f"{where}.matched_recalls: expected a list of fractions")
    try:
        check_count("--audit-sample", values["audit_sample"])
        check_count("--print-event-timelines", values["print_event_timelines"])
        _protocol(values)
    except InputError as error:
        # The guards speak of options; here the same names are keys.
        keys = re.sub(r"--([a-z-]+)", lambda match: match[1].replace("-", "_"), str(error))
        raise InputError(f"{where}: {keys}") from None
    return _plan(values, kinds, f"{results}/floor_events")


def _check_run_entries(runs: Sequence[object], where: str) -> dict[str, str]:
    """Check each entry of `runs`; the kind of each run by name."""
    kinds = {}
    for number, run in enumerate(runs):
        place = f"{where}.runs[{number}]"
        if not isinstance(run, Mapping):
            raise InputError(f"{place}: expected a mapping with name, kind and path")
        _check_keys(run, set(_ANY_RUN), place)
        for key, kind in _ANY_RUN.items():
            if key not in run and kind is str:
                raise InputError(f"{place}.{key}: missing; expected a text")
            if key in run and not isinstance(run[key], kind):
                raise InputError(f"{place}.{key}: {run[key]!r}; expected a text")
        if run["kind"] not in {ALIGNED, EGOSPEAK_RAW}:
            raise InputError(f"{place}.kind: {run['kind']!r}; expected {ALIGNED} or {EGOSPEAK_RAW}")
        if not _RUN_NAME.fullmatch(run["name"]):
            raise InputError(f"{place}.name: {run['name']!r}; expected letters, digits, dots, dashes, underscores")
        kinds[run["name"]] = run["kind"]
    return kinds


def _protocol(values: _Section) -> Protocol:
    calibration = values["calibration_sessions"]
    return Protocol(
        target_root=Path(values["target_root"]),
        # Whether a calibration path is another one matters to no guard: the workflow passes one for every run.
        runs=tuple(Run(run["name"], Path(run["path"])) for run in values["runs"]),
        sessions=tuple(values["sessions"]),
        calibration_sessions=None if calibration is None else tuple(calibration),
        calibration_note=values["calibration_note"],
        matched_recalls=tuple(values["matched_recalls"]),
        midturn_pause_max_seconds=values["midturn_pause_max_seconds"],
        decision_timing=values["decision_timing"],
        bootstrap_resamples=values["bootstrap_resamples"],
        allow_in_sample_test_thresholds=values["allow_in_sample_test_thresholds"],
        seed=values["seed"],
    )


def _plan(values: _Section, kinds: Mapping[str, str], folder: str) -> FloorPlan:
    parts = {EVALUATION: values["sessions"]}
    if values["calibration_sessions"] is not None:
        parts[CALIBRATION] = values["calibration_sessions"]
    target_root = values["target_root"]
    targets = [f"{target_root}/{name}.npy" for sessions in parts.values() for name in sessions]
    conversions: list[Conversion] = []
    roots: dict[tuple[str, str], str] = {}
    inputs = list(targets)
    for number, run in enumerate(values["runs"]):
        for part, sessions in parts.items():
            source = run["path"] if part == EVALUATION else run.get("calibration_path") or run["path"]
            root = f"{folder}/converted/{run['name']}/{part}" if kinds[run["name"]] == EGOSPEAK_RAW else source
            arrays = [f"{root}/{kind}/{name}.npy" for kind in ("pred", "valid") for name in sessions]
            if kinds[run["name"]] == EGOSPEAK_RAW:
                options = ["--prediction-root", source, "--target-root", target_root, "--output-dir", root]
                rule = f"floor_convert_{number}_{part}"
                used = [f"{place}/{name}.npy" for place in (source, target_root) for name in sessions]
                outputs = [f"{root}/conversion.json", *arrays]
                conversions.append(Conversion(rule, root, [*options, "--sessions", *sessions], used, outputs))
            roots[run["name"], part] = root
            inputs += arrays
    options = ["--target-root", target_root]
    for (name, part), root in roots.items():
        options += ["--run" if part == EVALUATION else "--calibration-run", f"{name}={root}"]
    if CALIBRATION in parts:
        options += ["--calibration-sessions", *parts[CALIBRATION]]
    if values["calibration_note"] is not None:
        # One word, so that a note that begins with a dash is no option.
        options += [f"--calibration-note={values['calibration_note']}"]
    options += ["--sessions", *parts[EVALUATION], "--matched-recalls", *map(str, values["matched_recalls"])]
    options += ["--midturn-pause-max-seconds", str(values["midturn_pause_max_seconds"])]
    options += ["--decision-timing", values["decision_timing"]]
    options += ["--bootstrap-resamples", str(values["bootstrap_resamples"]), "--seed", str(values["seed"])]
    options += ["--audit-sample", str(values["audit_sample"])]
    options += ["--print-event-timelines", str(values["print_event_timelines"])]
    if values["recording_boundaries"] is not None:
        options += ["--recording-boundaries", values["recording_boundaries"]]
        inputs.append(values["recording_boundaries"])
    options += ["--intersect-valid"] if values["intersect_valid"] else []
    options += ["--allow-in-sample-test-thresholds"] if values["allow_in_sample_test_thresholds"] else []
    names = ["summary.json", "summary_events.csv", "summary_framewise.csv", "summary_comparison.csv"]
    names += ["summary_audit.html"] if values["audit_sample"] else []
    outputs = [f"{folder}/{name}" for name in names]
    return FloorPlan(conversions, [*options, "--output", outputs[0]], inputs, outputs)


def _check_keys(section: Mapping[object, object], known: set[str], where: str) -> None:
    for key in section:
        if key not in known:
            raise InputError(f"{where}.{key}: unknown key, {advice(str(key), sorted(known))}")


def _value(section: Mapping[str, object], key: str, where: str) -> object:
    kind, default = _KEYS[key]
    kinds = kind if isinstance(kind, tuple) else (kind,)
    value = section.get(key, default)
    if value is ...:
        raise InputError(f"{where}.{key}: missing; expected a {kinds[0].__name__}")
    if not _is_a(value, kind):
        names = " or ".join("null" if k is type(None) else k.__name__ for k in kinds)
        raise InputError(f"{where}.{key}: {value!r}; expected {names}")
    return value


def _is_a(value: object, kind: _Kind) -> bool:
    """Like isinstance, but true and false are no numbers."""
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
