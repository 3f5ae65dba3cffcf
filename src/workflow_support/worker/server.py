"""The worker's own process: it answers requests of ``scripts/run.py``, each in a fork."""

from __future__ import annotations

import atexit
import fcntl
import gc
import json
import os
import runpy
import select
import shutil
import signal
import socket
import socketserver
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NamedTuple

from emma.data.tables import without_pandas
from workflow_support.worker.warm import Warmth


class Asked(NamedTuple):
    """A request: the program, its options, and the folder and environment that it runs in."""

    program: str
    options: list[str]
    folder: str
    environment: dict[str, str]


class Worker(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Answers each request in a fork."""

    max_children = sys.maxsize

    def __init__(self, listener: socket.socket, programs: Path) -> None:
        super().__init__("", Job, bind_and_activate=False)
        self.socket.close()
        self.socket, self.programs = listener, programs
        self.warmth = Warmth(programs)
        self.streams: list[int] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        """Read the request, import what its program needs, fork."""
        message, self.streams, _, _ = socket.recv_fds(request, 16, 3)
        try:
            self.asked = Asked(**json.loads(_exactly(request, int(message))))
            self.warmth.warm_up(self.asked.program)
            gc.freeze()
            super().process_request(request, client_address)
        finally:
            for stream in self.streams:
                os.close(stream)


class Job(socketserver.BaseRequestHandler):
    """One program in a fork of the worker: what ``python PROGRAM`` does after its start."""

    server: Worker

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
        asked, there = self.server.asked, frozenset(sys.modules)
        os.chdir(asked.folder)
        os.environ.clear()
        os.environ.update(asked.environment)
        sys.argv = [str(self.server.programs / f"{asked.program}.py"), *asked.options]
        status = _ended(_status_of(sys.argv[0]))
        self.server.warmth.tell(asked.program, there)
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


def _ended(status: int) -> int:
    """The status after what an interpreter does at its end: wait for threads, call exit functions, flush."""
    # multiprocessing's forks (Python 3.11) call no exit functions, end with 1, not 120, where a stream stays unflushed,
    # and join threads after a process's last chance to send its status: so these two private names stay.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except ValueError:  # closed by the program
            pass
        except OSError:
            status = 120
    return status


def _exactly(connection: socket.socket, count: int) -> bytes:
    """``count`` bytes from a connection."""
    with connection.makefile("rb", buffering=0) as stream:
        found = bytearray()
        while len(found) < count and (part := stream.read(count - len(found))):
            found += part
    return bytes(found)


def serve(programs: Path, listener: socket.socket) -> None:
    """Answer requests until standard input closes, then wait for the jobs that still run.

    Args:
        programs: the folder of the programs.
        listener: the socket that callers connect to; its folder is removed at the end.
    """
    without_pandas()
    sys.path.insert(0, str(programs))
    folder = Path(listener.getsockname()).parent
    worker = Worker(listener, programs)
    lifeline = os.dup(0)
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)
    while lifeline not in select.select([worker.fileno(), lifeline], [], [])[0]:
        worker.handle_request()
        worker.service_actions()
    # Here too: a run that is killed cannot.
    shutil.rmtree(folder, ignore_errors=True)
    worker.server_close()
