"""Bad input ends with status 2 and one line that names file, key and expectation; nothing is written."""

import hashlib
import shutil

import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

SNAKEMAKE_SAYS = ("Using workflow specific profile", "Config file ")


def refused(project, **options) -> str:
    """Plan a run, which must be refused, and return the line that says why."""
    result = project.run("--dry-run", **options)
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
def empty(few, tmp_path_factory):
    """A copy of the sources alone, whose configuration the tests break and mend."""
    folder = tmp_path_factory.mktemp("bad") / "project"
    shutil.copytree(few.folder, folder, symlinks=True, ignore=shutil.ignore_patterns(".snakemake", "releases"))
    shutil.copytree(few.folder / "config" / "releases", folder / "config" / "releases", dirs_exist_ok=True)
    return type(few)(folder)


CONFIGS = {
    "unknown key": ("config/config.yaml", "seed: 0", "seed: 0\nsede: 1", ("config.yaml", "sede", "unknown key")),
    "wrong type": ("config/config.yaml", "seed: 0", "seed: zero", ("config.yaml", "seed", "integer")),
    "a truth value for a number": ("config/config.yaml", "seed: 0", "seed: true", ("config.yaml", "seed", "integer")),
    "a number in quotes": (
        "config/models/dsp.yaml",
        "name: dsp",
        'name: dsp\nbatch_size: "64"',
        ("dsp.yaml", "batch_size", "integer"),
    ),
    "a regime without scenes": (
        "config/releases/base.yaml",
        "E-ID-DRONE: [low, mid, high]",
        "E-ID-DRONE: [low, mid, clean]",
        ("tiny.yaml", "stress_regimes.E-ID-DRONE", "clean"),
    ),
    "a band without scenes": (
        "config/releases/base.yaml",
        "frequency_band, held_out: [2.4GHz, 5.8GHz]",
        "frequency_band, held_out: [2.4GHz, 3.5GHz]",
        ("tiny.yaml", "tasks.E-LOC-LOS.secondary", "3.5GHz"),
    ),
    "a waveform without scenes": (
        "config/releases/base.yaml",
        "held_out: [drone-id-ofdm, drone-control-hops, drone-video-fm]",
        "held_out: [drone-id-ofdm, drone-control-hops, drone-video-am]",
        ("tiny.yaml", "tasks.E-ID-DRONE.secondary", "drone-video-am"),
    ),
    "wrong type of a release": (
        "config/releases/base.yaml",
        "{resamples: 1000,",
        "{resamples: many,",
        ("tiny.yaml", "bootstrap.resamples", "integer"),
    ),
    "key twice": ("config/models/dsp.yaml", "name: dsp", "name: dsp\nname: dsp", ("dsp.yaml", "twice")),
    "unknown key of a model": ("config/models/dsp.yaml", "name: dsp", "name: dsp\nbach: 1", ("dsp.yaml", "bach")),
    "no pretraining": ("config/models/dsp.yaml", "pretraining: {}", "", ("dsp.yaml", "pretraining", "required")),
    "an anchor in a model": ("config/models/dsp.yaml", "name: dsp", "name: dsp\nanchors: {}", ("dsp.yaml", "anchors")),
    "a view that no scene has": (
        "config/models/dsp.yaml",
        "name: dsp",
        "name: dsp\nview: csi",
        ("dsp.yaml", "view: csi", "no reference symbol", "expected tasks: [E-LOC-AOA, E-LOC-LOS, E-CH-BEAM, E-CH-CSI]"),
    ),
    "pickled weights": (
        "config/models/dsp.yaml",
        "name: dsp",
        f"name: dsp\nweights: w.pt\nweights_sha256: {'a' * 64}",
        ("dsp.yaml", "safetensors"),
    ),
    "unknown key of a task": (
        "config/releases/base.yaml",
        "    metric: AUC\n",
        "    metric: AUC\n    metrik: AUC\n",
        ("tiny.yaml", "metrik", "unknown key"),
    ),
    "unknown metric": ("config/releases/base.yaml", "metric: AUC\n", "metric: AUK\n", ("tiny.yaml", "AUK")),
    "one held-out value": (
        "config/releases/base.yaml",
        "held_out: [E_URBAN, E_RURAL]",
        "held_out: [E_URBAN]",
        ("tiny.yaml", "held_out", "two or more"),
    ),
    "an environment without scenes": (
        "config/releases/base.yaml",
        "held_out: [E_URBAN, E_RURAL]",
        "held_out: [E_URBAN, E_RURAL, E_MOON]",
        ("tiny.yaml", "held_out", "E_MOON"),
    ),
    "unknown key of the recipe": (
        "config/releases/base.yaml",
        "  link_chunk:",
        "  link_chonk: 1\n  link_chunk:",
        ("tiny.yaml", "link_chonk"),
    ),
    "wrong type in the recipe": (
        "config/releases/base.yaml",
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


OPTIONS = {
    "unknown key": (["sede=1"], ("config.yaml", "sede", "unknown key")),
    "wrong type": (["seed=zero"], ("config.yaml", "seed", "integer")),
    "unknown release": (["release=v9"], ("config.yaml", "release", "v9 is unknown", "tiny")),
    "unknown model": (["models=[dsp,nobody]"], ("config.yaml", "models", "nobody is unknown", "ssl_conv")),
    "no model": (["models=[]"], ("config.yaml", "models", "at least 1")),
    "another split": (["eval_split=TRAIN"], ("config.yaml", "eval_split", "HOLDOUT")),
    "HOLDOUT without its seed": (["eval_split=HOLDOUT"], ("config.yaml", "eval_split", "EMMA_HOLDOUT_SEED")),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_a_wrong_option_is_refused_before_any_job(empty, case):
    """The same of what stands on the command line after ``--config``."""
    options, said = OPTIONS[case]
    line = refused(empty, config=options)
    assert all(word in line for word in said), line
    assert not empty.results.exists()


def test_a_place_of_results_that_is_a_file_is_refused_before_any_job(empty):
    place = empty.folder / "results/releases"
    place.write_text("")
    try:
        assert refused(empty) == "results/releases: a file, expected a folder"
    finally:
        place.unlink()


@pytest.mark.parametrize("fault", ["another hash", "another shape"])
def test_a_network_that_cannot_be_taken_is_refused_before_any_job(empty, fault):
    shape = onnx.helper.make_tensor_value_info("iq", onnx.TensorProto.FLOAT, ["B", 2, 504])
    answer = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["B", 2])
    node = onnx.helper.make_node("ReduceMean", ["iq"], ["y"], axes=[2], keepdims=0)
    graph = onnx.helper.make_graph([node], "g", [shape], [answer])
    opset = [onnx.helper.make_opsetid("", 13)]
    data = onnx.helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()
    (empty.folder / "net.onnx").write_bytes(data)
    digest = "a" * 64 if fault == "another hash" else hashlib.sha256(data).hexdigest()
    config = f"name: net\nonnx: net.onnx\nweights_sha256: {digest}\npretraining: unknown\n"
    (empty.folder / "config/models/net.yaml").write_text(config)
    line = refused(empty, models="models=[net]")
    told = (
        "weights_sha256: net.onnx has "
        if fault == "another hash"
        else "E-LOC-AOA: embed: net.onnx: input iq [B, 2, 504]"
    )
    assert line.startswith(f"config/models/net.yaml: {told}")


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
    assert all(word in line for word in ("w.safetensors", "weights_sha256", "a" * 64)), line


def test_pickled_weights_are_refused_under_any_name(project):
    """A pickle that is called safetensors, with the right hash, is no weights: nothing of it runs."""
    trap = project.folder / "trapped"
    pickled = f"cbuiltins\nopen\n(V{trap}\nVw\ntR.".encode()
    (project.folder / "w.safetensors").write_bytes(pickled)
    config = project.folder / "config" / "models" / "mine.yaml"
    config.write_text(
        "name: mine\nfactory: emma.backbones.conv:ssl_conv\nweights: w.safetensors\n"
        f"weights_sha256: {hashlib.sha256(pickled).hexdigest()}\npretraining: unknown\n"
    )
    out = project.folder / "out" / "e.parquet"
    scenes = project.results / "scenes" / "E-LOC-AOA" / "DEV.parquet"
    line = refused_by(project, "embed", out, "--model-config", config, "--scenes", scenes, "--out", out)
    assert "expected a safetensors file" in line
    assert not trap.exists()


def test_broken_tables_are_refused(project):
    """A truncated Parquet file, NaN in the samples, and a scene that occurs twice."""
    scenes = project.results / "scenes" / "E-LOC-AOA" / "DEV.parquet"
    model = project.folder / "config" / "models" / "dsp.yaml"
    out = project.folder / "out" / "e.parquet"
    whole = scenes.read_bytes()
    table = pq.read_table(scenes)

    def embedding_line() -> str:
        return refused_by(project, "embed", out, "--model-config", model, "--scenes", scenes, "--out", out)

    scenes.write_bytes(whole[: len(whole) // 2])
    assert "complete Parquet" in embedding_line()
    position = table.schema.get_field_index("iq_scale")
    scale = table["iq_scale"].to_numpy().copy()
    scale[1] = float("nan")
    spoilt = pa.array(scale, from_pandas=False)
    pq.write_table(table.set_column(position, table.schema.field(position), spoilt), scenes)
    assert "NaN" in embedding_line()
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), scenes)
    assert "twice" in embedding_line()


FOLD = "leave-one-environment-out/E_URBAN"


def fit_arguments(project, **changed) -> dict:
    """Options of a fit that would succeed, with some changed; its outputs are in ``out``."""
    results = project.results
    folder, index = results / "splits/E-LOC-AOA" / FOLD, results / "scenes/E-LOC-AOA"
    options = {
        "manifest": results / "release/manifest.json",
        "task": "E-LOC-AOA",
        "protocol": "leave-one-environment-out",
        "value": "E_URBAN",
        "train": folder / "train.parquet",
        "eval": folder / "eval.parquet",
        "train_index": index / "TRAIN.index.parquet",
        "eval_index": index / "DEV.index.parquet",
        "eval_split": "DEV",
        "embeddings": results / "embeddings/dsp/E-LOC-AOA.parquet",
        "readout": project.folder / "out/readout.safetensors",
        "predictions": project.folder / "out/predictions.parquet",
    }
    return options | changed


def refused_fit(project, **changed) -> str:
    """Fit one fold, which must be refused with neither file written, and return the line that says why."""
    options = fit_arguments(project, **changed)
    arguments = [part for key, value in options.items() for part in (f"--{key.replace('_', '-')}", value)]
    line = refused_by(project, "fit_fold", options["predictions"], *arguments)
    assert not options["readout"].exists()
    return line


def test_a_swapped_split_is_refused(project):
    """Train and eval sides in each other's place never reach a score."""
    options = fit_arguments(project)
    train, evaluation = options["train"], options["eval"]
    line = refused_fit(project, train=evaluation, eval=train)
    assert "leave-one-environment-out E_URBAN" in line


def test_broken_inputs_of_a_fit_are_refused(project):
    """Truncated tables, repeated scenes, a changed manifest and names that are unknown."""
    options = fit_arguments(project)
    for key in ("train", "train_index", "embeddings"):
        whole = options[key].read_bytes()
        options[key].write_bytes(whole[: len(whole) // 2])
        line = refused_fit(project)
        assert options[key].name in line
        assert "complete Parquet" in line
        options[key].write_bytes(whole)
    table = pq.read_table(options["embeddings"])
    doubled = project.folder / "doubled.parquet"
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), doubled)
    assert "occurs twice" in refused_fit(project, embeddings=doubled)
    changed = project.folder / "manifest.json"
    changed.write_text(options["manifest"].read_text().replace('"seed": 7', '"seed": 8', 1))
    assert "data_release_hash" in refused_fit(project, manifest=changed)
    assert "expected one of leave-one-environment-out" in refused_fit(project, protocol="leave-one-planet-out")
    assert "expected one of E-LOC-AOA" in refused_fit(project, task="E-LOC-MARS")
    assert "--eval-split" in refused_fit(project, eval_split="TEST")


def test_broken_predictions_are_not_scored(project):
    """Predictions that are truncated, not finite, incomplete or of a scene twice give no metrics, of no fold."""
    folds = project.results / "folds/dsp/E-LOC-AOA"
    names = [
        f"{name}/{value}"
        for name in ("leave-one-environment-out", "in-distribution")
        for value in ("E_URBAN", "E_RURAL")
    ]
    path = folds / FOLD / "predictions.parquet"
    whole, table = path.read_bytes(), pq.read_table(path)
    column = table.schema.get_field_index("scores")
    spoilt = pa.array([[float("nan")]] * table.num_rows, pa.list_(pa.float64()))
    broken = {
        "complete Parquet": None,
        "NaN": table.set_column(column, table.schema.field(column), spoilt),
        "twice": pa.concat_tables([table, table.slice(0, 1)]),
        "is missing, expected the": table.slice(1),
        "undefined_reason: too few": table.slice(0, 0).replace_schema_metadata(
            {**table.schema.metadata, b"undefined_reason": b"too few"}
        ),
    }
    out = project.folder / "out"
    for said, content in broken.items():
        if content is None:
            path.write_bytes(whole[: len(whole) // 2])
        else:
            pq.write_table(content, path)
        line = refused_by(
            project, "score_task", out, "--manifest", project.results / "release/manifest.json", "--model", "dsp",
            "--task", "E-LOC-AOA", "--predictions", *(folds / name / "predictions.parquet" for name in names),
            "--folds", *(project.results / "splits/E-LOC-AOA" / name / "eval.parquet" for name in names),
            "--metrics", *(out / name / "metrics.json" for name in names), "--seed", "0",
            "--replicates", out / "replicates.parquet",
        )  # fmt: skip
        assert said in line
        assert f"{FOLD}/predictions.parquet" in line


def test_a_refused_job_stops_the_run_and_leaves_no_output(project):
    """In the workflow too: a broken table stops the run, the log names it in one line, and no score is written."""
    embeddings = project.results / "embeddings/dsp/E-LOC-AOA.parquet"
    whole = embeddings.read_bytes()
    embeddings.write_bytes(whole[: len(whole) // 2])
    fold = project.results / "folds/dsp/E-LOC-AOA" / FOLD
    result = project.run((fold / "predictions.parquet").relative_to(project.folder).as_posix())
    assert result.returncode == 1
    log = project.results / "logs/fit/dsp/E-LOC-AOA" / f"{FOLD}.log"
    (line,) = log.read_text().splitlines()
    assert embeddings.name in line
    assert "Traceback" not in result.stdout + result.stderr
    assert not (fold / "predictions.parquet").exists()
    assert not list(project.results.rglob(".tmp-*"))


def test_names_that_the_generator_does_not_know_are_refused(project):
    """A split or task that is none, and a table of another kind in the place of rays."""
    release = "config/releases/few.yaml"
    out = project.folder / "out" / "made.parquet"
    made = ("--release-config", release, "--out", out)
    assert "--split" in refused_by(project, "make_channels", out, *made, "--split", "TEST")
    rays, index = project.results / "channels/DEV.parquet", project.results / "scenes/E-LOC-AOA/DEV.index.parquet"
    made = (*made, "--index", out.with_name("index.parquet"), "--split", "DEV")
    line = refused_by(project, "make_scenes", out, *made, "--task", "E-LOC-MARS", "--channels", rays)
    assert "expected one of E-LOC-AOA" in line
    line = refused_by(project, "make_scenes", out, *made, "--task", "E-LOC-AOA", "--channels", index)
    assert "expected a table of rays" in line
