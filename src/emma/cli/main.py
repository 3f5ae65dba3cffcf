"""The `emma` command: finds the sub-command and hands over; bad input is one line and status 2."""

from __future__ import annotations

from common.errors import OneLineParser, run_script
from emma.cli import add

#: Sub-commands by name: modules whose docstring is the help, with ``add_options(parser)`` and ``run(arguments)``.
COMMANDS = {"add": add}


def main() -> None:
    """Parse the options and run a sub-command, whose status is the program's."""
    parser = OneLineParser("emma", "The benchmark of frozen radio backbones.")
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        text = (module.__doc__ or "").strip()
        module.add_options(parsers.add_parser(name, help=text.partition("\n")[0], description=text))
    arguments = parser.parse_args()
    if status := COMMANDS[arguments.command].run(arguments):
        raise SystemExit(status)


def run() -> None:
    """The console script."""
    run_script(main)
