"""Places that the reader draws: a forger who knows them forges elsewhere."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from common.streams import stream


@dataclass(frozen=True)
class Draw:
    """Which scenes, rows and folds are made again.

    Attributes:
        seed: the reader's; fresh random bits by default.
        every: whether all are.
    """

    seed: int = field(default_factory=lambda: secrets.randbits(32))
    every: bool = False

    def rows(self, total: int, count: int, *names: str) -> NDArray[np.int64]:
        """``count`` of ``total`` numbers in order, or all where there are no more; ``names`` tell draws apart."""
        if self.every or total <= count:
            return np.arange(total)
        return np.sort(stream(self.seed, "rows", *names).choice(total, count, replace=False))

    def takes(self, share: int, *names: str) -> bool:
        """Whether something by its names is among one in ``share``."""
        return self.every or share <= 1 or int(stream(self.seed, "takes", *names).integers(share)) == 0

    def __str__(self) -> str:
        """How to draw the same again, for the verdict."""
        return "every scene, row and fold made again" if self.every else f"at places drawn by --draw {self.seed}"
