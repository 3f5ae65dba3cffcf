"""How a run ends that did not finish: an interrupt, or another run at work on the same files, is one line."""

from __future__ import annotations

import atexit
import logging
import os
import resource
import signal
import sys
import threading
from types import FrameType, TracebackType

from common.errors import INTERRUPTED, RESUMES, InputError

#: What Snakemake says of its locks is several lines, and advises to remove them.
LOCKED = "another run is at work on these files; once it has ended, the same command goes on"

#: Bytes that each file of a run may have at least: below, Snakemake cannot keep its own records.
_LEAST = 2**22


def check_file_limit() -> None:
    """InputError where the system limits files to less than what any run writes."""
    limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if limit != resource.RLIM_INFINITY and limit < _LEAST:
        raise InputError(f"ulimit -f: files of at most {limit} bytes; expected {_LEAST} or more for a run")


class _Ending(logging.Filter):
    """Whether this process was interrupted, and which of Snakemake's messages are shown."""

    interrupted = False

    def on_interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        self.interrupted = True
        raise KeyboardInterrupt

    def filter(self, record: logging.LogRecord) -> bool:
        """Rewrite that of a lock; drop all after an interrupt: jobs that failed of it, and Snakemake's own words."""
        if getattr(record, "exception", None) == "LockException":
            record.msg, record.args = LOCKED, None
        return not self.interrupted

    def hook(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not (self.interrupted and issubclass(kind, KeyboardInterrupt)):
            sys.__excepthook__(kind, error, trace)

    def at_exit(self) -> None:
        """The last word, and the status, which Snakemake would give as that of a failed job."""
        if self.interrupted:
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.write(f"{RESUMES}\n")
            sys.stderr.flush()
            os._exit(INTERRUPTED)


def end_in_one_line(logger: logging.Logger) -> None:
    """Have this process, which runs Snakemake, end in one line where it is interrupted or meets a lock.

    An interrupt that waits, since who started this process held it back, is taken from here on. Where interrupts are
    ignored, or have a handler of another's, they are left alone.

    Args:
        logger: that of Snakemake.
    """
    ending = _Ending()
    logger.addFilter(ending)
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        atexit.register(ending.at_exit)
        sys.excepthook = ending.hook
        signal.signal(signal.SIGINT, ending.on_interrupt)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
