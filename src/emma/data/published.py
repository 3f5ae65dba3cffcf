"""The hashes of the releases that ship, and numbers that tell other floating point from other scenes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import RootModel

from common.files import parse, read_json, write_json
from common.hashing import content_hash
from emma.data.labels import label_field
from emma.data.release import CONTENT, DataReleaseManifest
from emma.data.scenes import iterate_scenes, read_labelled
from emma.tasks import Split, Strict, TaskID, TaskSpec, target_of

#: File of the hashes, in the folder of the releases' configuration.
PUBLISHED = "published.json"

#: Difference of probed numbers between machines whose floating point differs, relative to a scene's own level.
TOLERANCE = 1e-4

#: Scenes of a split that are probed, evenly spread: all of tiny's, so that a change of any kind of scene shows.
_SCENES = 300

#: Columns that are the same on every machine, beside text and whole numbers: numbers that no arithmetic made.
_EXACT = ("sample_rate_hz", "center_frequency_hz")


class Probe(Strict):
    """What is recorded of a split.

    Attributes:
        scenes: number of scenes.
        text_sha256: content hash of the columns that are the same on every machine, labels that are text among them.
        level: root mean square of the probed scenes' samples, separated by spaces.
        projection: their samples on a fixed sequence of phases, relative to the level: a number for the whole scene.
        label: their labels, where these are numbers; of several a scene, one that sums them up; else empty.
    """

    scenes: int
    text_sha256: str
    level: str
    projection: str
    label: str = ""


class PublishedRelease(Strict):
    """What is recorded of a release: its hash, the hash of its content without the scenes, and probes."""

    data_release_hash: str
    config_sha256: str
    probes: dict[TaskID, dict[Split, Probe]]


class _Published(RootModel[dict[str, PublishedRelease]]):
    """Recorded releases by name."""


def load_published(path: str | Path) -> dict[str, PublishedRelease]:
    """Read ``published.json``, by release; empty where there is no such file, InputError where it is broken."""
    return parse(_Published, read_json(path), path).root if Path(path).is_file() else {}


def write_published(path: str | Path, releases: Mapping[str, PublishedRelease]) -> None:
    """Write what ``load_published`` reads."""
    write_json(path, {name: releases[name].model_dump(mode="json") for name in sorted(releases)})


def published_release(manifest: DataReleaseManifest, folder: str | Path) -> PublishedRelease:
    """What to record of a frozen release whose scenes are at ``folder/TASK/SPLIT.parquet``."""
    probes: dict[TaskID, dict[Split, Probe]] = {task: {} for task in manifest.splits}
    for task, own in manifest.splits.items():
        for split in own:
            path = Path(folder) / task.value / f"{split.value}.parquet"
            probes[task][split] = _probe(path, manifest.spec(task))
    return PublishedRelease(
        data_release_hash=manifest.data_release_hash, config_sha256=config_hash(manifest), probes=probes
    )


def config_hash(manifest: DataReleaseManifest) -> str:
    """SHA-256 of a release's content without the scenes: what its configuration alone declares."""
    return content_hash(manifest.model_dump(mode="json", include={*CONTENT} - {"splits"}, exclude_defaults=True))


def _probe(path: Path, spec: TaskSpec) -> Probe:
    label = label_field(spec)
    index = read_labelled(path.with_suffix(".index.parquet"), label)
    rows = np.unique(np.linspace(0, index.num_rows - 1, _SCENES).astype(int))
    exact = [field.name for field in index.schema if field.name in _EXACT or _is_exact(field.type)]
    columns = {name: index[name].to_pylist() for name in exact if name not in {"scene_id", "iq_sha256"}}
    numbers = np.empty(0)
    if not _is_exact(label.type):
        known = target_of(spec).numbers(index[label.name])[rows]
        numbers = known if known.ndim == 1 else _projected(known.reshape(len(known), -1))[1].real
    level, projection = _levels(path)
    return Probe(
        scenes=index.num_rows,
        text_sha256=content_hash(columns),
        level=_written(level[rows]),
        projection=_written(projection[rows]),
        label=_written(numbers),
    )


def _is_exact(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_list(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


def _levels(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Level and projection ``[N]`` of every scene of a file."""
    levels, projections = [], []
    for _, iq in iterate_scenes(path, verify=False):
        level, projection = _projected(iq.reshape(len(iq), -1).astype(np.complex128))
        levels.append(level)
        projections.append(projection.real)
    return np.concatenate(levels), np.concatenate(projections)


def _projected(flat: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.complex128]]:
    """Level ``[N]`` of numbers ``[N, K]``, and their projection on fixed phases relative to it."""
    # Quadratic phases: no two numbers, and no shift of them, count alike.
    phases = np.exp(2j * np.pi * ((np.arange(flat.shape[1]) ** 2 * 0.6180339887498949) % 1.0))
    level = np.sqrt(np.mean(np.abs(flat) ** 2, axis=1))
    return level, flat @ phases / np.sqrt(flat.shape[1]) / np.maximum(level, 1e-30)


def _written(numbers: NDArray[np.float64]) -> str:
    return " ".join(f"{number:.6g}" for number in numbers)


def _read(text: str) -> NDArray[np.float64]:
    return np.array(text.split(), float)


def differences(made: PublishedRelease, recorded: PublishedRelease) -> Iterator[str]:
    """Where a release that was made differs from the recorded one by more than floating point.

    Yields:
        one text per part that differs; none where the hashes are equal, and none where they differ but configuration
        and probes agree within TOLERANCE, as on a machine with other floating point.
    """
    if made.data_release_hash == recorded.data_release_hash:
        return
    if made.config_sha256 != recorded.config_sha256:
        yield "seed, recipe, tasks, stress_regimes or bootstrap"
    ours, theirs = made.probes, recorded.probes
    for task in dict.fromkeys([*ours, *theirs]):
        if task not in ours or task not in theirs or ours[task].keys() != theirs[task].keys():
            yield f"splits of {task}"
            continue
        for split, probe in ours[task].items():
            if not _near(probe, theirs[task][split]):
                yield f"scenes of {task} {split}"


def _near(ours: Probe, theirs: Probe) -> bool:
    """Whether all that is exact is equal, and numbers agree: levels relatively, the rest by themselves."""
    if (ours.scenes, ours.text_sha256) != (theirs.scenes, theirs.text_sha256):
        return False
    level, projection, label = (
        (_read(getattr(ours, name)), _read(getattr(theirs, name))) for name in ("level", "projection", "label")
    )
    if any(one.shape != other.shape for one, other in (level, projection, label)):
        return False
    near = (
        np.isclose(*level, rtol=TOLERANCE, atol=0.0),
        np.isclose(*projection, rtol=0.0, atol=TOLERANCE),
        np.isclose(*label, rtol=TOLERANCE, atol=TOLERANCE),
    )
    return all(bool(part.all()) for part in near)
