"""Which code made a result: digests of a program's import closure within this project, and library versions."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
from collections.abc import Iterable, Sequence
from pathlib import Path

import grimp

from emma.hashing import content_hash, sha256

_SOURCE_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("emma", "rfgen", "floor_events")


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*_PACKAGES, include_external_packages=False, cache_dir=None)


@functools.cache
def _module_digest(module: str) -> str:
    stem = _SOURCE_ROOT.joinpath(*module.split("."))
    path = stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")
    return sha256(path.read_bytes()) if path.exists() else ""


def closure(modules: Iterable[str]) -> list[str]:
    """All project modules that importing ``modules`` can reach, with the packages above them, sorted."""
    graph = _graph()
    found: set[str] = set()
    waiting = [module for module in modules if module in graph.modules]
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        found.add(module)
        parents = [module.rpartition(".")[0]] if "." in module else []
        waiting += [*parents, *graph.find_modules_directly_imported_by(module)]
    return sorted(found)


def code_digest(program: str | Path, factories: Sequence[str] = (), libraries: Sequence[str] = ()) -> str:
    """Digest of what decides a program's numbers: its own text, its import closure, and library versions.

    Args:
        program: path of a Python program.
        factories: further modules that it loads by name.
        libraries: distributions whose versions count.
    """
    text = Path(program).read_bytes()
    roots = list(factories)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            roots += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            roots += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return content_hash(
        {
            "program": sha256(text),
            "modules": {module: _module_digest(module) for module in closure(roots)},
            "libraries": {name: importlib.metadata.version(name) for name in sorted(libraries)},
        }
    )


def outside_digest(root: str | Path, module: str) -> str:
    """Digest of a module that stands in the project's folder but in none of its packages: all Python files beside it.

    Returns:
        the digest; an empty text for the project's packages, which ``code_digest`` follows, and for installed ones.
    """
    stem = Path(root).joinpath(*module.split("."))
    if module.partition(".")[0] in _PACKAGES or not (stem.is_dir() or stem.with_suffix(".py").is_file()):
        return ""
    folder = stem if stem.is_dir() else stem.parent
    # A module at the top of the project has the whole project beside it: only itself counts.
    beside = sorted(folder.glob("*.py")) if folder != Path(root) else [stem.with_suffix(".py")]
    return content_hash({path.name: sha256(path.read_bytes()) for path in beside})


def modules_digest(modules: Sequence[str]) -> str:
    """Digest of the import closure of modules within the project."""
    return content_hash({module: _module_digest(module) for module in closure(modules)})
