"""The evaluation as a whole: from a protocol to its report, tables and output files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

from common.errors import InputError
from common.files import json_text
from floor_events.audit import audit_page
from floor_events.comparison import COMPARISON_COLUMNS, Comparability, RunEvents, comparability, compare_runs
from floor_events.protocol import CLASSES, FRAME_RATE_HZ, HEADS, HORIZON_STEPS, Protocol
from floor_events.sessions import Session, load_sessions
from floor_events.tables import (
    FRAMEWISE_COLUMNS,
    Cell,
    Row,
    Thresholds,
    event_rows,
    framewise_rows,
    number,
    pool_events,
    select_thresholds,
    session_rows,
    to_csv,
)
from floor_events.thresholds import NO_POSITIVES

PROTOCOL_NAME, PROTOCOL_VERSION = "easycom-floor-events", 1


class RunTables(TypedDict):
    """One run's rows of the events and of the framewise table."""

    events: list[Row]
    framewise: list[Row]


class Report(TypedDict):
    """The JSON document, in its order of keys; `thresholds`, `runs` and `per_session` by the run's name."""

    protocol: dict[str, object]
    warnings: list[str]
    thresholds: dict[str, list[Row]]
    runs: dict[str, RunTables]
    per_session: dict[str, dict[str, list[Row]]]
    comparability: Comparability
    comparison: list[Row]


@dataclass(frozen=True)
class Evaluation:
    """`report` is the JSON document; `sessions` the evaluated sessions; `warnings` the report's, one line each."""

    protocol: Protocol
    report: Report
    sessions: list[Session]

    @property
    def warnings(self) -> list[str]:
        """Plain one-line warnings, in the order of their weight."""
        return self.report["warnings"]


def evaluate(protocol: Protocol, options: Mapping[str, object] | None = None) -> Evaluation:
    """Read, attribute, calibrate and score every run of the protocol.

    `options` is what the report records as the options used; by default the protocol's own fields. Raises
    InputError on bad input; nothing is written.
    """
    sessions, calibration = load_sessions(protocol)
    recalls = protocol.matched_recalls
    runs: dict[str, RunEvents] = {}
    per_session: dict[str, dict[str, list[Row]]] = {}
    framewise: dict[str, list[Row]] = {}
    calibration_positives: dict[str, list[int]] = {}
    for name in (run.name for run in protocol.runs):
        thresholds = select_thresholds(pool_events(calibration, name), recalls)
        pools = pool_events(sessions, name)
        runs[name] = RunEvents(
            event_rows(name, protocol.decision_timing, pools, thresholds, recalls), pools, thresholds
        )
        per_session[name] = {s.name: session_rows(pool_events([s], name), thresholds, recalls) for s in sessions}
        framewise[name] = framewise_rows(name, sessions)
        calibration_positives[name] = [
            thresholds[head, step, recalls[0]].positives for head in HEADS for step in range(HORIZON_STEPS)
        ]
    compared: Comparability = {
        **comparability({name: run.rows for name, run in runs.items()}),
        "calibration_positives_differ": len({tuple(counts) for counts in calibration_positives.values()}) > 1,
    }
    rows = compare_runs(runs, recalls, protocol.bootstrap_resamples, protocol.seed)
    report: Report = {
        "protocol": _describe(protocol, sessions, calibration, options),
        "warnings": _warnings(protocol, runs, compared, rows),
        "thresholds": {name: _threshold_rows(run.thresholds) for name, run in runs.items()},
        "runs": {name: {"events": list(run.rows), "framewise": framewise[name]} for name, run in runs.items()},
        "per_session": per_session,
        "comparability": compared,
        "comparison": rows,
    }
    return Evaluation(protocol, report, sessions)


def output_files(evaluation: Evaluation, output: Path, audit_sample: int = 0) -> dict[Path, bytes]:
    """Every output of an evaluation by path: X.json, X_events.csv, X_framewise.csv, X_comparison.csv, X_audit.html.

    The audit page is there where `audit_sample`, a count of candidate events, is above 0.
    """
    if output.suffix != ".json" or not output.stem:
        raise InputError(f"--output {output}: expected a file name that ends in .json")
    boundaries = evaluation.protocol.recording_boundaries
    if boundaries is not None and output.resolve() == boundaries.resolve():
        raise InputError(f"--output {output}: is the --recording-boundaries file; expected another name")
    report = evaluation.report
    events = [row for run in report["runs"].values() for row in run["events"]]
    framewise = [row for run in report["runs"].values() for row in run["framewise"]]
    files = {
        output: json_text(report).encode(),
        output.with_name(f"{output.stem}_events.csv"): to_csv(list(events[0]), events),
        output.with_name(f"{output.stem}_framewise.csv"): to_csv(FRAMEWISE_COLUMNS, framewise),
        output.with_name(f"{output.stem}_comparison.csv"): to_csv(COMPARISON_COLUMNS, report["comparison"]),
    }
    if audit_sample:
        page = audit_page(evaluation.sessions, evaluation.protocol, events, audit_sample)
        files[output.with_name(f"{output.stem}_audit.html")] = page.encode()
    return files


