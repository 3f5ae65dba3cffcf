"""The warm worker: a job in it ends, speaks and fails as one in an interpreter of its own."""

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path

import pytest

from workflow_support.worker import start_worker

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "scripts/run.py"

#: Starts a worker as the workflow does, says where it listens, and stays.
HOLDER = """
import os, sys
from workflow_support.worker import start_worker
start_worker(sys.argv[1])
print(os.environ["EMMA_WORKER"], flush=True)
sys.stdin.read()
"""

PROGRAMS = {
    "echo": """
        import json, os, sys
        from pathlib import Path
        said = {"options": sys.argv[1:], "name": Path(sys.argv[0]).name, "folder": os.getcwd()}
        said |= {"words": sys.stdin.read(), "main": __name__, "mark": os.environ.get("MARK")}
        said |= {"stray": os.environ.get("STRAY")}
        said |= {"side": Path(sys.path[0]).name}
        if __name__ == "__main__":
            print(json.dumps(said))
            print("aside", file=sys.stderr)
    """,
    "end": """
        import os, signal, sys
        if __name__ == "__main__":
            how = sys.argv[1]
            if how == "raise": raise RuntimeError("broken on purpose")
            if how == "kill": os.kill(os.getpid(), signal.SIGKILL)
            sys.exit({"none": None, "text": "a last word"}.get(how, int(how) if how.isdigit() else how))
    """,
    "count": """
        import builtins
        if __name__ == "__main__":
            builtins.times = getattr(builtins, "times", 0) + 1
            print(builtins.times)
    """,
    "who": """
        import os
        if __name__ == "__main__":
            print(os.getppid())
    """,
    "wait": """
        import os, sys, time
        from pathlib import Path
        if __name__ == "__main__":
            Path(sys.argv[1]).write_text(str(os.getpid()))
            try:
                time.sleep(60)
            finally:
                Path(sys.argv[1]).unlink()
    """,
    "calm": """
        import os, sys, time
        from pathlib import Path
        if __name__ == "__main__":
            try:
                Path(sys.argv[1]).write_text(str(os.getpid()))
                time.sleep(60)
            except KeyboardInterrupt:
                sys.stderr.write("interrupted\\n")
                sys.exit(130)
    """,
    "broken": """
        import there_is_no_such_module
    """,
    "convert": """
        import sys
        import pyarrow
        if __name__ == "__main__":
            pyarrow.array([1]).cast(pyarrow.float64())
            pyarrow.compute.greater(pyarrow.array([1]), 1)
            print("pandas" in sys.modules)
    """,
    "quits": """
        import sys
        if __name__ != "__main__":
            sys.exit(3)
        print("still here")
    """,
    "late": """
        import atexit, sys, threading, time, weakref
        class Library:
            pass
        if __name__ == "warm":
            # What an import leaves to be undone: by the process that imported it, once.
            sys.library = Library()
            weakref.finalize(sys.library, print, "undone", file=sys.stderr)
        from concurrent.futures import ThreadPoolExecutor
        if __name__ == "__main__":
            atexit.register(print, "at exit")
            sys.kept = Library()
            weakref.finalize(sys.kept, print, "finalised")
            threading.Timer(0.2, print, ["a thread"]).start()
            ThreadPoolExecutor(1).submit(time.sleep, 0.1)
            if sys.argv[1:] == ["closes"]:
                time.sleep(0.5)
                sys.stdout.close()
    """,
    "aside": """
        def work():
            import tabnanny
        def other():
            import colorsys
    """,
    "later": """
        import sys
        from aside import work
        def own():
            import sched
        if __name__ == "__main__":
            print(*(name in sys.modules for name in ("sched", "tabnanny", "colorsys")))
            work()
    """,
    "brood": """
        import multiprocessing, os, signal, sys, time
        from pathlib import Path
        def child(path):
            Path(path).write_text(str(os.getpid()))
            time.sleep(60)
        if __name__ == "__main__":
            process = multiprocessing.get_context("fork").Process(target=child, args=sys.argv[1:2])
            process.start()
            while not Path(sys.argv[1]).exists():
                time.sleep(0.01)
            if sys.argv[2:] == ["kill"]:
                os.kill(os.getpid(), signal.SIGKILL)
            process.join()
    """,
}


def environment(socket: str | None, **more: str) -> dict[str, str]:
    """This environment, with the worker's socket or none."""
    kept = {name: value for name, value in os.environ.items() if name != "EMMA_WORKER"}
    search = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    return kept | {"PATH": search} | ({"EMMA_WORKER": socket} if socket else {}) | more


