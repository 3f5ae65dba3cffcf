"""Answers to questions: one multinomial logistic regression for each kind and argument that is asked about."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from emma.readouts.base import Features, Floats, Readout
from emma.readouts.logistic import Logistic
from emma.readouts.selection import Numbers
from emma.tasks import TARGETS, ReadoutSpec, Target
from emma.tasks.questions import grammar, question_key


@dataclass(frozen=True)
class _Head:
    """What one kind and argument are answered by: its columns of the weights, the fit's scenes, and their answers."""

    columns: NDArray[np.int64]
    rows: NDArray[np.int64]
    answers: Floats
    readout: Logistic


class Answers(Readout):
    """The kind and the argument are read off the question's text; a logistic of their own then chooses an answer.

    ``readout.questions`` pins texts, arguments and answers. A head is fit on the scenes that were asked its question,
    and knows the answers that it met there; one regularisation is chosen for all. Without features a head gives its
    most frequent answer. A text that is no pinned question gets the most frequent answer of all.
    """

    kind: ClassVar[str] = "answers"

    def __init__(self, spec: ReadoutSpec, target: Target) -> None:
        super().__init__(spec, target)
        questions = spec.questions or {}
        # By name, whatever order a file of the release has them in.
        self._heads = [(kind, argument) for kind in sorted(questions) for argument in questions[kind].heads]
        self._texts = [answer for kind, _ in self._heads for answer in questions[kind].answers]
        sizes = [len(questions[kind].answers) for kind, _ in self._heads]
        self._starts = np.cumsum([0, *sizes])
        self._grammar = grammar(questions)
        self._fits: list[_Head] = []

    def parameters(self, width: int) -> int:
        """One linear score, with intercept, per answer of every kind and argument."""
        return (width + 1) * len(self._texts)

    def _validation_losses(self, features: Features, target: Any, parts: Numbers) -> Floats:
        """Mean cross-entropy over questions."""
        losses = np.zeros(len(self.spec.regularisation))
        self._fits = self._asked(target)
        for head in self._fits:
            own = parts[head.rows]
            if len(head.columns) > 1 and len(np.unique(own)) == parts.max() + 1:
                losses += len(own) * head.readout._validation_losses(features[head.rows], head.answers, own)
        mean: Floats = losses / target[:, :, 0].size
        return mean

    def _fit(self, features: Features, target: Any, regularisation: float) -> dict[str, Any]:
        weights = np.zeros((features.shape[1], len(self._texts)))
        intercept, known = np.zeros(len(self._texts)), np.zeros(len(self._texts), np.uint8)
        for head in self._fits or self._asked(target):
            known[head.columns] = 1
            if not self.tensors["scale"].any():
                # The logistic without features, in closed form: equal counts are equal to the last bit.
                intercept[head.columns] = np.log(np.bincount(head.answers.astype(np.int64)))
            elif len(head.columns) > 1:
                fitted = head.readout._fit(features[head.rows], head.answers, regularisation)
                weights[:, head.columns], intercept[head.columns] = fitted["weights"], fitted["intercept"]
        self._fits = []
        answers, counts = np.unique(target[:, :, 1].astype(str), return_counts=True)
        most = self._texts.index(answers[counts.argmax()])
        return {"weights": weights, "intercept": intercept, "known": known, "most_frequent": np.array([most])}

    def scores(self, features: NDArray[Any], given: Any = None) -> Any:
        """Answers ``[N, Q]``, text, to questions ``[N, Q]``; of equal scores the answer that is pinned first."""
        logits = self._standardised(features) @ self.tensors["weights"] + self.tensors["intercept"]
        logits = np.where(self.tensors["known"], logits, -np.inf)
        asked = self._heads_of(given)
        chosen = np.full(asked.shape, int(self.tensors["most_frequent"][0]))
        for number, (start, stop) in enumerate(itertools.pairwise(self._starts)):
            rows, places = np.nonzero(asked == number)
            if self.tensors["known"][start:stop].any():
                chosen[rows, places] = start + logits[rows, start:stop].argmax(axis=1)
        return np.array(self._texts, object)[chosen]

    def _heads_of(self, questions: Any) -> NDArray[np.int64]:
        """Number of the head ``[N, Q]`` that answers each question; -1 for a text that is none."""
        numbers = {head: number for number, head in enumerate(self._heads)}
        texts, of_text = np.unique(questions.astype(str), return_inverse=True)
        known = [self._grammar.get(question_key(text)) for text in texts]
        heads = np.array([-1 if head is None else numbers[head] for head in known], np.int64)
        return heads[of_text].reshape(questions.shape)

    def _asked(self, target: Any) -> list[_Head]:
        """The heads that a fit's questions and answers ``[N, Q, 2]`` ask for; InputError for one that is not pinned."""
        asked = self._heads_of(target[:, :, 0])
        if (asked < 0).any():
            raise InputError(f"label: {target[asked < 0][0, 0]!r} is none of the pinned questions")
        heads = []
        for number, (start, stop) in enumerate(itertools.pairwise(self._starts)):
            rows, places = np.nonzero(asked == number)
            answers = target[rows, places, 1].tolist()
            pinned = self._texts[start:stop]
            if not set(answers) <= set(pinned):
                other = min(set(answers) - set(pinned))
                raise InputError(f"label: {other!r} answers {self._heads[number][0]}, expected one of {pinned}")
            met = [place for place, text in enumerate(pinned) if text in answers]
            if len(rows):
                classes = TARGETS["class"](tuple(pinned[place] for place in met))
                indices = np.searchsorted(met, [pinned.index(answer) for answer in answers]).astype(np.float64)
                heads.append(_Head(start + np.array(met), rows, indices, Logistic(self.spec, classes)))
        return heads
