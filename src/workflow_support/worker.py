"""A warm worker: one process that imports what a run's programs share, and forks once for each job.

Most of a short job is the start of an interpreter and its imports. The workflow starts a worker with a run and names
its socket in the environment; ``scripts/run.py`` hands it a program's options, folder, environment and standard
streams, and ends with the program's status. Every job is a fork of its own, so that none sees what another did. Where
no worker answers, ``run.py`` starts an interpreter as ever; the results are the same bytes.

What a job cannot tell from the worker: the limits, mask of files and priority of the run; the state that imports left,
numpy's global generator among it; warnings that an import gave. A program that is edited is the one that the run first
met. Stopping a run (SIGSTOP, Ctrl-Z) does not stop its jobs, and stopping the worker holds the jobs that ask it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import shutil
import signal
import socket
import socketserver
import subprocess
import sys
import tempfile
import threading
import traceback
import weakref
from pathlib import Path

from emma.data.tables import without_pandas

#: The environment variable that names the worker's socket.
SOCKET = "EMMA_WORKER"

#: What programs import beyond the tops of their files, where most of their jobs do.
_LATE = {
    "make_channels": ("sionna.phy.channel.tr38901",),
    "make_surrogate": ("sigmf",),
    "convert_captures": ("sigmf",),
    "embed": ("emma.backbones.conv",),
    "embed_captures": ("emma.backbones.conv",),
    "fit_fold": ("safetensors.numpy",),
}


def start_worker(programs: str | Path) -> None:
    """Start a worker for the programs in a folder and name its socket in ``os.environ``; it ends with this process.

    Nothing is started where the system is not Linux: elsewhere, libraries do not all outlive a fork.
    """
    os.environ.pop(SOCKET, None)
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as first:
        folder = tempfile.mkdtemp(prefix="emma-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = f"{folder}/worker"
        first.bind(path)
        first.listen(64)
        # Standard streams may be closed here; their numbers are for the worker's own.
        listener = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, 3)
        # The pipe closes with this process, however it ends. In a session of its own, keys that interrupt a terminal's
        # processes reach a job through its run.py alone.
        try:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "workflow_support.worker", str(programs), str(listener)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=None if sys.stderr else subprocess.DEVNULL,
                pass_fds=[listener],
                start_new_session=True,
            )
        finally:
            os.close(listener)
        atexit.register(worker.communicate)
        os.environ[SOCKET] = path


class _Worker(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Answers each request in a fork."""

    max_children = sys.maxsize

    def __init__(self, listener: socket.socket, programs: Path) -> None:
        super().__init__("", _Job, bind_and_activate=False)
        self.socket.close()
        self.socket, self.programs = listener, programs
        self.warm: set[str] = set()

    def process_request(self, request: socket.socket, client_address: object) -> None:
        """Read the request, import what its program needs, fork."""
        message, self.streams, _, _ = socket.recv_fds(request, 16, 3)
        try:
            self.asked = json.loads(_exactly(request, int(message)))
            self.warm_up(self.asked["program"])
            gc.freeze()
            super().process_request(request, client_address)
        finally:
            for stream in self.streams:
                os.close(stream)

    def warm_up(self, program: str) -> None:
        """Import what a program imports; what fails here is told by the job that meets it again."""
        if program not in self.warm:
            self.warm.add(program)
            with contextlib.suppress(Exception, SystemExit):
                runpy.run_path(str(self.programs / f"{program}.py"), run_name="warm")
                for module in _LATE.get(program, ()):
                    importlib.import_module(module)


class _Job(socketserver.BaseRequestHandler):
    """One program in a fork of the worker: what ``python PROGRAM`` does after its start."""

    server: _Worker

    def handle(self) -> None:
        """Run the program with the caller's streams, folder and environment; send its status."""
        # The system interrupts this process and its children, by SIGIO, when the caller's end of the connection closes.
        # No child holds this end, so that the caller sees it close with this process.
        signal.signal(signal.SIGIO, signal.default_int_handler)
        os.setpgid(0, 0)
        os.register_at_fork(after_in_child=self.request.close)
        fcntl.fcntl(self.request, fcntl.F_SETOWN, -os.getpid())
        fcntl.fcntl(self.request, fcntl.F_SETFL, fcntl.fcntl(self.request, fcntl.F_GETFL) | os.O_ASYNC)
        if select.select([self.request], [], [], 0)[0]:
            return
        self.server.socket.close()
        for number, stream in enumerate(self.server.streams):
            os.dup2(stream, number)
            os.close(stream)
        asked = self.server.asked
        os.chdir(asked["folder"])
        os.environ.clear()
        os.environ.update(asked["environment"])
        sys.argv = [str(self.server.programs / f"{asked['program']}.py"), *asked["options"]]
        # What the worker's libraries undo at an end (torch its operators, in 30 ms) is not for a job to undo.
        weakref.finalize._registry.clear()
        status = _status_of(sys.argv[0])
        # As at an interpreter's end, and as multiprocessing ends its forks.
        threading._shutdown()
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except ValueError:  # closed by the program
                pass
            except OSError:
                status = 120
        signal.signal(signal.SIGIO, signal.SIG_IGN)
        self.request.sendall(bytes([status]))


def _status_of(program: str) -> int:
    """The exit status of a program, run as the main module."""
    try:
        runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return (end.code or 0) & 255
        sys.stderr.write(f"{end.code}\n")
        return 1
    except BaseException:  # noqa: BLE001 (as the interpreter does)
        traceback.print_exc()
        return 1
    return 0


def _exactly(connection: socket.socket, count: int) -> bytes:
    """``count`` bytes from a connection."""
    with connection.makefile("rb", buffering=0) as stream:
        found = bytearray()
        while len(found) < count and (part := stream.read(count - len(found))):
            found += part
    return bytes(found)


def main() -> None:
    """Answer requests until standard input closes, then wait for the jobs that still run."""
    without_pandas()
    programs = Path(sys.argv[1]).resolve()
    sys.path.insert(0, str(programs))
    listener = socket.socket(fileno=int(sys.argv[2]))
    folder = Path(listener.getsockname()).parent
    worker = _Worker(listener, programs)
    lifeline = os.dup(0)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    while lifeline not in select.select([worker, lifeline], [], [])[0]:
        worker.handle_request()
        worker.service_actions()
    # Here too: a run that is killed cannot.
    shutil.rmtree(folder, ignore_errors=True)
    worker.server_close()


if __name__ == "__main__":
    main()
