"""Names and texts of strangers, as the plan meets them: what Snakemake would read as its own is data, or one line."""

import os

import pytest
import yaml

from .test_bad_input import refused

CAPTURES = "config/captures/surrogate_aoa.yaml"


def bundle(project, folder, model):
    """A bundle's manifest, which is all of it that a plan reads."""
    path = project.folder / "submissions" / folder / "submission.yaml"
    path.parent.mkdir(parents=True)
    readout = {"kind": "ridge", "embedding_dim": 2, "parameters": 6}
    content = {"model": model, "pretraining": "unknown", "data_release_hash": "0" * 64, "harness_version": "0"}
    path.write_text(yaml.safe_dump(content | {"seed": 0, "readouts": {"E-LOC-AOA": readout}}))
    return path


def test_names_that_differ_in_a_dot_and_braces_in_a_caveat_are_planned(fresh):
    bundle(fresh, "one", "a.b")
    bundle(fresh, "two", "a_b")
    declared = yaml.safe_load((fresh.folder / CAPTURES).read_text())
    (fresh.folder / CAPTURES).write_text(yaml.safe_dump(declared | {"caveats": ["{open} {0} </script>"]}))
    jobs = fresh.jobs(config=["real_captures=surrogate", "submissions=[submissions/one,submissions/two]"])
    assert (jobs["submission_a.b"], jobs["submission_a_b"], jobs["sim_to_real"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("folder", "model", "said"), [("a{b}", "guest", "without braces"), ("one", "DSP", "another row's name")]
)
def test_a_name_that_is_none_is_one_line(fresh, folder, model, said):
    bundle(fresh, folder, model)
    assert said in refused(fresh, config=[f"submissions=['submissions/{folder}']"])


def test_a_pipe_for_a_manifest_is_one_line(fresh):
    path = bundle(fresh, "one", "guest")
    path.unlink()
    os.mkfifo(path)
    assert "submission.yaml: cannot be read (a named pipe" in refused(fresh, config=["submissions=[submissions/one]"])
