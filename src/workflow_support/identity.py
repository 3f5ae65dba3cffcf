"""Which code made a result: digests of a program's import closure within this project, and library versions."""

from __future__ import annotations

import ast
import contextlib
import functools
import importlib.metadata
from collections.abc import Iterable, Sequence
from pathlib import Path

import grimp

from common.hashing import content_hash, sha256
from emma import _MODULE_OF

_SOURCE_ROOT = Path(__file__).resolve().parent.parent
_PACKAGES = ("common", "emma", "rfgen", "floor_events", "workflow_support")


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*_PACKAGES, include_external_packages=False, cache_dir=None)


def _source(module: str) -> Path:
    stem = _SOURCE_ROOT.joinpath(*module.split("."))
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


@functools.cache
def _module_digest(module: str) -> str:
    path = _source(module)
    return sha256(path.read_bytes()) if path.exists() else ""


def imported(text: bytes) -> list[str]:
    """Names of modules that a program's text imports, those of emma's lazy names too, sorted.

    Args:
        text: Python source; SyntaxError where it is none.

    Returns:
        dotted names, of which some may be names in a module.
    """
    tree = ast.parse(text)
    found: set[str] = set()
    aliases: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
            aliases |= {alias.asname or "emma" for alias in node.names if alias.name == "emma"}
            aliases |= {"emma" for alias in node.names if alias.name.startswith("emma.") and alias.asname is None}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    # ``emma`` imports its public names when they are first used: its import alone reaches none of their modules.
    lazy = {name.removeprefix("emma.") for name in found if name.startswith("emma.")}
    lazy |= {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    }
    every = set(_MODULE_OF.values()) if "*" in lazy else set()
    return sorted(found | every | {_MODULE_OF[name] for name in lazy & set(_MODULE_OF)})


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
        direct = graph.find_modules_directly_imported_by(module)
        lazy = imported(_source(module).read_bytes()) if "emma" in direct else []
        waiting += [*parents, *direct, *(name for name in lazy if name in graph.modules)]
        # A package that looks for its modules imports them all, though no statement names them.
        children = [name for name in graph.modules if name.rpartition(".")[0] == module]
        if children and b"iter_modules(__path__)" in _source(module).read_bytes():
            waiting += children
    return sorted(found)


def code_digest(program: str | Path, factories: Sequence[str] = (), libraries: Sequence[str] = ()) -> str:
    """Digest of what decides a program's numbers: its own text, its import closure, and library versions.

    Args:
        program: path of a Python program.
        factories: further modules that it loads by name.
        libraries: distributions whose versions count.
    """
    text = Path(program).read_bytes()
    roots = [*factories, *imported(text)]
    return content_hash(
        {
            "program": sha256(text),
            "modules": {module: _module_digest(module) for module in closure(roots)},
            "libraries": {name: importlib.metadata.version(name) for name in sorted(libraries)},
        }
    )


def outside_digest(root: str | Path, module: str) -> str:
    """Digest of a module that stands in the project's folder but in none of its packages.

    All Python files beside it count, and what they import of the project's packages.

    Returns:
        the digest; an empty text for the project's packages, which ``code_digest`` follows, and for installed ones.
    """
    stem = Path(root).joinpath(*module.split("."))
    if module.partition(".")[0] in _PACKAGES or not (stem.is_dir() or stem.with_suffix(".py").is_file()):
        return ""
    folder = stem if stem.is_dir() else stem.parent
    # A module at the top of the project has the whole project beside it: only itself counts.
    beside = sorted(folder.glob("*.py")) if folder != Path(root) else [stem.with_suffix(".py")]
    texts = {path.name: path.read_bytes() for path in beside}
    roots: list[str] = []
    for text in texts.values():
        # A file that is no Python is the importing job's to refuse.
        with contextlib.suppress(SyntaxError, ValueError):
            roots += imported(text)
    reached = {module: _module_digest(module) for module in closure(roots)}
    return content_hash({"files": {name: sha256(text) for name, text in texts.items()}, "modules": reached})


def modules_digest(modules: Sequence[str]) -> str:
    """Digest of the import closure of modules within the project."""
    return content_hash({module: _module_digest(module) for module in closure(modules)})
