"""What a model may declare of its pretraining: values that some release knows, so that a typo clears nobody."""

from __future__ import annotations

import contextlib
from functools import cached_property
from pathlib import Path
from typing import Literal

from common.errors import InputError
from common.files import parse
from emma.data.provenance import PRETRAINING_FIELDS, Pretraining
from emma.data.public_sets import refuse_unknown
from emma.data.release import load_release_config
from emma.tasks import Split
from rfgen.recipe import Recipe


def values_of(recipe: Recipe) -> dict[str, list[str]]:
    """Every value that a scene of the recipe can have, the unlabelled pool's included, by field of Pretraining."""
    pool = recipe.pretrain
    known: dict[str, list[str]] = {field: [] for field in PRETRAINING_FIELDS.values()}
    known |= {"frequency_bands": [*recipe.bands_hz], "snr_regimes": [*recipe.snr_regimes_db]}
    for name, task in recipe.tasks.items():
        for axis, field in PRETRAINING_FIELDS.items():
            known[field] += recipe.values_of(name)[axis.value]
        # Emitters that are no drone are no axis value, and pretraining may well have seen them.
        known["waveforms"] += [*getattr(task, "present", ()), *getattr(task, "absent", ())]
    for field, values in {"environments": [pool.name], "devices": pool.units, "receivers": pool.receivers}.items():
        known[field] += values
    known["release_splits"] = [*Split]
    return {field: list(dict.fromkeys(values)) for field, values in known.items()}


class Known:
    """Values of a release, and of the others beside it where those are asked for.

    Args:
        recipe: that of the run's release.
        folder: ``config/releases``, whose other files count too: a config serves several releases.
    """

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.recipe, self.folder = recipe, folder

    @cached_property
    def own(self) -> dict[str, list[str]]:
        """Those of the release."""
        return values_of(self.recipe)

    @cached_property
    def every(self) -> dict[str, list[str]]:
        """Those of all releases that can be read; what is wrong with another one is not this run's concern."""
        found = {field: list(values) for field, values in self.own.items()}
        for path in sorted(self.folder.glob("*.yaml")):
            with contextlib.suppress(InputError):
                recipe = parse(Recipe, load_release_config(path).rfgen, path)
                for field, values in values_of(recipe).items():
                    found[field] = list(dict.fromkeys([*found[field], *values]))
        return found

    def check(self, pretraining: Pretraining | Literal["unknown"], source: str | Path) -> None:
        """Refuse a declaration with a value that no release knows.

        Raises:
            InputError: names the file, the key and the value that may have been meant.
        """
        if isinstance(pretraining, str):
            return
        for field in self.own:
            for value in getattr(pretraining, field):
                if value not in self.own[field]:
                    refuse_unknown(value, self.every[field], f"{source}: pretraining.{field}")
