"""What a program can import: modules of the project, and packages from elsewhere.

An import counts wherever it stands, in a function too, but not below ``if TYPE_CHECKING``. Followed beside import
statements are the public names of ``emma``, which are imported when they are first used, ``importlib.import_module``
of a literal name, and packages that look for their own modules (``pkgutil.iter_modules``).
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import grimp

import emma

#: The folder and the packages that are the project's own.
SOURCE_ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("common", "emma", "rfgen", "floor_events", "workflow_support")

#: Nodes that can say what is imported.
_TOLD = (ast.Import, ast.ImportFrom, ast.Call, ast.Attribute)

_SEARCHES = re.compile(rb"\b(?:iter_modules|walk_packages)\(")


class Reach(NamedTuple):
    """What can be imported: modules of the project, and names of packages from elsewhere, both sorted."""

    modules: list[str]
    packages: list[str]


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(
        *PACKAGES, include_external_packages=True, exclude_type_checking_imports=True, cache_dir=None
    )


def source_of(module: str) -> Path:
    """The file of a module of the project."""
    stem = SOURCE_ROOT.joinpath(*module.split("."))
    return stem / "__init__.py" if stem.is_dir() else stem.with_suffix(".py")


def _is_type_checking(test: ast.expr) -> bool:
    """Whether a condition is ``TYPE_CHECKING`` or ``typing.TYPE_CHECKING``."""
    return "TYPE_CHECKING" in {getattr(test, "id", None), getattr(test, "attr", None)}


def _walk(*nodes: ast.AST) -> Iterator[ast.AST]:
    """Nodes and all below them, but for what type checkers alone read."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            waiting += node.orelse
        else:
            yield node
            waiting += ast.iter_child_nodes(node)


def _named(node: ast.AST) -> set[str]:
    """Dotted names that one node imports."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        literal = node.args[0].value
        if called == "import_module" and isinstance(literal, str) and not literal.startswith("."):
            return {literal}
    return set()


@functools.cache
def imported(text: bytes) -> tuple[str, ...]:
    """Names of modules that a Python text imports, those of emma's lazy names too, sorted.

    Args:
        text: Python source; SyntaxError where it is none.

    Returns:
        dotted names, of which some may be names in a module.
    """
    nodes = [node for node in _walk(ast.parse(text)) if isinstance(node, _TOLD)]
    found: set[str] = {name for node in nodes for name in _named(node)}
    aliases: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            aliases |= {alias.asname or "emma" for alias in node.names if alias.name == "emma"}
            aliases |= {"emma" for alias in node.names if alias.name.startswith("emma.") and alias.asname is None}
    # ``emma`` imports its public names when they are first used: its import alone reaches none of their modules.
    lazy = {name.removeprefix("emma.") for name in found if name.startswith("emma.") and name.count(".") == 1}
    lazy |= {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in aliases
    }
    every = set(map(emma.module_of, emma.__all__)) if "*" in lazy else set()
    return tuple(sorted(found | every | {emma.module_of(name) for name in lazy if _is_lazy(name)}))


def _is_lazy(name: str) -> bool:
    """Whether a name of ``emma`` is neither one of its own nor one of its modules."""
    return not (name.startswith("_") or name == "*" or f"emma.{name}" in _graph().modules)


def late(module: str | Path) -> list[str]:
    """Names that a module, or a program, imports in functions, sorted."""
    path = module if isinstance(module, Path) else source_of(module)
    text = path.read_bytes()
    # Most have none: only those are parsed that have an import statement with something before it.
    if not re.search(rb"(?m)^[ \t]+(?:from|import)[ \t]", text):
        return []
    tree = ast.parse(text)
    functions = (node for node in _walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return sorted({name for function in functions for node in _walk(function) for name in _named(node)})


@functools.cache
def _direct(module: str) -> frozenset[str]:
    """Names that a module of the project imports itself, and the packages above it."""
    graph = _graph()
    found = set(graph.find_modules_directly_imported_by(module))
    if "." in module:
        found.add(module.rpartition(".")[0])
    path = source_of(module)
    text = path.read_bytes() if path.is_file() else b""
    if "emma" in found or b"import_module(" in text:
        found |= set(imported(text))
    if path.name == "__init__.py" and _SEARCHES.search(text):
        found |= graph.find_children(module)
    return frozenset(found)


def reach(names: Iterable[str]) -> Reach:
    """All that importing ``names`` can reach.

    Args:
        names: dotted names of modules, or of names in modules.
    """
    graph = _graph()
    modules: set[str] = set()
    packages: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        top = name.partition(".")[0]
        if top not in PACKAGES:
            packages.add(top)
        elif name in graph.modules and name not in modules:
            modules.add(name)
            waiting += _direct(name)
    return Reach(sorted(modules), sorted(packages - sys.stdlib_module_names))


def closure(names: Iterable[str]) -> list[str]:
    """The project's modules that importing ``names`` can reach, with the packages above them, sorted."""
    return reach(names).modules


def texts_of(program: str | Path) -> dict[str, bytes]:
    """The texts of a program and of the modules beside it that it imports, by file name."""
    program = Path(program)
    found: dict[str, bytes] = {}
    waiting = [program]
    while waiting:
        path = waiting.pop()
        if path.name in found:
            continue
        found[path.name] = path.read_bytes()
        beside = (program.with_name(f"{name}.py") for name in imported(found[path.name]) if "." not in name)
        waiting += [other for other in beside if other.is_file()]
    return found


def reach_of(texts: Iterable[bytes]) -> Reach:
    """All that Python texts can reach; a text that is no Python is the importing job's to refuse."""
    names: list[str] = []
    for text in texts:
        with contextlib.suppress(SyntaxError, ValueError):
            names += imported(text)
    return reach(names)
