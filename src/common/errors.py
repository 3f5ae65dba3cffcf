"""Bad input in one line: the error, a parser of options that raises it, and the end of a program with status 2."""

from __future__ import annotations

import argparse
import errno
import os
import select
import sys
from collections.abc import Callable, Collection
from enum import StrEnum
from pathlib import Path
from typing import Any, NoReturn, TypeVar

E = TypeVar("E", bound=StrEnum)

#: Status of a program that was interrupted, as a shell gives it: 128 and the number of SIGINT.
INTERRUPTED = 130
#: What a run says that was interrupted.
RESUMES = "interrupted; the same command resumes"

#: Options that name what a program writes.
_OUTPUTS = ("out", "output", "output_dir")

#: What the system says of a place where nothing can be written.
_UNWRITABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST})


class InputError(ValueError):
    """Bad input, said in one line that names the file, the field and what was expected."""


def near(value: str, known: Collection[str]) -> str | None:
    """The known name that may have been meant, in whatever case it was written; None where none is near."""
    from difflib import get_close_matches

    folded = {name.casefold(): name for name in known}
    # Of a long name three letters or so: names that share most of their words are not near for that.
    found = get_close_matches(value.casefold(), folded, n=1, cutoff=max(0.75, 1 - 3 / max(len(value), 1)))
    return folded[found[0]] if found else None


def advice(value: str, known: Collection[str], most: int | None = None) -> str:
    """Of a name that is none of those known, the one that was meant, or what they are, ``most`` of them."""
    if meant := near(value, known):
        return f"did you mean {meant}?"
    more = f" and {len(known) - most} more" if most and len(known) > most else ""
    return f"expected one of {', '.join([*known][:most]) or 'none'}{more}"


def unknown(value: str, known: Collection[str], most: int | None = None) -> str:
    """What to say of a name that is none of those known."""
    return f"{value} is unknown, {advice(value, known, most)}"


def one_of(kind: type[E]) -> Callable[[str], E]:
    """Reads a member of an enumeration of words, for the options of a program."""

    def read(text: str) -> E:
        try:
            return kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(unknown(text, [member.value for member in kind])) from None

    return read


def natural(text: str) -> int:
    """A whole number of 0 or more, for the options of a program."""
    if not (text.isascii() and text.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of 0 or more")
    return int(text)


class _HelpWithDefaults(argparse.ArgumentDefaultsHelpFormatter):
    """Help that ends with the default of an option, where it has one and its help does not speak of it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        told = action.required or "default" in (action.help or "")
        none = action.default is None or action.default is False or action.default == []
        return action.help if told or none else super()._get_help_string(action)


class OneLineParser(argparse.ArgumentParser):
    """Parses a program's options, none of them abbreviated; a wrong one is an InputError, so one line and status 2."""

    def __init__(self, prog: str | None = None, description: str | None = None) -> None:
        super().__init__(prog, description=description, allow_abbrev=False, formatter_class=_HelpWithDefaults)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; paths of outputs are refused where no file can be made: the work before would be lost."""
        from common.places import check_place

        parsed, others = super().parse_known_args(args, namespace)
        for name in _OUTPUTS:
            value = getattr(parsed, name, None)
            for path in value if isinstance(value, list) else [value]:
                if isinstance(path, Path):
                    try:
                        check_place(path)
                    except InputError as error:
                        raise InputError(f"--{name.replace('_', '-')}: {error}") from None
        return parsed, others

    def error(self, message: str) -> NoReturn:
        """Raise InputError with the program's name, what argparse says, and the option that may have been meant."""
        if message.startswith("unrecognized arguments: "):
            words = message.partition(": ")[2].split()
            known = [option for option in self._option_string_actions if option.startswith("--")]
            meant = [near(word.partition("=")[0], known) for word in words if word.startswith("-")]
            message += "".join(f", did you mean {option}?" for option in meant[:1] if option)
        raise InputError(f"{self.prog}: {message}")

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            raise argparse.ArgumentError(action, unknown(str(value), [*map(str, action.choices)]))


def run_script(main: Callable[[], None], program: str | None = None) -> None:
    """Run a command-line program; bad input ends it with status 2 and one line on stderr.

    A full disk, a limit on the size of files and a place that cannot be written are such a line too, and so are too
    little memory and an interrupt (Ctrl-C), whose status is 130. A reader of standard output that goes away ends the
    program quietly.

    Args:
        main: the program; parses its own options.
        program: its name, where each line is to begin with it.
    """
    try:
        main()
        sys.stdout.flush()
    except InputError as error:
        line = " ".join(str(error).split())
        prefix = f"{program}: " if program else ""
        sys.stderr.write(f"{prefix}{line.removeprefix(prefix)}\n")
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        # More would not be true of every program: some resume, others begin again.
        sys.stderr.write("interrupted; no file is half-written\n")
        raise SystemExit(INTERRUPTED) from None
    except MemoryError:
        sys.stderr.write("memory: less than the input takes; give it more, or smaller input\n")
        raise SystemExit(2) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_has_gone():
            # Standard output goes elsewhere, so that the interpreter's last flush is silent too.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return
        if error.errno in _UNWRITABLE and (place := error.filename2 or error.filename) is not None:
            sys.stderr.write(f"{place}: cannot be read or written ({error.strerror})\n")
            raise SystemExit(2) from None
        # pyarrow says it in its message alone.
        if error.errno in {errno.ENOSPC, errno.EDQUOT} or "No space left" in str(error):
            line = "output: no space left on its disk; free some and run again"
        elif error.errno == errno.EFBIG or "File too large" in str(error):
            line = "output: larger than the limit on files (ulimit -f); raise it and run again"
        else:
            raise
        sys.stderr.write(f"{line}\n")
        raise SystemExit(2) from None


def _reader_has_gone() -> bool:
    """Whether standard output is a pipe that nobody reads any more; a broken pipe elsewhere is a fault."""
    try:
        waiting = select.poll()
        waiting.register(sys.stdout.fileno(), 0)
    except ValueError:
        return False
    return any(event & select.POLLERR for _, event in waiting.poll(0))
