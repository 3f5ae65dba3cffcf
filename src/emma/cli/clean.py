"""Delete the results of one release, after asking.

Results of other releases, of a HOLDOUT run beside a DEV run, and of the floor events stay.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

from common.errors import InputError
from common.files import hold_alone
from emma.cli.project import add_release, add_root, chosen
from emma.results.layout import Layout

#: What git tracks in results/.
_KEPT = frozenset({"README.md"})


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options of the sub-command."""
    add_release(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_root(parser)


def run(arguments: argparse.Namespace) -> int:
    """Say what would go, ask, delete."""
    release, layout = chosen(arguments)
    # The logs are those of this run; the other folders apart are other runs.
    apart = (Layout.apart - {"logs"}) | _KEPT
    places = sorted(path for path in layout.root.glob("*") if path.name not in apart)
    files = [path for place in places for path in _files(place)]
    if not places:
        sys.stdout.write(f"{layout.root}: no results of {release}\n")
        return 0
    size = sum(path.lstat().st_size for path in files)
    told = f"{layout.root}: {len(files)} files of release {release}, {size / 1e6:.0f} MB"
    if not arguments.yes and not _agreed(told):
        sys.stdout.write("nothing was deleted\n")
        return 1
    if not hold_alone(arguments.root / ".snakemake/alive"):
        raise InputError(f"{layout.root}: a run of this project is under way; expected none, end it first")
    for place in places:
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
    with contextlib.suppress(OSError):  # other runs are within
        layout.root.rmdir()
    sys.stdout.write(f"{told}: deleted\n")
    return 0


def _files(place: Path) -> Iterable[Path]:
    """The files below a place; a link is one itself."""
    if place.is_symlink() or not place.is_dir():
        return [place]
    return (path for path in place.rglob("*") if path.is_symlink() or path.is_file())


def _agreed(told: str) -> bool:
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError("--yes: expected where nobody can be asked")
    return input(f"{told}: delete? [y/N] ").strip().casefold() in {"y", "yes"}
