"""What the clusters' profiles ask for covers what was measured, and names rules that there are."""

import re
from pathlib import Path

import pytest

from common.files import read_yaml
from workflow_support.plan import Plan

ROOT = Path(__file__).parents[3]
MEASURED = read_yaml(ROOT / "workflow/profiles/measured.yaml")
#: A job may hold so many times what was measured, and what Snakemake's own process holds beside it, in MiB.
MEMORY, SNAKEMAKE = 1.5, 250
#: A job may take so many times the longest of v0.1; one that grows with the scenes so many times.
TIME, SCENES = 10, 50
GROWING = {"pretrain", "embed", "truth"}


@pytest.fixture(scope="module", params=["slurm", "kubernetes"])
def profile(request):
    return read_yaml(ROOT / f"workflow/profiles/{request.param}/config.yaml")


@pytest.fixture(scope="module")
def rules():
    """Every rule of the workflow, whatever the release, as its files and the plan name them."""
    names = {
        name
        for path in (ROOT / "workflow/rules").glob("*.smk")
        for name in re.findall(r"^ *rule (\w+):", path.read_text(), re.M)
    }
    for release in ("tiny", "v0.1", "v1.0"):
        plan = Plan({"release": release, "seed": 0, "eval_split": "DEV", "models": ["dsp"]}, ROOT)
        names |= {plan.fit_rule(task, protocol) for task in plan.tasks for protocol, _ in plan.referenced(task)}
        for kind, stress in (("score", False), ("stress", True)):
            names |= {f"{kind}_{task.replace('-', '_')}" for task in plan.tasks if plan.folds(task, stress=stress)}
        names |= {f"splits_{task.replace('-', '_')}" for task in plan.tasks}
    return names


def seconds_asked(profile, rule):
    """What a job of the rule may take; a fit's own request stands in its rule."""
    entry = profile["set-resources"].get(rule, {})
    default = profile["default-resources"]["runtime"]
    if rule == "fit":
        default = int(re.search(r"runtime=(\d+)", (ROOT / "workflow/rules/readouts.smk").read_text())[1])
    return 60 * entry.get("runtime", default)


def test_the_rules_that_a_profile_names_are_there(profile, rules):
    assert sorted({*profile["set-resources"], *profile["groups"]} - rules) == []


def test_the_measured_rules_are_all_of_the_workflow_s(rules):
    kinds = {"fit", "score", "stress", "splits", "make", "embed_captures", "score_captures"}
    assert sorted(set(MEASURED["seconds"]) - rules - kinds) == []
    # Every rule that a run of v0.1 with the shipped models has for a model or a release.
    assert {"channels", "scenes", "embed", "fit", "score", "pretrain", "truth", "cost", "board"} <= set(
        MEASURED["seconds"]
    )


def test_memory_covers_the_largest_process_and_snakemake_s_own(profile):
    largest = max(MEASURED["peak_mib"].values())
    asked = [profile["default-resources"]["mem_mb"]]
    asked += [entry["mem_mb"] for entry in profile["set-resources"].values() if "mem_mb" in entry]
    assert min(asked) >= MEMORY * largest + SNAKEMAKE


@pytest.mark.parametrize("rule", MEASURED["seconds"])
def test_time_covers_the_longest_job_of_every_rule(profile, rule):
    margin = SCENES if rule in GROWING else TIME
    assert seconds_asked(profile, rule) >= margin * MEASURED["seconds"][rule]


def test_a_group_s_job_lasts_minutes(profile):
    (name,) = set(profile["groups"].values())
    assert 60 <= profile["group-components"][name] * MEASURED["group_seconds"] <= 600
    assert profile["cores"] == 1


def test_both_profiles_ask_for_the_same():
    slurm, kubernetes = (read_yaml(ROOT / f"workflow/profiles/{name}/config.yaml") for name in ("slurm", "kubernetes"))
    for key in ("groups", "group-components", "default-resources", "cores"):
        assert slurm[key] == kubernetes[key]
    # A GPU of none is an error on Kubernetes, where its maker is asked for.
    slurm["set-resources"]["embed"].pop("gpu")
    assert slurm["set-resources"] == kubernetes["set-resources"]
