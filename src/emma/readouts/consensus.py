"""The caption that the nearest fit scenes agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from common.agreement import Agreement
from emma.readouts.base import Features, Floats, Readout, standardise

#: Decimals to which cosines and agreements count: what lies closer is a tie, on every machine.
_DECIMALS = 9
#: Scenes, or texts, that are compared with all others at a time.
_ROWS = 256


class Consensus(Readout):
    """Of the captions of the ``neighbours`` nearest fit scenes, the one with the highest mean CIDEr-D among them.

    Nearest by the cosine of standardised embeddings; scenes as near as the last of them count too, so that where an
    embedding says nothing, as at width 0, all fit scenes are neighbours. Document frequencies are those of the fit
    scenes, tokens those of the default tokenizer. Of captions that agree alike the first in alphabetical order is
    taken, so that the order of the fit scenes decides nothing. Nothing is fitted but the mean and scale of the
    features: the fit scenes themselves are the readout.

    Reference: Devlin, Gupta, Girshick, Mitchell and Zitnick, "Exploring nearest neighbor approaches for image
    captioning", arXiv:1505.04467.
    """

    kind: ClassVar[str] = "consensus"

    def parameters(self, width: int) -> int:
        """None."""
        del width
        return 0

    def fit(self, features: Features, target: Any, groups: Any = None) -> Self:
        """Keep features ``[N, D]`` and lists of captions ``[N]``; see ``Readout.fit``."""
        del groups
        self.check_capacity(features.shape[1])
        _, mean, scale = standardise(features)
        texts = [text.encode() for captions in target for text in captions]
        self.tensors = {
            "mean": mean,
            "scale": scale,
            "features": np.ascontiguousarray(features),
            "captions": np.array([len(captions) for captions in target], np.int64),
            "lengths": np.array([len(text) for text in texts], np.int64),
            "texts": np.frombuffer(b"".join(texts), np.uint8),
        }
        return self

    def without(self, features: Features, target: Any, kept: NDArray[np.bool_]) -> Self:
        """The same readout on the scenes that are ``kept``."""
        return type(self)(self.spec, self.target).fit(features[kept], target[kept])

    def scores(self, features: NDArray[Any], given: Any = None) -> Any:
        """One caption for each embedding, texts ``[N, 1]``."""
        del given
        captions, found = _Captions(self.tensors), dict[bytes, str]()
        answers = np.empty((len(features), 1), object)
        for row, near in enumerate(self._neighbours(features)):
            # Where all fit scenes are neighbours, they are so of every scene.
            if (key := near.tobytes()) not in found:
                found[key] = captions.answer(near)
            answers[row, 0] = found[key]
        return answers

    def _neighbours(self, features: NDArray[Any]) -> Iterator[NDArray[np.int64]]:
        """Numbers of the fit scenes that are neighbours of each embedding ``[N, D]``."""
        fitted = self._directions(self.tensors["features"])
        last = min(int(self.spec.neighbours or 1), len(fitted))
        for start in range(0, len(features), _ROWS):
            cosines = np.round(self._directions(features[start : start + _ROWS]) @ fitted.T, _DECIMALS)
            bounds = -np.partition(-cosines, last - 1, axis=1)[:, last - 1 : last]
            yield from (np.flatnonzero(row) for row in cosines >= bounds)

    def _directions(self, features: NDArray[Any]) -> Floats:
        """Standardised features of unit length ``[N, D]``; zero where they are zero."""
        inputs = self._standardised(features)
        length = np.sqrt(np.einsum("nd,nd->n", inputs, inputs))[:, None]
        directions: Floats = np.divide(inputs, length, out=np.zeros_like(inputs), where=length > 0)
        return directions


class _Captions:
    """The captions of fit scenes, and how far they agree.

    Args:
        tensors: those of a fit.
    """

    def __init__(self, tensors: dict[str, Any]) -> None:
        whole, ends = tensors["texts"].tobytes(), np.cumsum(tensors["lengths"])
        texts = [whole[end - length : end].decode() for end, length in zip(ends, tensors["lengths"], strict=True)]
        self.scene = np.repeat(np.arange(len(tensors["captions"])), tensors["captions"])
        self.distinct, self.first, self.number = np.unique(texts, return_index=True, return_inverse=True)
        self.agreement = Agreement(texts, self.scene)

    def answer(self, scenes: NDArray[np.int64]) -> str:
        """The caption of these scenes with the highest mean agreement with all of theirs."""
        own, times = np.unique(self.number[np.isin(self.scene, scenes)], return_counts=True)
        texts = self.first[own]
        blocks = [self.agreement.between(texts[k : k + _ROWS], texts) @ times for k in range(0, len(texts), _ROWS)]
        mean = np.concatenate(blocks) / times.sum()
        return str(self.distinct[own[np.round(mean, _DECIMALS).argmax()]])
