"""Runs without the workflow: one backbone, one task, the same numbers every time."""

import shutil
from html.parser import HTMLParser

import numpy as np
import pytest

import emma
from common.errors import InputError
from emma.backbones.config import ModelConfig
from emma.data.provenance import Provenance
from emma.metrics import METRICS, UndefinedMetricError
from emma.tasks import Split, TaskID


@pytest.fixture(scope="module")
def evaluator(world):
    return emma.Evaluator("tiny", results=world.results, seed=0)


@pytest.fixture(scope="module")
def runs(evaluator, toy):
    return {task: evaluator.evaluate(toy, task) for task in evaluator.manifest.tasks}


def test_the_score_is_the_unweighted_mean_over_held_out_values(runs, world):
    for task, run in runs.items():
        block = run.record.tasks[task]
        assert list(block.values) == list(world.manifest.tasks[task].held_out)
        assert run.score == pytest.approx(np.mean([record.score for record in block.values.values()]))
        assert block.in_ood_avg == world.manifest.tasks[task].in_ood_avg
        for record in block.values.values():
            assert record.met_in_pretraining == "unknown"
            assert record.in_distribution is not None


def test_features_that_know_the_label_beat_the_floor(runs, evaluator):
    floors = {task: evaluator.evaluate(emma.backbones.base.prior(), task).score for task in evaluator.manifest.tasks}
    assert floors[TaskID.E_LOC_LOS] == 0.5
    assert floors[TaskID.E_ID_DRONE] == floors[TaskID.E_SC_SENSE] == 0.5
    assert floors[TaskID.E_ID_FP] == pytest.approx(1 / 4)
    assert floors[TaskID.E_ID_AMC] == pytest.approx(1 / 11)
    assert floors[TaskID.E_LOC_AOA] == pytest.approx(90, abs=5)
    assert runs[TaskID.E_LOC_AOA].score < 45
    for task, run in runs.items():
        if task is TaskID.E_SC_SEP:  # its mixtures and signals are noise here
            continue
        sign = 1 if METRICS[evaluator.manifest.tasks[task].metric].direction == "higher" else -1
        assert sign * (run.score - floors[task]) > 0.1, task


def test_the_manifest_of_a_run_pins_what_was_scored(runs, world):
    for task, run in runs.items():
        manifest = run.run_manifest
        assert manifest.data_release_hash == world.manifest.data_release_hash
        assert list(manifest.prediction_bundle_hashes) == [task]
        assert manifest.task_metrics[task][world.manifest.tasks[task].metric] == run.score
        assert manifest.seed == 0
    assert set(runs[TaskID.E_ID_FP].run_manifest.task_metrics[TaskID.E_ID_FP]) == {"Top1Accuracy", "EER"}


def test_the_same_run_twice_is_the_same(runs, evaluator, toy):
    for task in (TaskID.E_ID_FP, TaskID.E_LOC_LOS):
        assert evaluator.evaluate(toy, task).record == runs[task].record


def test_the_seed_draws_references_and_resamples_alone(runs, world, toy):
    other = emma.Evaluator("tiny", results=world.results, seed=1)
    angle = other.evaluate(toy, "E-LOC-AOA")
    first = runs[TaskID.E_LOC_AOA]
    assert angle.score == first.score
    assert (
        angle.record.tasks[TaskID.E_LOC_AOA].values["E_URBAN"].ci95
        != first.record.tasks[TaskID.E_LOC_AOA].values["E_URBAN"].ci95
    )
    units, before = other.evaluate(toy, "E-ID-FP"), runs[TaskID.E_ID_FP]
    assert units.score == before.score
    for name, same in (("leave-one-unit-out", True), ("in-distribution", False)):
        hashes = [[fold.predictions_hash for fold in run.folds[name].values()] for run in (units, before)]
        assert (hashes[0] == hashes[1]) is same


