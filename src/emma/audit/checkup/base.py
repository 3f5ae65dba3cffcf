"""What a model is looked at with, what it has answered, and what a check of it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from common.errors import InputError
from emma.audit.checkup.watch import watched
from emma.backbones.apart import SHOWN
from emma.backbones.base import IQ, Backbone, Embeddings
from emma.backbones.config import ModelConfig
from emma.backbones.dense import task_contract
from emma.backbones.embed import embed_batch
from emma.backbones.inputs import Contract
from emma.backbones.rights import Isolation
from emma.data.provenance import Provenance
from emma.data.scenes import iterate_scenes
from emma.data.tables import open_parquet
from emma.tasks import TaskID, TaskSpec

#: Scenes of a task that a model is looked at with.
SCENES = 16


@dataclass(frozen=True)
class Sample:
    """Scenes of one task: complex64 ``[n, A, T]``, their sample rates and carriers by column, origin, declaration."""

    iq: IQ
    index: pa.Table
    source: str
    spec: TaskSpec | None = None

    def with_iq(self, iq: IQ, rows: Sequence[int] | NDArray[np.integer[Any]] | None = None) -> Sample:
        """Other samples under the same metadata, or under that of ``rows``."""
        return replace(self, iq=iq, index=self.index if rows is None else self.index.take(pa.array(rows)))

    def contract(self, contract: Contract) -> Contract:
        """A model's contract for these scenes."""
        return contract if self.spec is None else task_contract(contract, self.spec)


def spread_sample(path: str | Path, count: int = SCENES) -> Sample:
    """``count`` scenes of a scene file at even distances, the first and the last among them; InputError if broken."""
    with open_parquet(path) as file:
        total = file.metadata.num_rows
    picked = sorted({round(place) for place in np.linspace(0, max(total - 1, 0), min(count, total))})
    iq, index, start = [], [], 0
    for table, samples in iterate_scenes(path, verify=False):
        rows = [row - start for row in picked if start <= row < start + len(table)]
        iq.append(samples[rows])
        shown = table.select([name for name in SHOWN if name in table.column_names])
        index.append(shown.take(pa.array(rows, pa.int64())))
        start += len(table)
    if not picked:
        raise InputError(f"{path}: expected at least one scene")
    return Sample(np.concatenate(iq), pa.concat_tables(index).combine_chunks(), f"{len(picked)} scenes of {path}")


class Blocked(InputError):  # noqa: N818 (no error of the model: an earlier check has said why)
    """Nothing to look at, for a reason that an earlier check has given."""


class Doubt(InputError):  # noqa: N818 (no error: the model can be run, and its author should look)
    """Something that is allowed, and seldom meant."""


@dataclass(frozen=True)
class Finding:
    """What one check found.

    ``ok``, ``FAULT``, ``warn`` (allowed, and seldom meant), ``info`` (nothing is asked), ``skip`` (a fault above is in
    the way).
    """

    name: str
    state: str
    text: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.state:6}{self.name}: {self.text}"


class Subject:
    """The model that is looked at, its scenes, and what it has answered.

    Args:
        config: the model's config.
        specs: declarations of the release's tasks.
        samples: scenes by task, of those that the model takes.
        build: loads the backbone anew and returns it with its provenance.
        weights: the model's file of weights, if it has one.
        private: folder of results, whose files no model may read.
        recipe: the release's recipe, which says what its SNR regimes span.
    """

    def __init__(
        self,
        config: ModelConfig,
        specs: Mapping[TaskID, TaskSpec],
        samples: Mapping[TaskID, Sample],
        build: Callable[[], tuple[Backbone, Provenance]],
        *,
        weights: Path | None = None,
        private: Path | None = None,
        recipe: Mapping[str, Any] | None = None,
    ) -> None:
        self.recipe = recipe or {}
        self.config, self.specs = config, specs
        self.samples = {task: replace(sample, spec=specs.get(task)) for task, sample in samples.items()}
        self.weights, self.private = weights, private
        self.provenance: Provenance | None = None
        self.reached: list[str] = []
        self.isolation: Isolation = "none"
        self._build = build
        self._backbone: Backbone | None = None
        self._answers: dict[TaskID, Embeddings | InputError] = {}

    def load(self) -> Backbone:
        """A backbone anew, while what it opens is watched."""
        with watched(self.reached, self.private):
            backbone, self.provenance = self._build()
        return backbone

    @property
    def backbone(self) -> Backbone:
        """The backbone; Blocked where it could not be loaded."""
        if self._backbone is None:
            raise Blocked("the model is not loaded")
        return self._backbone

    @backbone.setter
    def backbone(self, backbone: Backbone) -> None:
        self._backbone = backbone

    def embed(self, sample: Sample, batch: int | None = None, backbone: Backbone | None = None) -> Embeddings:
        """Embed scenes as the workflow does, at most ``batch`` of them per call; raises what ``embed_batch`` raises."""
        size = min(batch or SCENES, self.config.batch_size)
        contract = sample.contract(self.config.model_copy(update={"batch_size": size}))
        with watched(self.reached, self.private):
            return embed_batch(backbone or self.backbone, sample.iq.copy(), sample.index, contract)

    def answer(self, task: TaskID) -> Embeddings | InputError:
        """The embeddings of a task's scenes, or what is wrong with them; made once."""
        if task not in self._answers:
            _ = self.backbone
            try:
                self._answers[task] = self.embed(self.samples[task])
            except InputError as error:
                self._answers[task] = error
        return self._answers[task]

    def samples_per_symbol(self, task: TaskID) -> tuple[float, float] | None:
        """The range that a task's samples per symbol are drawn from; None where the recipe has none."""
        stated = self.recipe.get("tasks", {}).get(task, {}).get("samples_per_symbol")
        return None if stated is None else (float(stated[0]), float(stated[-1]))

    def rows(self, task: TaskID) -> Embeddings:
        """The embeddings of a task's scenes; Blocked where there are none."""
        if isinstance(answer := self.answer(task), InputError):
            raise Blocked(f"{task} has no embeddings")
        return answer


