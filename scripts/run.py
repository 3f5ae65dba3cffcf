"""Run a program of this folder, in the run's warm worker where there is one, else in an interpreter of its own.

``python -IS scripts/run.py PROGRAM OPTIONS`` ends with the status of ``python scripts/PROGRAM.py OPTIONS``. It imports
little and needs no installed package, since it is the start of every job; see ``workflow_support.worker``.
"""

import json
import os
import socket
import sys

#: Programs that make scenes, or say what is true of them: the secret seed of an official run reaches them alone.
SEEDED = ("make_channels", "make_scenes", "make_truth")
SEED_VARIABLES = ("EMMA_HOLDOUT_SEED", "EMMA_HOLDOUT_SEED_FILE")


def warm_status(path: str, program: str, options: list[str]) -> int | None:
    """The program's status from the worker, or None where none answers."""
    folder = os.getcwd()  # noqa: PTH109 (pathlib would take as long to import as all else)
    asked = {"program": program, "options": options, "folder": folder, "environment": dict(os.environ)}
    body = json.dumps(asked).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        # An error, where the job was never read; once it was, a connection without a word just closes.
        try:
            connection.connect(path)
            socket.send_fds(connection, [b"%16d" % len(body)], [0, 1, 2])
            connection.sendall(body)
            status = connection.recv(1)
        except OSError:
            return None
    if not status:
        sys.stderr.write(f"{program}: its process was ended from outside, perhaps for want of memory\n")
        return 1
    return status[0]


def main() -> None:
    """Find the worker, or do without."""
    program, *options = sys.argv[1:]
    # A standard stream that is closed is nothing, not the connection that would take its number.
    while os.open(os.devnull, os.O_RDWR) < 3:
        pass
    if program not in SEEDED:
        # Where the seed is, so that no backbone is shown it.
        if file := os.environ.get("EMMA_HOLDOUT_SEED_FILE"):
            os.environ["EMMA_HIDDEN"] = file
        for name in SEED_VARIABLES:
            os.environ.pop(name, None)
    path = os.environ.get("EMMA_WORKER")
    status = warm_status(path, program, options) if path else None
    if status is None:
        from pathlib import Path

        os.execvp("python", ["python", str(Path(__file__).with_name(f"{program}.py")), *options])
    os._exit(status)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        os._exit(130)
