"""What a run tells: what runs now, time left by what took how long, and a line per failed job."""

import io
import logging
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_emma import LogHandler
from snakemake_logger_plugin_emma.progress import Job, Progress, clock, duration, last_line


@pytest.mark.parametrize(
    ("rule", "wildcards", "short", "words"),
    [
        ("embed", {"model": "dsp", "task": "E-LOC-AOA"}, "embed dsp E-LOC-AOA", "model dsp, task E-LOC-AOA"),
        (
            "fit_E_ID_FP",
            {"model": "dsp", "value": "unit-3"},
            "fit dsp E-ID-FP unit-3",
            "model dsp, task E-ID-FP, fold unit-3",
        ),
        (
            "fit_E_LOC_LOS_leave_one_band_out",
            {"model": "m", "value": "2.4GHz"},
            "fit m E-LOC-LOS leave-one-band-out 2.4GHz",
            "model m, task E-LOC-LOS, protocol leave-one-band-out, fold 2.4GHz",
        ),
        ("control", {"original": "ssl_conv"}, "control ssl_conv", "model ssl_conv"),
        ("archive", {"more": ""}, "archive", ""),
        ("convert_captures", {"captures": "mine"}, "convert_captures mine", "capture set mine"),
    ],
)
def test_a_job_is_named_in_words(rule, wildcards, short, words, tmp_path):
    assert str(Job(rule, wildcards)) == short
    log = tmp_path / "job.log"
    log.write_text("Traceback:\n  more\nValueError: why\n\n")
    told = f" ({words})" if words else ""
    assert Job(rule, wildcards, (str(log),)).failure() == f"{rule} failed{told}: {log}: ValueError: why"


def test_a_failure_without_a_log_is_told_too(tmp_path):
    absent, empty = str(tmp_path / "absent"), tmp_path / "empty"
    empty.write_text("\n \n")
    assert Job("page", {}, (absent,)).failure() == "page failed: it left no log"
    assert Job("page", {}, (absent, str(empty))).failure() == f"page failed: {empty}: the log is empty"
    # A scheduler's own log stands in.
    other = tmp_path / "slurm.log"
    other.write_text("oom_kill event")
    assert Job("page", {}, (str(empty),)).failure([str(other)]) == f"page failed: {other}: oom_kill event"


def test_the_last_line_of_a_large_log_is_plain_and_short(tmp_path):
    log = tmp_path / "log"
    log.write_bytes(b"x\n" * 2**20 + b"\x1b[31mred\xff " + b"y" * 1000 + b"\n")
    line = last_line(log)
    assert line.startswith(" [31mred\ufffd yyy")
    assert line.isprintable()
    assert len(line) == 303


def run_of(jobs):
    """A progress with a clock that tests set."""
    now = SimpleNamespace(seconds=0.0)
    progress = Progress(lambda: now.seconds)
    progress.plan(jobs)
    return progress, now


def test_time_left_goes_by_stage_and_by_how_many_ran_at_once():
    progress, now = run_of({"embed": 2, "fit_E_ID_FP": 4, "fit_E_ID_AMC": 4})
    assert progress.left() is None
    for number in range(2):
        progress.start(number, "embed", {}, ())
    now.seconds = 20.0
    progress.finish(0)
    progress.finish(1)
    progress.start(2, "fit_E_ID_FP", {}, ())
    progress.start(3, "fit_E_ID_AMC", {}, ())
    now.seconds = 24.0
    assert progress.left() is None  # two are done
    progress.finish(2)
    progress.finish(3)
    # Six fits of 4 s each, two at once.
    assert progress.left() == pytest.approx(12.0)
    assert progress.state() == "4 of 10 jobs, about 10 s left"
    progress.start(4, "fit_E_ID_FP", {"model": "dsp", "value": "u"}, ())
    now.seconds = 26.0
    assert progress.left() == pytest.approx((5 * 4.0 + 2.0) / (50.0 / 26.0))
    assert progress.now(1) == [("fit dsp E-ID-FP u", 2.0)]


def test_what_runs_longest_is_named_first():
    progress, now = run_of({"embed": 3})
    for number, model in enumerate(("a", "b", "c")):
        now.seconds = float(number)
        progress.start(number, "embed", {"model": model}, ())
    assert progress.line(2) == "0 of 3 jobs; now: embed a, embed b and 1 more"


@pytest.mark.parametrize(("seconds", "told"), [(1, "5 s"), (58, "60 s"), (61, "1 min"), (3900, "1 h 5 min")])
def test_spans_are_told_coarsely(seconds, told):
    assert duration(seconds) == told
    assert (clock(61.9), clock(3661)) == ("1:01", "1:01:01")


