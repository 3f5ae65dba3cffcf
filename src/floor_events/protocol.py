"""The protocol: its constants, its options, and the guards on names that hold before any file is read."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from common.errors import InputError

FRAME_RATE_HZ = 5
HORIZON_STEPS = 10
HORIZON_SECONDS = tuple(step / FRAME_RATE_HZ for step in range(1, HORIZON_STEPS + 1))
CLASSES = ("background", "wearer", "others")
WEARER, OTHERS = 1, 2
PRE_BOUNDARY, POST_BOUNDARY = "pre-boundary", "post-boundary"
DECISION_TIMINGS = (PRE_BOUNDARY, POST_BOUNDARY)
RESPONSE, YIELD = "response", "yield"
HEADS = (RESPONSE, YIELD)
DEFAULT_RECALLS = (0.7, 0.8, 0.9)
DEFAULT_PAUSE_SECONDS = 2.0
DEFAULT_RESAMPLES = 2000
MAX_NOTE = 500

_OFFICIAL_TEST = re.compile(r"session_0*[123]", re.IGNORECASE)


@dataclass(frozen=True)
class Run:
    """One model: its name, the folder of its evaluation scores, and that of its calibration scores if another."""

    name: str
    path: Path
    calibration_path: Path | None = None


@dataclass(frozen=True)
class Protocol:
    """Every choice that decides a number, checked on construction, and `calibration_note`, which decides none.

    `calibration_note` says how the calibration scores were made: printable text of at most 500 characters.
    `midturn_pause_max_seconds` is in seconds, `matched_recalls` are fractions in (0, 1], `bootstrap_resamples` is a
    count (0 turns intervals off). Sessions keep the given order. Raises InputError on any guard of the protocol.
    """

    target_root: Path
    runs: tuple[Run, ...]
    sessions: tuple[str, ...]
    calibration_sessions: tuple[str, ...] | None = None
    matched_recalls: tuple[float, ...] = DEFAULT_RECALLS
    midturn_pause_max_seconds: float = DEFAULT_PAUSE_SECONDS
    decision_timing: str = PRE_BOUNDARY
    recording_boundaries: Path | None = None
    intersect_valid: bool = False
    allow_in_sample_test_thresholds: bool = False
    bootstrap_resamples: int = DEFAULT_RESAMPLES
    seed: int = 0
    calibration_note: str | None = None

    def __post_init__(self) -> None:
        _check_runs(self.runs, self.calibration_sessions)
        check_session_names("--sessions", self.sessions)
        _check_calibration(self.sessions, self.calibration_sessions, self.allow_in_sample_test_thresholds)
        _check_note(self.calibration_note, self.calibration_sessions)
        check_recalls("--matched-recalls", self.matched_recalls)
        check_pause("--midturn-pause-max-seconds", self.midturn_pause_max_seconds)
        check_count("--bootstrap-resamples", self.bootstrap_resamples)
        check_count("--seed", self.seed)
        if self.decision_timing not in DECISION_TIMINGS:
            raise InputError(
                f"--decision-timing: expected one of {', '.join(DECISION_TIMINGS)}, found {self.decision_timing!r}"
            )

    @property
    def threshold_source(self) -> str:
        """`calibration`, or `in_sample` where no calibration session is named."""
        return "in_sample" if self.calibration_sessions is None else "calibration"

    @property
    def exploratory(self) -> bool:
        """True where thresholds were chosen on the evaluated sessions themselves."""
        return self.calibration_sessions is None

    @property
    def pause_frames(self) -> int:
        """Longest pause of a short resume, in frames of 0.2 s."""
        return pause_frames(self.midturn_pause_max_seconds)


def pause_frames(seconds: float) -> int:
    """Whole frames in `seconds` at 5 Hz: floor(5 M + 1e-9), so that 0.6 s is 3 frames and not 2."""
    return math.floor(FRAME_RATE_HZ * seconds + 1e-9)


def is_official_test(session: str) -> bool:
    """Whether the name is one of the official test sessions 1 to 3, in any case and with leading zeros."""
    return _OFFICIAL_TEST.fullmatch(session) is not None


def parse_run(option: str, text: str) -> tuple[str, Path]:
    """Split `NAME=PATH` at its first equals sign. Raises InputError on an empty part or an unprintable name."""
    name, separator, path = text.partition("=")
    if not (separator and name.strip() and path):
        raise InputError(f"{option} {text}: expected NAME=PATH, both non-empty")
    if not name.isprintable():
        raise InputError(f"{option} {text!r}: expected a printable name")
    return name.strip(), Path(path)


def pair_runs(runs: Sequence[tuple[str, Path]], calibration: Sequence[tuple[str, Path]]) -> tuple[Run, ...]:
    """Join `--run` with `--calibration-run` by name. Raises InputError on duplicate or unmatched names."""
    _check_unique("--run", [name for name, _ in runs])
    _check_unique("--calibration-run", [name for name, _ in calibration])
    folders = dict(calibration)
    names = [name for name, _ in runs]
    if calibration and set(folders) != set(names):
        unmatched = sorted(set(folders) ^ set(names))
        raise InputError(
            f"--calibration-run: unmatched: {', '.join(unmatched)}; expected the names of --run ({', '.join(names)})"
        )
    return tuple(Run(name, path, folders.get(name)) for name, path in runs)


def check_session_names(option: str, sessions: Sequence[str]) -> None:
    """Refuse an empty list, a repeated name (in any case), or a name that is not a plain file name."""
    if not sessions:
        raise InputError(f"{option}: expected at least one session name, found none")
    for session in sessions:
        if not session or session != Path(session).name or session in {".", ".."} or not session.isprintable():
            raise InputError(f"{option} {session!r}: expected a plain session name such as Session_3")
    _check_unique(option, sessions)


def check_recalls(option: str, recalls: Sequence[float]) -> None:
    """Refuse an empty list, a recall outside (0, 1], or two recalls that share a column name."""
    if not recalls:
        raise InputError(f"{option}: expected at least one recall, found none")
    for recall in recalls:
        if not 0.0 < recall <= 1.0:
            raise InputError(f"{option} {recall:g}: expected a fraction above 0 and at most 1")
    _check_unique(option, [format(recall, "g") for recall in recalls])


def check_pause(option: str, seconds: float) -> None:
    """Refuse a pause that is not a finite number of seconds, zero or more."""
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InputError(f"{option} {seconds:g}: expected seconds, finite and at least 0")


def check_count(option: str, count: int) -> None:
    """Refuse a negative count."""
    if count < 0:
        raise InputError(f"{option} {count}: expected a whole number, at least 0")


def _check_note(note: str | None, calibration_sessions: Sequence[str] | None) -> None:
    if note is None:
        return
    if calibration_sessions is None:
        raise InputError("--calibration-note: expected --calibration-sessions with it, found none")
    if not (note.strip() and note.isprintable() and len(note) <= MAX_NOTE):
        raise InputError(
            f"--calibration-note: {len(note)} characters; expected 1 to {MAX_NOTE}, all printable and not blank alone"
        )


def _check_unique(option: str, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.casefold() in seen:
            raise InputError(f"{option} {name}: given twice; expected each name once")
        seen.add(name.casefold())


def _check_runs(runs: Sequence[Run], calibration_sessions: Sequence[str] | None) -> None:
    if not runs:
        raise InputError("--run: expected at least one NAME=PATH, found none")
    _check_unique("--run", [run.name for run in runs])
    given = [run.name for run in runs if run.calibration_path is not None]
    if given and calibration_sessions is None:
        raise InputError("--calibration-run: expected --calibration-sessions with it, found none")
    if given and len(given) != len(runs):
        unmatched = sorted(run.name for run in runs if run.calibration_path is None)
        raise InputError(f"--calibration-run: expected one for each --run; unmatched: {', '.join(unmatched)}")


def _check_calibration(sessions: Sequence[str], calibration: Sequence[str] | None, allow_in_sample: bool) -> None:
    if calibration is None:
        official = [session for session in sessions if is_official_test(session)]
        if official and not allow_in_sample:
            raise InputError(
                f"--sessions {official[0]}: an official test session; expected --calibration-sessions with it"
                " (--allow-in-sample-test-thresholds is for exploratory audits)"
            )
        return
    check_session_names("--calibration-sessions", calibration)
    evaluated = {session.casefold() for session in sessions}
    for session in calibration:
        if is_official_test(session):
            raise InputError(
                f"--calibration-sessions {session}: an official test session; expected training-side sessions"
            )
        if session.casefold() in evaluated:
            raise InputError(f"--calibration-sessions {session}: also in --sessions; expected disjoint lists")
