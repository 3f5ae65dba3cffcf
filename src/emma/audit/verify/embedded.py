"""Deep checks of embeddings: every backbone embeds drawn scenes again, in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from common.errors import InputError
from emma.audit.verify.base import Check
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.audit.verify.samples import Part, Place, Samples, Wanted, tables_of
from emma.backbones.apart import ApartBackbone, EndedError, Shown
from emma.backbones.config import ModelConfig, config_file, load_model_config
from emma.backbones.dense import task_contract
from emma.backbones.features import dead_features
from emma.backbones.inputs import Contract
from emma.data.costs import Cost
from emma.data.embeddings import Embeddings
from emma.data.provenance import DESCRIPTIVE
from emma.tasks import Split, TaskID

#: Difference of embeddings that is allowed, relative to the largest: floating point differs between machines.
EMBEDDED = 1e-3

#: The same where those of the results or those made again come from a GPU: its convolutions round their factors to 10
#: bits (TF32), 5e-4 each, and add up in another order.
EMBEDDED_ON_GPU = 1e-2

#: Seconds that a backbone may take to load or to answer, and per scene that it is asked.
SECONDS, PER_SCENE = 600.0, 2.0

_NOT_AGAIN = "tables of embeddings not made again"


def _again(model: ApartBackbone, part: Part, contract: Contract) -> np.ndarray | str:
    """Embeddings ``[n, D]`` of scenes, or why the model refuses them."""
    try:
        return model(*part.read(), contract)
    except EndedError:
        raise
    except InputError as error:
        return str(error)


def own_config(results: Results, model: str) -> ModelConfig | str:
    """A model's config, where its code may run: that of ``results.code``; or why it may not.

    Results of another project bring a config of their own. It is data: what it says must be what is trusted.
    """
    if results.code is None:
        return "no code to run"
    path = results.code / "config" / "models" / f"{model}.yaml"
    if not config_file(path).is_file():
        return "models without a config in this checkout"
    trusted = load_model_config(path)
    if results.project is not None and results.project.resolve() != results.code.resolve():
        theirs = results.project / "config" / "models" / f"{model}.yaml"
        drop = set(DESCRIPTIVE)
        if not config_file(theirs).is_file() or load_model_config(theirs).model_dump(exclude=drop) != (
            trusted.model_dump(exclude=drop)
        ):
            return "models with another config than this checkout's"
    return trusted


class Reembedded(Check):
    """Drawn scenes of TRAIN and of the scored split, through every backbone again, give the embeddings.

    Args:
        samples: the scenes.
    """

    name = "embeddings from scenes"

    def __init__(self, samples: Samples) -> None:
        super().__init__()
        self.samples = samples
        #: What models cost, counted again in the same processes; or why not.
        self.costs: dict[str, Cost | str] = {}
        self._rows = 0

    def run(self, results: Results) -> None:
        """Ask each backbone once, or, where all scenes are embedded, once per place."""
        models = {}
        for model in [name for name in results.models() if not results.is_submitted(name)]:
            with self.item(results.layout.run(model)):
                self.checked -= 1
                found = own_config(results, model)
                if isinstance(found, str):
                    self.miss(found, Level.REPRODUCED)
                elif not found.truth:
                    # Where no GPU is, a CPU is near enough.
                    models[model] = found.model_copy(update={"device": "auto"}) if found.device == "cuda" else found
        tables = [(model, table) for model in models for table in tables_of(results, model)]
        for _, table in tables:
            if not table.path.is_file():
                self.miss(_NOT_AGAIN, Level.REPRODUCED)
        tables = [(model, table) for model, table in tables if table.path.is_file()]
        self._unseen(tables)
        places = list(dict.fromkeys(place for _, table in tables for place in table.scenes))
        for group in [[place] for place in places] if self.samples.draw.every else [places]:
            for model, own in groupby(tables, lambda pair: pair[0]):
                self._model(results, models[model], [table for _, table in own], group)
            for place in group:
                self.samples.drop(place)
        self.note = f"{self._rows} rows, {self.samples.draw}"

    def _unseen(self, tables: list[tuple[str, Wanted]]) -> None:
        """Count scenes that are neither at hand nor made again."""
        files = {place: path for _, table in tables for place, path in table.scenes.items()}
        for place, path in files.items():
            if not self.samples.has(place, path):
                self.miss("files of scenes whose embeddings were not made again", Level.REPRODUCED)

    def _model(self, results: Results, config: ModelConfig, tables: list[Wanted], group: list[Place]) -> None:
        """Have one backbone embed the parts of some places, and compare."""
        wanted: list[tuple[Wanted, Part]] = []
        for table in tables:
            for place in [place for place in table.scenes if place in group]:
                wanted += [(table, part) for part in self.samples.of(place, table.scenes[place])]
        contracts = {table.path: self._contract(results, config, table) for table in tables}
        counted = {} if config.name in self.costs else self._counted(results, config)
        if not wanted and not counted:
            return
        weights = results.layout.weights(config.name)
        assert results.code is not None
        first = wanted[0][0].path if wanted else results.layout.run(config.name)
        patience = SECONDS + PER_SCENE * max((len(part.ids) for _, part in wanted), default=0)
        trained = weights.resolve() if weights.is_file() else None
        hidden = (results.layout.root.absolute(),)
        with self.item(first):
            try:
                with ApartBackbone(
                    config, config, trained=trained, root=results.code, hidden=hidden, patience=patience
                ) as model:
                    self._compare(model, wanted, contracts)
                    if counted:
                        self._cost(results, model, counted)
            except InputError as error:
                self.costs[config.name] = str(error)
                raise InputError(f"{first}: {error}") from None

    @staticmethod
    def _contract(results: Results, config: ModelConfig, table: Wanted) -> Contract:
        return config if table.captured is not None else task_contract(config, results.manifest().tasks[table.task])

    def _compare(
        self, model: ApartBackbone, wanted: list[tuple[Wanted, Part]], contracts: dict[Path, Contract]
    ) -> None:
        for path, own in groupby(wanted, lambda pair: pair[0].path):
            again = [(part.ids, _again(model, part, contracts[path])) for _, part in own]
            with self.item(path):
                given = Embeddings.read(path)
                devices = {model.provenance.device, given.provenance.device}
                allowed = EMBEDDED if devices == {"cpu"} else EMBEDDED_ON_GPU
                for ids, expected in again:
                    self._part(path, model.provenance.name, given, ids, expected, allowed)

    def _part(
        self,
        path: Path,
        model: str,
        given: Embeddings,
        ids: pa.ChunkedArray,
        expected: np.ndarray | str,
        allowed: float,
    ) -> None:
        if given.unsuited is not None or isinstance(expected, str):
            if given.unsuited is None:
                self.fault(path, str(expected))
            elif not isinstance(expected, str):
                self.fault(path, f"says that {model} does not take the scenes, which it does")
            return
        actual = given.of(ids)
        if actual.shape != expected.shape:
            self.fault(path, f"expected width {expected.shape[1]}, found {actual.shape[1]}")
            return
        self._rows += len(actual)
        distance = np.abs(actual - expected).max(axis=1, initial=0.0) / max(np.abs(expected).max(initial=0.0), 1e-30)
        if not distance.max(initial=0.0) <= allowed:
            row, worst = int(distance.argmax()), distance.max()
            self.fault(path, f"scene_id {ids[row]}: differs by {worst:.1e} from what {model} gives")

    def _counted(self, results: Results, config: ModelConfig) -> dict[TaskID, Shown]:
        """What to count a model's cost on: the first scenes of each of its tasks; nothing where some are not there."""
        if config.name not in results.costed():
            return {}
        found = {}
        for task in results.tasks_of(config.name):
            place = task.value, Split.TRAIN.value
            first = self.samples.first(place, results.layout.scenes(task, Split.TRAIN))
            if first is None:
                return {}
            index, iq = first
            contract = task_contract(config, results.manifest().tasks[task])
            size = config.batch_size
            found[task] = Shown.of(iq[:size], index.slice(0, size), contract)
        return found

    def _cost(self, results: Results, model: ApartBackbone, counted: dict[TaskID, Shown]) -> None:
        """Keep the cost that a process counts; features that are dead are counted here, on the embeddings at hand."""
        name = model.provenance.name
        try:
            cost = model.cost(counted)
        except EndedError:
            raise
        except InputError as error:
            self.costs[name] = str(error)
            return
        tasks = {}
        for task, own in cost.tasks.items():
            given = results.embeddings(name, task).of(results.labelled(task, Split.TRAIN)["scene_id"])
            tasks[task] = own.model_copy(update={"dead_features": dead_features(given)})
        self.costs[name] = cost.model_copy(update={"tasks": tasks})


