"""What the tasks share whose scenes are made by SNR regime."""

from collections.abc import Iterable, Mapping

import numpy as np
from pydantic import model_validator

from rfgen.physics.fields import Range
from rfgen.scenes.base import POOL, CountedTask, Setting, Split


class RegimeTask(CountedTask):
    """A task whose held-out values are SNR regimes; `scenes` count per regime and band."""

    regimes_db: dict[str, Range]

    @model_validator(mode="after")
    def _check_regimes(self) -> "RegimeTask":
        if len(self.regimes_db) < 2:
            raise ValueError("regimes_db: expected at least two held-out values")
        return self

    @property
    def snr_limits_db(self) -> tuple[float, float]:
        """Lowest and highest SNR [dB] of the scored splits."""
        lows, highs = zip(*self.regimes_db.values(), strict=True)
        return min(lows), max(highs)

    def values_of(self, setting: Setting) -> dict[str, tuple[str, ...]]:
        """Values that scenes of the scored splits can have, by the scene column of each axis."""
        return super().values_of(setting) | {"snr_regime": tuple(self.regimes_db)}

    def regimes_in(self, setting: Setting, split: Split) -> Mapping[str, tuple[float, float]]:
        """SNR limits [dB] by regime in a split."""
        if split == POOL:
            limits = setting.pretrain.snr_db
            return {setting.snr_regime(np.array(limits[:1]))[0]: limits}
        return self.regimes_db

    def groups(self, setting: Setting, split: Split) -> Iterable[str | int]:
        """The SNR regimes of a split."""
        return self.regimes_in(setting, split)
