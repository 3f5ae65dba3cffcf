"""Every example writes a model that passes the checks, pinned by the SHA-256 of what it wrote."""

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def run(*command: object, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_examples_are_those_that_the_docs_name():
    assert EXAMPLES == ["onnx_export", "token_sequence", "torch_module"]
    text = (ROOT / "docs/backbones.md").read_text()
    assert all(f"examples/{name}.py" in text for name in EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_backbone(name, tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    run(f"examples/{name}.py", folder=tmp_path)
    config = yaml.safe_load((tmp_path / f"config/models/{name}.yaml").read_text())
    weights = tmp_path / config.get("weights", config.get("onnx"))
    assert config["weights_sha256"] == hashlib.sha256(weights.read_bytes()).hexdigest()
    told = run(ROOT / "scripts/check_backbone.py", name, "--root", tmp_path, folder=tmp_path)
    assert told.splitlines()[-1] == f"{name}: ready"
    assert "skip" not in {line.split(" ")[0] for line in told.splitlines()}