class Counted(Check):
    """What the models cost, counted again.

    Args:
        embedded: the check that asked every backbone.
    """

    name = "costs"

    def __init__(self, embedded: Reembedded) -> None:
        super().__init__()
        self.embedded = embedded

    def run(self, results: Results) -> None:
        """Compare every cost that a row of the board shows."""
        for model in results.costed():
            path, again = results.layout.cost(model), self.embedded.costs.get(model)
            if again is None:
                self.miss("costs not counted again", Level.REPRODUCED)
                continue
            with self.item(path):
                if isinstance(again, str):
                    raise InputError(f"{path}: {again}")
                self.compare(path, results.document(path), again)


#: Scene ids with float32 rows ``[n, D]`` of their true parameters, of TRAIN and DEV.
Truths = Callable[[Results, TaskID], Iterator[tuple[pa.ChunkedArray, Any]]]


class TrueParameters(Check):
    """An oracle's embeddings are the true parameters of the scenes, as the recipe gives them.

    Args:
        truths: draws the parameters again; the generator is no part of this package.
    """

    name = "oracles"

    def __init__(self, truths: Truths) -> None:
        super().__init__()
        self.truths = truths

    def run(self, results: Results) -> None:
        """Compare every row."""
        for model in [name for name in results.models() if not results.is_submitted(name)]:
            config = own_config(results, model)
            if isinstance(config, str) or not config.truth:
                continue
            for task in results.tasks_of(model):
                path = results.layout.embeddings(model, task)
                if not path.is_file():
                    self.miss(_NOT_AGAIN, Level.REPRODUCED)
                    continue
                if results.eval_split() is Split.HOLDOUT:
                    self.miss("oracle's tables whose secret split was not made again", Level.REPRODUCED)
                with self.item(path):
                    given = results.embeddings(model, task)
                    for ids, expected in self.truths(results, task):
                        distance = np.abs(given.of(ids) - expected).max(initial=0.0)
                        if not distance <= EMBEDDED * max(np.abs(expected).max(initial=0.0), 1e-30):
                            self.fault(path, "differs from the true parameters that the recipe gives")
                            break
