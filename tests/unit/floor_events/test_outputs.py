"""The report and the tables: names, blanks, provenance, and what changes them."""

import csv
import json
import re

import numpy as np
import pytest

from floor_events.inputs import content_sha256

EVALUATE = "evaluate_floor_state_changes"
COUNTS = (
    "response_count", "no_response_count", "short_resume_count", "yield_count", "continue_count",
    "response_censored_count", "response_invalid_count", "response_empty_window_count",
    "response_resolved_at_source_count",
    "yield_censored_count", "yield_invalid_count", "yield_empty_window_count", "yield_resolved_at_source_count",
    "response_ap", "yield_ap",
)  # fmt: skip
PER_RECALL = (
    "response_threshold_at_recall_", "yield_threshold_at_recall_",
    "calibration_response_recall_", "calibration_yield_recall_",
    "response_recall_",
    "no_response_trigger_count_at_recall_", "no_response_trigger_rate_at_recall_",
    "short_resume_trigger_count_at_recall_", "short_resume_trigger_rate_at_recall_",
    "yield_recall_",
    "continue_false_stop_count_at_recall_", "continue_false_stop_rate_at_recall_",
)  # fmt: skip


@pytest.fixture
def evaluated(call, study, tmp_path, tools):
    """Run the evaluator on the study; returns (report, {table: rows}, stdout, stderr)."""

    def run(name="x", **changes):
        options = {f"--{key.replace('_', '-')}": values for key, values in changes.items()}
        output = tmp_path / "out" / f"{name}.json"
        status, out, err = call(EVALUATE, *tools.evaluation_arguments(study, output, **options))
        assert status == 0, err
        tables = {
            table: list(csv.DictReader((tmp_path / "out" / f"{name}_{table}.csv").open()))
            for table in ("events", "framewise", "comparison")
        }
        return json.loads(output.read_text()), tables, out, err

    return run


def test_event_columns_are_the_protocols(evaluated):
    _, tables, _, _ = evaluated(matched_recalls=[0.5, 0.8, "0.80001"])
    expected = ["run", "horizon_seconds", "horizon_steps", "decision_timing", *COUNTS]
    for recall in ("0.5", "0.8", "0.80001"):
        expected += [f"{column}{recall}" for column in PER_RECALL]
    assert list(tables["events"][0]) == expected
    assert [(row["run"], row["horizon_seconds"]) for row in tables["events"]] == [
        (run, f"{h / 5}") for run in "ab" for h in range(1, 11)
    ]


def test_tables_and_report_agree(evaluated):
    report, tables, _, _ = evaluated()
    rows = [row for run in report["runs"].values() for row in run["events"]]
    assert [list(row) for row in tables["events"]] == [list(row) for row in rows]
    for text, row in zip(tables["events"], rows, strict=True):
        for column, value in row.items():
            assert text[column] == ("" if value is None else str(value))
    assert len(tables["framewise"]) == 2 * 10 * 3
    assert len(tables["comparison"]) == 3 * 10 * 3 == len(report["comparison"])


def test_sessions_add_up(evaluated):
    report, _, _, _ = evaluated()
    for run, content in report["runs"].items():
        sessions = report["per_session"][run]
        assert list(sessions) == ["Session_3", "Session_1"]
        for step, row in enumerate(content["events"]):
            for column, value in row.items():
                if "_count" in column and value is not None:
                    assert value == sum(rows[step][column] for rows in sessions.values()), column


def test_protocol_block(evaluated, study, tmp_path):
    cuts = tmp_path / "cuts.json"
    cuts.write_text('{"Session_3": [40, 90], "Session_12": [7]}')
    report, _, _, _ = evaluated(recording_boundaries=[cuts])
    protocol = report["protocol"]
    assert protocol["sessions"] == ["Session_3", "Session_1"]
    assert protocol["calibration_sessions"] == ["Session_12"]
    assert (protocol["threshold_source"], protocol["exploratory"]) == ("calibration", False)
    assert protocol["class_order"] == ["background", "wearer", "others"]
    assert protocol["recording_cuts"] == {"Session_3": [40, 90], "Session_1": [], "Session_12": [7]}
    assert protocol["pred_layout"]["evaluation"]["a"]["Session_3"] == "[T, 10, 3]"
    for part, sessions in (("evaluation", ("Session_3", "Session_1")), ("calibration", ("Session_12",))):
        for session in sessions:
            array = np.load(study / "b" / "pred" / f"{session}.npy")
            assert protocol["input_sha256"]["runs"][part]["b"][session]["pred"] == content_sha256(array)
    options = {key.replace("_", "-") for key in protocol["options"]}
    assert options == {
        "target-root", "run", "calibration-run", "sessions", "calibration-sessions", "calibration-note",
        "matched-recalls", "midturn-pause-max-seconds", "decision-timing", "recording-boundaries", "intersect-valid",
        "allow-in-sample-test-thresholds", "print-event-timelines", "audit-sample", "seed", "bootstrap-resamples",
        "output",
    }  # fmt: skip
    assert len(protocol["not_provided"]) == 2


