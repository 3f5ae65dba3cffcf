"""Pack the finished results of a release, with code and configuration, into one archive.

Snakemake makes what is missing first. The checkout has to be clean: the archive names its commit.
"""

from __future__ import annotations

import argparse

from emma.cli.project import chosen
from emma.cli.run import add_choice, command, start


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    add_choice(parser)


def run(arguments: argparse.Namespace) -> int:
    """Refuse a checkout that differs from its commit before any job runs, then pack."""
    from emma.audit.archive import read_commit

    release, layout = chosen(arguments)
    read_commit(arguments.root)
    target = layout.archive(release).relative_to(arguments.root).as_posix()
    return start(command(arguments, [target]), arguments.root)