def run(folder: Path, socket: str | None, *words: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-IS", str(folder / "run.py"), *words]
    env = environment(socket, **more)
    return subprocess.run(
        command, cwd=folder, env=env, input=stdin, capture_output=True, text=True, timeout=30, check=False
    )


def start(folder: Path, socket: str, *words: str, through: tuple[str, ...] = ()) -> subprocess.Popen:
    """A job's caller, which runs on."""
    command = [*through, sys.executable, "-IS", str(folder / "run.py"), *words]
    return subprocess.Popen(command, env=environment(socket), stderr=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("programs")
    for name, text in PROGRAMS.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
    (folder / "run.py").write_text(RUN.read_text())
    return folder


@pytest.fixture
def holder(programs):
    command = [sys.executable, "-c", HOLDER, str(programs)]
    env = environment(None, PYTHONPATH=str(ROOT / "src"), STRAY="the run's alone")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    process.socket = process.stdout.readline().strip()
    yield process
    # An orderly end, which clears up after a worker that a test has killed.
    process.communicate(timeout=20)


def gone(pid: int, seconds: float = 10) -> bool:
    """Whether a process ends in time; one that waits for its parent to ask has ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        state = Path(f"/proc/{pid}/stat")
        try:
            if state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def written(path: Path, seconds: float = 20) -> int:
    """The number in a file, once it is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if path.exists() and path.read_text():
            return int(path.read_text())
        time.sleep(0.02)
    raise AssertionError(f"{path.name} was never written")


def worker_of(programs: Path, socket: str) -> int:
    return int(run(programs, socket, "who").stdout)


def test_says_and_reads_what_an_interpreter_would(programs, holder):
    words = ["echo", "--of", "two words", "ä", ""]
    warm, cold = (run(programs, socket, *words, stdin="in", MARK="here") for socket in (holder.socket, None))
    assert json.loads(warm.stdout) == json.loads(cold.stdout)
    assert json.loads(warm.stdout)["options"] == words[1:]
    assert json.loads(warm.stdout)["mark"] == "here"
    assert (warm.stderr, warm.returncode) == (cold.stderr, cold.returncode) == ("aside\n", 0)


@pytest.mark.parametrize("how", ["none", "0", "1", "2", "77", "text", "raise"])
def test_status_is_the_interpreters(programs, holder, how):
    warm, cold = (run(programs, socket, "end", how) for socket in (holder.socket, None))
    assert warm.returncode == cold.returncode
    assert warm.stderr.splitlines()[-1:] == cold.stderr.splitlines()[-1:]


def test_a_job_that_is_killed_is_told(programs, holder):
    done = run(programs, holder.socket, "end", "kill")
    assert done.returncode == 1
    assert "end: its process was ended from outside" in done.stderr
    assert run(programs, holder.socket, "end", "0").returncode == 0


def test_a_program_that_cannot_be_imported_fails_itself(programs, holder):
    done = run(programs, holder.socket, "broken")
    assert done.returncode == 1
    assert "there_is_no_such_module" in done.stderr


def test_no_job_sees_what_another_did(programs, holder):
    assert [run(programs, holder.socket, "count").stdout for _ in range(3)] == ["1\n"] * 3


def test_jobs_are_forks_of_one_process(programs, holder):
    ours = {worker_of(programs, holder.socket) for _ in range(2)}
    assert len(ours) == 1
    # In a session of its own, where no key of the terminal reaches it.
    assert os.getsid(min(ours)) == min(ours)
    assert b"workflow_support.worker" in Path(f"/proc/{ours.pop()}/cmdline").read_bytes()


def test_large_requests_arrive(programs, holder):
    words = ["echo", *(f"folds/{number:06}/predictions.parquet" for number in range(20_000))]
    # Through the connection itself: a command line of the system holds less.
    script = f"import runpy, sys; sys.argv = ['run.py', *{words!r}]; runpy.run_path({str(RUN)!r}, run_name='__main__')"
    (programs / "large.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "large.py"],
        cwd=programs,
        env=environment(holder.socket),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert len(json.loads(done.stdout)["options"]) == 20_000


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_job_ends_with_its_caller(programs, holder, end, tmp_path):
    # These tests may themselves have been started to ignore a terminal's keys, as a shell's background jobs are.
    heeding = ("env", "--default-signal=INT")
    caller = start(programs, holder.socket, "wait", str(tmp_path / "pid"), through=heeding)
    job = written(tmp_path / "pid")
    caller.send_signal(end)
    caller.wait(10)
    assert gone(job)
    assert not (tmp_path / "pid").exists()
    assert run(programs, holder.socket, "end", "0").returncode == 0


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_the_worker_ends_with_the_run(programs, holder, end):
    worker = worker_of(programs, holder.socket)
    holder.send_signal(end)
    holder.wait(10)
    assert gone(worker)


def test_an_orderly_end_leaves_no_socket(programs, holder):
    assert Path(holder.socket).exists()
    holder.communicate("")
    assert not Path(holder.socket).parent.exists()


def test_a_job_outlives_a_run_that_is_killed(programs, holder, tmp_path):
    caller = start(programs, holder.socket, "wait", str(tmp_path / "pid"))
    job = written(tmp_path / "pid")
    holder.kill()
    holder.wait()
    assert not gone(job, 0.5)
    caller.kill()
    caller.wait()
    assert gone(job)


def test_without_a_worker_an_interpreter_starts(programs, tmp_path):
    for path in (None, str(tmp_path / "none"), str(tmp_path / ("long" * 100))):
        assert run(programs, path, "end", "77").returncode == 77


def test_the_caller_imports_little(holder):
    command = [sys.executable, "-IS", "-X", "importtime", str(RUN), "end", "77"]
    env = environment(holder.socket)
    told = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert told.returncode == 77
    loaded = {line.rpartition("|")[2].strip() for line in told.stderr.splitlines() if line.startswith("import time")}
    assert not loaded & {"pathlib", "subprocess", "site", "numpy", "tempfile", "argparse"}


def test_threads_and_exit_functions_are_waited_for(programs, holder):
    for words in (["late"], ["late", "closes"]):
        warm, cold = (run(programs, socket, *words) for socket in (holder.socket, None))
        assert warm.returncode == cold.returncode == 0
        # Their order may be another.
        assert sorted(warm.stdout.splitlines()) == sorted(cold.stdout.splitlines())
        assert "undone" not in warm.stderr
    assert set(run(programs, holder.socket, "late").stdout.splitlines()) == {"a thread", "at exit", "finalised"}


def test_what_a_job_imported_in_a_function_is_there_for_the_next_one(programs, holder):
    said = [run(programs, holder.socket, "later").stdout for _ in range(3)]
    # The program's own imports are there from the first.
    assert said == ["True False False\n", "True True False\n", "True True False\n"]


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "| true"])
def test_a_closed_stream_is_the_programs_own_affair(programs, holder, closed):
    for words in (["end", "0"], ["end", "77"], ["count"], ["end", "text"]):
        line = ["bash", "-c", f'set -o pipefail; "$0" -IS run.py "$@" {closed}', sys.executable, *words]
        warm, cold = (
            subprocess.run(line, cwd=programs, env=environment(socket), timeout=30, check=False).returncode
            for socket in (holder.socket, None)
        )
        assert warm == cold


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_run_without_a_stream_has_a_worker(programs, closed, tmp_path):
    # The run's process has a file of its own under the number, as Snakemake has.
    script = (
        "import os; taken = os.open('/dev/null', 0)\n"
        + HOLDER.partition("print")[0]
        + textwrap.dedent("""
        import subprocess
        with open("who", "w") as told:
            told.write(f"{os.getpid()} ")
            told.flush()
            subprocess.run([sys.executable, "-IS", sys.argv[1] + "/run.py", "who"], stdout=told, check=True)
    """)
    )
    subprocess.run(
        ["bash", "-c", f'"$0" "$@" {closed}', sys.executable, "-c", script, str(programs)],
        cwd=tmp_path,
        env=environment(None, PYTHONPATH=str(ROOT / "src")),
        timeout=30,
        check=True,
    )
    # The job's parent is the worker, not the run's process.
    assert len(set((tmp_path / "who").read_text().split())) == 2


def test_a_killed_job_is_told_though_its_child_lives(programs, holder, tmp_path):
    caller = start(programs, holder.socket, "brood", str(tmp_path / "pid"), "kill")
    child = written(tmp_path / "pid")
    try:
        assert caller.wait(10) == 1
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_jobs_children_end_with_its_caller(programs, holder, tmp_path):
    caller = start(programs, holder.socket, "brood", str(tmp_path / "pid"))
    child = written(tmp_path / "pid")
    caller.kill()
    caller.wait()
    assert gone(child)


def test_an_import_that_exits_leaves_the_worker(programs, holder):
    worker = worker_of(programs, holder.socket)
    assert run(programs, holder.socket, "quits").stdout == "still here\n"
    assert worker_of(programs, holder.socket) == worker


def test_a_job_that_a_dead_worker_never_read_starts_an_interpreter(programs, holder):
    worker = worker_of(programs, holder.socket)
    os.kill(worker, signal.SIGSTOP)
    caller = start(programs, holder.socket, "end", "77")
    time.sleep(0.5)
    os.kill(worker, signal.SIGKILL)
    assert caller.wait(10) == 77


def test_a_worker_that_is_killed_leaves_its_jobs_and_holds_no_other(programs, holder, tmp_path):
    worker = worker_of(programs, holder.socket)
    caller = start(programs, holder.socket, "wait", str(tmp_path / "pid"))
    job = written(tmp_path / "pid")
    os.kill(worker, signal.SIGKILL)
    try:
        # An interpreter's: nobody would answer a socket that the job keeps open.
        assert run(programs, holder.socket, "end", "77").returncode == 77
        assert not gone(job, 0.2)
    finally:
        caller.kill()
        caller.wait()
    assert gone(job)


def test_jobs_are_spared_pandas(programs, holder):
    assert run(programs, holder.socket, "convert").stdout == "False\n"


def test_half_a_request_leaves_nothing_open(programs, holder):
    worker = worker_of(programs, holder.socket)
    held = len(list(Path(f"/proc/{worker}/fd").iterdir()))
    for body in (b"", b"{", b"{}"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(holder.socket)
            socket.send_fds(connection, [b"%16d" % 2], [0, 1, 2])
            connection.sendall(body)
    assert worker_of(programs, holder.socket) == worker
    assert len(list(Path(f"/proc/{worker}/fd").iterdir())) == held


def test_mute_callers_hold_nobody(programs, holder):
    """One that says nothing, one that stops in its request, and more than wait at a time."""
    worker = worker_of(programs, holder.socket)
    with contextlib.ExitStack() as mute:
        for said in (b"", b"{", *[b""] * 70):
            connection = mute.enter_context(socket.socket(socket.AF_UNIX))
            connection.connect(holder.socket)
            if said:
                socket.send_fds(connection, [b"%16d" % 2], [0, 1, 2])
                connection.sendall(said)
        assert worker_of(programs, holder.socket) == worker
        assert len(list(Path(f"/proc/{worker}/fd").iterdir())) < 90
        holder.communicate("", timeout=20)
        assert gone(worker)


def test_no_job_holds_a_caller_that_is_not_heard_out(programs, holder, tmp_path):
    """What a job inherited would keep another's streams open."""
    ours, theirs = os.pipe()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(holder.socket)
        socket.send_fds(connection, [b"%16d" % 2], [0, theirs, 2])
        os.close(theirs)
        caller = start(programs, holder.socket, "wait", str(tmp_path / "pid"))
        written(tmp_path / "pid")
    # The worker lets go of it now, and nobody else has it.
    assert select.select([ours], [], [], 10)[0]
    os.close(ours)
    caller.kill()
    caller.wait()


def test_an_interrupted_job_leaves_one_line(programs, holder, tmp_path):
    """Its caller, which is interrupted too, has gone before it can tell its status."""
    told = tmp_path / "told"
    with told.open("w") as stream:
        command = [sys.executable, "-IS", str(programs / "run.py"), "calm", str(tmp_path / "pid")]
        caller = subprocess.Popen(command, env=environment(holder.socket), stderr=stream)
        job = written(tmp_path / "pid")
        caller.send_signal(signal.SIGINT)
        assert caller.wait(10) == 130
    assert gone(job)
    assert told.read_text() == "interrupted\n"


def test_a_run_that_is_killed_leaves_no_socket(programs, holder):
    worker = worker_of(programs, holder.socket)
    holder.kill()
    holder.wait()
    assert gone(worker)
    assert not Path(holder.socket).parent.exists()


def test_another_runs_socket_is_forgotten(monkeypatch, tmp_path):
    monkeypatch.setenv("EMMA_WORKER", str(tmp_path / "another"))
    # Longer than a socket's name may be, so that no worker starts.
    (long := tmp_path / ("long" * 30)).mkdir()
    for folder in (long, tmp_path / "none"):
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        start_worker(tmp_path)
        assert "EMMA_WORKER" not in os.environ


def test_the_runs_folder_is_not_searched_first(programs, tmp_path):
    for name in ("numpy", "select"):
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not this one')")
    command = [sys.executable, "-P", "-c", HOLDER, str(programs)]
    env = environment(None, PYTHONPATH=str(ROOT / "src"))
    holder = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env)
    worker = worker_of(programs, holder.stdout.readline().strip())
    holder.communicate("")
    assert worker != os.getpid()
