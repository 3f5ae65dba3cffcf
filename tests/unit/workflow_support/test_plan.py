"""The plan of a run, and the configuration that it rests on."""

import hashlib
import shutil
from pathlib import Path

import pytest
import yaml

from common.errors import InputError
from common.files import read_yaml
from workflow_support.config import check_config
from workflow_support.plan import Plan, job_environment

ROOT = Path(__file__).parents[3]
CONFIG = {"release": "tiny", "seed": 0, "eval_split": "DEV", "models": ["dsp", "prior"]}


@pytest.fixture
def root(tmp_path):
    for folder in ("config", "scripts"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    return tmp_path


def test_the_configuration_that_ships_is_valid():
    shipped = read_yaml(ROOT / "config" / "config.yaml")
    assert check_config(shipped, ROOT).release == "v0.1"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sede": 1}, "sede: unknown key, did you mean seed?"),
        ({"seed": "0"}, "seed: Input should be a valid integer"),
        ({"seed": False}, "seed: Input should be a valid integer"),
        ({"seed": -1}, "seed: "),
        ({"release": "v9"}, "release: v9 is unknown, expected one of tiny, v0.1"),
        ({"release": "v0.2"}, "release: v0.2 is unknown, did you mean v0.1?"),
        ({"release": "../../etc"}, "release: "),
        (
            {"models": ["dsp", "nothing"]},
            "models: nothing is unknown, expected one of antenna_coherence, ",
        ),
        ({"models": ["ssl_con"]}, "models: ssl_con is unknown, did you mean ssl_conv?"),
        ({"models": ["dsp", "dsp"]}, "models: a model occurs twice"),
        ({"models": []}, "models: "),
        ({"models": "dsp"}, "models: "),
        ({"eval_split": "TRAIN"}, "eval_split: "),
        ({"eval_split": "dev"}, "eval_split: "),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(change, message):
    with pytest.raises(InputError) as caught:
        Plan(CONFIG | change, ROOT)
    assert str(caught.value).startswith("config/config.yaml: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("model", "change", "message"),
    [
        ("dsp", {"factory": "emma.backbones.dps:build"}, "factory: emma.backbones.dps:build: there is no module"),
        ("dsp", {"factory": "emma.backbones.dsp:make"}, "factory: emma.backbones.dsp:make: there is no make in"),
        ("dsp", {"factory": "elsewhere:build"}, "factory: elsewhere:build: there is no module elsewhere"),
        (
            "ssl_conv",
            {"pretrain": {"function": "emma.backbones.contrastive:trian"}},
            "pretrain.function: emma.backbones.contrastive:trian: there is no trian in",
        ),
    ],
)
def test_a_function_that_is_not_there_is_refused_in_the_plan(root, model, change, message):
    path = root / f"config/models/{model}.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | change))
    with pytest.raises(InputError) as caught:
        Plan(CONFIG | {"models": [model]}, root)
    assert str(caught.value).startswith(f"config/models/{model}.yaml: {message}")


def test_a_typo_in_what_pretraining_saw_is_refused_in_the_plan(root):
    path = root / "config/models/dsp.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"pretraining": {"environments": ["E_URBN"]}}))
    with pytest.raises(InputError) as caught:
        Plan(CONFIG, root)
    told = "config/models/dsp.yaml: pretraining.environments: E_URBN is unknown, did you mean E_URBAN?"
    assert str(caught.value) == told


def test_words_for_readers_make_nothing_stale_but_the_cost(root):
    before = Plan(CONFIG, root)
    path = root / "config/models/dsp.yaml"
    told = {"description": "other words", "link": "https://example.org", "expects": {"rms": 1.0}}
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | told))
    after = Plan(CONFIG, root)
    assert after.model_hash("dsp") == before.model_hash("dsp")
    assert after.described_hash("dsp") != before.described_hash("dsp")


def test_packages_of_another_environment_are_left_to_the_jobs(root):
    path = root / "config/models/dsp.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"factory": "elsewhere:build"}))
    assert Plan(CONFIG, root, elsewhere=True).models["dsp"].factory == "elsewhere:build"


