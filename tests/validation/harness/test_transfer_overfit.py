"""A backbone that memorised its training environment scores at chance on the other; a leak is seen.

The memoriser is converged by construction: it knows the label of every scene of the training environment, TRAIN and
DEV, by the hash of its samples, and for any other scene a guess that is the hash's own. It carries nothing else, so a
score above chance can come from a leak alone. A second one (``remembered``) knows what the fold is fit on and writes
every value in a language of its own: it is at chance on any fold that the guard lets pass, and the experiment on it is
seen to fail where held-out scenes are put into the fit. Chance is the ``prior`` model on the same scenes; every
comparison is a paired bootstrap over them with a fixed seed, corrected for the number of folds tried.
"""

import functools
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from common.streams import random_generator
from emma import EvalRun, SplitNotAvailable, TaskID
from emma.backbones.config import ModelConfig
from emma.backbones.inputs import as_channels, normalise
from emma.data.embeddings import Embeddings
from emma.data.folds import Fold, fold_table
from emma.data.protocols import primary_protocol
from emma.data.provenance import Pretraining, Provenance
from emma.data.samples import convert, iq_hashes
from emma.evaluation.fitting import FittedFold, fit_fold
from emma.evaluation.scoring import metric_inputs, point_score
from emma.evaluation.statistics import PairedDifference, holm, paired_bootstrap_difference
from emma.metrics import METRICS
from emma.readouts import load_readout

TASKS = ("E-LOC-AOA", "E-LOC-LOS", "E-ID-DRONE")
ENVIRONMENTS = ("E_URBAN", "E_RURAL")
ALPHA = 0.05


class Memoriser:
    """Embeds a scene as the target that it remembers for it, or as a guess."""

    name = "memoriser"

    def __init__(self, spec, index: pa.Table, shuffled: bool = False) -> None:
        target = np.asarray(fold_table(spec, index, np.full(index.num_rows, "fit"))["target"])
        if shuffled:
            target = random_generator(("shuffle", index.num_rows)).permutation(target)
        order = index.sort_by("scene_id")
        self.spec, self.known = spec, dict(zip(order["iq_sha256"].to_pylist(), target, strict=True))
        self.embedding_dim = self._code(np.zeros(1)).shape[1]

    def _code(self, target: np.ndarray) -> np.ndarray:
        if self.spec.classes:
            return np.eye(len(self.spec.classes), dtype=np.float32)[target.astype(int)]
        return np.stack([np.cos(np.radians(target)), np.sin(np.radians(target))], axis=1).astype(np.float32)

    def _guess(self, digest: str) -> float:
        share = int(digest[:12], 16) / 16**12
        return float(int(share * len(self.spec.classes))) if self.spec.classes else 360.0 * share

    def embed(self, iq, sample_rate_hz, center_frequency_hz) -> np.ndarray:
        digests = iq_hashes(convert(iq))
        return self._code(np.array([self.known.get(digest, self._guess(digest)) for digest in digests]))


def config(**declared) -> ModelConfig:
    return ModelConfig(
        name="memoriser", factory="tests:memoriser", normalise="none", pretraining=Pretraining(**declared)
    )


def of_environments(index: pa.Table, *environments: str) -> pa.Table:
    return index.filter(pa.array(np.isin(index["environment"].to_pylist(), environments)))


def against_chance(spec, fitted: FittedFold, chance: FittedFold, level: float) -> PairedDifference:
    """The paired difference on identical scenes: memoriser less chance."""
    assert fitted.predictions["scene_id"].equals(chance.predictions["scene_id"])
    metric = METRICS[spec.metric]
    preds, target, _ = metric_inputs(spec, metric, fitted.predictions)
    floor, _, _ = metric_inputs(spec, metric, chance.predictions)
    options = {"n_resamples": 2000, "level": level, "seed": (0, "chance")}
    return paired_bootstrap_difference(metric, preds, floor, target, **options)


def training_score(spec, run: EvalRun, small, backbone, recipe: str, environment: str) -> float:
    """The metric of a fold's readout on the scenes that it was fit on."""
    fitted = run.folds[primary_protocol(spec).name][environment]
    index, iq = small.iq(run.task.value, "TRAIN")
    train = ~np.isin(index["environment"].to_pylist(), [environment])
    table = fold_table(spec, index.filter(pa.array(train)), np.full(train.sum(), "fit"))
    order = np.argsort(np.asarray(index["scene_id"].to_pylist())[train])
    scores = load_readout(spec, fitted.tensors).scores(backbone.embed(normalise(iq[train][order], recipe), 2e7, 2.4e9))
    predictions = pa.table({"target": table["target"], "scores": list(scores)})
    preds, target, _ = metric_inputs(spec, METRICS[spec.metric], predictions)
    return METRICS[spec.metric](preds, target)


