"""An interrupt at any moment of a run is one line, after all else; and Snakemake's words on locks are another's."""

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from common.errors import RESUMES
from workflow_support.ending import LOCKED, end_in_one_line

#: What is interrupted, as Snakemake is: its Snakefile, its jobs, whose failures it logs, and what runs at its end.
MOMENTS = {
    "a Snakefile": "wait()",
    "jobs": """
        try:
            wait()
        except KeyboardInterrupt:
            logger.error("a job failed")
            logger.info("shutting down")
            sys.exit(1)
    """,
    "an end": """
        import atexit
        @atexit.register
        def clean_up():
            print("cleaned up", flush=True)
        wait()
    """,
}
START = """
import logging, sys, textwrap, time
from workflow_support.ending import end_in_one_line
logger = logging.getLogger("snakemake.logging")
logging.basicConfig(level=logging.INFO, format="%(message)s")
end_in_one_line(logger)
def wait():
    logger.info("at work")
    time.sleep(60)
"""


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupt_is_the_last_line(moment):
    with subprocess.Popen(
        # Where the tests run in the background, interrupts are ignored.
        ["env", "--default-signal=INT", sys.executable, "-c", START + dedent(MOMENTS[moment])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[3] / "src")},
    ) as process:
        assert process.stderr.readline() == "at work\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, f"{RESUMES}\n")
    assert out == ("cleaned up\n" if moment == "an end" else "")


def test_an_interrupt_that_is_ignored_or_anothers_stays_so(monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: pytest.fail("another handler"))
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    end_in_one_line(logging.getLogger("not interrupted"))


def test_a_lock_is_told_without_advice_to_remove_it(monkeypatch, caplog):
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.SIG_IGN)
    logger = logging.getLogger("locked")
    end_in_one_line(logger)
    logger.error("remove it with %s", "--unlock", extra={"exception": "LockException"})
    logger.error("another %s", "fault", extra={"exception": "WorkflowError"})
    assert caplog.messages == [LOCKED, "another fault"]
