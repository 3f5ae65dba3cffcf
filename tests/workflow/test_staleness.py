"""What reruns after a change, and what does not."""

import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

#: dsp, ssl_conv and its control.
ROWS = 3
FOLD = "folds/dsp/E-LOC-AOA/leave-one-environment-out/E_URBAN"


def scorings(project) -> set[str]:
    """Rules that score the tasks of the release."""
    return {f"score_{task}".replace("-", "_") for task in project.tasks}


def edit(path, old: str, new: str) -> None:
    """Replace one piece of text that is there."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_finished_results_leave_nothing_to_do(project):
    """A finished tree is up to date, with every fold file there."""
    assert project.jobs("leaderboard", "folds") == {}


def test_the_page_waits_for_the_probes_where_the_config_asks_for_them(project):
    assert project.jobs(config=("probes=true",)) == {"probe": 3, "probe_report": 1, "page": 1}


def test_touching_every_file_makes_nothing_stale(project):
    """File times alone mean nothing: content does."""
    for path in project.folder.rglob("*"):
        if path.is_file() and ".snakemake" not in path.parts:
            os.utime(path)
    assert project.jobs() == {}


def test_an_edit_of_a_metric_reruns_scores_and_what_follows(project):
    """An edit of a metric reruns scorings, run records and the board; no fit, no embedding, no scene."""
    before = (project.results / "leaderboard.json").read_bytes()
    with (project.folder / "src/emma/metrics/ranking.py").open("a") as file:
        file.write("# an edit that moves no number\n")
    assert project.jobs() == dict.fromkeys(scorings(project) | {"run_record"}, ROWS) | {"board": 1, "page": 1}
    project.complete()
    assert (project.results / "leaderboard.json").read_bytes() == before
    assert project.jobs() == {}


def test_a_metric_added_reruns_scores_and_what_follows(project):
    """A new file in the metrics' folder, which no table names, is code of scorings and of nothing before them."""
    (project.folder / "src/emma/metrics/another.py").write_text('"""A metric to come."""\n')
    assert project.jobs() == dict.fromkeys(scorings(project) | {"run_record"}, ROWS) | {"board": 1, "page": 1}


def test_a_version_of_a_library_reruns_what_imports_it(project, monkeypatch):
    """Another patch release of scipy concerns embeddings, and neither rays nor scenes."""
    site = project.folder / "site"
    (site / "scipy-0.0.dist-info").mkdir(parents=True)
    (site / "scipy-0.0.dist-info/RECORD").write_text("scipy/__init__.py,,\n")
    monkeypatch.setenv("PYTHONPATH", str(site))
    monkeypatch.setattr(type(project), "environment", staticmethod(lambda: dict(os.environ)))
    jobs = set(project.jobs())
    assert "embed" in jobs
    assert not jobs & {"channels", "scenes", "release_manifest"}


def test_an_edit_of_the_readouts_reruns_fits_but_no_embedding(project):
    """An edit of the readouts' code reruns fits and what follows, and embeds nothing again."""
    with (project.folder / "src/emma/readouts/ridge.py").open("a") as file:
        file.write("# an edit\n")
    jobs = set(project.jobs())
    assert {"fit_E_ID_FP", "board"} <= jobs
    assert not jobs & {"embed", "scenes", "channels", "release_manifest"}


def test_an_edit_of_one_models_config_reruns_that_model(project):
    """A model's config concerns that model alone; a comment in it concerns nobody."""
    config = project.folder / "config/models/dsp.yaml"
    config.write_text("# a comment\n" + config.read_text())
    assert project.jobs() == {}
    config.write_text(config.read_text() + "batch_size: 32\n")
    jobs = project.jobs()
    assert jobs.pop("embed") == len(project.tasks)
    # A fold and its reference are one job.
    readouts = len(list(project.results.glob("folds/dsp/*/*/*/readout.safetensors")))
    assert sum(jobs.pop(name) for name in list(jobs) if name.startswith("fit_")) == readouts // 2 > 10
    assert jobs == dict.fromkeys(scorings(project) | {"cost", "run_record", "board", "page"}, 1)
    planned = project.run("--dry-run").stdout
    assert "model=dsp" in planned
    assert "model=ssl_conv" not in planned


def test_a_changed_fold_file_reruns_what_follows_from_it(project):
    """Predictions that changed are scored again, and only they."""
    path = project.results / FOLD / "predictions.parquet"
    table = pq.read_table(path)
    scores = pa.array([[float(value)] for value in np.linspace(0, 359, table.num_rows)], pa.list_(pa.float64()))
    position = table.schema.get_field_index("scores")
    pq.write_table(table.set_column(position, table.schema.field(position), scores), path)
    assert project.jobs() == {"score_E_LOC_AOA": 1, "run_record": 1, "board": 1, "page": 1}
    project.complete()
    board = json.loads((project.results / "leaderboard.json").read_text())
    (row,) = [row for row in board["models"] if row["model"] == "dsp"]
    assert row["tasks"]["E-LOC-AOA"]["values"]["E_URBAN"]["score"] > 45


def test_a_deleted_fold_file_comes_back_by_its_own_chain(project):
    """The board does not miss an intermediate file; asked for by its path, or by `folds`, it is made again."""
    path = project.results / FOLD / "predictions.parquet"
    before = path.read_bytes()
    path.unlink()
    assert project.jobs() == {}
    target = path.relative_to(project.folder).as_posix()
    assert project.jobs(target) == {"fit_E_LOC_AOA": 1}
    project.complete(target)
    assert path.read_bytes() == before
    path.unlink()
    assert project.jobs("folds")["fit_E_LOC_AOA"] == 1
    project.complete("folds")
    assert path.read_bytes() == before
    assert project.jobs("leaderboard", "folds") == {}


def test_a_changed_anchor_makes_a_new_release(project):
    """Anchors are part of the release: a change refreezes it, and no scene is made again."""
    edit(project.folder / "config/releases/base.yaml", "maximum: 90.0", "maximum: 91.0")
    jobs = set(project.jobs())
    assert {"release_manifest", "fit_E_LOC_AOA", "board"} <= jobs
    assert not jobs & {"channels", "scenes", "embed"}


def test_a_changed_recipe_makes_every_scene_stale(project):
    """The recipe decides the scenes; they are all made again."""
    edit(project.folder / "config/releases/base.yaml", "gain_db: [-20.0, 20.0]", "gain_db: [-10.0, 10.0]")
    assert {"channels", "scenes", "embed", "fit_E_LOC_AOA", "board"} <= set(project.jobs())


def test_the_finished_tree_runs_where_it_was_copied(project, tmp_path):
    """Nothing in results holds the folder that it was made in."""
    moved = tmp_path / "elsewhere"
    shutil.copytree(project.folder, moved, symlinks=True)
    assert type(project)(moved, project.release).jobs() == {}