@pytest.fixture(scope="module")
def chance(small):
    """The chance floor's folds by task and environment."""
    backbone, provenance, settings = small.model("prior")
    runs = {t: small.evaluator.evaluate(backbone, t, config=settings, provenance=provenance) for t in TASKS}
    return {t: run.folds[primary_protocol(small.manifest.spec(t)).name] for t, run in runs.items()}


def other(environment: str) -> str:
    return next(name for name in ENVIRONMENTS if name != environment)


def memorised(small, task: str, environment: str, *, shuffled: bool = False) -> tuple[Memoriser, EvalRun]:
    """A memoriser of every scene outside ``environment``, scored by the Evaluator."""
    spec = small.manifest.spec(task)
    known = pa.concat_tables([of_environments(index, other(environment)) for index in small.index(task)])
    backbone = Memoriser(spec, known, shuffled)
    return backbone, small.evaluator.evaluate(backbone, task, config=config(environments=(other(environment),)))


def test_memorisers_score_at_chance(small, chance, record_property) -> None:
    tried = [(t, e, s) for t in TASKS for e in ENVIRONMENTS for s in (False, True)]
    differences = {}
    for task, environment, shuffled in tried:
        spec = small.manifest.spec(task)
        backbone, run = memorised(small, task, environment, shuffled=shuffled)
        fitted = run.folds["leave-one-environment-out"][environment]
        level = 1 - ALPHA / len(tried)
        difference = against_chance(spec, fitted, chance[task][environment], level)
        differences[task, environment, shuffled] = difference
        record_property(f"{task} {environment} shuffled={shuffled}", difference.difference)
        assert difference.interval[0] <= 0 <= difference.interval[1], (task, environment, shuffled, difference)
        trained = training_score(spec, run, small, backbone, "none", environment)
        perfect = spec.anchors.minimum if METRICS[spec.metric].direction == "lower" else spec.anchors.maximum
        if not shuffled:
            assert trained == pytest.approx(perfect, abs=1.0 if spec.unit == "degrees" else 1e-12)
        else:
            assert abs(trained - perfect) > 0.2 * (spec.anchors.maximum - spec.anchors.minimum)
    assert min(holm([d.p_one_sided for d in differences.values()])) > ALPHA


def test_what_the_backbone_met_in_pretraining_is_beyond_the_guard_and_marked(small) -> None:
    """On the environment that it knows the memoriser is all right or all wrong, by the luck of the fit's guesses."""
    _, run = memorised(small, "E-LOC-LOS", "E_URBAN")
    values = run.record.tasks[TaskID.E_LOC_LOS].values
    assert values["E_RURAL"].score in {0.0, 1.0}
    assert {name: record.met_in_pretraining for name, record in values.items()} == {"E_URBAN": False, "E_RURAL": True}


