"""The workflow as a ``module`` of another workflow that stands in another folder."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "cluster.md").read_text(encoding="utf-8")


def shown(language: str) -> str:
    """The block of a language in the documentation of modules."""
    return DOCS.partition(f"```{language}\n")[2].partition("```")[0]


def build_other(folder: Path, few: Path, prefix: str = "") -> None:
    """The documented workflow, beside a finished project and with that project's results as its own."""
    (folder / "config").mkdir(parents=True)
    for name in ("models", "releases", "captures"):
        shutil.copytree(few / "config" / name, folder / "config" / name)
    (folder / "config" / "config.yaml").write_text(shown("yaml").replace("tiny", "few"))
    text = shown("python").replace("/path/to/emma", str(few)).replace("tiny", "few")
    if prefix:
        text = text.replace("    config:\n", f'    prefix:\n        "{prefix}"\n    config:\n', 1)
        text = text.replace('"results/', f'"{prefix}/results/')
    (folder / "Snakefile").write_text(text)
    shutil.copytree(few / "results", folder / prefix / "results")


def snakemake(project, folder: Path, *arguments: str) -> str:
    """Run the other workflow, which must succeed, and return what it said."""
    command = [project.command()[0], "--cores", "1", *arguments]
    result = subprocess.run(
        command, cwd=folder, env=project.environment(), capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


#: How every rule's command starts.
START = "python -IS $EMMA_HOME/scripts/run.py "


@pytest.mark.parametrize("prefix", ["", "bench"])
def test_another_workflow_scores_a_task_with_the_module(few, tmp_path, prefix):
    """Embedding, fits, scoring and the run record, from programs of the other folder, to the same bytes."""
    folder = tmp_path / "other"
    build_other(folder, few.folder, prefix)
    results = folder / prefix / "results" / "releases" / "few"
    kept = few.contents()
    shutil.rmtree(results / "folds" / "dsp" / "E-LOC-AOA")
    (results / "embeddings" / "dsp" / "E-LOC-AOA.parquet").unlink()
    (results / "runs" / "dsp.json").unlink()
    said = snakemake(few, folder, "--rerun-triggers", "mtime")
    assert {f"rule emma_{name}:" in said for name in ("embed", "fit_E_LOC_AOA", "score_E_LOC_AOA", "run_record")} == {
        True
    }
    assert "rule emma_scenes:" not in said
    again = {path.relative_to(results).as_posix(): path for path in (results / "folds" / "dsp").rglob("*")}
    assert any("/E-LOC-AOA/" in name for name in again)
    assert [name for name, path in again.items() if path.is_file() and path.read_bytes() != kept[name]] == []
    assert (folder / "summary.json").read_bytes() == kept["runs/dsp.json"]


def test_every_command_finds_its_program_from_another_folder(fresh):
    """No rule's command starts a program of the working directory."""
    texts = {path.name: path.read_text() for path in (fresh.folder / "workflow" / "rules").glob("*.smk")}
    started = {name: text.count(START) for name, text in texts.items() if "scripts/run.py" in text}
    assert started == {"common.smk": 1}
    shells = [line.strip() for text in texts.values() for line in re.findall(r"shell:\n(.*)", text)]
    assert len(shells) >= 20
    assert {line.partition("(")[0] for line in shells} == {"program"}


def test_a_module_without_its_config_is_one_line(few, tmp_path):
    """A release that the other folder lacks is named, and nothing is planned."""
    folder = tmp_path / "other"
    build_other(folder, few.folder)
    (folder / "config" / "releases" / "few.yaml").unlink()
    command = [few.command()[0], "--cores", "1"]
    result = subprocess.run(
        command, cwd=folder, env=few.environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 2
    assert "release: few is unknown" in result.stderr and "Traceback" not in result.stderr
