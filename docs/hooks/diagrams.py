"""Drawings of Mermaid's `graph` as SVG within the page: nothing is fetched when the page is read."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from grandalf.graphs import Edge, Graph, Vertex
from grandalf.layouts import SugiyamaLayout
from mkdocs.config.defaults import MkDocsConfig

#: Pixels: width of a letter of 13 px, margins of a box, its height, space between boxes of a layer and between layers.
LETTER, MARGIN, HEIGHT, BESIDE, BETWEEN = 7.4, 22.0, 30.0, 14.0, 44.0
PICTURE = re.compile(r"^!\[[^\]]*\]\((assets/\w+\.svg)\)$", re.MULTILINE)
BLOCK = re.compile(r"^```mermaid\ngraph (TD|LR)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)


class _Box:
    """The size and place of a node, as the layout asks for it."""

    def __init__(self, width: float, height: float) -> None:
        self.w, self.h, self.xy = width, height, (0.0, 0.0)


class _Line:
    """The corners of an edge, as the layout sets them."""

    def __init__(self) -> None:
        self._pts: list[tuple[float, float]] = []

    def setpath(self, points: list[tuple[float, float]]) -> None:
        """Keep the corners."""
        self._pts = points


def on_page_markdown(markdown: str, config: MkDocsConfig, **_: Any) -> str:
    """Replace each block by its drawings, and each picture in SVG by its text, which follows the page's colours."""
    folder = Path(config.docs_dir)
    markdown = PICTURE.sub(
        lambda found: f'<div class="picture">{(folder / found[1]).read_text(encoding="utf-8")}</div>', markdown
    )
    return BLOCK.sub(lambda found: drawn(found[1], found[2]), markdown)


def drawn(direction: str, text: str) -> str:
    """The HTML of a block `A --> B`, one arrow per line; parts with an empty line between are drawn apart."""
    parts = [picture for part in text.split("\n\n") for picture in _drawn(direction == "LR", part)]
    return '<div class="graph">' + "".join(parts) + "</div>\n"


def _drawn(sideways: bool, text: str) -> Iterator[str]:
    """The SVG of each connected part of some arrows."""
    pairs = re.findall(r"^\s*([\w.]+) --> ([\w.]+)\s*$", text, re.MULTILINE)
    if len(pairs) != len([line for line in text.splitlines() if line.strip()]):
        raise ValueError("a diagram: expected one arrow `A --> B` per line")
    vertices = {name: Vertex(name) for name in dict.fromkeys(name for pair in pairs for name in pair)}
    for name, vertex in vertices.items():
        size = (len(name) * LETTER + MARGIN, HEIGHT)
        vertex.view = _Box(*(reversed(size) if sideways else size))
    edges = [Edge(vertices[above], vertices[below]) for above, below in pairs]
    for edge in edges:
        edge.view = _Line()
    for part in Graph([*vertices.values()], edges).C:
        yield laid_out(part, sideways)


def laid_out(part: Any, sideways: bool) -> str:
    """The SVG of one connected part, its layers from top to bottom, or from left to right."""
    layout = SugiyamaLayout(part)
    layout.xspace, layout.yspace = BESIDE, BETWEEN
    roots = sorted((vertex for vertex in part.sV if not vertex.e_in()), key=lambda vertex: vertex.data)
    layout.init_all(roots=roots)
    layout.draw(12)

    def turned(x: float, y: float) -> tuple[float, float]:
        return (y, x) if sideways else (x, y)

    boxes = {vertex.data: (*turned(*vertex.view.xy), *turned(vertex.view.w, vertex.view.h)) for vertex in part.sV}
    paths = []
    for edge in part.sE:
        start, end = boxes[edge.v[0].data], boxes[edge.v[1].data]
        middle = [turned(*point) for point in edge.view._pts[1:-1]]
        paths.append(curve(port(start, 1, sideways), middle, port(end, -1, sideways), sideways))
    left = min(x - w / 2 for x, _, w, _ in boxes.values()) - 8
    right = max(x + w / 2 for x, _, w, _ in boxes.values()) + 8
    top = min(y - h / 2 for _, y, _, h in boxes.values()) - 8
    bottom = max(y + h / 2 for _, y, _, h in boxes.values()) + 8
    size = f'viewBox="{left:.0f} {top:.0f} {right - left:.0f} {bottom - top:.0f}" width="{right - left:.0f}"'
    size += f' style="min-width:min({right - left:.0f}px,37rem)"'
    names = [
        f'<rect x="{x - w / 2:.1f}" y="{y - h / 2:.1f}" width="{w:.1f}" height="{h:.1f}" rx="6"/>'
        f'<text x="{x:.1f}" y="{y + 4.5:.1f}">{html.escape(name)}</text>'
        for name, (x, y, w, h) in boxes.items()
    ]
    told = "; ".join(f"{edge.v[0].data} to {edge.v[1].data}" for edge in part.sE)
    return f'<svg {size} role="img" aria-label="{html.escape(told)}">{"".join(paths)}{"".join(names)}</svg>'


def port(box: tuple[float, float, float, float], side: int, sideways: bool) -> tuple[float, float]:
    """Where arrows leave a box (side 1) or meet it (side -1)."""
    x, y, width, height = box
    return (x + side * width / 2, y) if sideways else (x, y + side * height / 2)


def curve(
    start: tuple[float, float], middle: list[tuple[float, float]], end: tuple[float, float], sideways: bool
) -> str:
    """A smooth arrow through the corners that the layout gave an edge, and its head."""
    points = [start, *middle, end]
    path = f"M{start[0]:.1f},{start[1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        if sideways:
            path += f"C{(x0 + x1) / 2:.1f},{y0:.1f} {(x0 + x1) / 2:.1f},{y1:.1f} {x1:.1f},{y1:.1f}"
        else:
            path += f"C{x0:.1f},{(y0 + y1) / 2:.1f} {x1:.1f},{(y0 + y1) / 2:.1f} {x1:.1f},{y1:.1f}"
    x, y = end
    head = f"M{x - 7:.1f},{y - 4:.1f}L{x:.1f},{y:.1f}L{x - 7:.1f},{y + 4:.1f}z"
    if not sideways:
        head = f"M{x - 4:.1f},{y - 7:.1f}L{x:.1f},{y:.1f}L{x + 4:.1f},{y - 7:.1f}z"
    return f'<path class="line" d="{path}"/><path class="head" d="{head}"/>'