def test_the_origin_of_calibration_is_recorded(evaluated):
    report, _, _, _ = evaluated(calibration_note=["out of fold, seed 3"])
    assert report["protocol"]["calibration_note"] == "out of fold, seed 3"
    assert evaluated()[0]["protocol"]["calibration_note"] is None


@pytest.mark.parametrize("timing", ["pre-boundary", "post-boundary"])
def test_the_terminal_shows_what_was_omitted(evaluated, study, tmp_path, tools, timing):
    tools.random_study(study, rows=600)
    cuts = tmp_path / "cuts.json"
    cuts.write_text(json.dumps({"Session_3": list(range(11, 600, 11))}))
    _, tables, out, _ = evaluated(decision_timing=[timing], recording_boundaries=[cuts])
    shown = {}
    for line in out.splitlines():
        if line.endswith("candidates scored, and omitted by cause"):
            run = line.split(":")[0]
        elif re.fullmatch(r"  [\d.]+ s( +\d+){8}", line):
            seconds, _, *counts = line.split()
            shown[run, seconds] = [int(count) for count in counts]
    expected = {}
    for row in tables["events"]:
        counts = {column.removesuffix("_count"): int(row[column]) for column in COUNTS if column.endswith("_count")}
        expected[row["run"], row["horizon_seconds"]] = [
            counts["response"] + counts["no_response"], counts["response_censored"], counts["response_invalid"],
            counts["response_empty_window"] + counts["response_resolved_at_source"],
            counts["yield"] + counts["continue"], counts["yield_censored"], counts["yield_invalid"],
            counts["yield_empty_window"] + counts["yield_resolved_at_source"],
        ]  # fmt: skip
    assert shown == expected
    # No column is zero throughout, but for the two that a source before the boundary cannot have.
    found = np.any(list(shown.values()), axis=0).tolist()
    assert found == [True, True, True, timing == "post-boundary"] * 2


def test_content_digest_ignores_the_layout_and_sees_every_value():
    array = np.random.default_rng(0).random((7, 10, 3))
    same = (np.asfortranarray(array), array.astype(">f8"), array[:, ::1])
    assert {content_sha256(a) for a in same} == {content_sha256(array)}
    other = array.copy()
    other[6, 9, 2] = np.nextafter(other[6, 9, 2], 2)
    different = (other, array.astype(np.float32), array.reshape(7, 3, 10), array[::-1])
    assert content_sha256(array) not in {content_sha256(a) for a in different}


def test_same_inputs_same_bytes(evaluated, tmp_path):
    evaluated(audit_sample=[5])
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert len(names) == 5
    first = {name: (tmp_path / "out" / name).read_bytes() for name in names}
    evaluated(audit_sample=[5])
    assert first == {name: (tmp_path / "out" / name).read_bytes() for name in names}


def test_class_first_scores_are_read_alike(evaluated, study):
    report, _, _, _ = evaluated()
    for session in ("Session_12", "Session_3", "Session_1"):
        path = study / "a" / "pred" / f"{session}.npy"
        np.save(path, np.load(path).transpose(0, 2, 1))
    other, _, _, _ = evaluated()
    assert other["runs"] == report["runs"]
    assert other["protocol"]["pred_layout"]["evaluation"]["a"]["Session_3"] == "[T, 3, 10]"


def test_calibration_runs_are_read_where_they_are(evaluated, study, tmp_path):
    report, _, _, _ = evaluated()
    for run in "ab":
        for kind in ("pred", "valid"):
            (tmp_path / "calibration" / run / kind).mkdir(parents=True)
            (study / run / kind / "Session_12.npy").rename(tmp_path / "calibration" / run / kind / "Session_12.npy")
    other, _, _, _ = evaluated(calibration_run=[f"{run}={tmp_path / 'calibration' / run}" for run in "ba"])
    assert other["runs"] == report["runs"]
    assert list(other["runs"]) == ["a", "b"]


def test_in_sample_is_marked_and_warned_of(evaluated):
    report, _, _, err = evaluated(calibration_sessions=None, allow_in_sample_test_thresholds=[])
    assert (report["protocol"]["threshold_source"], report["protocol"]["exploratory"]) == ("in_sample", True)
    assert "warning: thresholds are in-sample" in err
    for row in report["runs"]["a"]["events"]:
        assert row["calibration_response_recall_0.8"] == row["response_recall_0.8"]


def test_other_sessions_may_go_without_calibration(evaluated):
    report, _, _, err = evaluated(calibration_sessions=None, sessions=["Session_12"])
    assert (report["protocol"]["threshold_source"], report["protocol"]["exploratory"]) == ("in_sample", True)
    assert "warning: thresholds are in-sample" in err


def test_the_flag_without_need_changes_nothing(evaluated):
    report, _, _, _ = evaluated()
    other, _, _, err = evaluated(allow_in_sample_test_thresholds=[])
    assert other["runs"] == report["runs"]
    assert other["protocol"]["exploratory"] is False
    assert "has no effect" in err


