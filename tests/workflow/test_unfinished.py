"""A run that does not finish: beside another, interrupted, or held to small files: one line, then the same bytes."""

import contextlib
import os
import resource
import signal
import socket
import subprocess

import pytest

from common.errors import RESUMES
from workflow_support.ending import LOCKED

TASK = "E-ID-FP"
TARGET = f"results/releases/few/embeddings/dsp/{TASK}.parquet"
MADE = (f"scenes/{TASK}/", "embeddings/dsp/")
ONE_MODEL = "models=[dsp]"


def begin(project, *arguments: str) -> subprocess.Popen:
    """A run in a session of its own, as a terminal starts one: an interrupt is not ignored."""
    return subprocess.Popen(
        ["env", "--default-signal=INT", *project.command(*arguments, models=ONE_MODEL)],
        cwd=project.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=project.environment(),
        start_new_session=True,
    )


def test_a_forced_run_is_left_alone_then_interrupted_and_resumed(project):
    """One beside it says whom to wait for; an interrupt is the last line; the same command makes the same bytes."""
    wanted = project.contents()
    with begin(project, "-F", TARGET) as first:
        try:
            while line := first.stdout.readline():
                if "Execute 1 jobs" in line or "Execute 2 jobs" in line:
                    break
            second = project.run("-F", TARGET, models=ONE_MODEL)
            os.killpg(first.pid, signal.SIGINT)
            told, _ = first.communicate(timeout=60)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(first.pid, signal.SIGKILL)
    said = (second.stdout + second.stderr).strip().splitlines()
    assert (second.returncode, said[-1]) == (1, LOCKED)
    assert not any("--unlock" in line or "LockException" in line for line in said)
    assert (first.returncode, told.splitlines()[-1]) == (130, RESUMES)
    assert not any(word in told for word in ("Traceback", "Error", "exit status"))
    assert list(project.folder.rglob(".tmp-*")) == []
    left = project.contents()
    assert [name for name in left if left[name] != wanted[name]] == []
    project.complete("-F", TARGET, models=ONE_MODEL)
    assert project.contents() == wanted


def test_a_run_without_hooks_asks_no_worker_of_another_run(project, tmp_path):
    """A run that another one's job starts inherits the name of its worker."""
    (project.folder / TARGET).unlink()
    with socket.socket(socket.AF_UNIX) as another:
        another.bind(str(tmp_path / "worker"))
        another.listen()
        another.setblocking(False)
        # Whoever asks waits for an answer that never comes, until it is ended.
        command = project.command("--no-hooks", TARGET, models=ONE_MODEL)
        env = project.environment() | {"EMMA_WORKER": str(tmp_path / "worker")}
        done = subprocess.run(command, cwd=project.folder, env=env, capture_output=True, timeout=60, check=False)
        with pytest.raises(BlockingIOError):
            another.accept()
    assert done.returncode == 0


def test_a_limit_on_files_that_lets_no_run_keep_its_records_is_refused(few):
    done = subprocess.run(
        few.command("--dry-run"),
        cwd=few.folder,
        env=few.environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16)),
    )
    assert done.returncode == 2
    said = done.stderr.splitlines()[-1]
    assert said == "ulimit -f: files of at most 65536 bytes; expected 4194304 or more for a run"
