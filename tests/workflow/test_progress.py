"""What a long run tells: a few lines, quiet where nobody watches, and the log of a job that failed."""

import os
import pty
import subprocess

import pytest
import yaml

LOGGER = ("--logger", "rich")
CONFIG = {"name": "broken", "factory": "broken:build", "pretraining": "unknown", "tasks": ["E-LOC-AOA"]}
SOURCE = """
class Broken:
    name, embedding_dim = "broken", 1

    def embed(self, iq, rate, carrier):
        raise ValueError("the last line of the log")


def build(weights):
    return Broken()
"""
TARGET = "results/releases/few/embeddings/{}/E-LOC-AOA.parquet"


def test_a_failed_job_shows_its_log_and_the_rest_is_short(project):
    (project.folder / "config/models/broken.yaml").write_text(yaml.safe_dump(CONFIG))
    (project.folder / "broken.py").write_text(SOURCE)
    done = project.run(*LOGGER, "--cores", "1", TARGET.format("broken"), models="models=[broken]")
    assert done.returncode == 1
    text = done.stdout + done.stderr
    assert "Failed embed" in text
    assert "model broken: embed: the last line of the log" in text
    assert len(text.splitlines()) < 40
    assert "\x1b" not in text


@pytest.mark.parametrize("interactive", ["1", "0"])
def test_bars_are_for_a_terminal_that_somebody_watches(project, interactive):
    """On a terminal lines are drawn over; with TTY_INTERACTIVE=0, as make sets it in CI, none is."""
    (project.folder / TARGET.format("dsp")).unlink()
    ours, theirs = pty.openpty()
    env = project.environment() | {"TTY_INTERACTIVE": interactive, "TERM": "xterm"}
    command = project.command(*LOGGER, "--cores", "1", TARGET.format("dsp"), models="models=[dsp]")
    with subprocess.Popen(command, cwd=project.folder, stdout=theirs, stderr=theirs, env=env) as run:
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b"")).decode()
        assert run.wait(timeout=120) == 0
    os.close(ours)
    assert ("\x1b[2K" in written) == (interactive == "1")
    assert "Workflow Finished" in written


def _read(handle: int) -> bytes:
    try:
        return os.read(handle, 65536)
    except OSError:  # the other end is closed
        return b""


@pytest.mark.parametrize(("ci", "start"), [("true", "TTY_INTERACTIVE=0 "), ("", "")])
def test_make_runs_the_workflow_with_that_logger(ci, start, fresh):
    # Within another make its flags would speak too.
    env = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    command = ["make", "-n", "reports", f"CI={ci}"]
    done = subprocess.run(command, cwd=fresh.folder, capture_output=True, text=True, check=True, env=env)
    assert done.stdout.splitlines()[-1] == f"{start}.venv/bin/snakemake --logger rich --cores 2 all"
