"""What a process that runs a backbone may open: libraries, the project's code, its weights, an empty folder."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Literal

from common.confine import drop_capabilities, end_with_parent, limit_memory, restrict_calls, restrict_files
from emma.backbones.config import ModelConfig
from emma.data.holdout import HIDDEN_VARIABLE, SEED_VARIABLES

#: What holds a backbone's process back: Landlock and a filter of calls (files, network, tracing), or less, or nothing.
Isolation = Literal["landlock", "none"]

#: Where a system keeps libraries, and what it tells programs of itself.
_SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix/store", "/proc", "/sys")
_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_GPU = ("nvidia*", "nvidia-caps", "dri", "shm")

#: What lies in a project beside code and weights, and holds labels, predictions or what is made of them.
_CLOSED = ("results", "submissions", ".snakemake", ".git")

#: Variables of the environment that name the file of a secret seed.
_FILES = (SEED_VARIABLES[1], HIDDEN_VARIABLE)


@dataclass(frozen=True)
class Rights:
    """What a backbone's process may open.

    Attributes:
        root: the project's folder.
        code: files and folders of the project that it reads.
        files: weights, wherever they lie.
        hidden: folders and files that it never sees.
        gpu: whether it has the devices of a GPU; memory is not limited then, since drivers reserve all there is.
    """

    root: Path
    code: tuple[Path, ...] = ()
    files: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    gpu: bool = False

    @classmethod
    def of(
        cls,
        config: ModelConfig,
        root: str | Path,
        weights: Path | None = None,
        hidden: tuple[Path, ...] = (),
        environment: Mapping[str, str] = os.environ,
    ) -> Rights:
        """The rights of a model.

        Args:
            config: its config; what an option names in the project can be read, unless it is hidden.
            root: the project's folder.
            weights: the file of its weights; a control's, which a rule made, fill the network of the pinned file.
            hidden: folders and files that it never sees, beside the project's results and submissions.
            environment: what may name the file of a secret seed.
        """
        root = Path(root).resolve()
        options = [*config.options.values(), *(config.pretrain.options.values() if config.pretrain else ())]
        named = (root / value for value in options if isinstance(value, str) and value)
        code = [path for path in sorted(root.iterdir()) if _is_code(path)]
        code += [path for path in named if path.resolve() != root and path.resolve().is_relative_to(root)]
        seeds = tuple(Path(environment[name]).absolute() for name in _FILES if environment.get(name))
        closed = tuple(root / name for name in _CLOSED)
        files = [Path(weights).absolute()] if weights is not None else []
        files += [root / config.pinned] if config.pinned is not None else []
        return cls(
            root,
            tuple(code),
            tuple(dict.fromkeys(files)),
            (*closed, *(Path(path).absolute() for path in hidden), *seeds),
            config.device != "cpu",
        )

    def take(self, folder: Path) -> Isolation:
        """Give up, for good, all rights of this process but these, and move to an empty folder that it may write to."""
        sys.meta_path.append(_Modules(self.root, self.code))
        sys.path[:] = [str(Path(entry).absolute()) for entry in sys.path]
        _forget_environment()
        os.chdir(folder)
        os.environ |= {"HOME": str(folder), "TMPDIR": str(folder)}
        tempfile.tempdir = str(folder)
        end_with_parent()
        if not self.gpu:
            limit_memory()
        libraries = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path]
        libraries += os.environ.get("LD_LIBRARY_PATH", "").split(":")
        readable = [Path(path) for path in (*_SYSTEM, *libraries) if path and Path(path).resolve() != self.root]
        # The last resets the peak of memory that the system notes of this process.
        devices = [Path(path) for path in (*_DEVICES, f"/proc/{os.getpid()}/clear_refs")]
        if self.gpu:
            devices += [path for pattern in _GPU for path in Path("/dev").glob(pattern)]
        confined = restrict_files([*readable, *self.code], [*devices, folder], self.hidden, self.files)
        drop_capabilities()
        # Network and tracing are kept from it by the calls alone where Landlock is old.
        confined = restrict_calls() and confined
        return "landlock" if confined else "none"


class _Modules(MetaPathFinder):
    """Modules of the project's folder, which itself cannot be listed once rights are given up."""

    def __init__(self, root: Path, code: tuple[Path, ...]) -> None:
        names = {path.stem for path in code if path.parent == root}
        self._specs = {name: PathFinder.find_spec(name, [str(root)]) for name in sorted(names)}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """A module that no earlier finder has."""
        del path, target
        return self._specs.get(fullname)


def _is_code(path: Path) -> bool:
    """Whether something in the project's folder is code or configuration: a module, or a folder that holds some."""
    if path.name.startswith(".") or path.name in _CLOSED:
        return False
    if path.is_file():
        return path.suffix == ".py"
    return path.name in {"src", "config", "weights"} or next(path.glob("*.py"), None) is not None


def _forget_environment() -> None:
    """Take what is named ``EMMA_*`` out of the environment, and out of the memory that the system shows of it."""
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_void_p
    for name in [name for name in os.environ if name.startswith("EMMA_")]:
        if place := libc.getenv(name.encode()):
            ctypes.memset(place, 0, len(os.fsencode(os.environ[name])))
        del os.environ[name]
