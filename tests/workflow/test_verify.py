"""A real run verified whole, deep checks included: the generator, the backbones and the fits say it again."""

import re


def test_a_finished_run_verifies_deep(finished):
    found = finished.script("verify", finished.results, "--deep")
    assert found.returncode == 0, found.stdout + found.stderr
    checked = {name: int(n) for name, n in re.findall(r"^ok +(.+?): (\d+) checked", found.stdout, re.MULTILINE)}
    deep = {
        name: checked[name] for name in ("scenes from the recipe", "embeddings from scenes", "fits from embeddings")
    }
    assert all(deep.values()), deep
    assert re.search(r"(\d+) checked; \1 chunks bit for bit", found.stdout)
    assert "tiny: verified, reproduced: scenes follow from the recipe" in found.stdout.splitlines()[-1]


def test_a_folder_without_results_says_where_others_are(finished):
    found = finished.script("verify", finished.folder / "results")
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "results/releases/tiny" in found.stderr


def test_a_control_that_is_its_model_is_caught(project):
    """Weights that training made, in the place of permuted ones."""
    weights = project.results / "weights"
    (weights / "ssl_conv.control.safetensors").write_bytes((weights / "ssl_conv.safetensors").read_bytes())
    result = project.script("verify", project.results)
    assert result.returncode == 1
    assert "is not that of ssl_conv, permuted with seed 0" in result.stdout


def test_an_archive_that_cannot_be_made_is_refused_before_the_first_job(fresh):
    """The copy is no checkout."""
    refused = fresh.run("--dry-run", "results/releases/tiny/release/emma-tiny.zip")
    assert refused.returncode == 2
    assert "git status: fatal: not a git repository" in refused.stderr.splitlines()[-1]
    assert "Job stats" not in refused.stdout + refused.stderr
    beside = fresh.run("--dry-run", "results/releases/tiny/release/emma-tiny-with-embeddings.zip")
    assert beside.returncode == 2