class Handed:
    """A backbone that also notes what it is handed: the level of the complex samples, and their rate.

    Attributes:
        rms: root mean square of the samples' magnitude, whatever the layout.
        sample_rate_hz: of the last call.
    """

    def __init__(self, backbone: Backbone) -> None:
        self.name, self.embedding_dim = backbone.name, backbone.embedding_dim
        self.sample_rate_hz, self._power, self._count = 0.0, 0.0, 0
        self._backbone = backbone

    def embed(self, iq: NDArray[Any], sample_rate_hz: float, center_frequency_hz: float) -> Embeddings:
        """Note, and hand on."""
        self.sample_rate_hz = sample_rate_hz
        self._power += float((np.abs(iq).astype(np.float64) ** 2).sum())
        self._count += iq.size if np.iscomplexobj(iq) else iq.size // 2
        return self._backbone.embed(iq, sample_rate_hz, center_frequency_hz)

    @property
    def rms(self) -> float:
        """Over all that was handed on."""
        return float(np.sqrt(self._power / max(self._count, 1)))


class Check(ABC):
    """One thing that is asked of a backbone; ``run`` says it in one line."""

    name: ClassVar[str]
    #: Whether it only informs, and can find no fault.
    informs: ClassVar[bool] = False

    @abstractmethod
    def look(self, subject: Subject) -> str:
        """What was found, in a few words; InputError says what is wrong."""

    def run(self, subject: Subject) -> Finding:
        """The check's finding; one fault never hides another check."""
        try:
            return Finding(self.name, "info" if self.informs else "ok", self.look(subject))
        except Blocked as error:
            return Finding(self.name, "skip", str(error))
        except Doubt as error:
            return Finding(self.name, "warn", str(error))
        except InputError as error:
            return Finding(self.name, "FAULT", " ".join(str(error).split()))
        except Exception as error:  # noqa: BLE001 (a model may raise anything, and its size exhaust the memory)
            return Finding(self.name, "FAULT", " ".join(f"{type(error).__name__}: {error}".split())[:300])


class TaskCheck(Check):
    """A check that looks at one task after another."""

    @abstractmethod
    def look_at(self, subject: Subject, task: TaskID) -> str:
        """What was found on one task."""

    def look(self, subject: Subject) -> str:
        """What was found on all of them; faults alone where there are some, or else doubts."""
        texts: dict[str, list[str]] = {"ok": [], "fault": [], "doubt": [], "skip": []}
        for task in subject.samples:
            try:
                state, text = "ok", self.look_at(subject, task)
            except Blocked as error:
                state, text = "skip", str(error)
            except Doubt as error:
                state, text = "doubt", str(error)
            except InputError as error:
                state, text = "fault", str(error)
            texts[state].append(text if text.startswith(task) else f"{task} {text}")
        # What is wrong with the only task that is looked at names it; what is alike on all of several is said once.
        total = len(subject.samples)
        joined = {state: _joined(found, total if state == "ok" or total > 1 else 0) for state, found in texts.items()}
        if joined["fault"]:
            raise InputError("; ".join(joined["fault"]))
        if joined["doubt"]:
            raise Doubt("; ".join(joined["doubt"]))
        if not joined["ok"]:
            raise Blocked("; ".join(joined["skip"]))
        return "; ".join(joined["ok"] + joined["skip"])


def _joined(texts: Sequence[str], total: int) -> list[str]:
    """Texts ``TASK rest``, those with the same rest in one; of all tasks the rest alone."""
    groups: dict[str, list[str]] = {}
    for text in texts:
        task, _, rest = text.partition(" ")
        groups.setdefault(rest, []).append(task)
    return [rest if len(tasks) == total else f"{', '.join(tasks)} {rest}" for rest, tasks in groups.items()]
