"""Questions about scenes, as a release pins them: their texts, what they may ask about, and how they are answered.

The texts are data of the release and not code: the generator asks by them, the readout tells by them what is asked, and
neither knows the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, model_validator

from emma.tasks.names import Strict


class QuestionKind(Strict):
    """One kind of question: paraphrases of it, in which ``{}`` stands for an argument, and all answers to it."""

    texts: Annotated[tuple[str, ...], Field(min_length=1, description="paraphrases, `{}` where an argument stands")]
    arguments: Annotated[
        tuple[str, ...], Field(description="what may be asked about; none for a question that takes no argument")
    ] = ()
    answers: Annotated[tuple[str, ...], Field(min_length=2, description="every answer that there is")]

    @model_validator(mode="after")
    def _consistent(self) -> QuestionKind:
        for key in ("texts", "arguments", "answers"):
            values = getattr(self, key)
            if len({question_key(value) for value in values}) != len(values) or not all(map(question_key, values)):
                raise ValueError(f"{key}: expected distinct texts, none of them empty")
        if any(text.count("{}") != bool(self.arguments) for text in self.texts):
            wanted = "one {} in every text" if self.arguments else "no {} where there are no arguments"
            raise ValueError(f"texts: expected {wanted}")
        return self

    @property
    def heads(self) -> tuple[str, ...]:
        """The arguments; an empty one for a question that takes none."""
        return self.arguments or ("",)


#: Kinds of question by their names.
Questions = Mapping[str, QuestionKind]


def question_key(text: str) -> str:
    """What is compared of a text: lower case, single spaces."""
    return " ".join(text.casefold().split())


def grammar(questions: Questions) -> dict[str, tuple[str, str]]:
    """Kind and argument by the key of every text that can be asked.

    Raises:
        ValueError: two texts that ask for different things read alike.
    """
    known: dict[str, tuple[str, str]] = {}
    for kind, question in questions.items():
        for argument in question.heads:
            for text in question.texts:
                key = question_key(text.replace("{}", argument))
                if known.setdefault(key, (kind, argument)) != (kind, argument):
                    raise ValueError(f"questions: {key!r} is of two kinds or arguments, expected one")
    return known