def _describe(
    protocol: Protocol,
    sessions: Sequence[Session],
    calibration: Sequence[Session],
    options: Mapping[str, object] | None,
) -> dict[str, object]:
    parts = {"evaluation": sessions} | ({} if protocol.calibration_sessions is None else {"calibration": calibration})
    everything = [session for part in parts.values() for session in part]
    names = [run.name for run in protocol.runs]
    return {
        "name": PROTOCOL_NAME,
        "version": PROTOCOL_VERSION,
        "options": json.loads(json.dumps(asdict(protocol) if options is None else dict(options), default=str)),
        "sessions": list(protocol.sessions),
        "calibration_sessions": list(protocol.calibration_sessions or []),
        "calibration_note": protocol.calibration_note,
        "threshold_source": protocol.threshold_source,
        "exploratory": protocol.exploratory,
        "decision_timing": protocol.decision_timing,
        "frame_rate_hz": FRAME_RATE_HZ,
        "horizon_steps": HORIZON_STEPS,
        "class_order": list(CLASSES),
        "midturn_pause_max_frames": protocol.pause_frames,
        "rows": {session.name: len(session.target) for session in everything},
        "recording_cuts": {session.name: list(session.cuts) for session in everything},
        "pred_layout": {
            part: {name: {s.name: s.scores[name].layout for s in members} for name in names}
            for part, members in parts.items()
        },
        "input_sha256": {
            "target": {session.name: session.target_sha256 for session in everything},
            "runs": {
                part: {name: {s.name: s.scores[name].sha256 for s in members} for name in names}
                for part, members in parts.items()
            },
        },
        "not_provided": ["addressee strata (third_party, addressed, group_or_unknown)", "false entries per minute"],
    }


def _threshold_rows(thresholds: Thresholds) -> list[Row]:
    return [
        {
            "head": head,
            "horizon_steps": step + 1,
            "recall": recall,
            "threshold": threshold.value,
            "status": threshold.status,
            "calibration_positives": threshold.positives,
            "calibration_recall": threshold.recall,
        }
        for (head, step, recall), threshold in thresholds.items()
    ]


def _warnings(
    protocol: Protocol, runs: Mapping[str, RunEvents], compared: Comparability, comparison: Sequence[Row]
) -> list[str]:
    lines = []
    if protocol.exploratory:
        lines.append(
            "thresholds are in-sample, chosen on the evaluated sessions: exploratory, not for a reported result"
        )
    elif protocol.allow_in_sample_test_thresholds:
        lines.append("--allow-in-sample-test-thresholds has no effect: thresholds come from --calibration-sessions")
    for name, run in runs.items():
        absent = {(head, step) for (head, step, _), found in run.thresholds.items() if found.status == NO_POSITIVES}
        if absent:
            lines.append(f"{name}: no calibration positives for {len(absent)} of 20 heads and horizons; null there")
    if not compared["comparable"]:
        steps = {difference["horizon_steps"] for difference in compared["differences"]}
        fields = sorted({difference["field"] for difference in compared["differences"]})
        lines.append(
            f"runs are not over the same events at {len(steps)} of {HORIZON_STEPS} horizons ({', '.join(fields)});"
            " --intersect-valid scores only the cells that all runs have"
        )
    if compared["calibration_positives_differ"]:
        lines.append("runs were calibrated on different numbers of positives")
    return lines + _recall_warnings(comparison)


def _recall_warnings(comparison: Sequence[Row]) -> list[str]:
    """One line for each pair, recall and head whose candidate recalls materially less, with the worst horizon."""
    worst: dict[tuple[Cell, Cell, str, Cell], tuple[float, int, Cell]] = {}
    for row in comparison:
        if not row["recall_materially_lower"] or row["error"] == "short_resume_trigger":
            continue
        head = "yield" if row["error"] == "continue_false_stop" else "response"
        key = (row["candidate"], row["baseline"], head, row["recall"])
        drop, count, seconds = worst.get(key, (0.0, 0, None))
        baseline, candidate = number(row, "baseline_recall"), number(row, "candidate_recall")
        assert baseline is not None and candidate is not None, "a lower recall is of two recalls"
        found = baseline - candidate
        worst[key] = (max(drop, found), count + 1, row["horizon_seconds"] if found > drop else seconds)
    return [
        f"{candidate}: {head} recall is materially lower than {baseline}'s at requested recall {recall:g},"
        f" {count} of {HORIZON_STEPS} horizons (worst {100 * drop:.1f} points, at {seconds} s):"
        " a lower error rate there is no evidence of improvement"
        for (candidate, baseline, head, recall), (drop, count, seconds) in worst.items()
    ]
