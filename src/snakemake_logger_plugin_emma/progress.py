"""What a run tells while it goes and at its end: jobs in words, what runs now, time left, why jobs failed."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: A rule of one task has the task in its name, and a fit one of another protocol that behind it.
_OF_TASK = re.compile(r"^(?P<stage>[a-z_]+?)_(?P<task>E(?:_[A-Z0-9]+)+)(?:_(?P<protocol>[a-z_]+))?$")

#: Wildcards in the words of the documentation.
_WORDS = {"value": "fold", "captures": "capture set", "original": "model"}

#: Bytes of a log's end, and characters of its last line, that are read and shown.
_TAIL, _LONGEST = 2**16, 300

#: Jobs that are done before their durations tell how long the others take.
_ENOUGH = 3


@dataclass(frozen=True)
class Job:
    """A job that was started.

    Attributes:
        rule: its name.
        wildcards: their values by name.
        logs: its log files.
        started: when, by the clock of its ``Progress``.
    """

    rule: str
    wildcards: Mapping[str, str] = field(default_factory=dict)
    logs: tuple[str, ...] = ()
    started: float = 0.0

    def words(self) -> dict[str, str]:
        """Model, task, fold and the like, by word."""
        found = {}
        if "original" in self.wildcards or "model" in self.wildcards:
            found["model"] = self.wildcards.get("model") or self.wildcards["original"]
        if of_task := _OF_TASK.match(self.rule):
            found["task"] = of_task["task"].replace("_", "-")
            found |= {"protocol": of_task["protocol"].replace("_", "-")} if of_task["protocol"] else {}
        return found | {_WORDS.get(name, name): value for name, value in self.wildcards.items() if value}

    @property
    def stage(self) -> str:
        """The rule without the task that stands in its name: jobs of one stage take about as long."""
        of_task = _OF_TASK.match(self.rule)
        return of_task["stage"] if of_task else self.rule

    def __str__(self) -> str:
        return " ".join([self.stage, *self.words().values()])

    def failure(self, logs: Iterable[str] = ()) -> str:
        """Why it failed, in one line: rule, what for, log file and that file's last line."""
        words = ", ".join(f"{word} {value}" for word, value in self.words().items())
        told = f"{self.rule} failed{f' ({words})' if words else ''}"
        files = [log for log in (*self.logs, *logs) if Path(log).is_file()]
        for log in files:
            if line := last_line(log):
                return f"{told}: {log}: {line}"
        return f"{told}: {files[0]}: the log is empty" if files else f"{told}: it left no log"


def last_line(path: str | Path) -> str:
    """The last line of a text that is not empty, as one line of printable characters; empty where there is none."""
    with Path(path).open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().decode("utf-8", "replace").splitlines()
    line = next((line.strip() for line in reversed(lines) if line.strip()), "")
    plain = "".join(letter if letter.isprintable() else " " for letter in line)
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}..."


def duration(seconds: float) -> str:
    """A span of time in words, coarse: nobody knows the rest."""
    if seconds < 60:
        return f"{max(5, 5 * round(seconds / 5))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def clock(seconds: float) -> str:
    """A span of time as minutes and seconds, or with hours."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Progress:
    """The jobs of a run: which are to come, which run, how long those that are done took.

    Args:
        now: seconds since any moment.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._began = now()
        self._waiting: Counter[str] = Counter()
        self._known: dict[int, Job] = {}
        self._took: dict[str, list[float]] = {}
        self.running: dict[int, Job] = {}
        self.failed: dict[int, tuple[Job, tuple[str, ...]]] = {}
        self.total = self.done = 0

    def plan(self, jobs: Mapping[str, int]) -> None:
        """Take in how many jobs of each rule there are to do."""
        self._began = self._now()
        self._waiting = Counter()
        for rule, count in jobs.items():
            self._waiting[Job(rule).stage] += count
        self.total = self._waiting.total()

    def start(self, number: int, rule: str, wildcards: Mapping[str, str], logs: Iterable[str]) -> None:
        """A job was started."""
        job = Job(rule, dict(wildcards), tuple(logs), self._now())
        self._known[number] = self.running[number] = job
        self._waiting[job.stage] -= 1

    def finish(self, number: int) -> None:
        """A job is done."""
        if job := self.running.pop(number, None):
            self._took.setdefault(job.stage, []).append(self._now() - job.started)
            self.done += 1

    def fail(self, number: int, rule: str, logs: Iterable[str] = ()) -> None:
        """A job failed; ``logs`` are those that it may have beside its own."""
        self.running.pop(number, None)
        self.failed[number] = self._known.get(number, Job(rule)), tuple(logs)

    def failures(self) -> list[str]:
        """A line per failed job."""
        return [job.failure(logs) for job, logs in self.failed.values()]

    def elapsed(self) -> float:
        """Seconds since the jobs are known."""
        return self._now() - self._began

    def left(self) -> float | None:
        """Seconds until the end, by the durations of the jobs of each stage; None where too few are done to say."""
        took = [seconds for durations in self._took.values() for seconds in durations]
        if len(took) < _ENOUGH or not self.elapsed():
            return None
        now, mean = self._now(), sum(took) / len(took)
        means = {stage: sum(durations) / len(durations) for stage, durations in self._took.items()}
        running = [*self.running.values()]
        rest = sum(max(count, 0) * means.get(stage, mean) for stage, count in self._waiting.items())
        rest += sum(max(means.get(job.stage, mean) - (now - job.started), 0) for job in running)
        at_once = (sum(took) + sum(now - job.started for job in running)) / self.elapsed()
        return rest / max(at_once, 1)

    def state(self) -> str:
        """How far the run is, in one line."""
        parts = [f"{self.done} of {self.total} jobs"]
        if self.failed:
            parts.append(f"{len(self.failed)} failed")
        left = self.left()
        if left is not None and self.done + len(self.failed) < self.total:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def now(self, most: int) -> list[tuple[str, float]]:
        """What runs now and for how long, the longest first, ``most`` of them."""
        running = sorted(self.running.values(), key=lambda job: job.started)
        now = self._now()
        return [(str(job), now - job.started) for job in running[:most]]

    def line(self, most: int) -> str:
        """How far the run is and ``most`` of the jobs that run now, in one line."""
        now = [name for name, _ in self.now(most)]
        more = len(self.running) - len(now)
        told = f"{', '.join(now)}{f' and {more} more' if more > 0 else ''}"
        return f"{self.state()}; now: {told}" if now else self.state()

    def end(self) -> list[str]:
        """What is told at the end of a run: how far it came and, last, a line per failed job."""
        if not self.total:
            return []
        failed = f", {len(self.failed)} failed" if self.failed else ""
        told = f"{self.done} of {self.total} jobs{failed}, in {clock(self.elapsed())}"
        return [f"{told}; once mended, the same command resumes" if self.failed else told, *self.failures()]
