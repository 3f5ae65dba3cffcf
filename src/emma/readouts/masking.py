"""Dense readout of a waveform: from the embedding of each window of a scene to a mask of that window's spectrum."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import reduce
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from common.errors import InputError
from common.masks import clipped, count_windows, ideal_mask, spectra, waveform
from common.rows import Rows
from emma.readouts.base import Features, Floats, Readout, factors
from emma.readouts.moments import Moments
from emma.readouts.selection import chosen_value, inner_parts

#: Scenes whose windows are in memory in double precision at a time.
_SCENES = 32


class Masking(Readout):
    """Ridge regression from a window's embedding to the complex ratio mask of its spectrum, which gives the source.

    A row holds the embeddings of a scene's windows side by side. Every window is a sample: minimises
    ``mean |m - xW - b|^2 + regularisation |W|^2`` for the ideal mask ``m``, cut at magnitude 1
    (``common.masks.ideal_mask``), in closed form. A predicted mask is cut at magnitude 1 too, applied to the given
    mixture's spectrum, and the windows are overlapped and added. Features are standardised over all windows. Without
    features the mask is the mean one of the fit scenes. Sums are taken over a few scenes at a time, so that memory does
    not grow with windows times width beyond the embeddings themselves. Capacity is counted per window.
    """

    kind: ClassVar[str] = "masking"

    @property
    def windows(self) -> int:
        """Windows of a scene."""
        return count_windows(self.target.shape[0], *self._cut)

    @property
    def _cut(self) -> tuple[int, int]:
        assert self.spec.window is not None and self.spec.hop is not None
        return self.spec.window, self.spec.hop

    def parameters(self, width: int) -> int:
        """One regression with intercept per real and imaginary part of a line, on ``width`` features of a window."""
        return 2 * self._cut[0] * (width + 1)

    def fitted_width(self, width: int) -> int:
        """The part of a row that is one window's; InputError for a row that windows do not share evenly."""
        if width % self.windows:
            raise InputError(f"embedding_dim: {width}, expected a multiple of the {self.windows} windows of a scene")
        return width // self.windows

    def fit(self, features: Features, target: Any, groups: Any = None) -> Self:
        """Choose the regularisation and fit: see ``Readout.fit``; features are ``[N, windows D]``."""
        self.check_capacity(features.shape[1])
        rows = self._rows(features)
        mean, scale = factors(rows)
        self.tensors = {"mean": mean, "scale": scale}
        grid = np.array(self.spec.regularisation)
        losses, parts = np.zeros(len(grid)), np.zeros(len(target), np.int64)
        if len(grid) > 1 and scale.any():
            parts = inner_parts(groups, self.target.strata(target), len(target))
        moments = [self._moments(features[parts == part], target[parts == part]) for part in np.unique(parts)]
        whole = reduce(operator.add, moments)
        if len(moments) > 1:
            for own in moments:
                rest = whole - own
                losses += [own.error(*solved) / whole.count for solved in rest.solutions(grid)]
        self.tensors |= {"regularisation": grid[[chosen_value(losses)]], "validation_losses": losses}
        weights, intercept = whole.solve(self.regularisation)
        self.tensors |= {"weights": weights, "intercept": intercept}
        return self

    def _rows(self, features: Features) -> Features:
        """Windows' embeddings ``[N windows, D]`` of rows of scenes."""
        if isinstance(features, Rows):
            return features.split(self.windows)
        return features.reshape(len(features) * self.windows, self.fitted_width(features.shape[1]))

    def _blocks(self, features: Features) -> Iterator[tuple[slice, Floats]]:
        """A few scenes at a time, with the standardised embeddings of their windows."""
        for start in range(0, len(features), _SCENES):
            place = slice(start, start + _SCENES)
            scenes: NDArray[Any] = features[place]
            yield place, self._standardised(scenes.reshape(len(scenes) * self.windows, -1))

    def _moments(self, features: Features, target: Any) -> Moments:
        """Moments of the windows of scenes and of their ideal masks."""

        def part(place: slice, rows: Floats) -> Moments:
            mixture, source = (spectra(signal, *self._cut) for signal in np.moveaxis(target[place], 1, 0))
            return Moments.of(rows, ideal_mask(source, mixture).view(np.float64).reshape(len(rows), -1))

        return reduce(operator.add, (part(*block) for block in self._blocks(features)))

    def scores(self, features: NDArray[Any], given: Any = None) -> Floats:
        """Waveforms ``[N, 2 T]``, real and imaginary parts in turn, of given mixtures, complex ``[N, T]``."""
        made = np.empty((len(features), self.target.width))
        for place, rows in self._blocks(features):
            lines = spectra(given[place], *self._cut)
            mask = (rows @ self.tensors["weights"] + self.tensors["intercept"]).view(np.complex128)
            made[place] = waveform(clipped(mask.reshape(lines.shape)) * lines, self._cut[1]).view(np.float64)
        return made
