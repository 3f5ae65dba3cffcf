"""The same bytes on any number of cores, with and without a warm worker, and after a kill."""

import contextlib
import os
import random
import shutil
import signal
import subprocess
import time

ONE_MODEL = "models=[dsp]"


def test_one_core_gives_the_same_bytes_as_two(finished, one_core):
    """Rays, scenes, manifest, splits, embeddings and folds are those of two cores and a warm worker.

    The run on one core starts an interpreter for every job. To save time it has one model of the two and no board, and
    of the tasks one of every kind of answer; two are scored whole, of the others a fold is fit.
    """
    ours, theirs = one_core.contents(), finished.contents()
    assert {name.partition("/")[0] for name in ours} >= {
        "channels",
        "scenes",
        "release",
        "splits",
        "embeddings",
        "folds",
    }
    assert len([name for name in ours if name.endswith("readout.safetensors")]) > 15
    assert [name for name in ours if ours[name] != theirs.get(name)] == []


KILLS = 6


def delete_part(project, draw: random.Random) -> None:
    """Delete a drawn part of the results with what follows from it, so that the next run has work at several stages."""
    results = project.results
    task = draw.choice(sorted(path.name for path in results.glob("folds/dsp/*")) or ["E-LOC-AOA"])
    folds = sorted(results.glob("folds/*/*/*/*"))
    lost = draw.sample(folds, min(8, len(folds)))
    if draw.random() < 0.3:
        lost += [
            results / "splits" / task,
            results / "embeddings" / "dsp" / f"{task}.parquet",
            results / "folds/dsp" / task,
        ]
    for path in lost:
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def kill(project, targets: list[str], moment: tuple[int, float]) -> bool:
    """Start the workflow, wait for some new outputs and a pause more, SIGKILL it with all its jobs.

    Returns:
        whether it was killed with a job's outputs unfinished.
    """
    outputs, pause = moment
    before = finished_names(project)
    process = subprocess.Popen(
        project.command(*targets, models=ONE_MODEL),
        cwd=project.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=project.environment(),
    )
    try:
        deadline = time.monotonic() + 300
        while process.poll() is None and outputs > len(finished_names(project) - before):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(pause)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        status = process.wait()
    return status == -signal.SIGKILL and any((project.folder / ".snakemake").glob("incomplete/*"))


def finished_names(project) -> set[str]:
    """Results under their final names."""
    names = (path.relative_to(project.results).as_posix() for path in project.results.rglob("*") if path.is_file())
    return {name for name in names if not name.startswith("logs/") and ".tmp-" not in name}


def test_killed_runs_resume_to_the_same_bytes(one_core, tmp_path):
    """SIGKILL at seeded moments, each run the resumption of the one before; at last every byte of a run left alone.

    Before each, a drawn part of the results is deleted, so that kills meet planning, splits, embeddings, fits and
    scorings. After each, no file under a final name differs from the undisturbed run's. A temporary that chance
    may never leave is put in at one place.
    """
    project = type(one_core)(tmp_path / "killed")
    shutil.copytree(one_core.folder, project.folder, symlinks=True)
    wanted = one_core.contents()
    # Asked for by name: one that was deleted comes back, although what follows from it is there.
    targets = [f"results/releases/tiny/{name}" for name in wanted if name.startswith("folds/")]
    draw = random.Random(20)
    met = 0
    for _ in range(KILLS):
        delete_part(project, draw)
        met += kill(project, targets, (draw.randint(0, 4), draw.uniform(0, 1.2)))
        found = project.contents()
        assert [name for name in finished_names(project) if found[name] != wanted[name]] == []
    assert met >= KILLS // 2, f"only {met} kills met a job at work"
    assert list((project.folder / ".snakemake/locks").iterdir())
    scores = project.results / "folds/dsp/E-LOC-AOA/score_replicates.parquet"
    scores.parent.mkdir(parents=True, exist_ok=True)
    scores.with_name(f".tmp-{scores.name}-abcd_123").write_text("{")
    scores.unlink(missing_ok=True)
    project.complete(*targets, models=ONE_MODEL)
    assert list(project.folder.rglob(".tmp-*")) == []
    assert [
        path for kept in ("locks", "incomplete") for path in (project.folder / ".snakemake").glob(f"{kept}/*")
    ] == []
    found = project.contents()
    assert sorted(found) == sorted(wanted)
    assert [name for name in wanted if found[name] != wanted[name]] == []


def test_locks_of_a_living_run_are_kept(finished, tmp_path):
    """A second run leaves the locks of one that lives, and removes those of one that was killed."""
    code = "import sys; from common.files import hold_alone; print(hold_alone(sys.argv[1]), flush=True); input()"
    command = [finished.python, "-c", code, str(tmp_path / "alive")]
    env = finished.environment() | {"PYTHONPATH": str(finished.folder / "src")}
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": env}
    first, second = (subprocess.Popen(command, **options) for _ in range(2))
    said = sorted(process.stdout.readline().strip() for process in (first, second))
    for process in (first, second):
        process.kill()
        process.communicate(timeout=30)
    third = subprocess.run(command, input="\n", capture_output=True, text=True, env=env, timeout=60, check=True)
    assert (said, third.stdout.strip()) == (["False", "True"], "True")
