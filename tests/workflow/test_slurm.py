"""The Slurm profile on a real Slurm of one node, which tests/slurm_node.py starts and ends."""

import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("snakemake_executor_plugin_slurm", reason="make cluster installs the Slurm executor")

NODE = Path(__file__).resolve().parents[1] / "slurm_node.py"
PROFILE = ["--profile", "workflow/profiles/slurm"]
#: What differs from a site with accounting, and polling fit for jobs of seconds.
HERE = ["--slurm-status-command", "squeue", "--slurm-init-seconds-before-status-checks", "2"]
ACCOUNT = ["--default-resources", "slurm_account=root", "mem_mb=500", "runtime=5"]
TARGET = "results/releases/tiny/folds/dsp/E-LOC-AOA/score_replicates.parquet"


def on_slurm(project, *arguments: str) -> subprocess.CompletedProcess:
    """Run the workflow through the profile, inside a Slurm that lives for this command."""
    command = project.command(*PROFILE, *HERE, *arguments, *ACCOUNT, models="models=[dsp]")
    result = subprocess.run(
        [project.python, str(NODE), *command, "--", TARGET],
        cwd=project.folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if result.returncode == 77:
        pytest.skip(result.stderr.strip())
    return result


def test_slurm_gives_the_bytes_of_a_local_run(one_core, tmp_path):
    """One task of one model: the embedding is a Slurm job, its fits and their scoring are another, and no more."""
    folder = tmp_path / "slurm"
    shutil.copytree(one_core.folder, folder, symlinks=True)
    project = type(one_core)(folder)
    results = project.results
    shutil.rmtree(results / "folds" / "dsp" / "E-LOC-AOA")
    (results / "embeddings" / "dsp" / "E-LOC-AOA.parquet").unlink()
    result = on_slurm(project, "--slurm-keep-successful-logs")
    said = result.stdout + result.stderr
    assert result.returncode == 0, said
    assert said.count("has been submitted with SLURM jobid") == 2
    # A group's jobs run where it runs: no step of theirs starts Snakemake once more.
    (log,) = (folder / ".snakemake/slurm_logs").glob("group_*/*.log")
    assert log.read_text().count("Snakemake version:") == 1
    assert log.read_text().count("localrule ") == 3
    ours, theirs = project.contents(), one_core.contents()
    made = [name for name in theirs if "dsp/E-LOC-AOA" in name and "snr" not in name]
    assert len(made) >= 10
    assert [name for name in made if ours.get(name) != theirs[name]] == []


def test_the_docs_show_these_options():
    """What the tests run is what docs/cluster.md shows."""
    docs = (NODE.parents[1] / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert f"python tests/slurm_node.py snakemake {' '.join([*PROFILE, *HERE, *ACCOUNT])}" in docs