def test_holdout_needs_its_seed(monkeypatch):
    for name in ("EMMA_HOLDOUT_SEED", "EMMA_HOLDOUT_SEED_FILE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(InputError, match="HOLDOUT expects its secret seed"):
        Plan(CONFIG | {"eval_split": "HOLDOUT"}, ROOT)


def test_every_fold_is_planned_once():
    plan = Plan(CONFIG, ROOT)
    assert plan.folds("E-LOC-LOS") == [
        ("leave-one-environment-out", "E_URBAN"),
        ("leave-one-environment-out", "E_RURAL"),
        ("in-distribution", "E_URBAN"),
        ("in-distribution", "E_RURAL"),
        *(
            (name, f"{e}+{b}")
            for name in ("leave-one-band-out", "in-distribution-leave-one-band-out")
            for e in ("E_URBAN", "E_RURAL")
            for b in ("2.4GHz", "5.8GHz")
        ),
    ]
    assert plan.folds("E-LOC-LOS", stress=True) == [
        (name, value)
        for name in ("leave-one-snr-regime-out", "in-distribution-leave-one-snr-regime-out")
        for value in ("mid", "high")
    ]
    assert plan.folds("E-ID-AMC", stress=True) == []
    for task in plan.tasks:
        every = plan.folds(task) + plan.folds(task, stress=True)
        assert len(set(every)) == len(every)


@pytest.mark.parametrize("release", ["tiny", "v0.1", "v1.0"])
def test_the_cluster_s_groups_hold_every_fit_and_scoring(release):
    """A fit that no group holds is a job of the cluster by itself, for each fold."""
    plan = Plan(CONFIG | {"release": release}, ROOT)
    rules = [plan.fit_rule(task, protocol) for task in plan.tasks for protocol, _ in plan.referenced(task)]
    for kind, stress in (("score", False), ("stress", True)):
        rules += [f"{kind}_{task.replace('-', '_')}" for task in plan.tasks if plan.folds(task, stress=stress)]
    groups = read_yaml(ROOT / "workflow/profiles/slurm/config.yaml")["groups"]
    assert sorted(set(rules) - set(groups)) == []


def test_results_of_releases_do_not_mix():
    assert Plan(CONFIG, ROOT).results == "results/releases/tiny"
    assert Plan(CONFIG | {"release": "v0.1"}, ROOT).results == "results"


def edited(root, path, change):
    value = read_yaml(root / path)
    change(value)
    (root / path).write_text(yaml.safe_dump(value))


def texts(root):
    plan = Plan(CONFIG, root)
    return plan.recipe_hash(), plan.scoring_hash(), plan.model_hash("dsp"), plan.model_hash("prior")


@pytest.mark.parametrize(
    ("path", "change", "moved"),
    [
        ("config/releases/base.yaml", lambda v: v["rfgen"].update(hardware_seed=1), {0}),
        ("config/releases/tiny.yaml", lambda v: v.update(seed=8), {0, 1}),
        ("config/releases/base.yaml", lambda v: v["tasks"]["E-LOC-AOA"]["anchors"].update(maximum=180.0), {1}),
        ("config/releases/base.yaml", lambda v: v["tasks"]["E-LOC-AOA"]["readout"].update(regularisation=[0.1]), {1}),
        ("config/models/dsp.yaml", lambda v: v.update(batch_size=7), {2}),
        ("config/models/prior.yaml", lambda v: v.update(pretraining="unknown"), {3}),
    ],
)
def test_a_change_shows_in_the_strings_that_it_concerns(root, path, change, moved):
    before = texts(root)
    edited(root, path, lambda value: None)
    assert texts(root) == before
    edited(root, path, change)
    after = texts(root)
    assert {number for number in range(4) if after[number] != before[number]} == moved


def test_a_model_takes_its_own_tasks_in_the_order_of_the_release(root):
    edited(root, "config/models/dsp.yaml", lambda value: value.update(tasks=["E-ID-AMC", "E-LOC-LOS"]))
    assert Plan(CONFIG, root).tasks_of("dsp") == ["E-LOC-LOS", "E-ID-AMC"]


def test_a_textbook_of_tasks_that_the_release_lacks_is_left_out():
    models = ["dsp", "antenna_coherence"]
    assert list(Plan(CONFIG | {"models": models}, ROOT).models) == models
    assert list(Plan(CONFIG | {"models": models, "release": "v0.1"}, ROOT).models) == ["dsp"]
    with pytest.raises(InputError, match=r"models: expected one that takes a task of v0\.1"):
        Plan(CONFIG | {"models": ["antenna_coherence"], "release": "v0.1"}, ROOT)


def test_pools_and_trained_models_are_those_of_recipe_and_configs():
    plan = Plan(CONFIG | {"models": ["dsp", "ssl_conv"]}, ROOT)
    assert plan.pretrained() == ["ssl_conv"]
    assert "E-LOC-AOA" in plan.pretrain_pools()
    assert "E-LOC-LOS" not in plan.pretrain_pools()


def test_code_digests_tell_models_apart():
    plan = Plan(CONFIG, ROOT)
    assert plan.embed_code("dsp") != plan.embed_code("prior")
    assert plan.embed_code("dsp") == Plan(CONFIG, ROOT).embed_code("dsp")
    assert plan.code("fit_fold") != plan.code("score_task")


def test_jobs_run_on_one_thread_with_this_source():
    environment = job_environment("/project")
    assert environment["PYTHONPATH"] == "/project/src"
    assert (Path.cwd() / environment["EMMA_HOME"]).resolve() == Path("/project")
    assert {environment[f"{name}_NUM_THREADS"] for name in ("OMP", "OPENBLAS", "MKL")} == {"1"}


def test_a_folder_with_white_space_on_the_way_is_refused(tmp_path, monkeypatch):
    (tmp_path / "my emma").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="without white space"):
        job_environment(tmp_path / "my emma")
    monkeypatch.chdir(tmp_path / "my emma")
    assert job_environment(tmp_path / "my emma")["EMMA_HOME"] == "."