def test_no_calibration_positives_is_null_and_blank(evaluated, study):
    target = np.load(study / "target" / "Session_12.npy")
    target[:, 1] = 0
    np.save(study / "target" / "Session_12.npy", target)
    report, tables, _, err = evaluated()
    assert {row["status"] for row in report["thresholds"]["a"]} == {"no_calibration_positives"}
    assert {row["threshold"] for row in report["thresholds"]["a"]} == {None}
    for row in tables["events"]:
        assert [row[c] for c in row if "_at_recall_" in c or "_recall_" in c] == [""] * 36
        assert int(row["no_response_count"]) > 0
    assert "no calibration positives for 20 of 20" in err
    assert {row["change_ci95_status"] for row in tables["comparison"]} == {"no_threshold"}


def test_zero_denominators_are_blank(evaluated, study):
    for session in ("Session_3", "Session_1"):
        target = np.load(study / "target" / f"{session}.npy")
        target[:, 2] = 0
        np.save(study / "target" / f"{session}.npy", target)
    report, tables, _, _ = evaluated()
    for row in tables["events"]:
        assert row["no_response_count"] == "0"
        assert row["no_response_trigger_count_at_recall_0.8"] == "0"
        assert row["no_response_trigger_rate_at_recall_0.8"] == ""
        assert row["response_recall_0.8"] == row["response_ap"] == ""
    text = json.dumps(report)
    assert "NaN" not in text


def test_invalid_counts_that_differ_are_said(evaluated, study):
    report, _, _, err = evaluated()
    assert report["comparability"]["comparable"] is False
    difference = report["comparability"]["differences"][0]
    assert set(difference) == {"horizon_steps", "field", "counts"}
    assert "runs are not over the same events" in err
    shared, _, _, err = evaluated(intersect_valid=[])
    assert shared["comparability"] == {"comparable": True, "differences": [], "calibration_positives_differ": False}
    assert "not over the same events" not in err
    invalid = [shared["runs"][run]["events"][9]["response_invalid_count"] for run in "ab"]
    assert invalid[0] == invalid[1] >= max(report["runs"][r]["events"][9]["response_invalid_count"] for r in "ab")


def test_framewise_scores_endpoints_within_the_recording(call, tmp_path, tools):
    # Twelve rows cut at 6; horizon 0.4 s (k = 1) needs two rows before it in its recording: rows 2..5 and 8..11.
    for folder in ("target", "a/pred", "a/valid"):
        (tmp_path / folder).mkdir(parents=True)
    np.save(tmp_path / "target" / "S.npy", tools.target_of("000000000000", "001001001001"))
    scores = np.zeros((12, 10, 3))
    scores[:, 1, 1] = [0.99, 0.98, 0.9, 0.8, 0.1, 0.7, 0.97, 0.96, 0.6, 0.2, 0.3, 0.5]
    np.save(tmp_path / "a" / "pred" / "S.npy", scores)
    np.save(tmp_path / "a" / "valid" / "S.npy", np.ones((12, 10), dtype=bool))
    (tmp_path / "cuts.json").write_text('{"S": [6]}')
    out = tmp_path / "x.json"
    arguments = ["--target-root", tmp_path / "target", "--run", f"a={tmp_path / 'a'}", "--sessions", "S"]
    assert call(EVALUATE, *arguments, "--recording-boundaries", tmp_path / "cuts.json", "--output", out)[0] == 0
    rows = list(csv.DictReader((tmp_path / "x_framewise.csv").open()))
    row = next(r for r in rows if r["horizon_steps"] == "2" and r["class"] == "wearer")
    assert (row["valid_cells"], row["positives"]) == ("8", "4")
    # Ranked .9+ .8 .7+ .6+ .5+ .3 .2 .1 with the positives at rows 2, 5, 8, 11.
    assert float(row["average_precision"]) == pytest.approx((1 + 2 / 3 + 3 / 4 + 4 / 5) / 4)
    others = next(r for r in rows if r["horizon_steps"] == "2" and r["class"] == "others")
    assert others["average_precision"] == ""


def test_one_run_has_an_empty_comparison(evaluated, study):
    report, tables, _, _ = evaluated(run=[f"a={study / 'a'}"])
    assert report["comparison"] == tables["comparison"] == []
    assert report["comparability"]["comparable"] is True


def test_help_names_every_option_and_its_unit(call):
    status, out, _ = call(EVALUATE, "--help")
    assert status == 0
    text = " ".join(out.split())
    for phrase in ("in seconds", "fractions above 0", "frames of 0.2 s", "(a count)", "at 5 Hz", "bool"):
        assert phrase in text
    assert "--allow-in-sample-test-thresholds" in text


def test_no_partial_file_is_left(evaluated, tmp_path):
    evaluated()
    assert not list(tmp_path.rglob(".tmp-*"))
