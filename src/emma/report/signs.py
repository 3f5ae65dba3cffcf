"""Signs of models: a colour, a marker's shape and a dash that follow from the name alone."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Any

import altair as alt
from markupsafe import Markup

from emma.backbones.config import CONTROL_SUFFIX

#: The first eight are Okabe and Ito's palette, safe for colour-blind readers; shapes tell models apart as well.
COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a7a7a", "#8c5a2b",
    "#8e63c7", "#8f9a1f", "#1aa3a3", "#c2185b",
)  # fmt: skip
#: Marker shapes by their names in Vega, with the same shape as a path in a box of 12 x 12.
SHAPES = {
    "circle": "M6 1a5 5 0 1 0 .01 0z",
    "square": "M1.5 1.5h9v9h-9z",
    "triangle-up": "M6 1 11 10.5H1z",
    "diamond": "M6 0 11 6 6 12 1 6z",
    "cross": "M4 1h4v3h3v4h-3v3h-4v-3h-3v-4h3z",
    "triangle-down": "M6 11 11 1.5H1z",
    "triangle-right": "M11 6 1.5 11V1z",
    "triangle-left": "M1 6 10.5 11V1z",
}
DASHES = ((1, 0), (6, 2), (2, 2), (8, 2, 2, 2))
_SIGNS = tuple(product(SHAPES, COLOURS))
#: Steps that reach every sign.
_STEPS = tuple(step for step in range(1, len(_SIGNS)) if gcd(step, len(_SIGNS)) == 1)
#: With it, models that ship have unlike signs, and their backbones unlike colours.
_SALT = "47240"


@dataclass(frozen=True)
class Sign:
    """How a model is drawn everywhere.

    Attributes:
        colour: hexadecimal.
        shape: of its marker, by Vega's name.
        dash: of its line, lengths on and off.
        hollow: whether its marker is not filled: a control has its model's sign, hollow.
    """

    colour: str
    shape: str
    dash: tuple[int, ...]
    hollow: bool = False

    @property
    def path(self) -> Markup:
        """The marker as a path of SVG, in a box of 12 x 12."""
        fill = "none" if self.hollow else self.colour
        return Markup(f'<path d="{SHAPES[self.shape]}" fill="{fill}" stroke="{self.colour}" stroke-width="1.3"/>')


#: Signs by the name of a model, controls among them.
Signs = Mapping[str, Sign]


def signs(models: Iterable[str]) -> dict[str, Sign]:
    """The sign of each model of a board and of its control.

    A name draws its sign by its hash, so that a model keeps it whatever else is on the board. Of names that draw the
    same one the first in the alphabet has it; each other takes the first free one of those that its hash draws next.
    Where there are more models than signs, models share them, no sign by many more than another.
    """
    names = sorted({name.removesuffix(CONTROL_SUFFIX) for name in models})
    drawn = {name: _order(name) for name in names}
    owners = {drawn[name][0]: name for name in reversed(names)}
    place, users = {name: slot for slot, name in owners.items()}, Counter(list(owners))
    for name in names:
        if name not in place:
            place[name] = min(drawn[name], key=users.__getitem__)
            users[place[name]] += 1
    found = {}
    for name in names:
        shape, colour = _SIGNS[place[name]]
        found[name] = Sign(colour, shape, DASHES[place[name] // len(COLOURS) % len(DASHES)])
        found[name + CONTROL_SUFFIX] = Sign(colour, shape, DASHES[2], hollow=True)
    return found


def _order(name: str) -> list[int]:
    """All signs, by their places, in the order in which a name draws them."""
    digest = hashlib.sha256(f"{_SALT}{name}".encode()).digest()
    first, step = int.from_bytes(digest[:4], "big"), _STEPS[digest[4] % len(_STEPS)]
    return [(first + turn * step) % len(_SIGNS) for turn in range(len(_SIGNS))]


def channels() -> dict[str, Any]:
    """The encodings of points by ``model``: stroke, fill (none for controls) and shape, without a legend.

    The scales hold names in place of their lists, which ``scales`` gives.
    """

    def scale(values: str) -> alt.Scale:
        return alt.Scale(domain=["@models"], range=[values])

    return {
        "stroke": alt.Stroke("model:N", scale=scale("@strokes"), legend=None),
        "fill": alt.Fill("model:N", scale=scale("@fills"), legend=None),
        "shape": alt.Shape("model:N", scale=scale("@shapes"), legend=None),
    }


def scales(models: Sequence[str], drawn: Signs) -> dict[str, list[str]]:
    """What the names in the scales of ``channels`` stand for.

    Args:
        models: those that are drawn.
        drawn: the signs of the whole board.
    """
    own = [drawn[name] for name in models]
    return {
        "@models": list(models),
        "@strokes": [sign.colour for sign in own],
        "@fills": ["transparent" if sign.hollow else sign.colour for sign in own],
        "@shapes": [sign.shape for sign in own],
    }
