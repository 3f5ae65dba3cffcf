"""The grammar of captions: what references say of a scene, and in which words.

A release pins its `VERSION`, which goes up with any change of words or of the order that they are drawn in.
"""

from collections.abc import Callable, Iterable

import numpy as np

from rfgen.scenes.text.attributes import Attributes, Emitter

__all__ = ["LONGEST", "REFERENCES", "VERSION", "captions"]

VERSION = 1
#: Captions of a scene.
REFERENCES = 5
#: No caption has more characters.
LONGEST = 200

_COUNTS = ("no", "one", "two", "three")
_NOUNS = ("signal", "emitter")
_ACTIVITIES = {"steady": ("steady", "continuous"), "bursty": ("bursty", "pulsed")}
_PLACES = {
    "low": ("at the low end", "in the lower third"),
    "centre": ("in the centre", "in the middle third"),
    "high": ("at the high end", "in the upper third"),
}
# The same of every empty scene: which of more sentences an answer takes would move a quarter of the score by chance.
_EMPTY = (
    "there is noise alone",
    "only noise in the band",
    "the band is empty",
    "no emitter in the band",
    "no signal on air",
)


class _Words:
    """The wording of one caption: a thing has the same name throughout it."""

    def __init__(self, emitters: tuple[Emitter, ...], rng: np.random.Generator) -> None:
        self.emitters = emitters
        noun, self._activity, self._place = rng.integers(2, size=3).tolist()
        self.noun = _NOUNS[noun]
        self.count = f"{_COUNTS[len(emitters)]} {self.noun}{'s' if len(emitters) > 1 else ''}"

    def power(self, emitter: Emitter) -> str:
        """Relative power, which a lone emitter has none of."""
        return f"{emitter.power} " if len(self.emitters) > 1 else ""

    def activity(self, emitter: Emitter) -> str:
        return _ACTIVITIES[emitter.activity][self._activity]

    def place(self, emitter: Emitter) -> str:
        return _PLACES[emitter.place][self._place]


def _whole(w: _Words) -> str:
    """All that can be said of each."""
    return _listed(f"a {w.power(e)}{e.bandwidth} {w.activity(e)} {e.family} {w.noun} {w.place(e)}" for e in w.emitters)


def _spectrum(w: _Words) -> str:
    """What a spectrum shows."""
    return _listed(f"a {e.bandwidth} {e.family} {w.noun} {w.place(e)}" for e in w.emitters)


def _time(w: _Words) -> str:
    """Which emitters pause."""
    return _listed(f"a {w.activity(e)} {e.family} {w.noun} {w.place(e)}" for e in w.emitters)


def _level(w: _Words) -> str:
    """How many, and which are strong."""
    return f"{w.count}: " + _listed(f"{w.power(e)}{e.family} {w.place(e)}" for e in w.emitters)


def _kinds(w: _Words) -> str:
    """How many, and what they are, without places."""
    return f"{w.count}: " + _listed(f"{e.bandwidth} {w.activity(e)} {e.family}" for e in w.emitters)


#: Styles of the references, each of which says something else: no two can be the same.
_STYLES: tuple[Callable[[_Words], str], ...] = (_whole, _spectrum, _time, _level, _kinds)


def _listed(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def captions(scene: Attributes, rng: np.random.Generator) -> list[str]:
    """`REFERENCES` different captions of a scene, in random order.

    One in each style, with words drawn for each by itself; of all scenes without emitters the same ones.
    """
    made = [style(_Words(scene.emitters, rng)) for style in _STYLES] if scene.emitters else _EMPTY
    return [made[i] for i in rng.permutation(REFERENCES)]
