"""Whether ``package.module:function`` names something, looked up without importing it: a plan loads no torch."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from common.errors import InputError, near

_EMMA = Path(__file__).resolve().parent.parent

#: Where packages are installed, be it inside the project.
_INSTALLED = {"site-packages", "dist-packages"}

#: A module whose text has one of these may hold names that cannot be read off it.
_DYNAMIC = {"__getattr__", "globals", "exec", "*"}


def check_reference(reference: str, field: str, root: str | Path = ".", *, elsewhere: bool = False) -> None:
    """Refuse ``package.module:function`` where no import of it could succeed.

    The module is found, not run: what its own imports do, whether the name is a function, and names of installed
    modules show when a job imports it (``emma.backbones.load.load_function``).

    Args:
        reference: the module and the name in it.
        field: what to call it in an error.
        root: the project's folder, searched after what is installed.
        elsewhere: whether jobs run in another environment, whose packages cannot be known here.

    Raises:
        InputError: no such module; or, in the project's folder or in emma, no such name in it or a text that is no
            Python.
    """
    module, _, name = reference.partition(":")
    spec, missing = _find(module, Path(root))
    if spec is None:
        top = module.partition(".")[0]
        if not elsewhere or _is_own(_find(top, Path(root))[0], Path(root)):
            expected = "expected an installed one or one in the project's folder"
            raise InputError(f"{field}: {reference}: there is no module {missing}, {expected}")
        return
    if spec.origin is None or not spec.origin.endswith(".py") or not _is_own(spec, Path(root)):
        return
    try:
        tree = ast.parse(Path(spec.origin).read_bytes())
    except SyntaxError as error:
        raise InputError(f"{field}: {reference}: {spec.origin}: line {error.lineno}: {error.msg}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{field}: {reference}: {spec.origin}: cannot be read ({error})") from None
    names = set(_bound(tree)) | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & _DYNAMIC
    if name not in names and not names & _DYNAMIC:
        meant = near(name, sorted(names))
        told = f"did you mean {meant}?" if meant else "expected a function of that name"
        raise InputError(f"{field}: {reference}: there is no {name} in {spec.origin}, {told}")


def _find(module: str, root: Path) -> tuple[ModuleSpec | None, str]:
    """Where a module is, or None and the first part of its name that is nowhere; packages above it are not imported."""
    parts = module.split(".")
    if "" in parts:
        return None, repr(module)
    spec = None
    # A module of this very process, as __main__, may have no spec.
    with contextlib.suppress(ValueError):
        spec = importlib.util.find_spec(parts[0])
    spec = spec or PathFinder.find_spec(parts[0], [str(root.resolve())])
    for depth in range(1, len(parts)):
        if spec is None:
            return None, ".".join(parts[:depth])
        spec = PathFinder.find_spec(".".join(parts[: depth + 1]), list(spec.submodule_search_locations or ()))
    return spec, module


def _is_own(spec: ModuleSpec | None, root: Path) -> bool:
    """Whether a module is emma's or lies in the project's folder, and not among what is installed."""
    if spec is None:
        return False
    places = [spec.origin] if spec.has_location and spec.origin else list(spec.submodule_search_locations or ())
    paths = [Path(place).resolve() for place in places]
    return any(
        path.is_relative_to(home) and not _INSTALLED & set(path.relative_to(home).parts)
        for path in paths
        for home in (_EMMA, root.resolve())
    )


def _bound(node: ast.AST) -> Iterator[str]:
    """Names that a module binds as it is run, ``*`` for those of another module."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield child.name
        elif isinstance(child, ast.Import | ast.ImportFrom):
            for alias in child.names:
                yield alias.asname or alias.name.partition(".")[0]
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
            yield child.id
        elif not isinstance(child, ast.Lambda):
            yield from _bound(child)
