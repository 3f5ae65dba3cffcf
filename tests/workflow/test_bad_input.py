"""Bad input ends with status 2 and one line that names file, key and expectation; nothing is written."""

import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SNAKEMAKE_SAYS = ("Using workflow specific profile", "Config file ")


def refused(project, *arguments: str) -> str:
    """Plan a run, which must be refused, and return the line that says why."""
    result = project.run("--dry-run", *arguments)
    assert result.returncode == 2, result.stdout + result.stderr
    lines = [line for line in (result.stdout + result.stderr).splitlines() if not line.startswith(SNAKEMAKE_SAYS)]
    assert len(lines) == 1, lines
    return lines[0]


def refused_by(project, script: str, out, *arguments: object) -> str:
    """Run a program, which must refuse, leave nothing behind, and say why in one line."""
    result = project.script(script, *arguments)
    assert result.returncode == 2, result.stderr
    (line,) = result.stderr.splitlines()
    assert not out.exists()
    assert not list(out.parent.glob(".tmp-*"))
    return line


@pytest.fixture(scope="module")
def empty(finished, tmp_path_factory):
    """A copy of the sources alone, whose configuration the tests break and mend."""
    folder = tmp_path_factory.mktemp("bad") / "project"
    shutil.copytree(finished.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(".snakemake", "releases"))
    shutil.copytree(finished.folder / "config" / "releases", folder / "config" / "releases", dirs_exist_ok=True)
    return type(finished)(folder)


CONFIGS = {
    "unknown key": ("config/config.yaml", "seed: 0", "seed: 0\nsede: 1", ("config.yaml", "sede", "unknown key")),
    "wrong type": ("config/config.yaml", "seed: 0", "seed: zero", ("config.yaml", "seed", "integer")),
    "key twice": ("config/models/dsp.yaml", "name: dsp", "name: dsp\nname: dsp", ("dsp.yaml", "twice")),
    "unknown key of a model": ("config/models/dsp.yaml", "name: dsp", "name: dsp\nbach: 1", ("dsp.yaml", "bach")),
    "no pretraining": ("config/models/dsp.yaml", "pretraining: {}", "", ("dsp.yaml", "pretraining", "required")),
    "an anchor in a model": ("config/models/dsp.yaml", "name: dsp", "name: dsp\nanchors: {}", ("dsp.yaml", "anchors")),
    "pickled weights": (
        "config/models/dsp.yaml",
        "name: dsp",
        f"name: dsp\nweights: w.pt\nweights_sha256: {'a' * 64}",
        ("dsp.yaml", "safetensors"),
    ),
    "unknown key of a task": (
        "config/releases/tiny.yaml",
        "    metric: AUC\n",
        "    metric: AUC\n    metrik: AUC\n",
        ("tiny.yaml", "metrik", "unknown key"),
    ),
    "unknown metric": ("config/releases/tiny.yaml", "metric: AUC\n", "metric: AUK\n", ("tiny.yaml", "AUK")),
    "one held-out value": (
        "config/releases/tiny.yaml",
        "held_out: [E_URBAN, E_RURAL]",
        "held_out: [E_URBAN]",
        ("tiny.yaml", "held_out", "two or more"),
    ),
    "an environment without scenes": (
        "config/releases/tiny.yaml",
        "held_out: [E_URBAN, E_RURAL]",
        "held_out: [E_URBAN, E_RURAL, E_MOON]",
        ("tiny.yaml", "held_out", "E_MOON"),
    ),
    "unknown key of the recipe": (
        "config/releases/tiny.yaml",
        "  link_chunk:",
        "  link_chonk: 1\n  link_chunk:",
        ("tiny.yaml", "link_chonk"),
    ),
    "wrong type in the recipe": (
        "config/releases/tiny.yaml",
        "gain_db: [-20.0, 20.0]",
        "gain_db: loud",
        ("tiny.yaml", "gain_db"),
    ),
}


