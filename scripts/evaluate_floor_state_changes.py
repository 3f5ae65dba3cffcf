"""Score EasyCom floor events: false wearer entries and false wearer yields of each run at matched recalls."""

from __future__ import annotations

import sys
from pathlib import Path

# Runs from a bare checkout, from any folder; an installed copy of the library does not shadow this one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from common.errors import OneLineParser, run_script
from common.files import write_files
from floor_events.evaluation import Evaluation, evaluate, output_files
from floor_events.protocol import (
    DECISION_TIMINGS,
    DEFAULT_PAUSE_SECONDS,
    DEFAULT_RECALLS,
    DEFAULT_RESAMPLES,
    MAX_NOTE,
    PRE_BOUNDARY,
    RESPONSE,
    YIELD,
    Protocol,
    check_count,
    pair_runs,
    parse_run,
)
from floor_events.tables import number
from floor_events.timelines import timeline_text

PROGRAM = Path(__file__).name


def parser() -> OneLineParser:
    """The options, each with its unit."""
    options = OneLineParser(prog=PROGRAM, description=__doc__)
    add = options.add_argument
    add(
        "--target-root",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of <session>.npy targets [T, 3] of 0 and 1 at 5 Hz: background, wearer, others",
    )
    add(
        "--run",
        action="append",
        required=True,
        metavar="NAME=DIR",
        help="a run and its folder of pred/ ([T, 10, 3] or [T, 3, 10]) and valid/ ([T, 10] bool); repeat for each run,"
        " the baseline first",
    )
    add(
        "--calibration-run",
        action="append",
        default=[],
        metavar="NAME=DIR",
        help="folder of a run's calibration scores, one for every --run name; without it they are read from --run",
    )
    add("--sessions", nargs="*", required=True, metavar="NAME", help="sessions to evaluate, pooled in this order")
    add(
        "--calibration-sessions",
        nargs="*",
        metavar="NAME",
        help="training-side sessions on which thresholds are chosen; never official test Sessions 1-3",
    )
    add(
        "--calibration-note",
        metavar="TEXT",
        help="how the calibration scores were made, such as out of fold, for the report (a text of at most"
        f" {MAX_NOTE} characters)",
    )
    add(
        "--matched-recalls",
        nargs="*",
        type=float,
        default=list(DEFAULT_RECALLS),
        metavar="R",
        help="recalls at which thresholds are chosen, fractions above 0 and at most 1",
    )
    add(
        "--midturn-pause-max-seconds",
        type=float,
        default=DEFAULT_PAUSE_SECONDS,
        metavar="SECONDS",
        help="longest pause of the others that counts as a short resume, in seconds",
    )
    add(
        "--decision-timing",
        choices=DECISION_TIMINGS,
        default=PRE_BOUNDARY,
        help="row from which predictions are read: the last before the boundary (primary) or the first after it"
        " (a reactive diagnostic)",
    )
    add(
        "--recording-boundaries",
        type=Path,
        metavar="JSON",
        help='rows (frames of 0.2 s) that start a new recording: {"Session_1": [3900]}; nothing crosses them',
    )
    add("--intersect-valid", action="store_true", help="score only the cells that are valid in every run")
    add(
        "--allow-in-sample-test-thresholds",
        action="store_true",
        help="exploratory audits only: evaluate official test sessions with thresholds chosen on themselves",
    )
    add(
        "--print-event-timelines",
        type=int,
        default=0,
        metavar="N",
        help="print the first N events of each run and kind at the 2.0 s horizon (a count)",
    )
    add(
        "--audit-sample",
        type=int,
        default=0,
        metavar="N",
        help="draw N candidates at random on the page X_audit.html (a count; 0 writes none)",
    )
    add(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="seed of the audit sample and of the bootstrap (a whole number, at least 0)",
    )
    add(
        "--bootstrap-resamples",
        type=int,
        default=DEFAULT_RESAMPLES,
        metavar="B",
        help="resamples of each paired 95%% interval (a count; 0 leaves the intervals out)",
    )
    add(
        "--output",
        type=Path,
        required=True,
        metavar="X.json",
        help="the report; beside it X_events.csv, X_framewise.csv, X_comparison.csv",
    )
    return options  # fmt: skip


