"""Runs of models that left the board are named and no faults; a row that was dropped from the board is one."""

import json

import pytest
from emma_miniature import publish_board, publish_gap

from emma.audit.verify import Results, verify
from emma.data.release import load_manifest
from emma.results.runs import stress_report

GONE = "few"


def narrowed(project, *, stress=True):
    """What a run with a shorter list of models leaves: board and reports without the model, its files still there."""
    results = project / "results"
    run, folds = results / f"runs/{GONE}.json", results / f"folds/{GONE}"
    run.rename(project / "run.json")
    folds.rename(project / "folds")
    publish_gap(results)
    publish_board(results)
    if stress:
        metrics = sorted((results / "folds").glob("*/E-LOC-LOS/leave-one-snr-regime-out/*/metrics.json"))
        report = stress_report(load_manifest(results / "release/manifest.json"), metrics).model_dump(mode="json")
        (results / "reports/stress.json").write_text(json.dumps(report))
    (project / "run.json").rename(run)
    (project / "folds").rename(folds)
    return results


def outcomes_of(project):
    return {outcome.name: outcome for outcome in verify(Results(project / "results", project))}


def faults(outcomes):
    return [fault for outcome in outcomes.values() for fault in outcome.faults]


def configure(project, *models):
    (project / "config/config.yaml").write_text(json.dumps({"models": models}))


def test_runs_of_models_that_left_the_board_are_named_in_one_note(project):
    narrowed(project)
    configure(project, "prior", "many")
    outcomes = outcomes_of(project)
    assert faults(outcomes) == []
    expected = f"left over from another run, named by no board, report or config, not checked: {GONE}"
    assert outcomes["files"].note == expected


def test_what_left_the_board_decides_nothing_of_it(project):
    """A leftover of another seed and split, first by name, is not what the rest is compared with."""
    results = narrowed(project)
    path = results / f"runs/{GONE}.json"
    record = json.loads(path.read_text())
    record["eval_split"], record["run_manifest"]["seed"] = "holdout", 9
    path.write_text(json.dumps(record))
    assert faults(outcomes_of(project)) == []


@pytest.mark.parametrize("what", ["runs", "folds"])
def test_part_of_a_model_is_left_over_too(project, what):
    results = narrowed(project)
    other = results / {"folds": f"runs/{GONE}.json", "runs": f"folds/{GONE}"}[what]
    other.rename(project / "aside")
    outcomes = outcomes_of(project)
    assert faults(outcomes) == []
    assert outcomes["files"].note.endswith(f": {GONE}")


@pytest.mark.parametrize("witness", ["reports/stress.json", "config/config.yaml"])
def test_a_row_that_a_report_or_the_config_knows_of_was_dropped(project, witness):
    """A forger who builds the board and its own report again without a row still leaves who names the model."""
    results = narrowed(project, stress=witness != "reports/stress.json")
    configure(project, "prior", "many", *[GONE] * (witness == "config/config.yaml"))
    found = outcomes_of(project)["provenance"].faults
    assert len(found) == 1
    assert found[0].startswith(f"{results / 'leaderboard.json'}: models: no row of {GONE}, although runs/{GONE}.json")
    assert f"{witness} names it" in found[0]
    assert f"remove runs/{GONE}.json and folds/{GONE}" in found[0]


def test_a_lost_run_record_is_asked_for_by_name(project):
    results = narrowed(project)
    configure(project, "prior", "many", GONE)
    (results / f"runs/{GONE}.json").unlink()
    expected = f"{results}/runs/{GONE}.json: no such file, although config/config.yaml names the model"
    assert expected in faults(outcomes_of(project))


def test_other_files_among_folds_and_runs_are_faults_all_the_same(project):
    results = narrowed(project)
    for name in ("folds/notes.txt", f"runs/{GONE}.txt", f"runs/{GONE}/more.json"):
        (results / name).parent.mkdir(exist_ok=True)
        (results / name).write_text("{}")
    assert sorted(faults(outcomes_of(project))) == [
        f"{results}/{name}: belongs to no fold or run of these results"
        for name in ("folds/notes.txt", f"runs/{GONE}.txt", f"runs/{GONE}/more.json")
    ]
