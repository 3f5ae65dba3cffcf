import ast
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rfgen
from common.streams import complex_normal, entropy, stream

SOURCE = Path(rfgen.__file__).parent


def test_digest_follows_names_and_content(tmp_path, monkeypatch) -> None:
    first = rfgen.source_digest()
    assert len(first) == 64
    assert first == rfgen.source_digest()
    copy = tmp_path / "rfgen"
    shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(rfgen, "__file__", str(copy / "__init__.py"))
    assert rfgen.source_digest() == first
    (copy / "notes.txt").write_text("not code")
    assert rfgen.source_digest() == first
    (copy / "physics" / "arrays.py").rename(copy / "physics" / "array.py")
    renamed = rfgen.source_digest()
    (copy / "physics" / "array.py").write_text("")
    assert len({first, renamed, rfgen.source_digest()}) == 3


def test_knows_nothing_of_the_other_packages() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {n.split(".")[0] for n in names} & {"emma", "floor_events", "snakemake"}, path


def test_scenes_need_neither_torch_nor_sionna() -> None:
    code = "import sys, rfgen.scenes, rfgen.channels; print(sorted({'torch', 'sionna', 'scipy'} & set(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": str(SOURCE.parent)}, check=True, capture_output=True, text=True
    )
    assert run.stdout.strip() == "[]"


def test_streams_are_named_by_seed_and_key() -> None:
    names = [(0,), (1,), ("0",), (0, "a"), (0, "b"), (0, "a", 1), (0, "a", "1"), (0, "ab"), (0, "a", "b")]
    assert len({entropy(*name) for name in names}) == len(names)
    assert np.array_equal(stream(0, "a").random(5), stream(0, "a").random(5))


@pytest.mark.parametrize("seed", [True, None, 1.5, b"0"])
def test_seed_of_another_type(seed) -> None:
    with pytest.raises(ValueError, match=r"^seed: expected an integer or a string"):
        stream(seed, "x")


def test_complex_normal_is_circular_and_of_unit_power() -> None:
    z = complex_normal(stream(0, "z"), (100, 1000))
    assert z.shape == (100, 1000)
    assert np.mean(np.abs(z) ** 2) == pytest.approx(1, abs=0.02)
    assert abs(np.mean(z**2)) < 0.02
