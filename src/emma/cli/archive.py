"""Pack the finished results of a release, with code and configuration, into one archive.

Snakemake makes what is missing first. The checkout has to be clean: the archive names its commit.
"""

from __future__ import annotations

import argparse

from emma.cli.project import chosen
from emma.cli.run import add_choice, command, start


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    parser.add_argument("--with-embeddings", action="store_true", help="carry them, for readers who score them again")
    add_choice(parser)


def run(arguments: argparse.Namespace) -> int:
    """Refuse a checkout that differs from its commit before any job runs, then pack."""
    from emma.audit.archive import read_commit
    from emma.audit.archive_parts import WITH_EMBEDDINGS

    release, layout = chosen(arguments)
    read_commit(arguments.root)
    more = WITH_EMBEDDINGS if arguments.with_embeddings else ""
    target = layout.archive(release, more).relative_to(arguments.root).as_posix()
    return start(command(arguments, [target]), arguments.root)