@pytest.fixture
def handler(monkeypatch):
    """Makes the logger as Snakemake would, writing into a text; ``tty`` is a terminal that somebody watches."""
    for name in ("TTY_INTERACTIVE", "TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def make(*, tty=False, **settings):
        stream = io.StringIO()
        stream.isatty = lambda: tty
        monkeypatch.setattr("sys.stderr", stream)
        usual = {"stdout": False, "nocolor": False, "quiet": None, "printshellcmds": False, "dryrun": False}
        return LogHandler(SimpleNamespace(**(usual | settings)), None), stream

    return make


def tell(handler, event=None, message="", level=logging.INFO, **fields):
    record = logging.LogRecord("snakemake", level, "", 0, message, (), None)
    record.__dict__.update(fields | ({} if event is None else {"event": event}))
    handler.handle(record)


def failing_run(handler, log):
    tell(handler, message="Building DAG of jobs...")
    tell(handler, LogEvent.RUN_INFO, stats={"embed": 2, "total": 2})
    for number, model in enumerate(("a", "b")):
        job = {"jobid": number, "rule_name": "embed", "wildcards": {"model": model}, "log": [str(log)]}
        tell(handler, LogEvent.JOB_INFO, **job)
    tell(handler, LogEvent.SHELLCMD, shellcmd="python embed.py")
    tell(handler, LogEvent.JOB_FINISHED, job_id=0)
    tell(handler, message="RuleException:\nCalledProcessError in file x, line 1:\nCommand", level=logging.WARNING)
    tell(handler, LogEvent.JOB_ERROR, jobid=1, rule_name="embed", log=[str(log)])
    tell(handler, message="Exiting because a job execution failed. Look above", level=logging.ERROR)
    tell(handler, LogEvent.ERROR, message="WorkflowError:\nAt least one job did not complete successfully.", level=40)
    handler.close()
    handler.close()


def test_a_failing_run_is_four_lines_the_last_says_why(handler, tmp_path):
    (tmp_path / "b.log").write_text("first\nthe reason\n")
    logger, stream = handler()
    failing_run(logger, tmp_path / "b.log")
    assert stream.getvalue().splitlines() == [
        "2 jobs to do",
        "0 of 2 jobs; now: embed a",
        "1 of 2 jobs, 1 failed, in 0:00; once mended, the same command resumes",
        f"embed failed (model b): {tmp_path}/b.log: the reason",
    ]


def test_a_quiet_run_says_only_why_it_failed(handler, tmp_path):
    (tmp_path / "b.log").write_text("the reason\n")
    logger, stream = handler(quiet={"all"})
    failing_run(logger, tmp_path / "b.log")
    assert stream.getvalue() == f"embed failed (model b): {tmp_path}/b.log: the reason\n"


def test_other_errors_and_commands_that_are_asked_for_are_shown(handler):
    logger, stream = handler(printshellcmds=True)
    tell(logger, LogEvent.ERROR, message="WorkflowError:\nno such target", level=logging.ERROR)
    tell(logger, LogEvent.SHELLCMD, shellcmd="python embed.py [x]")
    tell(logger, message="Nothing to be done (all requested files are present and up to date).")
    logger.close()
    assert stream.getvalue().splitlines()[:3] == ["WorkflowError:", "no such target", "python embed.py [x]"]
    assert "Nothing to be done" in stream.getvalue()


def test_a_terminal_shows_what_runs_now_above_how_far_it_is(handler):
    logger, stream = handler(tty=True, nocolor=True)
    tell(logger, LogEvent.RUN_INFO, stats={"embed": 9, "total": 9})
    for number in range(8):
        job = {"jobid": number, "rule_name": "embed", "wildcards": {"model": f"m{number}"}, "log": []}
        tell(logger, LogEvent.JOB_INFO, **job)
    console = logger._console
    with console.capture() as shown:
        console.print(logger._drawn())
    logger.close()
    lines = [re.sub("\x1b[^m]*m", "", line).strip() for line in shown.get().splitlines()]
    assert lines[:7] == [
        *(f"embed m{number}  0:00" for number in range(6)),
        "and 2 more",
    ]
    assert "0 of 9 jobs, 0:00 so far" in lines[7]
    # Drawn over, and the cursor comes back.
    assert "\x1b[2K" in stream.getvalue()
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")
    assert stream.getvalue().endswith("0 of 9 jobs, in 0:00\n")


def test_the_logger_brings_no_package_of_the_installed_checkout():
    """Snakemake imports each logger before the Snakefile, whose checkout may be another than the installed one."""
    packages = ("common", "emma", "floor_events", "rfgen", "workflow_support")
    code = f"import sys, snakemake_logger_plugin_emma; print(*(name for name in {packages} if name in sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "\n"
