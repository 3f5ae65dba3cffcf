"""How far texts agree by CIDEr-D, each with each: what a consensus of captions rests on."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.tokenizers import DEFAULT_TOKENIZER, tokenizer_of

Floats = NDArray[np.float64]


def ngrams(tokens: list[str]) -> Counter[tuple[str, ...]]:
    """Return how often each n-gram of one to four tokens occurs."""
    return Counter(tuple(tokens[i : i + n]) for n in range(1, 5) for i in range(len(tokens) - n + 1))


def closeness(apart: NDArray[np.integer[Any]]) -> Floats:
    """Return CIDEr-D's factor of a difference in length, in tokens: a Gaussian of standard deviation 6."""
    near: Floats = np.exp(-np.square(apart) / (2 * 6.0**2))
    return near


class Agreement:
    """CIDEr-D of texts against one another; dimensionless, in [0, 10].

    What ``CIDER`` gives for one text against one reference, with document frequencies of the documents given: the
    clipped product of counts, ``min(a, b) b``, is a sum over levels of ``[a >= level] [b >= level] b``, so that one
    sparse product gives all pairs.

    Args:
        texts: T texts.
        document: the document ``[T]``, from 0 on, that each text belongs to, in which an n-gram counts once; -1 for a
            text of none.
        tokenizer: a name of ``common.tokenizers``.

    Reference: Vedantam, Zitnick and Parikh, "CIDEr: consensus-based image description evaluation", CVPR 2015,
    arXiv:1411.5726.

    Example:
        >>> agreement = Agreement(["a weak tone", "a weak tone", "noise"], np.array([0, 1, 2]))
        >>> agreement.between([0, 2], [1, 2]).round(3).tolist()
        [[7.5, 0.0], [0.0, 2.5]]
    """

    def __init__(
        self, texts: Sequence[str], document: NDArray[np.integer[Any]], tokenizer: str = DEFAULT_TOKENIZER
    ) -> None:
        from scipy import sparse

        split = tokenizer_of(tokenizer)
        sentences = [split(text) for text in texts]
        self._lengths = np.array([len(tokens) for tokens in sentences], np.int64)
        counts = [ngrams(tokens) for tokens in sentences]
        ids: dict[tuple[str, ...], int] = {}
        grams = np.array([ids.setdefault(gram, len(ids)) for count in counts for gram in count], np.int64)
        times = np.array([value for count in counts for value in count.values()], np.int64)
        text = np.repeat(np.arange(len(texts)), [len(count) for count in counts])
        order = np.array([len(gram) - 1 for gram in ids], np.int64)

        documents, holder = max(int(document.max(initial=0)) + 1, 1), document[text]
        held = np.unique((grams * documents + holder)[holder >= 0]) // documents
        frequency = np.maximum(np.bincount(held, minlength=len(ids)), 1)
        weights = np.square(np.log(documents) - np.log(frequency))[grams]
        squares = np.zeros((len(texts), 4))
        np.add.at(squares, (text, order[grams]), times**2 * weights)
        norms = np.sqrt(squares)[text, order[grams]]
        scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)

        most = int(times.max(initial=1))
        entry, level = np.nonzero(times[:, None] > np.arange(most))
        place = (text[entry], grams[entry] * most + level)
        shape = (len(texts), len(ids) * most)
        self._given = sparse.csr_array((scale[entry], place), shape=shape)
        self._wanted = sparse.csr_array(((times * weights * scale)[entry], place), shape=shape)

    def between(self, texts: Any, references: Any) -> Floats:
        """Return the scores ``[len(texts), len(references)]`` of texts against references, both by their numbers."""
        apart = self._lengths[texts][:, None] - self._lengths[references]
        scores: Floats = (self._given[texts] @ self._wanted[references].T).toarray()
        scores *= 10.0 / 4 * closeness(apart)
        return scores
