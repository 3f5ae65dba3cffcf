"""An oracle's config, and its embeddings by the generator: every scene's own row, by its id."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from common.errors import InputError
from emma.audit.verify.draws import Draw
from emma.audit.verify.embedded import Reembedded
from emma.audit.verify.samples import Samples
from emma.backbones.config import load_model_config
from emma.backbones.load import load_backbone
from emma.data.embeddings import Embeddings
from emma.data.labels import label_field
from emma.data.release import load_release_config
from emma.data.scenes import SceneChunk, read_index, write_scenes
from emma.data.tables import write_table
from emma.results.layout import Layout
from rfgen import channels, scenes
from rfgen.recipe import Recipe

ROOT = Path(__file__).parents[3]
MODEL = ROOT / "config" / "models" / "oracle.yaml"
RELEASE = ROOT / "config" / "releases" / "tiny.yaml"


def changed(tmp_path: Path, **keys: object) -> Path:
    text = MODEL.read_text() + "".join(f"{key}: {json.dumps(value)}\n" for key, value in keys.items())
    (tmp_path / "oracle.yaml").write_text(text)
    return tmp_path / "oracle.yaml"


def test_an_oracle_has_nothing_of_its_own(tmp_path: Path) -> None:
    config = load_model_config(MODEL)
    assert (config.kind, config.truth) == ("oracle", True)
    with pytest.raises(InputError, match="model oracle: truth: the generator writes its embeddings"):
        load_backbone(config)
    with pytest.raises(InputError, match="truth: the generator's, expected no factory"):
        load_model_config(changed(tmp_path, factory="emma.backbones.dsp:build"))
    text = MODEL.read_text()
    for one, other in (("kind: oracle", "kind: reference"), ("truth: true", "factory: emma.backbones.dsp:build")):
        (tmp_path / "oracle.yaml").write_text(text.replace(one, other))
        with pytest.raises(InputError, match="truth: expected with kind oracle, and only then"):
            load_model_config(tmp_path / "oracle.yaml")


def test_every_scene_gets_its_own_truth(tmp_path: Path) -> None:
    """The program on two splits; rows by scene id are what the generator says of the chunk that the scene is in."""
    config, task = load_release_config(RELEASE), "E-LOC-AOA"
    recipe = Recipe.from_mapping(config.rfgen)
    expected, files = {}, {"channels": [], "indexes": []}
    for split in ("TRAIN", "DEV"):
        rays = channels.split_table(recipe, split, config.seed)
        write_table(tmp_path / f"{split}.rays.parquet", rays)
        chunks = list(scenes.generate(recipe, task, split, rays, config.seed))
        index = tmp_path / f"{split}.index.parquet"
        cut = (SceneChunk.of(chunk) for chunk in chunks)
        write_scenes(tmp_path / f"{split}.parquet", index, cut, label_field(config.tasks[task]))
        ids = iter(read_index(index)["scene_id"].to_pylist())
        for key in reversed(scenes.chunk_keys(recipe, task, split)):
            made = next(scenes.truths(recipe, task, split, rays, config.seed, chunk_keys=[key]))
            expected[split, key] = made
        ordered = np.concatenate([expected[split, chunk.key] for chunk in chunks])
        expected |= dict(zip(ids, ordered, strict=True))
        files["channels"].append(tmp_path / f"{split}.rays.parquet")
        files["indexes"].append(index)
    out = tmp_path / "oracle.parquet"
    options = {
        "release-config": [RELEASE],
        "model-config": [MODEL],
        "task": [task],
        "splits": ["TRAIN", "DEV"],
        **files,
    }
    words = [word for key, values in (options | {"out": [out]}).items() for word in (f"--{key}", *map(str, values))]
    subprocess.run([sys.executable, ROOT / "scripts" / "make_truth.py", *words], check=True)
    made = Embeddings.read(out)
    assert made.provenance.name == "oracle"
    for scene, row in zip(made.ids.to_pylist(), made.values, strict=True):
        np.testing.assert_allclose(row, expected[scene], rtol=1e-6)
    # An index of fewer scenes is not the recipe's.
    words[words.index(str(files["indexes"][1]))] = str(files["indexes"][0])
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_truth.py", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "expected" in done.stderr
    assert done.stderr.count("\n") == 1


def test_nobody_embeds_an_oracle_again() -> None:
    """The deep check asks no backbone for its embeddings: those of the generator are made again."""
    results = SimpleNamespace(
        code=ROOT,
        project=ROOT,
        layout=Layout("results"),
        models=lambda: ["oracle"],
        is_submitted=lambda _: False,
        tasks_of=lambda _: ["E-LOC-AOA"],
    )
    check = Reembedded(Samples(Draw(0)))
    check.run(results)
    assert (check.checked, check.missed, check.faults) == (0, [], [])