def summary_lines(evaluation: Evaluation) -> list[str]:
    """Each pair of runs at the headline recall (0.8 if asked for, else the first), in at most 80 columns."""
    recalls = evaluation.protocol.matched_recalls
    headline = 0.8 if 0.8 in recalls else recalls[0]
    lines: list[str] = []
    pair = None
    for row in evaluation.report["comparison"]:
        if row["recall"] != headline:
            continue
        if (row["baseline"], row["candidate"]) != pair:
            pair = row["baseline"], row["candidate"]
            lines += [
                f"{str(pair[1])[:22]} against {str(pair[0])[:22]} at requested recall {headline:g}:",
                "  change in points (relative error reduction); ! recall materially lower",
                f"  {'horizon':<9}{'no_response':>20}{'short_resume':>20}{'false stop':>20}",
            ]
        if row["error"] == "no_response_trigger":
            lines.append(f"  {row['horizon_seconds']:<3} s    ")
        change, reduction = row["change_percentage_points"], row["relative_error_reduction"]
        cell = "-" if change is None else f"{change:+.1f} ({'-' if reduction is None else format(reduction, '+.2f')})"
        lines[-1] += f"{cell:>19}{'!' if row['recall_materially_lower'] else ' '}"
    return lines


# The terminal's table of counts: its columns, each the sum of columns of the events table.
COUNTED = tuple(
    columns
    for head, negative in ((RESPONSE, "no_response"), (YIELD, "continue"))
    for columns in (
        (f"{head}_count", f"{negative}_count"),
        (f"{head}_censored_count",),
        (f"{head}_invalid_count",),
        (f"{head}_empty_window_count", f"{head}_resolved_at_source_count"),
    )
)


def count_lines(evaluation: Evaluation) -> list[str]:
    """Per run and horizon how many candidates were scored, and how many omitted by cause, in at most 80 columns."""
    lines: list[str] = []
    for name, run in evaluation.report["runs"].items():
        lines += [
            f"{name[:30]}: candidates scored, and omitted by cause",
            f"  {'':<9}{RESPONSE:>32}{YIELD:>32}",
            f"  {'horizon':<9}{'  scored censored invalid  other' * 2}",
        ]
        for row in run["events"]:
            counts = [sum(number(row, column) or 0 for column in columns) for columns in COUNTED]
            cells = "".join(f"{count:>{width}}" for count, width in zip(counts, (8, 9, 8, 7) * 2, strict=True))
            lines.append(f"  {row['horizon_seconds']:<3} s    {cells}")
    return lines


def main() -> None:
    """Parse, evaluate, write, then print."""
    args = parser().parse_args()
    for option, count in (
        ("--print-event-timelines", args.print_event_timelines),
        ("--audit-sample", args.audit_sample),
    ):
        check_count(option, count)
    runs = pair_runs(
        [parse_run("--run", text) for text in args.run],
        [parse_run("--calibration-run", text) for text in args.calibration_run],
    )
    protocol = Protocol(
        target_root=args.target_root,
        runs=runs,
        sessions=tuple(args.sessions),
        calibration_sessions=None if args.calibration_sessions is None else tuple(args.calibration_sessions),
        calibration_note=args.calibration_note,
        matched_recalls=tuple(args.matched_recalls),
        midturn_pause_max_seconds=args.midturn_pause_max_seconds,
        decision_timing=args.decision_timing,
        recording_boundaries=args.recording_boundaries,
        intersect_valid=args.intersect_valid,
        allow_in_sample_test_thresholds=args.allow_in_sample_test_thresholds,
        bootstrap_resamples=args.bootstrap_resamples,
        seed=args.seed,
    )
    evaluation = evaluate(protocol, options=vars(args))
    files = output_files(evaluation, args.output, args.audit_sample)
    write_files(files)
    for line in evaluation.warnings:
        sys.stderr.write(f"warning: {line}\n")
    for line in timeline_text(evaluation.sessions, [run.name for run in runs], args.print_event_timelines):
        print(line)
    for line in (*count_lines(evaluation), *summary_lines(evaluation)):
        print(line.rstrip())
    for path in files:
        print(f"wrote {path}")


if __name__ == "__main__":
    run_script(main, PROGRAM)
