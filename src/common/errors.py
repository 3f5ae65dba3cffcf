"""Bad input in one line: the error, a parser of options that raises it, and the end of a program with status 2."""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable
from typing import NoReturn


class InputError(ValueError):
    """Bad input, said in one line that names the file, the field and what was expected."""


def natural(text: str) -> int:
    """A whole number of 0 or more, for the options of a program."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of 0 or more")
    return int(text)


class OneLineParser(argparse.ArgumentParser):
    """Parses a program's options; a wrong one is an InputError, so that it too is one line and status 2."""

    def error(self, message: str) -> NoReturn:
        """Raise InputError with the program's name and what argparse says."""
        raise InputError(f"{self.prog}: {message}")


def run_script(main: Callable[[], None]) -> None:
    """Run a command-line program: status 0, or status 2 and one line on stderr for bad input."""
    try:
        main()
    except InputError as error:
        sys.stderr.write(" ".join(str(error).split()) + "\n")
        raise SystemExit(2) from None
    except OSError as error:
        # pyarrow says it in its message alone.
        if error.errno not in {errno.ENOSPC, errno.EDQUOT} and "No space left" not in str(error):
            raise
        sys.stderr.write("output: no space left on its disk; free some and run again\n")
        raise SystemExit(2) from None
