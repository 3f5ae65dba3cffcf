"""What a model is and what its pretraining saw: one record, which embeddings, predictions, runs and board carry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from common.errors import InputError
from common.files import parse
from common.hashing import content_hash
from emma.data.public_sets import PUBLIC_SETS, refuse_unknown, regimes_of
from emma.tasks import OODAxis, Strict, TaskID

#: A SHA-256 in hexadecimal digits.
Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

#: Keys of a model's config that tell readers of it and change no number: no hash covers them.
DESCRIPTIVE = frozenset({"description", "link", "expects"})

#: The field of Pretraining for each axis.
PRETRAINING_FIELDS: Mapping[OODAxis, str] = {
    OODAxis.ENVIRONMENT: "environments",
    OODAxis.DEVICE: "devices",
    OODAxis.FREQUENCY_BAND: "frequency_bands",
    OODAxis.SNR_REGIME: "snr_regimes",
    OODAxis.WAVEFORM: "waveforms",
    OODAxis.RECEIVER: "receivers",
}

#: The key of the schema metadata of Parquet tables that holds a Provenance.
METADATA_KEY = "model_provenance"


def _public_set(name: str) -> str:
    refuse_unknown(name, tuple(PUBLIC_SETS), "public set")
    return name


class Pretraining(Strict):
    """What a model's pretraining saw, by axis; the board marks every held-out value that is listed here."""

    environments: Annotated[tuple[str, ...], Field(description="environments that pretraining saw")] = ()
    devices: Annotated[tuple[str, ...], Field(description="device units that pretraining saw")] = ()
    frequency_bands: Annotated[tuple[str, ...], Field(description="frequency bands that pretraining saw")] = ()
    snr_regimes: Annotated[tuple[str, ...], Field(description="SNR regimes that pretraining saw")] = ()
    waveforms: Annotated[tuple[str, ...], Field(description="waveform families that pretraining saw")] = ()
    receivers: Annotated[tuple[str, ...], Field(description="receivers that pretraining saw")] = ()
    release_splits: Annotated[tuple[str, ...], Field(description="splits of the release that pretraining saw")] = ()
    #: Left out where it is empty: tables and records that were written before it had a name stay the same bytes.
    sets: Annotated[
        tuple[Annotated[str, AfterValidator(_public_set)], ...],
        Field(
            description="public sets that pretraining saw, by name (`emma.data.public_sets`): the SNR regimes that one "
            "covers count as met",
            exclude_if=lambda sets: not sets,
        ),
    ] = ()

    @property
    def declares(self) -> bool:
        """Whether it names anything at all."""
        return any(getattr(self, field) for field in type(self).model_fields)


def with_sets(
    pretraining: Pretraining | Literal["unknown"], recipe: Mapping[str, Any]
) -> Pretraining | Literal["unknown"]:
    """What pretraining saw, with the SNR regimes of a release that its public sets cover.

    Args:
        pretraining: as declared.
        recipe: the release's, whose ``snr_regimes_db`` says what a regime spans.
    """
    if not isinstance(pretraining, Pretraining) or not pretraining.sets:
        return pretraining
    spans = recipe.get("snr_regimes_db", {})
    covered = [regime for name in pretraining.sets for regime in regimes_of(name, spans)]
    return pretraining.model_copy(update={"snr_regimes": tuple(dict.fromkeys([*pretraining.snr_regimes, *covered]))})


class DeclaredReadout(Strict):
    """The head that made a task's predictions, as the author of a submission declares it."""

    kind: Annotated[str, Field(description="kind of the head")]
    embedding_dim: Annotated[int, Field(ge=0, description="width of the embedding that it was fit on")]
    parameters: Annotated[int, Field(ge=0, description="number of parameters")]


class Provenance(Strict):
    """What made a model's predictions.

    Attributes:
        name: the model's name.
        config_sha256: content hash of its config, or of a submission's manifest.
        weights_sha256: SHA-256 of its weights; None where it has none, or where they were not submitted.
        pretraining: what its pretraining saw, or "unknown".
        readouts: the declared heads of a submission, by task; None, and left out of JSON, for every other model.
        device: what its embeddings were made on; ``cpu``, and left out of JSON, for all but a GPU.
        isolation: ``none`` where the system could not keep the process that made its embeddings from the files of
            results; left out of JSON where it could (``landlock``).
    """

    name: Annotated[str, Field(min_length=1)]
    config_sha256: Hash
    weights_sha256: Hash | None
    pretraining: Pretraining | Literal["unknown"]
    readouts: dict[TaskID, DeclaredReadout] | None = Field(default=None, exclude_if=lambda readouts: readouts is None)
    device: str = Field(default="cpu", exclude_if=lambda device: device == "cpu")
    isolation: Literal["landlock", "none"] = Field(default="landlock", exclude_if=lambda way: way == "landlock")

    @classmethod
    def of(
        cls,
        name: str,
        config: BaseModel,
        pretraining: Pretraining | Literal["unknown"],
        weights_sha256: str | None = None,
        readouts: dict[TaskID, DeclaredReadout] | None = None,
    ) -> Provenance:
        """The provenance of the model that ``config`` declares; see the attributes.

        Keys of the config that have their default do not count, so that a task or key that is added moves no model;
        nor do those that only describe it (DESCRIPTIVE).
        """
        digest = content_hash(config.model_dump(mode="json", exclude_defaults=True, exclude=set(DESCRIPTIVE)))
        return cls(
            name=name,
            config_sha256=digest,
            weights_sha256=weights_sha256,
            pretraining=pretraining,
            readouts=readouts,
        )

    @property
    def metadata(self) -> dict[str, str]:
        """The record as schema metadata of a Parquet table."""
        return {METADATA_KEY: json.dumps(self.model_dump(mode="json"), sort_keys=True)}


def provenance_of(metadata: Mapping[str, str], path: str | Path) -> Provenance:
    """The provenance in the schema metadata of the table at ``path``; InputError where there is none."""
    try:
        content = json.loads(metadata[METADATA_KEY])
    except (KeyError, ValueError, RecursionError):
        raise InputError(f"{path}: {METADATA_KEY}: expected the model's provenance in the schema metadata") from None
    return parse(Provenance, content, f"{path}: {METADATA_KEY}")
