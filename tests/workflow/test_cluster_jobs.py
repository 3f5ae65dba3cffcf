"""What Snakemake does inside a job of a cluster, as an executor calls it there."""

import subprocess

import pytest

#: The jobs of a group say which worker they have.
TELL = """import os
with open("workers.txt", "a") as file:
    file.write(os.environ.get("EMMA_WORKER", "none") + "\\n")
"""
JOBS = ("fit_E_LOC_AOA:model=dsp,value=E_URBAN", "fit_E_LOC_AOA:model=dsp,value=E_RURAL", "score_E_LOC_AOA:model=dsp")
#: What executors add: hooks do not run.
INSIDE = ("--mode", "remote", "--force", "--no-hooks", "--nolock", "--ignore-incomplete")


@pytest.mark.parametrize("group", [True, False])
def test_a_group_has_one_warm_worker_and_a_single_job_none(project, group):
    start = project.folder / "scripts/run.py"
    start.write_text(TELL + start.read_text())
    jobs = JOBS if group else JOBS[:1]
    rules = sorted({job.partition(":")[0] for job in jobs})
    named = ("--local-groupid", "abc") if group else ()
    command = project.command(*INSIDE, *named, cores=1)
    command += ["--target-jobs", *jobs, "--allowed-rules", *rules]
    done = subprocess.run(
        command, cwd=project.folder, env=project.environment(), capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = (project.folder / "workers.txt").read_text().split()
    assert len(told) == len(jobs)
    assert len(set(told)) == 1
    assert (told[0] != "none") == group
