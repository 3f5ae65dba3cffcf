"""The project that a command works in, and the checkout that its programs come from."""

from __future__ import annotations

import argparse
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path

import emma
from common.errors import InputError, unknown
from common.files import read_yaml
from emma.data.release import release_names
from emma.results.layout import Layout, results_folder

#: Programs of the checkout that this package comes from: never those of the folder that a command is started in.
PROGRAMS = Path(emma.__file__).resolve().parents[2] / "scripts"


@dataclass(frozen=True)
class Program:
    """A command that is a program of ``scripts/`` with the same options.

    Attributes:
        name: of its file, without ``.py``.
        summary: its line in the help.
    """

    name: str
    summary: str

    def run(self, command: str, options: list[str]) -> None:
        """Run it as ``emma COMMAND``, to its end; a status other than 0 is a SystemExit."""
        path = PROGRAMS / f"{self.name}.py"
        if not path.is_file():
            raise InputError(f"{path}: no such program; expected EMMA installed from its checkout (pip install -e .)")
        sys.argv = [f"emma {command}", *options]
        sys.path.insert(0, str(PROGRAMS))
        importlib.import_module(self.name).main()


def add_root(parser: argparse.ArgumentParser) -> None:
    """The option of the project's folder."""
    parser.add_argument("--root", type=Path, default=Path(), help="the project's folder")


def add_release(parser: argparse.ArgumentParser) -> None:
    """The options of whose results are meant."""
    parser.add_argument("--release", metavar="NAME", help="release (default: that of config/config.yaml)")
    split = "DEV, or HOLDOUT with the secret seed (default: that of config/config.yaml)"
    parser.add_argument("--eval-split", choices=["DEV", "HOLDOUT"], help=split)


def check_root(root: Path) -> None:
    """InputError where a folder is no project."""
    if not (root / "config/config.yaml").is_file():
        raise InputError(f"{root}: expected the project's folder, with config/config.yaml; name it by --root")


def check_release(root: Path, release: str | None) -> None:
    """InputError for a release that the project does not have."""
    known = release_names(root / "config/releases")
    if release is not None and release not in known:
        raise InputError(f"--release: {unknown(release, known)}")


def chosen(arguments: argparse.Namespace) -> tuple[str, Layout]:
    """The release that the options or ``config/config.yaml`` name, and the files of its results."""
    root: Path = arguments.root
    check_root(root)
    check_release(root, arguments.release)
    configured = read_yaml(root / "config/config.yaml")
    release = arguments.release or str(configured.get("release"))
    split = arguments.eval_split or str(configured.get("eval_split"))
    return release, Layout(root / results_folder(release, split))
