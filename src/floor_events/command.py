"""What the command-line programs share: one-line errors with status 2, and plain lines out."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import NoReturn

from floor_events.protocol import FloorEventError


class OneLineParser(argparse.ArgumentParser):
    """An argument parser that says what is wrong in one line, and takes no abbreviated options."""

    def __init__(self, **settings: object) -> None:
        super().__init__(allow_abbrev=False, formatter_class=argparse.ArgumentDefaultsHelpFormatter, **settings)

    def error(self, message: str) -> NoReturn:
        """Print one line and end with status 2."""
        fail(self.prog, message)


def fail(program: str, message: str) -> NoReturn:
    """End with status 2 after one line on standard error, whatever line breaks the message holds."""
    sys.stderr.write(f"{program}: {' '.join(message.split())}\n")
    raise SystemExit(2)


def run_command(program: str, body: Callable[[], None]) -> None:
    """Run a program's body; a FloorEventError becomes one line and status 2, a closed pipe ends it quietly."""
    try:
        body()
        sys.stdout.flush()
    except FloorEventError as error:
        fail(program, str(error))
    except BrokenPipeError:
        # The reader has gone: point standard output elsewhere so that the interpreter's last flush is silent too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def warn(lines: Iterable[str]) -> None:
    """One `warning:` line on standard error for each."""
    for line in lines:
        sys.stderr.write(f"warning: {line}\n")
