"""Draw which package imports which into docs/architecture.md: a Mermaid picture and a table, between two markers."""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from pathlib import Path

import grimp

# Runs from a bare checkout, from any folder; an installed copy of the library does not shadow this one.
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from common.errors import InputError, OneLineParser, run_script
from common.files import read_text, write_text

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src"
#: Packages that are drawn by their stages.
STAGED = ("emma", "rfgen")
BEGIN, END = "<!-- packages: written by scripts/draw_structure.py -->", "<!-- packages: end -->"

Graph = dict[str, set[str]]


def node_of(module: str) -> str:
    """The package of a module; a stage within ``emma`` or ``rfgen`` is one: ``emma.data`` of ``emma.data.scenes``."""
    first_two = module.split(".")[:2]
    staged = first_two[0] in STAGED and SOURCE.joinpath(*first_two, "__init__.py").exists()
    return ".".join(first_two) if staged else first_two[0]


def package_graph() -> Graph:
    """Each package of src with the other packages that it imports; imports for type checkers do not count."""
    packages = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))
    modules = grimp.build_graph(*packages, exclude_type_checking_imports=True, cache_dir=None)
    graph: Graph = {}
    for module in modules.modules:
        imports = graph.setdefault(node_of(module), set())
        imports |= {node_of(imported) for imported in modules.find_modules_directly_imported_by(module)}
    return {node: imports - {node} for node, imports in sorted(graph.items())}


def in_order(graph: Graph) -> list[str]:
    """Packages, each after all that it imports; InputError names a circle."""
    try:
        # Sorted, so that the order is the same in every process.
        return list(graphlib.TopologicalSorter({node: sorted(graph[node]) for node in sorted(graph)}).static_order())
    except graphlib.CycleError as error:
        raise InputError(f"src: packages import in a circle: {' <- '.join(error.args[1])}") from None


def reduced(graph: Graph) -> Graph:
    """Without the imports that a chain of others implies."""
    reached: Graph = {}
    kept: Graph = {}
    for node in in_order(graph):
        implied = set().union(*(reached[below] for below in graph[node]))
        reached[node] = graph[node] | implied
        kept[node] = graph[node] - implied
    return kept


def purpose(package: str) -> str:
    """The first line of a package's docstring up to a semicolon, without its full stop."""
    tree = ast.parse(read_text(SOURCE.joinpath(*package.split("."), "__init__.py")))
    line = (ast.get_docstring(tree) or "").partition("\n")[0].partition(";")[0]
    return line.removesuffix(".").replace("``", "`").replace("|", r"\|")


def drawing(graph: Graph) -> str:
    """The text between the markers: how many, the picture, and one row per package from the top down."""
    shown = sorted(reduced(graph).items())
    lines = [
        f"{len(graph)} packages, {sum(map(len, graph.values()))} imports between them, no circle. An arrow points to"
        " what is imported; where a chain of",
        "arrows leads from one package to another, the direct arrow is left out.",
        "",
        "```mermaid",
        "graph TD",
        *(f"    {package} --> {below}" for package, imports in shown for below in sorted(imports)),
        "```",
        "",
        "| package | what it is for | imports |",
        "|---|---|---|",
    ]
    for package in reversed(in_order(graph)):
        imports = ", ".join(f"`{below}`" for below in sorted(graph[package]))
        lines.append(f"| `{package}` | {purpose(package)} | {imports} |")
    return "\n".join(lines)


def drawn_into(document: str, path: Path) -> str:
    """The document with the drawing of today between its markers."""
    pattern = re.compile(f"{re.escape(BEGIN)}\n.*?{re.escape(END)}", re.DOTALL)
    if len(pattern.findall(document)) != 1:
        raise InputError(f"{path}: expected one pair of markers: {BEGIN} ... {END}")
    return pattern.sub(lambda _: f"{BEGIN}\n{drawing(package_graph())}\n{END}", document)


def main() -> None:
    """Rewrite the document's marked part."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--document", type=Path, default=ROOT / "docs" / "architecture.md", help="file to draw into")
    path = parser.parse_args().document
    write_text(path, drawn_into(read_text(path), path))


if __name__ == "__main__":
    run_script(main)
