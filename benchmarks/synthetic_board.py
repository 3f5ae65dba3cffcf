"""A board of as many models as one likes, whose scores are drawn: everything after the scores is the project's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common.hashing import content_hash
from emma.backbones.config import CONTROL_SUFFIX
from emma.data.costs import Cost, TaskCost
from emma.data.protocols import OODProtocol, board_protocols
from emma.data.provenance import Pretraining, Provenance
from emma.data.release import DataReleaseManifest, GeneratorProvenance, load_release_config
from emma.evaluation.records import Draws, FoldScore, StandardErrors
from emma.evaluation.uncertainty import parts_of, t_interval
from emma.metrics import METRICS
from emma.results.leaderboard import build_board
from emma.results.records import Board, Kind, RunRecord
from emma.results.runs import run_record, task_record
from emma.tasks import Split, TaskID, TaskSpec

ROOT = Path(__file__).resolve().parent.parent

#: Words of names, so that names are as long as real ones.
_FAMILIES = ("radio_transformer", "iq_wav2vec", "spectro_vit", "complex_resnet", "masked_autoencoder", "sim_clr")


@dataclass(frozen=True)
class Model:
    """A model: its name, what kind of row it is, and its skill between the anchors."""

    name: str
    kind: Kind
    skill: float
    control_of: str | None = None


@dataclass(frozen=True)
class Made:
    """What a board is built of: the arguments of ``build_board``."""

    manifest: DataReleaseManifest
    runs: Mapping[str, RunRecord]
    replicates: Mapping[str, Mapping[TaskID, Mapping[str, Draws]]]
    costs: Mapping[str, Cost]

    def board(self) -> Board:
        """The board of them."""
        return build_board(self.manifest, self.runs, self.replicates, None, self.costs)[0]


def models_of(count: int) -> Iterator[Model]:
    """A floor, an oracle, and models each with its control, so many in all."""
    yield Model("prior", "chance", 0.0)
    yield Model("oracle", "oracle", 0.95)
    for place in range(count - 2):
        number = place // 2
        name = f"{_FAMILIES[number % len(_FAMILIES)]}_{number:03d}"
        skill = 0.75 - 0.5 * number / count
        if place % 2:
            yield Model(name + CONTROL_SUFFIX, "control", 0.7 * skill, name)
        else:
            yield Model(name, "backbone", skill)


def make(count: int, resamples: int | None = None, release: str = "v1.0") -> Made:
    """Runs, draws and costs of so many models on every task of a release.

    Args:
        count: rows of the board.
        resamples: of every score; by default the release's.
        release: whose tasks they are scored on.
    """
    config = load_release_config(ROOT / f"config/releases/{release}.yaml")
    bootstrap = config.bootstrap.model_copy(update={"resamples": resamples or config.bootstrap.resamples})
    manifest = DataReleaseManifest(
        release=release,
        seed=config.seed,
        rfgen=config.rfgen,
        tasks=config.tasks,
        stress_regimes=config.stress_regimes,
        bootstrap=bootstrap,
        splits={},
        caveats=config.all_caveats,
        provenance=GeneratorProvenance(rfgen_version="0", rfgen_source_sha256="0" * 64),
    )
    runs, replicates, costs = {}, {}, {}
    for place, model in enumerate(models_of(count)):
        pretraining = Pretraining(environments=("E_URBAN",) if place % 4 else ())
        digest = content_hash(model.name)
        provenance = Provenance(name=model.name, config_sha256=digest, weights_sha256=digest, pretraining=pretraining)
        rng = np.random.default_rng([7, place])
        tasks, hashes, replicates[model.name] = {}, {}, {}
        for task, spec in manifest.tasks.items():
            protocols = list(board_protocols(spec).values())
            drawn = {own.name: dict(_folds(spec, own, model.skill, bootstrap.resamples, rng)) for own in protocols}
            scores = {name: {value: folds for value, (folds, _) in own.items()} for name, own in drawn.items()}
            tasks[task] = task_record(spec, protocols, scores, pretraining)
            primary = drawn[protocols[0].name]
            replicates[model.name][task] = {value: draws for value, (_, draws) in primary.items()}
            hashes[task] = {name: dict.fromkeys(own, content_hash([model.name, task])) for name, own in scores.items()}
        runs[model.name] = run_record(
            manifest, model, provenance, tasks, hashes, seed=0, eval_split=Split.DEV, control_of=model.control_of
        )
        if model.kind in ("backbone", "control"):
            costs[model.name] = _cost(model, provenance, list(tasks), rng)
    return Made(manifest, runs, replicates, costs)


def _folds(
    spec: TaskSpec, protocol: OODProtocol, skill: float, resamples: int, rng: np.random.Generator
) -> Iterator[tuple[str, tuple[dict[str, FoldScore], Draws]]]:
    """The scores of every fold of a protocol by metric, with the draws of the task's own."""
    for value in protocol.eval_values():
        made = {name: _fold(name, spec, skill, resamples, rng) for name in (spec.metric, *spec.secondary_metrics)}
        yield value, ({name: score for name, (score, _) in made.items()}, made[spec.metric][1])


def _fold(
    metric: str, spec: TaskSpec, skill: float, resamples: int, rng: np.random.Generator
) -> tuple[FoldScore, Draws]:
    own = METRICS[metric]
    low, high = (spec.anchors.minimum, spec.anchors.maximum) if metric == spec.metric else (0.0, 1.0)
    start, span = (low, high - low) if own.direction == "higher" else (high, low - high)
    score, met = (float(start + span * np.clip(skill + rng.normal(0, 0.05) + more, 0.01, 0.99)) for more in (0, 0.05))
    width = 0.02 * abs(span)
    draws = Draws(score + width * rng.standard_normal(resamples), 400, score + width * rng.standard_normal(5))
    parts = parts_of(draws)
    ci95 = None if parts.total is None else t_interval(score, parts.total, 0.95, own.bounds)
    return (
        FoldScore(
            score=score,
            n=400,
            ci95=ci95,
            standard_errors=StandardErrors(scenes=width, fit=width),
            undefined_reason=None,
            in_distribution=met,
            regularisation=1.0,
            gap_ci95=(score - met - width, score - met + width),
        ),
        draws,
    )


def _cost(model: Model, provenance: Provenance, tasks: list[TaskID], rng: np.random.Generator) -> Cost:
    macs = int(10 ** rng.uniform(6, 10))
    return Cost(
        model=model.name,
        parameters=macs // 100,
        weights_bytes=macs // 25,
        tasks={task: TaskCost(macs=macs, uncounted=None, width=256, dead_features=3) for task in tasks},
        description=f"a synthetic network of {macs // 100:,} parameters, trained by nobody",
        link=f"https://example.org/{model.name}",
        licence="MIT",
        model_provenance=provenance,
    )
