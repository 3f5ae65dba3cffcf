"""What a model may declare of its pretraining: values that some release knows, so that a typo clears nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Literal

from common.errors import InputError
from common.files import parse
from emma.data.provenance import Pretraining
from emma.data.public_sets import refuse_unknown
from emma.data.release import DataReleaseManifest, ReleaseConfig, load_release_config
from emma.tasks import OODAxis, Split
from rfgen.recipe import Recipe

#: The field of Pretraining for each axis.
FIELDS: Mapping[OODAxis, str] = {
    OODAxis.ENVIRONMENT: "environments",
    OODAxis.DEVICE: "devices",
    OODAxis.FREQUENCY_BAND: "frequency_bands",
    OODAxis.SNR_REGIME: "snr_regimes",
    OODAxis.WAVEFORM: "waveforms",
    OODAxis.RECEIVER: "receivers",
}


def values_of(recipe: Recipe) -> dict[str, list[str]]:
    """Every value that a scene of the recipe can have, the unlabelled pool's included, by field of Pretraining."""
    pool = recipe.pretrain
    known: dict[str, list[str]] = {field: [] for field in FIELDS.values()}
    known |= {"frequency_bands": [*recipe.bands_hz], "snr_regimes": [*recipe.snr_regimes_db]}
    for name, task in recipe.tasks.items():
        for axis, field in FIELDS.items():
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
        release: the release of the run.
        source: its file.
        folder: ``config/releases``, whose other files count too: a config serves several releases.
    """

    def __init__(self, release: ReleaseConfig | DataReleaseManifest, source: str | Path, folder: Path) -> None:
        self.release, self.source, self.folder = release, source, folder

    @cached_property
    def own(self) -> dict[str, list[str]]:
        """Those of the release."""
        return values_of(parse(Recipe, self.release.rfgen, f"{self.source}: rfgen"))

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