@pytest.fixture(params=[(t, e) for t in TASKS for e in ENVIRONMENTS], ids="-".join)
def leak(request, small):
    """A fold whose readout and backbone both got half of the held-out scenes with their labels."""
    task, environment = request.param
    spec = small.manifest.spec(task)
    train, evaluation = small.index(task)
    protocol = primary_protocol(spec)
    honest = protocol.fold(environment, train, evaluation, 0)
    held_out = of_environments(evaluation, environment)
    leaked = held_out.take(random_generator(("leak", task)).permutation(held_out.num_rows)[: held_out.num_rows // 2])
    known = pa.concat_tables([*(of_environments(i, other(environment)) for i in (train, evaluation)), leaked])
    fit = pa.concat_tables([honest.train, fold_table(spec, leaked, np.full(leaked.num_rows, "fit"))])
    fold = Fold(honest.protocol, honest.held_out_value, fit, honest.eval)
    settings = config()
    provenance = Provenance.of("leak", settings, settings.pretraining)
    embeddings = small.evaluator.embed(Memoriser(spec, known), TaskID(task), settings, provenance)
    return task, spec, protocol, fold, (train, evaluation), embeddings


def test_a_leak_past_the_guard_rises_above_chance(leak, chance, monkeypatch) -> None:
    task, spec, protocol, fold, assigned, embeddings = leak
    monkeypatch.setattr("emma.evaluation.fitting.guard_fold", lambda *_: None)
    # The links of the leaked scenes are looked up beside those of TRAIN.
    fitted = fit_fold(spec, protocol, fold, (pa.concat_tables(assigned), assigned[1]), embeddings)
    found = against_chance(spec, fitted, chance[task][fold.held_out_value], 1 - ALPHA / 6)
    assert 6 * found.p_one_sided < ALPHA  # Bonferroni over the six folds
    assert found.interval[0] > 0 or found.interval[1] < 0


def test_the_guard_refuses_the_same_fold(leak) -> None:
    _, spec, protocol, fold, assigned, embeddings = leak
    with pytest.raises(SplitNotAvailable, match="not assigned to the split that train draws from"):
        fit_fold(spec, protocol, fold, assigned, embeddings)


#: A shipped model that is known to transfer, on each scored task.
TRANSFERRING = {"E-LOC-AOA": "dsp", "E-LOC-LOS": "dsp", "E-ID-DRONE": "waveform_bank", "E-ID-FP": "impairments"}


def remembered(spec, index: pa.Table, values: set[str]) -> np.ndarray:
    """What a memoriser of the axis values ``values`` makes of scenes: its code of the label, in a block of the value.

    It has seen every scene of a value that it knows, and writes each value in a language of its own, so that nothing
    carries over. Scenes of another value are taken for one that it knows, with a label that their hash draws.
    """
    known = sorted(values)
    axis = np.array(index[spec.ood_axis.value].to_pylist())
    target = np.asarray(fold_table(spec, index, np.full(index.num_rows, "fit")).sort_by("scene_id")["target"])
    order = np.argsort(np.argsort(index["scene_id"].to_pylist()))
    target = target[order]
    draws = np.array([int(digest[:12], 16) / 16**12 for digest in index["iq_sha256"].to_pylist()])
    block = np.array([known.index(value) if value in values else -1 for value in axis])
    drawn = (draws * len(known)).astype(int)
    if not spec.classes:
        guess = 360.0 * (draws * len(known) % 1.0)
    elif spec.ood_axis.value == "device":
        # A unit that it never met is one of those that it did.
        guess = np.array([spec.classes.index(known[number]) for number in drawn], float)
    else:
        guess = np.floor(draws * len(known) % 1.0 * len(spec.classes))
    target, block = np.where(block < 0, guess, target), np.where(block < 0, drawn, block)
    angle = np.radians(target)
    code = (
        np.eye(len(spec.classes))[target.astype(int)] if spec.classes else np.stack([np.cos(angle), np.sin(angle)], 1)
    )
    blocks = np.zeros((len(target), len(known), code.shape[1]))
    blocks[np.arange(len(target)), block] = code
    # A little of each scene's own: scatter of exactly zero within a class has no inverse.
    noise = random_generator(("memoriser", len(target))).standard_normal(blocks.shape)
    return (blocks + 0.01 * noise * (blocks != 0)).reshape(len(target), -1).astype(np.float32)


def memorising_fold(release, task: str, value: str, *, leak: bool) -> tuple[Fold, tuple, Embeddings]:
    """The fold that holds ``value`` out, and a memoriser of what it is fit on.

    With the leak, the held-out value's TRAIN scenes are in the fit, and so in the memory.
    """
    spec = release.manifest.spec(task)
    assigned, protocol = release.index(task), primary_protocol(spec)
    fold = protocol.fold(value, *assigned, 0)
    values = set(spec.held_out) - (set() if leak else {value})
    if leak:
        train = assigned[0]
        fold = replace(fold, train=fold_table(spec, train, np.full(train.num_rows, "fit")))
    settings = config()
    provenance = Provenance.of("memoriser", settings, settings.pretraining)
    both = pa.concat_tables(assigned)
    return fold, assigned, Embeddings(both["scene_id"], remembered(spec, both, values), provenance, "memoriser")


def fitted_memoriser(release, task: str, value: str, *, leak: bool = False) -> FittedFold:
    """Guarded as any fold; the leak needs the guard off."""
    spec = release.manifest.spec(task)
    fold, assigned, embeddings = memorising_fold(release, task, value, leak=leak)
    return fit_fold(spec, primary_protocol(spec), fold, assigned, embeddings)


def fitted_transferring(release, task: str, value: str) -> FittedFold:
    spec = release.manifest.spec(task)
    protocol, assigned = primary_protocol(spec), release.index(task)
    return fit_fold(spec, protocol, protocol.fold(value, *assigned, 0), assigned, embedded_once(release, task))


@functools.cache
def embedded_once(release, task: str) -> Embeddings:
    return release.embedded(task, TRANSFERRING[task])


def assert_at_chance(small, chance, fits: dict[tuple[str, str], FittedFold]) -> None:
    """The experiment: no memoriser of another environment differs from chance, over all that were tried."""
    found = {
        (task, value): against_chance(small.manifest.spec(task), fitted, chance[task][value], 1 - ALPHA / len(fits))
        for (task, value), fitted in fits.items()
    }
    for place, difference in found.items():
        assert difference.interval[0] <= 0 <= difference.interval[1], (place, difference)


def test_a_memoriser_of_the_fit_is_at_chance(small, chance) -> None:
    fits = {(task, value): fitted_memoriser(small, task, value) for task in TASKS for value in ENVIRONMENTS}
    assert_at_chance(small, chance, fits)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("task", TASKS)
def test_the_experiment_fails_where_held_out_scenes_are_in_the_fit(
    small, chance, monkeypatch, task: str, environment: str
) -> None:
    """The leak itself: the held-out environment's TRAIN scenes, which the guard refuses, reach the fit with it off."""
    with pytest.raises(SplitNotAvailable, match="train scene carries the held-out value"):
        fitted_memoriser(small, task, environment, leak=True)
    monkeypatch.setattr("emma.evaluation.fitting.guard_fold", lambda *_: None)
    leaking = fitted_memoriser(small, task, environment, leak=True)
    better = against_chance(small.manifest.spec(task), leaking, chance[task][environment], 1 - ALPHA / 6)
    assert 6 * better.p_one_sided < ALPHA
    with pytest.raises(AssertionError):
        assert_at_chance(small, chance, {(task, environment): leaking})


@pytest.mark.parametrize("task", TASKS)
def test_a_transferring_model_is_told_from_a_memoriser(small, task: str) -> None:
    spec, p_values = small.manifest.spec(task), []
    for environment in ENVIRONMENTS:
        transferring = fitted_transferring(small, task, environment)
        p_values.append(
            against_chance(spec, transferring, fitted_memoriser(small, task, environment), 0.95).p_one_sided
        )
    assert max(holm(p_values)) < ALPHA / len(TRANSFERRING)


def units_score(release, fitted: dict[str, FittedFold]) -> float:
    spec = release.manifest.spec("E-ID-FP")
    return float(np.mean([point_score(spec, spec.metric, fold.predictions) for fold in fitted.values()]))


def test_units_that_are_known_by_heart(identification, monkeypatch) -> None:
    """E-ID-FP: a memoriser of the other units takes a unit for one of them; with the leak it names it; experts do.

    Bounds are four standard errors of a share of the 48 sessions that are queried.
    """
    units = identification.manifest.spec("E-ID-FP").held_out
    bound = 1 / len(units) + 4 * np.sqrt((1 / len(units)) * (1 - 1 / len(units)) / (12 * len(units)))
    honest = {unit: fitted_memoriser(identification, "E-ID-FP", unit) for unit in units}
    assert units_score(identification, honest) < bound
    transferring = {unit: fitted_transferring(identification, "E-ID-FP", unit) for unit in units}
    assert units_score(identification, transferring) > bound
    for unit in units:
        with pytest.raises(SplitNotAvailable, match="train scene carries the held-out value"):
            fitted_memoriser(identification, "E-ID-FP", unit, leak=True)
    monkeypatch.setattr("emma.evaluation.fitting.guard_fold", lambda *_: None)
    leaking = {unit: fitted_memoriser(identification, "E-ID-FP", unit, leak=True) for unit in units}
    assert units_score(identification, leaking) > bound


def test_an_overfit_network_is_reported_beside_its_training_score(small, record_property) -> None:
    """A network trained to convergence on one environment: its held-out score is what it is, and is shown."""
    torch = pytest.importorskip("torch")
    from emma.backbones.conv import ConvBackbone, seeded_encoder

    torch.set_num_threads(1)
    spec = small.manifest.spec("E-LOC-LOS")
    index, iq = small.iq("E-LOC-LOS", "TRAIN")
    inside = np.asarray(index["environment"].to_pylist()) == "E_RURAL"
    inputs = torch.from_numpy(as_channels(normalise(iq[inside], "unit_power")))
    labels = np.asarray(index["class"].to_pylist())[inside]
    wanted = torch.from_numpy((labels == "LOS").astype(np.float32))
    encoder = seeded_encoder(8, 0)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = torch.nn.Linear(encoder.embedding_dim, 1)
        optimiser = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=3e-3)
        epochs, hits = 0, 0
        while hits < len(wanted) and epochs < 60:
            epochs, hits = epochs + 1, 0
            for rows in torch.randperm(len(wanted)).split(50):
                logits = head(encoder(inputs[rows]))[:, 0]
                loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted[rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                hits += int(((logits > 0) == (wanted[rows] > 0)).sum())
    backbone = ConvBackbone("overfit", {8: encoder})
    settings = ModelConfig(name="overfit", factory="tests:overfit", pretraining={"environments": ["E_RURAL"]})
    run = small.evaluator.evaluate(backbone, "E-LOC-LOS", config=settings)
    trained = training_score(spec, run, small, backbone, "unit_power", "E_URBAN")
    held_out = run.record.tasks[TaskID.E_LOC_LOS].values["E_URBAN"]
    for name, value in (("epochs", epochs), ("training", trained), ("held_out", held_out.score)):
        record_property(name, value)
    assert trained > 0.95
    assert 0.0 <= held_out.score <= 1.0
    assert held_out.met_in_pretraining is False
