"""The `emma` command on finished results: the board, what made it, and nothing to run again."""

import subprocess
import sys

import pytest


@pytest.fixture(scope="module")
def emma(finished):
    """Runs a command in the finished project, and returns what it wrote and its status."""

    def run(*words):
        env = finished.environment() | {"PYTHONPATH": str(finished.folder / "src")}
        command = [sys.executable, "-m", "emma.cli", *words]
        return subprocess.run(command, cwd=finished.folder, capture_output=True, text=True, env=env, check=False)

    return run


def test_the_board_is_shown_as_the_program_shows_it(emma, finished):
    told = emma("show", "--release", "tiny")
    assert told.stdout == finished.script("show_leaderboard", "results/releases/tiny/leaderboard.json").stdout
    assert "ssl_conv" in told.stdout
    assert (told.returncode, told.stderr) == (0, "")


def test_a_score_is_explained_down_to_the_rays(emma):
    told = emma("explain", "results/releases/tiny/leaderboard.json", "--all")
    assert (told.returncode, told.stderr) == (0, "")
    assert "  rule     board\n" in told.stdout
    assert "    results/releases/tiny/runs/dsp.json: run_record\n" in told.stdout
    behind = told.stdout.splitlines()[-1]
    for rule in ("channels ", "scenes ", "pretrain 1", "embed ", "fit_E_LOC_AOA ", "score_E_LOC_AOA "):
        assert rule in behind


def test_what_is_finished_is_not_run_again(emma):
    told = emma("run", "--release", "tiny", "--models", "dsp,ssl_conv", "--captures", "none", "--dry-run")
    assert told.stdout.startswith("$ snakemake --cores ")
    assert "Nothing to be done" in told.stdout + told.stderr
    assert told.returncode == 0


def test_a_model_that_is_none_is_told_what_was_meant(emma):
    told = emma("check", "ssl_con")
    assert (told.returncode, told.stderr) == (2, "model: ssl_con is unknown, did you mean ssl_conv?\n")
    told = emma("check", "dsp", "--release", "tinny")
    assert (told.returncode, told.stderr) == (2, "--release: tinny is unknown, did you mean tiny?\n")
