"""A release of random scenes, small enough to freeze, embed, fit and score in a second."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from common.files import write_json
from emma.data.freezing import freeze
from emma.data.labels import label_field
from emma.data.release import DataReleaseManifest, load_release_config, manifest_record, read_assigned
from emma.data.scenes import METADATA_SCHEMA, SceneChunk, write_scenes
from emma.tasks import OODAxis, Split, TaskID

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class World:
    """Where the release is, and its manifest."""

    results: Path
    manifest: DataReleaseManifest

    def index(self, task: TaskID, split: Split) -> pa.Table:
        path = self.results / "scenes" / task.value / f"{split.value}.index.parquet"
        return read_assigned(self.manifest, task, split, path)

    def indexes(self, task: TaskID) -> tuple[pa.Table, pa.Table]:
        return self.index(task, Split.TRAIN), self.index(task, Split.DEV)

    def scenes(self, task: TaskID) -> list[Path]:
        return [self.results / "scenes" / task.value / f"{split}.parquet" for split in ("TRAIN", "DEV")]


class Toy:
    """Two features that know the label, which the scenes carry in their first samples, and two of noise."""

    name = "toy"
    embedding_dim = 4

    def embed(self, iq: np.ndarray, sample_rate_hz: float, center_frequency_hz: float) -> np.ndarray:
        del sample_rate_hz, center_frequency_hz
        first = iq[:, 0, :2] / np.abs(iq[:, 0, :1])
        return np.hstack([first.real, first.imag]).astype(np.float32)


def metadata(count: int, **columns: object) -> dict[str, list]:
    """Metadata columns of ``count`` scenes; a value that is not a list stands in every row."""
    plain = {"task": "E-LOC-AOA", "split": "TRAIN", "frequency_band": "2.4GHz", "snr_regime": "mid", "snr_db": 5.0}
    plain |= {"sample_rate_hz": 2e7, "center_frequency_hz": 2.44e9} | columns
    every = {name: plain.get(name) for name in METADATA_SCHEMA.names}
    return {name: value if isinstance(value, list) else [value] * count for name, value in every.items()}


def _rows(task: TaskID, split: str, spec: object) -> list[dict]:
    if task is TaskID.E_ID_FP:
        return [
            {"device": unit, "session": f"{split}{session}", "receiver": f"R{session}", "class": unit}
            | {"snr_regime": ("mid", "high")[capture % 2]}
            for unit in spec.classes
            for session in range(3)
            for capture in range(4)
        ]
    rows = []
    for number in range(96 if task is not TaskID.E_ID_AMC else 132):
        row = {
            "environment": ("E_URBAN", "E_RURAL")[number % 2],
            "frequency_band": ("2.4GHz", "5.8GHz")[number // 2 % 2],
        }
        row["snr_regime"] = ("low", "mid", "high")[number // 4 % 3]
        held_out = {spec.ood_axis: spec.held_out} | {entry.ood_axis: entry.held_out for entry in spec.secondary}
        for axis in {OODAxis.WAVEFORM, OODAxis.RECEIVER} & set(held_out):
            row[axis.value] = held_out[axis][number // 2 % len(held_out[axis])]
        row["link_id"] = f"{task.value}-{split}-{number}"
        if task is TaskID.E_ID_AMC:
            row["class"] = spec.classes[number // 12 % len(spec.classes)]
        elif task is TaskID.E_LOC_AOA:
            row["azimuth_deg"] = 360.0 * number / 96
        elif spec.target == "beam":
            apart = (np.arange(len(spec.classes)) - number * len(spec.classes) // 96) % len(spec.classes)
            row["beam_power"] = (0.5 ** np.minimum(apart, len(spec.classes) - apart)).tolist()
        elif spec.target == "channel":
            turned = np.full(spec.shape, np.exp(2j * np.pi * number / 96))
            row["channel"] = np.stack([turned.real, turned.imag], axis=-1).reshape(-1).tolist()
        elif spec.target == "anomaly" and split == Split.TRAIN:
            row["class"] = spec.classes[0]
        elif spec.target == "source":
            row["mixture_and_source"] = (
                np.random.default_rng([number, len(split)]).normal(size=4 * spec.shape[0]).tolist()
            )
        elif spec.target == "caption":
            thing = ("a weak tone", "noise in the band")[number // 12 % 2]
            row["captions"] = [thing, f"only {thing}", f"{thing} of kind {number % 5}"]
        elif spec.target == "answer":
            asked = spec.readout.questions.values()
            texts = [kind.texts[number % len(kind.texts)].replace("{}", kind.heads[number % 2 - 1]) for kind in asked]
            answers = [kind.answers[number // 12 % 2] for kind in asked]
            row["qa"] = [text for pair in zip(texts, answers, strict=True) for text in pair]
        else:
            row["class"] = spec.classes[number // 12 % 2]
        rows.append(row)
    return rows


def _iq(rows: list[dict], spec: object, rng: np.random.Generator) -> np.ndarray:
    if spec.target == "source":
        mixtures = np.array([row["mixture_and_source"] for row in rows])[:, : 2 * spec.shape[0]]
        return np.ascontiguousarray(mixtures).view(complex)[:, None].astype(np.complex64)
    iq = rng.normal(size=(len(rows), 1, 32)) + 1j * rng.normal(size=(len(rows), 1, 32))
    for row, samples in zip(rows, iq, strict=True):
        turn = row.get("azimuth_deg")
        if "beam_power" in row:
            turn = 360.0 * np.argmax(row["beam_power"]) / len(spec.classes)
        elif "channel" in row:
            turn = np.rad2deg(np.angle(complex(*row["channel"][:2])))
        elif "captions" in row:
            turn = 180.0 * (row["captions"][0] == "a weak tone")
        elif "qa" in row:
            turn = 180.0 * next(iter(spec.readout.questions.values())).answers.index(row["qa"][1])
        elif turn is None:
            turn = 360.0 * spec.classes.index(row["class"]) / len(spec.classes)
        samples[0, 0] = np.exp(1j * (np.deg2rad(turn) + 0.3 * rng.normal()))
        samples[0, 1] = 1 + rng.normal()
    return iq.astype(np.complex64)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    results = tmp_path_factory.mktemp("results")
    config = load_release_config(ROOT / "config" / "releases" / "tiny.yaml")
    rng = np.random.default_rng(0)
    paths: dict[TaskID, dict[Split, Path]] = {}
    for task, spec in config.tasks.items():
        for split in (Split.TRAIN, Split.DEV):
            rows = _rows(task, split.value, spec)
            columns = {name: [row.get(name) for row in rows] for name in METADATA_SCHEMA.names if name in rows[0]}
            table = metadata(len(rows), task=task.value, split=split.value, **columns)
            iq = _iq(rows, spec, rng)
            folder = results / "scenes" / task.value
            index = folder / f"{split.value}.index.parquet"
            half = len(rows) // 2
            label = label_field(spec)
            labels = {label.name: [row[label.name] for row in rows]}
            cut = [
                SceneChunk(iq[part], *({name: values[part] for name, values in own.items()} for own in (table, labels)))
                for part in (slice(half), slice(half, None))
            ]
            write_scenes(folder / f"{split.value}.parquet", index, iter(cut), label)
            paths.setdefault(task, {})[split] = index
    manifest = freeze(config, paths, "0", "0" * 64)
    write_json(results / "release" / "manifest.json", manifest_record(manifest))
    return World(results, manifest)


@pytest.fixture(scope="session")
def toy() -> Toy:
    return Toy()


@pytest.fixture(scope="session")
def scene_columns() -> Callable[..., dict[str, list]]:
    return metadata
