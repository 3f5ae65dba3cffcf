"""Snakemake's logger of EMMA (``--logger emma``): what runs now, time left, and a line per failed job at the end."""

from __future__ import annotations

import time
from logging import ERROR, INFO, LogRecord
from typing import TYPE_CHECKING

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from snakemake_logger_plugin_emma.progress import Progress, clock

# Snakemake imports every logger that it finds: without rich, only this one must not start.
if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

#: What Snakemake tells of its own doings, and of failures that the last lines tell better.
_OMITTED = (
    "Assuming unrestricted shared filesystem",
    "host:",
    "Building DAG of jobs",
    "Using shell:",
    "Select jobs to execute",
    "Execute ",
    "Complete log(s):",
    "Elapsed time:",
    "Conda environments: ignored",
    "Singularity containers: ignored",
    "Group jobs: inactive",
    "Removing output files of failed job",
    "Shutting down, this might take some time",
)
#: The command of a failed job, and two ends.
_COMMAND = "RuleException:\nCalledProcessError in file"
_OF_FAILURES = (
    "Exiting because a job execution failed",
    "At least one job did not complete successfully",
)

#: Running jobs that a terminal shows at a time, and that a line of other outputs names.
_SHOWN, _NAMED = 6, 2
#: Seconds between two lines where no terminal is.
_PAUSE = 30.0


class LogHandler(LogHandlerBase):
    """Shows a run: on a terminal a block that is drawn over, elsewhere a few plain lines."""

    writes_to_stream = True
    writes_to_file = False
    has_filter = True
    has_formatter = True
    needs_rulegraph = False

    def __post_init__(self) -> None:
        """Set up; nothing is drawn before the jobs are known, so that a refused plan leaves the terminal as it was."""
        from rich.console import Console

        settings = self.common_settings
        self._console = Console(stderr=not settings.stdout, no_color=settings.nocolor or None, highlight=False)
        self._quiet = bool(settings.quiet)
        self._progress = Progress()
        self._live: Live | None = None
        self._told = 0.0
        self._ended = False

    def emit(self, record: LogRecord) -> None:
        """Take in an event, or print a message."""
        try:
            self._take(record)
        except Exception:  # noqa: BLE001 (a fault here must not end a run; the handler tells it)
            self.handleError(record)

    def close(self) -> None:
        """Remove the block and tell how the run ended; Snakemake may call it twice."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        if not self._ended:
            self._ended = True
            failed = len(self._progress.failed)
            lines = self._progress.end()
            if self._quiet:
                lines = lines[-failed:] if failed else []
            for number, line in enumerate(lines):
                self._print(line, "red" if failed and number else "")
        super().close()

    def _take(self, record: LogRecord) -> None:
        event = getattr(record, "event", None)
        if event is None or event == LogEvent.ERROR:
            self._message(record)
        elif event == LogEvent.RUN_INFO:
            self._plan(record)
        elif event == LogEvent.SHELLCMD:
            if self.common_settings.printshellcmds:
                self._print(str(record.__dict__["shellcmd"]))
        elif not self.common_settings.dryrun:
            self._job(event, record)

    def _job(self, event: LogEvent, record: LogRecord) -> None:
        """Take in what became of a job."""
        told = record.__dict__
        if event == LogEvent.JOB_INFO:
            self._progress.start(told["jobid"], told["rule_name"], told["wildcards"] or {}, told["log"] or ())
        elif event == LogEvent.JOB_FINISHED:
            self._progress.finish(told["job_id"])
        elif event == LogEvent.JOB_ERROR:
            self._progress.fail(told["jobid"], told["rule_name"], told["log"] or ())
        else:
            return
        if self._live is None and not self._quiet and time.monotonic() - self._told >= _PAUSE:
            self._told = time.monotonic()
            self._print(self._progress.line(_NAMED))

    def _message(self, record: LogRecord) -> None:
        text = record.getMessage()
        failures = bool(self._progress.failed) and any(part in text for part in _OF_FAILURES)
        if record.levelno < ERROR and (text in {"", "None"} or text.startswith(_OMITTED)):
            return
        if not failures and not text.startswith(_COMMAND) and (record.levelno > INFO or not self._quiet):
            self._print(text, "red" if record.levelno >= ERROR else "")

    def _plan(self, record: LogRecord) -> None:
        """Tell the jobs, and begin to draw."""
        from rich.live import Live

        jobs = {rule: count for rule, count in record.__dict__["stats"].items() if rule != "total"}
        if self.common_settings.dryrun:
            return
        self._progress.plan(jobs)
        if self._quiet:
            return
        self._print(f"{self._progress.total} {'job' if self._progress.total == 1 else 'jobs'} to do")
        if self._console.is_interactive:
            self._live = Live(
                get_renderable=self._drawn, console=self._console, transient=True, refresh_per_second=4, screen=False
            )
            self._live.start()

    def _drawn(self) -> RenderableType:
        """The block: what runs now on top, below it how far the run is."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        lines = [
            Text(f"  {name}  {clock(seconds)}", no_wrap=True, overflow="ellipsis")
            for name, seconds in self._progress.now(_SHOWN)
        ]
        if (more := len(self._progress.running) - len(lines)) > 0:
            lines.append(Text(f"  and {more} more", style="dim"))
        far = Table.grid(padding=(0, 1))
        state = Text(f"{self._progress.state()}, {clock(self._progress.elapsed())} so far", no_wrap=True)
        far.add_row(ProgressBar(self._progress.total or 1, self._progress.done, width=24), state)
        return Group(*lines, far)

    def _print(self, text: str, style: str = "") -> None:
        from rich.text import Text

        self._console.print(Text(text, style=style), soft_wrap=True)
