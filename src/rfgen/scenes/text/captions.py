"""E-S2T-CAP: five reference captions of every scene."""

from typing import ClassVar

import numpy as np
from pydantic import model_validator

from rfgen.physics.fields import Count
from rfgen.scenes.base import Column, LabelColumns
from rfgen.scenes.text import grammar
from rfgen.scenes.text.attributes import Attributes
from rfgen.scenes.text.base import TextTask


class Captions(TextTask):
    """What the samples show, in words: the captions of the `grammar` that the release pins."""

    names = ("E-S2T-CAP",)
    label_columns: ClassVar[LabelColumns] = {"captions": list, "detail": str}

    grammar: Count

    @model_validator(mode="after")
    def _check_grammar(self) -> "Captions":
        if self.grammar != grammar.VERSION:
            raise ValueError(f"grammar: expected {grammar.VERSION}, the version that captions are written by")
        return self

    def describe(self, scenes: list[Attributes], rng: np.random.Generator) -> dict[str, Column]:
        """Captions, and the number of emitters as detail."""
        return {
            "captions": [grammar.captions(scene, rng) for scene in scenes],
            "detail": [str(len(scene.emitters)) for scene in scenes],
        }
