"""The hashes of the releases that ship, and a few numbers of each that tell other floating point from other scenes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import RootModel

from common.files import parse, read_json, write_json
from common.hashing import content_hash
from emma.data.labels import label_field
from emma.data.release import CONTENT, DataReleaseManifest
from emma.data.scenes import iterate_scenes, read_labelled
from emma.tasks import Split, Strict, TaskID, TaskSpec

#: File of the hashes, in the folder of the releases' configuration.
PUBLISHED = "published.json"

#: Relative difference of probed numbers between machines whose floating point differs.
TOLERANCE = 1e-4

#: Scenes of a split that are probed, evenly spread, and samples of each.
_SCENES, _SAMPLES = 4, 3


class Probe(Strict):
    """A few numbers of a split: how many scenes it has, and of some of them samples (I, Q in turn), SNR and label."""

    scenes: int
    samples: tuple[tuple[float, ...], ...]
    snr_db: tuple[float, ...]
    labels: tuple[float | str, ...]


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
    content = manifest.model_dump(mode="json", include={*CONTENT} - {"splits"}, exclude_defaults=True)
    probes: dict[TaskID, dict[Split, Probe]] = {task: {} for task in manifest.splits}
    for task, own in manifest.splits.items():
        for split in own:
            path = Path(folder) / task.value / f"{split.value}.parquet"
            probes[task][split] = _probe(path, manifest.spec(task))
    return PublishedRelease(
        data_release_hash=manifest.data_release_hash, config_sha256=content_hash(content), probes=probes
    )


def _probe(path: Path, spec: TaskSpec) -> Probe:
    label = label_field(spec)
    index = read_labelled(path.with_suffix(".index.parquet"), label)
    rows = np.unique(np.linspace(0, index.num_rows - 1, _SCENES).astype(int))
    samples, start = [], 0
    for _, iq in iterate_scenes(path, verify=False):
        for row in rows[(rows >= start) & (rows < start + len(iq))]:
            scene = iq[row - start, 0]
            places = np.linspace(0, len(scene) - 1, _SAMPLES).astype(int)
            samples.append(tuple(float(f"{number:.8g}") for number in scene[places].view(np.float32)))
        start += len(iq)
    chosen = index.take(rows)
    snr_db, labels = chosen["snr_db"].to_pylist(), chosen[label.name].to_pylist()
    return Probe(scenes=index.num_rows, samples=tuple(samples), snr_db=tuple(snr_db), labels=tuple(labels))


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
            if not _near(probe.model_dump(), theirs[task][split].model_dump()):
                yield f"scenes of {task} {split}"


def _near(ours: Any, theirs: Any) -> bool:
    """Whether numbers agree, relative to the largest of those that stand together, and all else is equal."""
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(_near(ours[key], theirs[key]) for key in ours)
    if not _is_list(ours) or not _is_list(theirs):
        return bool(ours == theirs)
    if len(ours) != len(theirs):
        return False
    numbers = [abs(value) for value in theirs if isinstance(value, float)]
    allowed = TOLERANCE * max(numbers, default=0.0)
    for one, other in zip(ours, theirs, strict=True):
        if isinstance(one, float) and isinstance(other, float):
            if not math.isclose(one, other, rel_tol=0.0, abs_tol=allowed):
                return False
        elif not _near(one, other):
            return False
    return True


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
