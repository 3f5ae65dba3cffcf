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
    assert found.stdout.endswith("tiny: verified\n")


def test_a_folder_without_results_says_where_others_are(finished):
    found = finished.script("verify", finished.folder / "results")
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "results/releases/tiny" in found.stderr
