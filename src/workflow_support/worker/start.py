"""What a run does to have a worker."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from emma.data.holdout import SEED_VARIABLES

#: The environment variable that names the worker's socket.
SOCKET = "EMMA_WORKER"


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
                # Jobs bring their own environment; of a secret seed the worker itself knows nothing.
                env={name: value for name, value in os.environ.items() if name not in SEED_VARIABLES},
            )
        finally:
            os.close(listener)
        atexit.register(worker.communicate)
        os.environ[SOCKET] = path
