"""E-S2T-QA: six questions about a scene, one of each kind, and their answers."""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from pydantic import BeforeValidator, model_validator

from common.streams import Seed
from rfgen.physics.fields import Model, Names
from rfgen.physics.propagation import Links
from rfgen.physics.types import Floats
from rfgen.scenes.base import ChunkKey, Column, LabelColumns, Setting, Split
from rfgen.scenes.text.attributes import BANDWIDTHS, MOST, PLACES, Attributes, Emitter, embedding
from rfgen.scenes.text.base import TextTask

#: What a question of one emitter is answered where there is none.
NONE = "none"


class Question(Model):
    """One kind of question: paraphrases of it, in which `{}` stands for an argument, and every answer that there is."""

    texts: Names
    arguments: Annotated[tuple[str, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)] = ()
    answers: Names


class Kind(NamedTuple):
    """How a kind is answered: what it may ask about, its answers, and the one to a scene and an argument."""

    arguments: tuple[str, ...]
    answers: Callable[["QuestionAnswering"], tuple[str, ...]]
    answer: Callable[["QuestionAnswering", Attributes, str], str]


class QuestionAnswering(TextTask):
    """Every scene is asked one question of each kind, in a random paraphrase, about a random argument.

    Neither is drawn by the scene, so that questions tell nothing of it. Half of all places are taken, which is what the
    yes and no is about; the emitters that are asked about exist in three of four scenes.

    `questions` has the texts, arguments and answers by kind.
    """

    names = ("E-S2T-QA",)
    label_columns: ClassVar[LabelColumns] = {"qa": list, "detail": str}

    questions: dict[str, Question]

    @model_validator(mode="after")
    def _check_questions(self) -> "QuestionAnswering":
        if set(self.questions) != set(KINDS):
            raise ValueError(f"questions: expected {', '.join(KINDS)}")
        for name, kind in KINDS.items():
            question = self.questions[name]
            if set(question.arguments) != set(kind.arguments):
                raise ValueError(f"questions.{name}.arguments: expected {', '.join(kind.arguments) or 'none'}")
            if set(question.answers) != set(kind.answers(self)):
                raise ValueError(f"questions.{name}.answers: expected {', '.join(kind.answers(self))}")
        return self

    def describe(self, scenes: list[Attributes], rng: np.random.Generator) -> dict[str, Column]:
        """Questions and answers in turn, text `[n, 12]`, kinds as `KINDS` has them; detail: the number of emitters."""
        asked = [[text for name in KINDS for text in self._asked(name, scene, rng)] for scene in scenes]
        return {"qa": np.array(asked, object), "detail": [str(len(scene.emitters)) for scene in scenes]}

    def _asked(self, name: str, scene: Attributes, rng: np.random.Generator) -> tuple[str, str]:
        """One question of a kind, and its answer."""
        question, arguments = self.questions[name], KINDS[name].arguments or ("",)
        text = question.texts[rng.integers(len(question.texts))]
        argument = arguments[rng.integers(len(arguments))]
        return text.replace("{}", argument), KINDS[name].answer(self, scene, argument)

    def truth(
        self, setting: Setting, name: str, split: Split, key: ChunkKey, seed: Seed, links: Links | None = None
    ) -> Floats:
        """The attributes as zeros and ones (`attributes.embedding`), and the family of the strongest emitter."""
        del links
        scenes = self.made(setting, name, split, key, seed).attributes
        strongest = [self.families.index(_strongest(scene).family) if scene.emitters else -1 for scene in scenes]
        return np.concatenate([embedding(scenes), np.equal.outer(strongest, range(len(self.families)))], axis=1)

    @property
    def width_ranges(self) -> tuple[str, ...]:
        """Ranges of an emitter's width, in the order of `BANDWIDTHS`."""
        return tuple(_span(*self.bandwidths_hz[name], 1e6, "MHz") for name in BANDWIDTHS)

    @property
    def power_ranges(self) -> tuple[str, ...]:
        """Ranges of the weakest emitter below the strongest: a lone one, all of them strong, one of them weak."""
        return ("0 dB", *(_span(*self.below_db[name], 1.0, "dB") for name in ("strong", "weak")))

    def _presence(self, scene: Attributes, argument: str) -> str:
        place = PLACES[_THIRDS.index(argument)]
        return _YES_NO[all(emitter.place != place for emitter in scene.emitters)]

    def _count(self, scene: Attributes, argument: str) -> str:
        del argument
        return str(len(scene.emitters))

    def _family(self, scene: Attributes, argument: str) -> str:
        return _asked_emitter(scene, argument).family if scene.emitters else NONE

    def _strongest(self, scene: Attributes, argument: str) -> str:
        del argument
        return _strongest(scene).family if scene.emitters else NONE

    def _bandwidth(self, scene: Attributes, argument: str) -> str:
        if not scene.emitters:
            return NONE
        return self.width_ranges[BANDWIDTHS.index(_asked_emitter(scene, argument).bandwidth)]

    def _power(self, scene: Attributes, argument: str) -> str:
        del argument
        if len(scene.emitters) < 2:
            return self.power_ranges[0] if scene.emitters else NONE
        return self.power_ranges[1 + any(emitter.power == "weak" for emitter in scene.emitters)]


def _span(low: float, high: float, unit: float, name: str) -> str:
    return f"{low / unit:g} to {high / unit:g} {name}"


def _asked_emitter(scene: Attributes, argument: str) -> Emitter:
    """The first or the last emitter of a scene that has one: they stand from the lowest place up."""
    return scene.emitters[0 if argument == _ENDS[0] else -1]


def _strongest(scene: Attributes) -> Emitter:
    """The emitter of most power while on."""
    return min(scene.emitters, key=lambda emitter: emitter.below_db)


_YES_NO = ("yes", "no")
# The thirds of the band in the order of `PLACES`, and the emitters at the ends.
_THIRDS, _ENDS = ("lower", "middle", "upper"), ("lowest-frequency", "highest-frequency")

#: Kinds of question, in the order that they are asked.
KINDS: Mapping[str, Kind] = {
    "presence": Kind(_THIRDS, lambda task: _YES_NO, QuestionAnswering._presence),
    "count": Kind((), lambda task: tuple(map(str, range(MOST + 1))), QuestionAnswering._count),
    "family": Kind(_ENDS, lambda task: (NONE, *task.families), QuestionAnswering._family),
    "strongest": Kind((), lambda task: (NONE, *task.families), QuestionAnswering._strongest),
    "bandwidth": Kind(_ENDS, lambda task: (NONE, *task.width_ranges), QuestionAnswering._bandwidth),
    "power": Kind((), lambda task: (NONE, *task.power_ranges), QuestionAnswering._power),
}