def test_programs_come_from_home_and_config_from_the_root(tmp_path):
    shutil.copytree(ROOT / "config", tmp_path / "config")
    (tmp_path / "config/models/dsp.yaml").rename(tmp_path / "config/models/mine.yaml")
    text = (tmp_path / "config/models/mine.yaml").read_text().replace("name: dsp", "name: mine")
    (tmp_path / "config/models/mine.yaml").write_text(text)
    plan = Plan(CONFIG | {"models": ["mine"]}, tmp_path, ROOT)
    assert list(plan.models) == ["mine"]
    assert plan.embed_code("mine") == Plan(CONFIG, ROOT).embed_code("dsp")


def test_captures_of_ones_own_are_reported_beside_the_surrogates(root):
    """Neither run writes over what the other reported."""
    names = {}
    (root / "sets").mkdir()
    entry = {"name": "uwb_los", "adapter": "cir", "path": "sets", "task": "E-LOC-LOS"}
    entry["mapping"] = {"classes": {"LOS": "LOS", "NLOS": "NLOS", "NDP NLOS": "NLOS"}}
    for captures in ("surrogate", [entry]):
        plan = Plan(CONFIG | {"real_captures": captures}, root, root)
        names[str(captures)[:9]] = {plan.gap_report().name, plan.gap_report("md").name}
    assert names["surrogate"] == {"sim_to_real.json", "sim_to_real.md"}
    assert names["[{'name':"] == {"sim_to_real_captures.json", "sim_to_real_captures.md"}


