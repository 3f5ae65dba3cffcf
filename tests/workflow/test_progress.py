"""What a long run tells: a few lines, quiet where nobody watches, and the log of a job that failed."""

import os
import pty
import subprocess

import pytest
import yaml

LOGGER = ("--logger", "emma")
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


@pytest.fixture
def env(project):
    """The environment of a run; the logger is found beside the packages, as where they are installed."""
    return project.environment() | {"PYTHONPATH": str(project.folder / "src")}


def test_a_failed_job_is_one_line_at_the_end(project, env):
    (project.folder / "config/models/broken.yaml").write_text(yaml.safe_dump(CONFIG))
    (project.folder / "broken.py").write_text(SOURCE)
    command = project.command(*LOGGER, "--cores", "1", TARGET.format("broken"), models="models=[broken]")
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 1
    lines = (done.stdout + done.stderr).splitlines()
    log = "results/releases/few/logs/embed/broken/E-LOC-AOA.log"
    reason = "model broken: embed: the last line of the log"
    assert lines[-1].startswith(f"embed failed (model broken, task E-LOC-AOA): {log}: {reason}")
    assert len([line for line in lines if "failed" in line]) == 2
    assert not [line for line in lines if "Error" in line or "\x1b" in line]
    assert len(lines) < 10


@pytest.mark.parametrize("interactive", ["1", "0"])
def test_lines_are_drawn_over_on_a_terminal_that_somebody_watches(project, env, interactive):
    """With TTY_INTERACTIVE=0, as make sets it in CI, none is drawn over."""
    (project.folder / TARGET.format("dsp")).unlink()
    ours, theirs = pty.openpty()
    env |= {"TTY_INTERACTIVE": interactive, "TERM": "xterm"}
    command = project.command(*LOGGER, "--cores", "1", TARGET.format("dsp"), models="models=[dsp]")
    with subprocess.Popen(command, cwd=project.folder, stdout=theirs, stderr=theirs, env=env) as run:
        os.close(theirs)
        written = b"".join(iter(lambda: _read(ours), b"")).decode()
        assert run.wait(timeout=120) == 0
    os.close(ours)
    assert ("\x1b[2K" in written) == (interactive == "1")
    assert "1 of 1 jobs, in 0:0" in written


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
    assert done.stdout.splitlines()[-1] == f"{start}.venv/bin/snakemake --logger emma --cores 2 all"