def test_it_shows_components_beside_the_aggregate(runs):
    text = repr(runs[TaskID.E_LOC_LOS])
    assert text.startswith("toy on E-LOC-LOS (tiny, dev): BalancedAccuracy")
    assert "higher is better, leave-one-environment-out" in text
    assert text.splitlines()[-1].strip() == runs[TaskID.E_LOC_LOS].caveats[-1]
    for name, record in runs[TaskID.E_LOC_LOS].record.tasks[TaskID.E_LOC_LOS].values.items():
        low, high = record.ci95
        shown = f"{name}: {record.score:.4g} [{low:.4g}, {high:.4g}], n = {record.n}, in distribution "
        assert shown + f"{record.in_distribution:.4g}, met in pretraining: unknown" in text
    assert " degrees, lower is better" in repr(runs[TaskID.E_LOC_AOA])


class Cells(HTMLParser):
    """Text of each element, and that every one is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts = [], {}
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        for tag in self.open:
            self.texts[tag][-1] += data


def test_a_notebook_shows_the_same_as_a_table(runs, world):
    run = runs[TaskID.E_LOC_AOA]
    block = run.record.tasks[TaskID.E_LOC_AOA]
    texts = Cells(run._repr_html_()).texts
    assert texts["strong"] == [f"MeanAngularError {run.score:.4g} degrees, lower is better, leave-one-environment-out"]
    assert texts["th"][-2:] == ["E_URBAN", "E_RURAL"]
    record = block.values["E_URBAN"]
    low, high = record.ci95
    wanted = [f"{record.score:.4g}", f"[{low:.4g}, {high:.4g}]", str(record.n), f"{record.in_distribution:.4g}"]
    assert texts["td"][:5] == [*wanted, "unknown"]
    assert "1 degree of freedom" in texts["li"][0]
    assert tuple(texts["li"][1:]) == run.caveats == world.manifest.caveats


def test_what_a_notebook_shows_is_escaped(runs):
    run = runs[TaskID.E_LOC_LOS]
    block = run.record.tasks[TaskID.E_LOC_LOS]
    record = block.values["E_URBAN"].model_copy(update={"undefined_reason": "<b>&</b>", "score": None, "ci95": None})
    block = block.model_copy(update={"values": {"<td>": record}, "metric": "<i>", "score": None})
    hostile = run.record.model_copy(update={"model": "<script>", "tasks": {TaskID.E_LOC_LOS: block}})
    html = emma.EvalRun(TaskID.E_LOC_LOS, hostile, {}, ("<img src=x>",))._repr_html_()
    assert set(Cells(html).texts) == {"table", "caption", "strong", "thead", "tr", "th", "tbody", "td", "ul", "li"}
    assert "undefined (&lt;b&gt;&amp;&lt;/b&gt;)" in html
    assert "&lt;img src=x&gt;" in html


def test_results_are_found_by_the_releases_name(world, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results/releases").mkdir(parents=True)
    (tmp_path / "results/releases/tiny").symlink_to(world.results)
    assert emma.Evaluator("tiny").manifest == world.manifest
    for release, folder in (("v0.1", "results"), ("v1.0", "results/releases/v1.0")):
        made = f"make it by: snakemake --cores 2 --config release={release} -- {folder}/release/manifest.json"
        with pytest.raises(InputError, match=made) as caught:
            emma.Evaluator(release)
        assert "\n" not in str(caught.value)
    path = "results/holdout/release/manifest.json"
    made = f"snakemake --cores 2 --config release=v0.1 eval_split=HOLDOUT -- {path}"
    with pytest.raises(InputError, match=rf"^{path}: no such file; .* make it by: {made}$"):
        emma.Evaluator(split=Split.HOLDOUT)


@pytest.mark.parametrize("kind", ["index.parquet", "parquet"])
def test_scenes_that_are_missing_come_with_the_command_that_makes_them(world, toy, tmp_path, kind):
    results = tmp_path / "copy"
    shutil.copytree(world.results, results)
    name = f"scenes/E-LOC-AOA/DEV.{kind}"
    (results / name).unlink()
    with pytest.raises(InputError) as caught:
        emma.Evaluator("tiny", results=results).evaluate(toy, "E-LOC-AOA")
    made = f"snakemake --cores 2 --config release=tiny -- results/releases/tiny/{name}"
    assert str(caught.value) == f"{results / name}: no such file; in the project's folder, make it by: {made}"


class Named:
    embedding_dim = 1

    def __init__(self, name, value=1.0):
        self.name, self.value = name, value

    def embed(self, iq, *_):
        return np.full((len(iq), 1), self.value, np.float32)


def test_bad_input_is_one_line(evaluator, world, tmp_path):
    with pytest.raises(InputError, match="expected one of E-LOC-AOA"):
        evaluator.evaluate(Named("n"), "E-LOC")
    with pytest.raises(InputError, match="model my model: name: "):
        evaluator.evaluate(Named("my model"), "E-LOC-AOA")
    with pytest.raises(InputError, match="model n: embed: NaN"):
        evaluator.evaluate(Named("n", np.nan), "E-LOC-AOA")
    with pytest.raises(InputError, match=r"release: expected v0\.1, found tiny"):
        emma.Evaluator("v0.1", results=world.results)
    with pytest.raises(InputError, match=r"manifest\.json: no such file"):
        emma.Evaluator("tiny", results=tmp_path)
    with pytest.raises(InputError, match="split HOLDOUT of E-LOC-AOA is not in the manifest"):
        emma.Evaluator("tiny", results=world.results, split=Split.HOLDOUT).evaluate(Named("n"), "E-LOC-AOA")


def test_a_protocol_of_another_spec_is_refused(world):
    specs = world.manifest.tasks
    other = specs[TaskID.E_LOC_LOS].model_copy(update={"metric": "PlainAccuracy"})
    with pytest.raises(InputError, match="made for another TaskSpec than the release's E-LOC-LOS"):
        emma.ProtocolRunner(world.manifest, "E-LOC-LOS", emma.LeaveOneEnvironmentOut(other), 0)


BAND = "leave-one-band-out"


def test_one_protocol_of_a_task_is_scored_alone(runs, evaluator, toy):
    whole = runs[TaskID.E_LOC_LOS].record.tasks[TaskID.E_LOC_LOS]
    for protocol in (BAND, emma.LeaveOneBandOut(), emma.LeaveOneBandOut(evaluator.manifest.tasks[TaskID.E_LOC_LOS])):
        run = evaluator.evaluate(toy, "E-LOC-LOS", protocol=protocol)
        block = run.record.tasks[TaskID.E_LOC_LOS]
        assert set(run.folds) == {BAND, f"in-distribution-{BAND}"}
        assert (run.score, block.values) == (whole.secondary[BAND].score, whole.secondary[BAND].values)
        assert (block.protocol, block.axis, block.in_ood_avg, block.secondary) == (BAND, "frequency_band", False, {})
    primary = evaluator.evaluate(toy, "E-LOC-LOS", protocol="leave-one-environment-out")
    assert primary.score == whole.score
    assert primary.record.tasks[TaskID.E_LOC_LOS] == whole.model_copy(update={"secondary": {}})
    stress = evaluator.evaluate(toy, "E-LOC-LOS", protocol="leave-one-snr-regime-out")
    regimes = evaluator.manifest.stress_regimes[TaskID.E_LOC_LOS]
    assert list(stress.record.tasks[TaskID.E_LOC_LOS].values) == list(regimes)


def test_a_protocol_that_the_task_does_not_have_is_refused(evaluator, toy):
    with pytest.raises(InputError, match="protocol leave-one-planet-out: expected one of leave-one-environment-out"):
        evaluator.evaluate(toy, "E-LOC-LOS", protocol="leave-one-planet-out")
    with pytest.raises(InputError, match="protocol in-distribution: holds out nothing"):
        evaluator.evaluate(toy, "E-LOC-LOS", protocol="in-distribution")
    with pytest.raises(InputError, match="pinned to environment, frequency_band, expected device"):
        evaluator.evaluate(toy, "E-LOC-LOS", protocol=emma.LeaveOneUnitOut())


def test_the_runner_fits_scores_and_averages(runs, evaluator, toy):
    for task in (TaskID.E_LOC_AOA, TaskID.E_ID_FP):
        run = runs[task]
        block = run.record.tasks[task]
        embeddings = evaluator.embed(toy, task, *described(toy))
        made = emma.ProtocolRunner(evaluator.manifest, task, block.protocol, 0).run(
            embeddings, *evaluator.assigned(task)
        )
        assert made.score == run.score == pytest.approx(np.mean([s[block.metric].score for s in made.scores.values()]))
        for value, record in block.values.items():
            assert made.scores[value][block.metric].model_dump().items() <= record.model_dump().items()
            assert made.folds[value].predictions_hash == run.folds[block.protocol][value].predictions_hash
        secondary = {name: score.values for name, score in block.secondary_metrics.items()}
        assert set(next(iter(made.scores.values()))) == {block.metric, *secondary}


def described(backbone):
    """Config and provenance of a backbone without either."""
    config = ModelConfig(name=backbone.name, factory="a:b", pretraining="unknown")
    return config, Provenance.of(config.name, config, config.pretraining)


def test_the_ood_average_of_runs_is_that_of_the_board(runs, evaluator, toy, world):
    average = evaluator.ood_average(runs.values())
    scored = [task for task, spec in world.manifest.tasks.items() if spec.in_ood_avg]
    assert average == pytest.approx(np.mean([runs[task].record.tasks[task].normalized for task in scored]))
    assert evaluator.ood_average([runs[task] for task in reversed(scored)]) == average
    with pytest.raises(UndefinedMetricError, match="E-ID-FP was not run"):
        evaluator.ood_average([run for task, run in runs.items() if task is not TaskID.E_ID_FP])
    with pytest.raises(InputError, match="toy on E-LOC-AOA: given twice"):
        evaluator.ood_average([*runs.values(), runs[TaskID.E_LOC_AOA]])
    band = evaluator.evaluate(toy, "E-LOC-LOS", protocol=BAND)
    with pytest.raises(InputError, match="protocol: leave-one-band-out, expected leave-one-environment-out"):
        evaluator.ood_average([band])
    other = emma.Evaluator("tiny", results=world.results, seed=1)
    with pytest.raises(InputError, match="seed: 0, expected 1"):
        other.ood_average(runs.values())
    prior = evaluator.evaluate(emma.backbones.base.prior(), "E-LOC-LOS")
    with pytest.raises(InputError, match="prior on E-LOC-LOS: model_provenance"):
        evaluator.ood_average([runs[TaskID.E_LOC_AOA], prior])


@pytest.mark.parametrize("seed", [True, "0", 1.0, -1])
def test_a_seed_that_would_draw_other_numbers_than_are_recorded_is_refused(world, seed):
    with pytest.raises(InputError, match=r"seed: .* expected a whole number"):
        emma.Evaluator("tiny", results=world.results, seed=seed)


@pytest.mark.parametrize("split", [Split.TRAIN, "other"])
def test_only_an_evaluation_split_is_scored(world, split):
    with pytest.raises(InputError, match=r"split: .* expected Split\.DEV or Split\.HOLDOUT"):
        emma.Evaluator("tiny", results=world.results, split=split)


def test_what_is_no_backbone_or_protocol_is_told_in_one_line(evaluator, toy):
    other = emma.LeaveOneEnvironmentOut(evaluator.manifest.tasks[TaskID.E_LOC_LOS])
    for protocol, message in (
        (3, "protocol: 3, expected a name or an OODProtocol"),
        (emma.LeaveOneEnvironmentOut, "expected a name or an OODProtocol"),
        (other, "protocol leave-one-environment-out: made for another TaskSpec than the release's E-LOC-AOA"),
    ):
        with pytest.raises(InputError, match=message):
            evaluator.evaluate(toy, "E-LOC-AOA", protocol=protocol)
    with pytest.raises(InputError, match="backbone: object, expected an object with name, embedding_dim and embed"):
        evaluator.evaluate(object(), "E-LOC-AOA")


def test_a_value_that_the_task_does_not_hold_out_is_not_averaged(evaluator):
    tasks = evaluator.manifest.tasks
    scores = {task: dict.fromkeys(spec.held_out, 0.7) for task, spec in tasks.items()}
    assert emma.OODAvg(tasks)(scores) > 0
    scores[TaskID.E_LOC_LOS]["extra"] = 1.0
    with pytest.raises(UndefinedMetricError, match="E-LOC-LOS: extra is no held-out value"):
        emma.OODAvg(tasks)(scores)