@pytest.mark.parametrize("case", CONFIGS)
def test_a_wrong_configuration_is_refused_before_any_job(empty, case):
    """Whatever a configuration alone shows to be wrong is refused when the run is planned."""
    name, old, new, said = CONFIGS[case]
    path = empty.folder / name
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new, 1))
    try:
        line = refused(empty)
    finally:
        path.write_text(before)
    assert all(word in line for word in said), line


def test_unknown_names_and_a_missing_seed_are_refused(empty):
    """Unknown release, unknown model, and HOLDOUT without its seed."""
    config = empty.folder / "config" / "config.yaml"
    before = config.read_text()
    result = empty.run("--dry-run", models="models=[prior,nobody]")
    assert result.returncode == 2
    assert "nobody is unknown" in result.stderr
    try:
        config.write_text(before.replace("eval_split: DEV", "eval_split: HOLDOUT"))
        assert "EMMA_HOLDOUT_SEED" in refused(empty)
    finally:
        config.write_text(before)


def test_weights_of_another_hash_are_refused(project):
    """Weights must be those that the model's config pins."""
    (project.folder / "w.safetensors").write_bytes(b"\x02\x00\x00\x00\x00\x00\x00\x00{}")
    config = project.folder / "config" / "models" / "mine.yaml"
    config.write_text(
        "name: mine\nfactory: emma.backbones.conv:ssl_conv\nweights: w.safetensors\n"
        f"weights_sha256: {'a' * 64}\npretraining: unknown\n"
    )
    out = project.folder / "out" / "e.parquet"
    scenes = project.results / "scenes" / "E-LOC-AOA" / "DEV.parquet"
    line = refused_by(project, "embed", out, "--model-config", config, "--scenes", scenes, "--out", out)
    assert "w.safetensors" in line
    assert "weights_sha256" in line


def test_broken_tables_are_refused(project):
    """A truncated Parquet file, NaN in the samples, and a scene that stands twice."""
    scenes = project.results / "scenes" / "E-LOC-AOA" / "DEV.parquet"
    model = project.folder / "config" / "models" / "dsp.yaml"
    out = project.folder / "out" / "e.parquet"
    whole = scenes.read_bytes()
    table = pq.read_table(scenes)

    def embedding_line() -> str:
        return refused_by(project, "embed", out, "--model-config", model, "--scenes", scenes, "--out", out)

    scenes.write_bytes(whole[: len(whole) // 2])
    assert "complete Parquet" in embedding_line()
    position = table.schema.get_field_index("iq")
    samples = table["iq"].combine_chunks()
    flat = samples.flatten().to_numpy().copy()
    flat[100] = float("nan")
    spoilt = pa.FixedSizeListArray.from_arrays(pa.array(flat), type=samples.type)
    pq.write_table(table.set_column(position, table.schema.field(position), spoilt), scenes)
    assert "NaN" in embedding_line()
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), scenes)
    assert "twice" in embedding_line()


def test_a_swapped_split_is_refused(project):
    """Train and eval sides in each other's place never reach a score."""
    folder = project.results / "splits" / "E-LOC-AOA" / "leave-one-environment-out" / "E_URBAN"
    train, evaluation = (folder / f"{side}.parquet" for side in ("train", "eval"))
    swapped = train.read_bytes()
    train.write_bytes(evaluation.read_bytes())
    evaluation.write_bytes(swapped)
    out = project.folder / "out" / "predictions.parquet"
    index = project.results / "scenes" / "E-LOC-AOA"
    line = refused_by(
        project, "fit_fold", out, "--manifest", project.results / "release" / "manifest.json", "--task", "E-LOC-AOA",
        "--protocol", "leave-one-environment-out", "--value", "E_URBAN", "--train", train, "--eval", evaluation,
        "--train-index", index / "TRAIN.index.parquet", "--eval-index", index / "DEV.index.parquet",
        "--eval-split", "DEV", "--embeddings", project.results / "embeddings" / "dsp" / "E-LOC-AOA.parquet",
        "--readout", out.with_name("readout.safetensors"), "--predictions", out,
    )  # fmt: skip
    assert "leave-one-environment-out E_URBAN" in line