def test_programs_are_told_the_windows_that_a_readout_pins(root):
    """Of those tasks alone, so that another task's jobs do not depend on them; another window is another command."""
    plan = Plan(CONFIG | {"release": "tiny"}, root)
    assert plan.windows("E-LOC-AOA") == plan.windows() == ""
    assert plan.windows("E-SC-SEP") == plan.windows(*plan.tasks) == "--windows E-SC-SEP=256/64"
    path = root / "config/releases/base.yaml"
    path.write_text(
        path.read_text().replace("      window: 256\n      hop: 64\n", "      window: 128\n      hop: 64\n")
    )
    assert Plan(CONFIG | {"release": "tiny"}, root).windows("E-SC-SEP") == "--windows E-SC-SEP=128/64"


ESTIMATES = {"view": "csi"}


def refused_view(root, release, **change):
    edited(root, "config/models/dsp.yaml", lambda value: value.update(ESTIMATES | change))
    with pytest.raises(InputError) as caught:
        Plan(CONFIG | {"release": release}, root)
    return str(caught.value)


def test_a_view_of_channel_estimates_is_refused_where_scenes_carry_no_reference(root):
    said = "config/models/dsp.yaml: view: csi: scenes of {} in release {} carry no reference symbol, {}"
    others = "E-ID-DRONE, E-ID-FP, E-ID-AMC"
    later = f"{others}, E-SC-SENSE, E-SC-ANOM, E-SC-SEP, E-S2T-CAP, E-S2T-QA"
    expected = "expected tasks: [E-LOC-AOA, E-LOC-LOS, E-CH-BEAM, E-CH-CSI]"
    assert refused_view(root, "v1.0") == said.format(later, "v1.0", expected)
    every = f"E-LOC-AOA, E-LOC-LOS, {others}"
    assert refused_view(root, "v0.1") == said.format(every, "v0.1", "nor do those of its other tasks")
    both = {"tasks": ["E-LOC-AOA", "E-LOC-LOS"]}
    assert "scenes of E-LOC-AOA, E-LOC-LOS in release v0.1" in refused_view(root, "v0.1", **both)
    assert Plan(CONFIG | {"release": "v1.0"}, root).tasks_of("dsp") == both["tasks"]


@pytest.mark.parametrize("rules", [{"antennas": 1}, {"per_antenna": "mean"}, {"per_antenna": "first", "antennas": 1}])
def test_a_model_that_gets_one_antenna_is_told_what_it_cannot_see(root, rules):
    edited(root, "config/models/dsp.yaml", lambda value: value.update(rules))
    said = "config/models/dsp.yaml: one antenna at a time cannot see a bearing: expect the floor on E-LOC-AOA"
    assert Plan(CONFIG, root).notices() == [said]
    edited(root, "config/models/dsp.yaml", lambda value: value.update({"tasks": ["E-LOC-LOS", "E-ID-AMC"]}))
    assert Plan(CONFIG, root).notices() == []


@pytest.mark.parametrize("rules", [{}, {"antennas": 2}, {"antennas": 1, "per_antenna": "concat"}])
def test_a_model_that_gets_several_antennas_is_told_nothing(root, rules):
    edited(root, "config/models/dsp.yaml", lambda value: value.update(rules))
    assert Plan(CONFIG, root).notices() == []


@pytest.mark.parametrize("kind", ["weights", "onnx"])
def test_a_file_of_weights_is_looked_at_before_a_job_runs(root, kind):
    """That it is there, and that it is the pinned one."""
    name = {"weights": "weights/w.safetensors", "onnx": "weights/w.onnx"}[kind]
    digest = hashlib.sha256(b"content").hexdigest()

    def change(value):
        value.pop("factory", None) if kind == "onnx" else None
        value.update({kind: name, "weights_sha256": digest, "control": False})

    edited(root, "config/models/dsp.yaml", change)
    with pytest.raises(InputError, match=f"config/models/dsp.yaml: {kind}: {name}: no such file"):
        Plan(CONFIG, root)
    (root / "weights").mkdir()
    (root / name).write_bytes(b"content")
    assert Plan(CONFIG, root).models["dsp"].weights_sha256 == digest
    (root / name).write_bytes(b"Content")
    with pytest.raises(InputError, match=f"weights_sha256: {name} has [0-9a-f]{{64}}, expected {digest}"):
        Plan(CONFIG, root)
