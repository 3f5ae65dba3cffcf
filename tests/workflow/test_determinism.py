"""The same bytes on any number of cores, and after a kill."""

import contextlib
import os
import random
import signal
import subprocess
import time

ONE_MODEL = "models=[dsp]"
#: What another list of models changes: the board, the reports, the other model's own files and its pool.
OTHERS = ("leaderboard", "reports/", "embeddings/ssl_conv/", "folds/ssl_conv/", "runs/ssl_conv", "weights/")


def common(contents: dict[str, bytes]) -> dict[str, bytes]:
    """Files that do not depend on which other models run."""
    return {name: data for name, data in contents.items() if not name.startswith(OTHERS) and "PRETRAIN" not in name}


def test_one_core_gives_the_same_bytes_as_two(finished, one_core):
    """Rays, scenes, manifest, splits, embeddings, folds and run record are those of two cores.

    The run on one core has one model of the two, to save time: the board and the other model's files are left out.
    """
    ours, theirs = common(one_core.contents()), common(finished.contents())
    assert sorted(ours) == sorted(theirs)
    assert {name.partition("/")[0] for name in ours} >= {
        "channels",
        "scenes",
        "release",
        "splits",
        "embeddings",
        "runs",
    }
    assert [name for name in ours if ours[name] != theirs[name]] == []


def kill_after(project, files: int, pause: float) -> None:
    """Start the workflow on two cores, and SIGKILL it with all its jobs once ``files`` results are there."""
    process = subprocess.Popen(
        project.command(models=ONE_MODEL),
        cwd=project.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=project.environment(),
    )
    try:
        deadline = time.monotonic() + 200
        while sum(path.suffix != ".log" and path.is_file() for path in project.results.rglob("[!.]*")) < files:
            assert process.poll() is None, "the run ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(pause)
        assert process.poll() is None, "the run ended before it was killed"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_killed_run_resumes_to_the_same_bytes(one_core, fresh):
    """SIGKILL at two seeded moments, then the same command again: every byte of a run that was left alone.

    Neither temporaries nor locks of the killed runs stand in the way or stay; a writer that was killed between its
    first byte and its rename is put in at one place, lest chance never meets it.
    """
    draw = random.Random(20)
    kill_after(fresh, draw.randint(4, 15), draw.uniform(0, 0.5))
    kill_after(fresh, draw.randint(25, 60), draw.uniform(0, 0.5))
    assert list((fresh.folder / ".snakemake/locks").iterdir())
    left_behind = fresh.results / "runs" / ".tmp-dsp.json-abcd_123"
    left_behind.parent.mkdir(exist_ok=True)
    left_behind.write_text("{")
    fresh.complete(models=ONE_MODEL)
    ours, theirs = fresh.contents(), one_core.contents()
    assert [name for name in ours if ".tmp-" in name] == []
    assert sorted(ours) == sorted(theirs)
    assert [name for name in theirs if ours[name] != theirs[name]] == []


def test_locks_of_a_living_run_are_kept(finished, tmp_path):
    """A second run leaves the locks of one that lives, and removes those of one that was killed."""
    code = "import sys; from emma.files import hold_alone; print(hold_alone(sys.argv[1]), flush=True); input()"
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
