"""The `emma` command: finds the sub-command and hands over; bad input is one line and status 2."""

from __future__ import annotations

import sys
from types import ModuleType

from common.errors import InputError, OneLineParser, run_script, unknown
from emma.cli import add, archive, clean, explain, show
from emma.cli import run as running
from emma.cli.completion import script
from emma.cli.project import Program
from emma.version import HARNESS_VERSION

#: Sub-commands by name: modules whose docstring is the help, with ``add_options(parser)`` and ``run(arguments)``, or
#: programs of ``scripts/``.
COMMANDS: dict[str, ModuleType | Program] = {
    "run": running,
    "show": show,
    "explain": explain,
    "add": add,
    "check": Program("check_backbone", "Look at a backbone before a run, on 16 scenes per task."),
    "captures check": Program("check_captures", "Say what a folder of captures holds, and what is missing."),
    "submit check": Program(
        "check_submission",
        "Say of submitted predictions what a maintainer would say: their faults, or their scores.",
    ),
    "verify": Program("verify", "Compute every hash, fold, fit and number of finished results again."),
    "archive": archive,
    "clean": clean,
}


def summary(command: ModuleType | Program) -> str:
    """The line of a command in the help."""
    return command.summary if isinstance(command, Program) else (command.__doc__ or "").strip().partition("\n")[0]


def find(words: list[str]) -> tuple[str, list[str]]:
    """The sub-command that the words of a command line begin with, and the words behind it.

    Raises:
        InputError: no such command.
    """
    for count in (2, 1):
        name = " ".join(words[:count])
        if len(words) >= count and name in COMMANDS:
            return name, words[count:]
    groups = {name.partition(" ")[0] for name in COMMANDS if " " in name}
    told = " ".join(words[: 2 if words[0] in groups else 1])
    if told in groups:
        whole = [name for name in COMMANDS if name.startswith(f"{told} ")]
        raise InputError(f"emma {told}: expected {' or '.join(whole)}")
    raise InputError(f"emma: {unknown(told, [*COMMANDS, *sorted(groups)])}")


def main() -> None:
    """Parse the options and run a sub-command, whose status is the program's."""
    words = sys.argv[1:]
    if not words or words[0] in {"-h", "--help"}:
        sys.stdout.write(_help())
        return
    if words[0] == "--version":
        sys.stdout.write(f"emma {HARNESS_VERSION}\n")
        return
    if words[0] == "--completion":
        sys.stdout.write(script(COMMANDS))
        return
    name, options = find(words)
    command = COMMANDS[name]
    if isinstance(command, Program):
        command.run(name, options)
        return
    parser = OneLineParser(f"emma {name}", (command.__doc__ or "").strip())
    command.add_options(parser)
    if status := command.run(parser.parse_args(options)):
        raise SystemExit(status)


def _help() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {summary(command)}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: emma COMMAND [OPTIONS]",
            "",
            "EMMA scores frozen radio backbones by how well they transfer.",
            "",
            *lines,
            "",
            "emma COMMAND --help lists the options of a command, emma --version tells the version.",
            'eval "$(emma --completion)" completes commands and options in bash.',
            "",
        ]
    )


def run() -> None:
    """The console script."""
    run_script(main)
