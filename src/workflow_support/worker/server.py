"""The worker's own process: it answers requests of ``scripts/run.py``, each in a fork."""

from __future__ import annotations

import atexit
import contextlib
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
from typing import NamedTuple

from emma.data.tables import without_pandas
from workflow_support.worker.warm import Warmth

#: Bytes of a request, and callers at a time that have not said all of theirs.
_MOST_BYTES, _MOST_CALLERS = 2**26, 64


class Asked(NamedTuple):
    """A request: the program, its options, and the folder and environment that it runs in."""

    program: str
    options: list[str]
    folder: str
    environment: dict[str, str]


class Caller:
    """A connection, and what came through it so far: the length of the request with three streams, the request."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.streams: list[int] = []
        self._length = 0
        self._body = bytearray()

    def hear(self) -> Asked | None:
        """Read what is there; the request, once it is whole. ValueError or OSError where it never will be."""
        if not self.streams:
            message, self.streams, _, _ = socket.recv_fds(self.connection, 16, 3)
            self._length = int(message)
            if len(self.streams) != 3 or not 0 < self._length <= _MOST_BYTES:
                raise ValueError(message)
            return None
        part = self.connection.recv(min(self._length - len(self._body), 2**20))
        self._body += part
        if not part:
            raise ValueError("half a request")
        return Asked(**json.loads(self._body)) if len(self._body) == self._length else None

    def close(self) -> None:
        """Let go of the connection and the streams."""
        self.connection.close()
        for stream in self.streams:
            os.close(stream)


class Worker(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
    """Answers each request in a fork; a caller that says nothing keeps no other waiting."""

    max_children = sys.maxsize

    def __init__(self, listener: socket.socket, programs: Path) -> None:
        super().__init__("", Job, bind_and_activate=False)
        self.socket.close()
        self.socket, self.programs = listener, programs
        self.warmth = Warmth(programs)
        #: Callers whose request is not whole, by their connections' numbers, the oldest first.
        self.callers: dict[int, Caller] = {}

    def admit(self) -> None:
        """Accept a connection; of too many that wait, the oldest is closed, and its caller does without a worker."""
        with contextlib.suppress(OSError):
            connection, _ = self.socket.accept()
            self.callers[connection.fileno()] = Caller(connection)
        if len(self.callers) > _MOST_CALLERS:
            self.callers.pop(next(iter(self.callers))).close()

    def attend(self, number: int) -> None:
        """Hear a caller; import what its program needs and fork, once the request is whole."""
        if (caller := self.callers.pop(number, None)) is None:
            return
        # Whatever a caller says, and wherever in it it is interrupted, the worker lives.
        with contextlib.suppress(Exception):
            if (asked := caller.hear()) is None:
                self.callers[number] = caller
                return
            self.asking, self.asked = caller, asked
            self.warmth.warm_up(asked.program)
            gc.freeze()
            self.process_request(caller.connection, "")
        caller.close()


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
        # Theirs alone: a caller sees the end of its job by the last holder of a connection.
        for caller in self.server.callers.values():
            caller.close()
        for number, stream in enumerate(self.server.asking.streams):
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
        # Its caller may have been interrupted.
        with contextlib.suppress(BrokenPipeError):
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
    while lifeline not in (ready := select.select([lifeline, worker.fileno(), *worker.callers], [], [])[0]):
        for number in ready:
            if number == worker.fileno():
                worker.admit()
            else:
                worker.attend(number)
        worker.service_actions()
    # Here too: a run that is killed cannot.
    shutil.rmtree(folder, ignore_errors=True)
    worker.server_close()
