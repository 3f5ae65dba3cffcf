"""Every kind of tampering is caught by the check that is about it, and named by the file that was touched."""

import json
import shutil

import emma_miniature as miniature
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load, save

from common.hashing import content_hash, table_hash
from emma.audit.verify import CHECKS, Results, verify
from emma.data.release import DataReleaseManifest, manifest_record
from emma.evaluation.fitting import predictions_hash

FOLD = "folds/many/E-LOC-LOS/leave-one-environment-out"
FP = "folds/many/E-ID-FP/leave-one-unit-out"
ANOM = "folds/many/E-SC-ANOM/leave-one-environment-out/E_URBAN"
CSI = "folds/many/E-CH-CSI/leave-one-environment-out/E_URBAN"
QA = "folds/many/E-S2T-QA/leave-one-snr-regime-out/low"
SPLIT = "splits/E-LOC-LOS/leave-one-environment-out"


def edit(path, change):
    """Change a JSON file in place."""
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def put(*keys, to):
    """A change that sets the entry at ``keys``."""

    def change(value):
        for key in keys[:-1]:
            value = value[key]
        value[keys[-1]] = to(value[keys[-1]]) if callable(to) else to

    return change


def rewrite(path, change):
    """Change a Parquet table in place, its metadata kept."""
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)


def with_column(name, change):
    def apply(table):
        place = table.schema.get_field_index(name)
        values = change(table[name].to_pylist())
        return table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))

    return apply


def rehash(results, place):
    """What a careful forger does after changing predictions: the hash beside them is made to match."""
    table = pq.read_table(results / place / "predictions.parquet")
    edit(results / place / "metrics.json", put("hashes", "predictions", to=predictions_hash(table)))


def scores_moved(results):
    rewrite(results / f"{FOLD}/E_URBAN/predictions.parquet", with_column("scores", lambda v: [[5.0], *v[1:]]))
    rehash(results, f"{FOLD}/E_URBAN")


def distance_moved(results):
    rewrite(results / ANOM / "predictions.parquet", with_column("scores", lambda v: [[-5.0], *v[1:]]))
    rehash(results, ANOM)


def tensor_moved(results):
    """One number of one channel, by little."""
    change = with_column("scores", lambda v: [[v[0][0] + 0.01, *v[0][1:]], *v[1:]])
    rewrite(results / CSI / "predictions.parquet", change)
    rehash(results, CSI)


def channel_moved(results):
    change = with_column("target", lambda v: [[v[0][0] + 0.01, *v[0][1:]], *v[1:]])
    rewrite(results / CSI / "predictions.parquet", change)
    rehash(results, CSI)


def answer_changed(results):
    rewrite(results / QA / "predictions.parquet", with_column("scores", lambda v: [["yes", "no"], *v[1:]]))
    rehash(results, QA)


def question_changed(results):
    """Another question where the answer would be right."""
    change = with_column("target", lambda v: [["How many?", *v[0][1:]], *v[1:]])
    rewrite(results / QA / "predictions.parquet", change)
    rehash(results, QA)


def swap(results, first, second):
    aside = results / "aside"
    (results / first).rename(aside)
    (results / second).rename(results / first)
    aside.rename(results / second)


def truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def other_readout(results):
    path = results / f"{FOLD}/E_RURAL/readout.safetensors"
    tensors = load(path.read_bytes())
    path.write_bytes(save(tensors | {"weights": tensors["weights"] * 2}))
    from common.hashing import sha256

    edit(results / f"{FOLD}/E_RURAL/metrics.json", put("hashes", "readout", to=sha256(path.read_bytes())))


def anchors_rehashed(results):
    def change(value):
        value["tasks"]["E-LOC-AOA"]["anchors"]["maximum"] = 180.0

    manifest_rehashed(results, change)


def manifest_rehashed(results, change):
    """What a careful forger does after changing a manifest: every hash in it is made to match."""
    path = results / "release/manifest.json"
    value = json.loads(path.read_text())
    change(value)
    fields = {key: value[key] for key in DataReleaseManifest.model_fields}
    path.write_text(json.dumps(manifest_record(DataReleaseManifest.model_validate_json(json.dumps(fields)))))


def rows_swapped(results):
    path = results / f"{FP}/U01/predictions.parquet"
    rewrite(path, lambda table: table.take(list(range(table.num_rows))[::-1]))


def leak(results):
    evaluation = pq.read_table(results / f"{SPLIT}/E_URBAN/eval.parquet")
    rewrite(results / f"{SPLIT}/E_URBAN/train.parquet", lambda table: pa.concat_tables([table, evaluation.slice(0, 1)]))


def edited_replicates(results):
    def change(values):
        return [[2.0, *values[0][1:]], *values[1:]]

    rewrite(results / "folds/few/E-ID-FP/score_replicates.parquet", with_column("replicates", change))


def sample_changed(results, place="scenes/E-LOC-AOA/TRAIN.parquet"):
    path = results / place
    table = pq.read_table(path)
    field = table.schema.field("iq")
    first, *rest = table["iq"].to_pylist()
    column = pa.array([bytes([first[0] ^ 1, *first[1:]]), *rest], field.type)
    pq.write_table(table.set_column(table.schema.get_field_index("iq"), field, column), path)


def embedding_changed(results):
    rewrite(
        results / "embeddings/many/E-LOC-LOS.parquet",
        with_column("embedding", lambda values: [[x + 3 for x in row] for row in values]),
    )


def other_release(results):
    path = results / f"{FOLD}/E_URBAN/predictions.parquet"
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata) | {b"data_release_hash": b"0" * 64}
    pq.write_table(table.replace_schema_metadata(metadata), path)


def hidden_model(results):
    (results / "runs/many.json").unlink()


def linked_elsewhere(results):
    path = results / "runs/many.json"
    shutil.move(path, results.parent / "many.json")
    path.symlink_to(results.parent / "many.json")


def target_changed(results):
    flip = with_column("target", lambda values: [1.0 - value for value in values])
    rewrite(results / f"{FOLD}/E_URBAN/predictions.parquet", flip)
    rehash(results, f"{FOLD}/E_URBAN")


def with_metadata(place, **said):
    """A change of a Parquet file's schema metadata alone."""

    def change(results):
        table = pq.read_table(results / place)
        more = {key.encode(): value.encode() for key, value in said.items()}
        pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **more}), results / place)

    return change


SET = "captures/mini_los"
GAP, CAPTURED = "reports/sim_to_real.json", f"{SET}/many/captured-E_URBAN.parquet"


def captured_moved(results):
    """Captured predictions turned around, and the hash beside them made to match."""
    rewrite(results / CAPTURED, with_column("scores", lambda values: [[-row[0]] for row in values]))
    edit(
        results / f"{SET}/many/metrics.json",
        put("hashes", "captured-E_URBAN", to=table_hash(pq.read_table(results / CAPTURED))),
    )


def captured_and_scored_again(results):
    """The same, with every number that follows from them, up to the board, made to match."""
    from emma.captures.scoring import board_record, capture_spec, scored
    from emma.captures.settings import CaptureSet
    from emma.data.labels import label_field
    from emma.data.release import load_manifest
    from emma.data.scenes import read_labelled

    captured_moved(results)
    manifest = load_manifest(results / "release/manifest.json")
    declared = CaptureSet.model_validate(miniature.CAPTURES)
    names = json.loads((results / f"{SET}/many/metrics.json").read_text())["hashes"]
    tables = {name: pq.read_table(results / f"{SET}/many/{name}.parquet") for name in names}
    spec = capture_spec(manifest.spec(declared.task), declared)
    captured = read_labelled(results / f"{SET}/index.parquet", label_field(spec))
    board = board_record(declared, lambda: Results(results).run("many"))
    again = scored(spec, declared, manifest, tables, captured, board, 0)
    edit(results / f"{SET}/many/metrics.json", lambda value: value.update(again.model_dump(mode="json")))
    miniature.publish_gap(results)
    miniature.publish_board(results)


def called_real(results):
    """Everything that the results say of the set calls it real; the board and the table too."""

    def change(report):
        report["kind"] = "real"
        block = report["sets"]["mini_los"]
        block["kind"] = block["declared"]["kind"] = "real"
        block["declared"]["surrogate"] = None
        for model in report["models"].values():
            model["kind"] = "real"
            for gap in [each for task in model["tasks"].values() for each in (task, task["matched"])]:
                gap["undefined"] = gap["undefined"] and gap["undefined"].replace("surrogate", "real")

    from emma.captures.records import SimToRealReport
    from emma.captures.report import report_text

    edit(results / GAP, change)
    report = SimToRealReport.model_validate_json((results / GAP).read_text())
    (results / "reports/sim_to_real.md").write_text(report_text(report))
    miniature.publish_board(results)
    for kind in ("json", "md"):
        (results / f"reports/sim_to_real.{kind}").rename(results / f"reports/sim_to_real_captures.{kind}")


def of_set(*keys, to):
    """A change of the conversion record whose own hash is made to match."""

    def change(value):
        put(*keys, to=to)(value)
        value.pop("record_sha256")
        value["record_sha256"] = content_hash(value)

    return lambda results: edit(results / f"{SET}/record.json", change)


def script_on_the_page(results):
    miniature.publish_page(results)
    path = results / "leaderboard.html"
    path.write_text(path.read_text().replace("</body>", "<script>alert(1)</script></body>"))


BOARD, RUN, METRICS = "leaderboard.json", "runs/many.json", f"{FOLD}/E_URBAN/metrics.json"
BUNDLE = f"{FOLD}/E_URBAN/predictions.parquet"


def of_json(path, *keys, to):
    return lambda results: edit(results / path, put(*keys, to=to))


#: kind: (what is done, the check that says so, the file that it names)
TAMPERINGS = {
    "average on the board": (of_json(BOARD, "models", 0, "ood_avg", to=0.99), "leaderboard", BOARD),
    "rank on the board": (of_json(BOARD, "models", 0, "rank", to=2), "leaderboard", BOARD),
    "interval on the board": (of_json(BOARD, "models", 0, "ood_avg_ci95", 0, to=0.5), "leaderboard", BOARD),
    "separability on the board": (
        of_json(BOARD, "models", 0, "separable_from_next", to=lambda v: not v),
        "leaderboard",
        BOARD,
    ),
    "jackknife on the board": (
        of_json(BOARD, "models", 0, "sensitivity", "leave_one_task_out", "min", to=0.1),
        "leaderboard",
        BOARD,
    ),
    "caveat dropped": (of_json(BOARD, "caveats", to=[]), "leaderboard", BOARD),
    "row dropped from the board": (
        lambda results: edit(results / BOARD, lambda value: value["models"].pop()),
        "provenance",
        BOARD,
    ),
    "foreign row on the board": (
        lambda results: edit(
            results / BOARD, lambda value: value["models"].append({**value["models"][0], "model": "ghost"})
        ),
        "files",
        "runs/ghost.json",
    ),
    "number in the CSV": (
        lambda results: (results / "leaderboard.csv").write_text(
            (results / "leaderboard.csv").read_text().replace("0.", "1.", 1)
        ),
        "leaderboard",
        "leaderboard.csv",
    ),
    "row dropped from the CSV": (
        lambda results: (results / "leaderboard.csv").write_text(
            "\n".join((results / "leaderboard.csv").read_text().split("\n")[:-2]) + "\n"
        ),
        "leaderboard",
        "leaderboard.csv",
    ),
    "schema loosened": (
        of_json("leaderboard.schema.json", "required", to=[]),
        "leaderboard",
        "leaderboard.schema.json",
    ),
    "p-value in the report": (
        of_json("reports/aggregation.json", "models", "few", "holm_p_value_against_next", to=1e-6),
        "leaderboard",
        "reports/aggregation.json",
    ),
    "stress score": (
        of_json("reports/stress.json", "models", "many", "E-LOC-LOS", "score", to=1.0),
        "stress report",
        "reports/stress.json",
    ),
    "score in a run": (of_json(RUN, "tasks", "E-LOC-LOS", "score", to=0.9), "run records", RUN),
    "number of scenes in a run": (
        of_json(RUN, "tasks", "E-LOC-LOS", "values", "E_URBAN", "n", to=4000),
        "run records",
        RUN,
    ),
    "bundle hash in a run": (
        of_json(RUN, "run_manifest", "prediction_bundle_hashes", "E-LOC-LOS", to="0" * 64),
        "run records",
        RUN,
    ),
    "metric in a RunManifest": (
        of_json(RUN, "run_manifest", "task_metrics", "E-LOC-LOS", "BalancedAccuracy", to=1.0),
        "run records",
        RUN,
    ),
    "seed of one run": (of_json("runs/prior.json", "run_manifest", "seed", to=5), "provenance", "runs/prior.json"),
    "split of one run": (of_json("runs/prior.json", "eval_split", to="holdout"), "provenance", "runs/prior.json"),
    "harness version of one run": (
        of_json(RUN, "run_manifest", "harness_version", to="9.9"),
        "provenance",
        RUN,
    ),
    "release hash of one run": (of_json(RUN, "run_manifest", "data_release_hash", to="0" * 64), "provenance", RUN),
    "pretraining denied": (
        of_json("runs/few.json", "run_manifest", "model_provenance", "pretraining", "environments", to=[]),
        "models",
        "runs/few.json",
    ),
    "backbone made a reference": (of_json(RUN, "kind", to="reference"), "models", RUN),
    "metric of a fold": (
        of_json(METRICS, "metrics", "BalancedAccuracy", "score", to=lambda v: v + 1e-4),
        "scores",
        METRICS,
    ),
    "interval of a fold": (of_json(METRICS, "metrics", "BalancedAccuracy", "ci95", 0, to=0.0), "scores", METRICS),
    "in-distribution value of a fold": (
        of_json(METRICS, "metrics", "BalancedAccuracy", "in_distribution", to=0.5),
        "scores",
        METRICS,
    ),
    "seed of a fold": (of_json(METRICS, "seed", to=3), "predictions", METRICS),
    "evaluation split of a fold": (of_json(METRICS, "eval_split", to="holdout"), "predictions", METRICS),
    "evaluation split of a bundle": (with_metadata(BUNDLE, eval_split="HOLDOUT"), "predictions", BUNDLE),
    "draw seed of a bundle": (
        with_metadata("folds/few/E-ID-FP/in-distribution/U01/predictions.parquet", draw_seed="1"),
        "predictions",
        "folds/few/E-ID-FP/in-distribution/U01/predictions.parquet",
    ),
    "draw seed of a fold": (
        with_metadata("splits/E-ID-FP/in-distribution/U01/eval.parquet", draw_seed="1"),
        "splits",
        "splits/E-ID-FP/in-distribution/U01/train.parquet",
    ),
    "turns of a bundle": (
        lambda results: rewrite(
            results / f"{FP}/U01/predictions.parquet",
            with_column("turn", lambda values: [(turn + 1) % 3 for turn in values]),
        ),
        "predictions",
        f"{FP}/U01/predictions.parquet",
    ),
    "turns of a fold": (
        lambda results: rewrite(
            results / "splits/E-ID-FP/leave-one-unit-out/U01/eval.parquet",
            with_column("turn", lambda values: [(turn + 1) % 3 for turn in values]),
        ),
        "splits",
        "splits/E-ID-FP/leave-one-unit-out/U01/eval.parquet",
    ),
    "reference of another draw": (
        lambda results: rewrite(
            results / "splits/E-LOC-LOS/in-distribution/E_URBAN/train.parquet", lambda table: table.slice(1)
        ),
        "splits",
        "splits/E-LOC-LOS/in-distribution/E_URBAN/train.parquet",
    ),
    "replicates of another seed": (
        with_metadata("folds/few/E-ID-FP/score_replicates.parquet", seed="1"),
        "scores",
        "folds/few/E-ID-FP/score_replicates.parquet",
    ),
    "replicates of another release": (
        with_metadata("folds/few/E-LOC-LOS/stress_replicates.parquet", data_release_hash="0" * 64),
        "scores",
        "folds/few/E-LOC-LOS/stress_replicates.parquet",
    ),
    "fold of another release": (
        with_metadata("splits/E-LOC-LOS/leave-one-environment-out/E_URBAN/eval.parquet", data_release_hash="0" * 64),
        "splits",
        "splits/E-LOC-LOS/leave-one-environment-out/E_URBAN/eval.parquet",
    ),
    "replicates": (edited_replicates, "scores", "folds/few/E-ID-FP/score_replicates.parquet"),
    "scores moved, hash made to match": (scores_moved, "readouts", BUNDLE),
    "distance moved, hash made to match": (distance_moved, "readouts", f"{ANOM}/predictions.parquet"),
    "number of a channel estimate, hash made to match": (tensor_moved, "readouts", f"{CSI}/predictions.parquet"),
    "number of a true channel, hash made to match": (channel_moved, "predictions", f"{CSI}/predictions.parquet"),
    "answer changed, hash made to match": (answer_changed, "readouts", f"{QA}/predictions.parquet"),
    "targets moved, hash made to match": (target_changed, "predictions", BUNDLE),
    "question changed, hash made to match": (question_changed, "predictions", f"{QA}/predictions.parquet"),
    "row dropped from a bundle": (
        lambda results: rewrite(results / BUNDLE, lambda table: table.slice(1)),
        "predictions",
        BUNDLE,
    ),
    "rows of a bundle reversed": (rows_swapped, "predictions", f"{FP}/U01/predictions.parquet"),
    "bundle truncated": (lambda results: truncate(results / BUNDLE), "predictions", BUNDLE),
    "bundle of another fold": (
        lambda results: shutil.copy(results / f"{FOLD}/E_RURAL/predictions.parquet", results / BUNDLE),
        "predictions",
        BUNDLE,
    ),
    "bundle of another model": (
        lambda results: shutil.copy(results / BUNDLE.replace("many", "few"), results / BUNDLE),
        "predictions",
        BUNDLE,
    ),
    "bundle of another release": (other_release, "predictions", BUNDLE),
    "fold folders swapped": (
        lambda results: swap(results, f"{FOLD}/E_URBAN", f"{FOLD}/E_RURAL"),
        "predictions",
        BUNDLE,
    ),
    "readout scaled, hash made to match": (other_readout, "readouts", f"{FOLD}/E_RURAL/predictions.parquet"),
    "score of a refit": (
        lambda results: rewrite(
            results / f"{FOLD}/E_URBAN/refits.parquet", with_column("scores", lambda v: [[5.0], *v[1:]])
        ),
        "readouts",
        f"{FOLD}/E_URBAN/refits.parquet",
    ),
    "readout truncated": (
        lambda results: truncate(results / f"{FOLD}/E_RURAL/readout.safetensors"),
        "readouts",
        f"{FOLD}/E_RURAL/readout.safetensors",
    ),
    "embeddings changed": (embedding_changed, "readouts", BUNDLE),
    "splits swapped": (
        lambda results: swap(results, f"{SPLIT}/E_URBAN/train.parquet", f"{SPLIT}/E_URBAN/eval.parquet"),
        "splits",
        f"{SPLIT}/E_URBAN/train.parquet",
    ),
    "scored scene leaked into the fit": (leak, "splits", f"{SPLIT}/E_URBAN/train.parquet"),
    "scored scene leaked into the fit, seen by the guard": (leak, "guards", f"{SPLIT}/E_URBAN"),
    "embeddings of another model": (
        lambda results: shutil.copy(
            results / "embeddings/few/E-LOC-LOS.parquet", results / "embeddings/many/E-LOC-LOS.parquet"
        ),
        "embeddings",
        "embeddings/many/E-LOC-LOS.parquet",
    ),
    "scene dropped from the embeddings": (
        lambda results: rewrite(results / "embeddings/many/E-LOC-LOS.parquet", lambda table: table.slice(1)),
        "embeddings",
        "embeddings/many/E-LOC-LOS.parquet",
    ),
    "anomaly shown to the fit": (
        lambda results: rewrite(
            results / ANOM.replace("folds/many", "splits") / "train.parquet",
            with_column("target", lambda values: [1.0, *values[1:]]),
        ),
        "splits",
        f"{ANOM.replace('folds/many', 'splits')}/train.parquet",
    ),
    "train scene dropped": (
        lambda results: rewrite(results / f"{SPLIT}/E_URBAN/train.parquet", lambda table: table.slice(1)),
        "splits",
        f"{SPLIT}/E_URBAN/train.parquet",
    ),
    "environment in an index": (
        lambda results: rewrite(
            results / "scenes/E-LOC-LOS/DEV.index.parquet", with_column("environment", lambda v: ["E_RURAL", *v[1:]])
        ),
        "indexes",
        "scenes/E-LOC-LOS/DEV.index.parquet",
    ),
    "label of a scene": (
        lambda results: rewrite(
            results / "scenes/E-LOC-LOS/DEV.labels.parquet", with_column("class", lambda v: ["LOS", *v[1:]])
        ),
        "indexes",
        "scenes/E-LOC-LOS/DEV.labels.parquet",
    ),
    "label dropped": (
        lambda results: rewrite(results / "scenes/E-LOC-LOS/DEV.labels.parquet", lambda table: table.slice(1)),
        "indexes",
        "scenes/E-LOC-LOS/DEV.labels.parquet",
    ),
    "sample of a scene": (sample_changed, "scenes", "scenes/E-LOC-AOA/TRAIN.parquet"),
    "sample of a captured scene": (
        lambda results: sample_changed(results, f"{SET}/scenes.parquet"),
        "scenes",
        f"{SET}/scenes.parquet",
    ),
    "link dropped from the rays": (
        lambda results: rewrite(results / "channels/DEV.parquet", lambda table: table.slice(1)),
        "channels",
        "channels/DEV.parquet",
    ),
    "link twice in the rays": (
        lambda results: rewrite(
            results / "channels/DEV.parquet", lambda table: pa.concat_tables([table, table.slice(0, 1)])
        ),
        "channels",
        "channels/DEV.parquet",
    ),
    "anchor in the manifest": (
        of_json("release/manifest.json", "tasks", "E-LOC-AOA", "anchors", "maximum", to=180.0),
        "manifest",
        "release/manifest.json",
    ),
    "anchor in the manifest, hash made to match": (anchors_rehashed, "manifest", "release/manifest.json"),
    "caveat in the manifest": (of_json("release/manifest.json", "caveats", to=[]), "manifest", "release/manifest.json"),
    "caveat in the manifest, hash made to match": (
        lambda results: manifest_rehashed(results, put("caveats", to=[])),
        "manifest",
        "release/manifest.json",
    ),
    "commitment in the manifest, hash made to match": (
        lambda results: manifest_rehashed(results, put("holdout", to={"seed_sha256": "1" * 64, "splits": {}})),
        "manifest",
        "release/manifest.json",
    ),
    "provenance in the manifest": (
        of_json("release/manifest.json", "provenance", "rfgen_source_sha256", to="1" * 64),
        "manifest",
        "release/manifest.json",
    ),
    "conversion record": (of_json(f"{SET}/record.json", "scenes", to=900), "captured scenes", f"{SET}/record.json"),
    "index in a conversion record, hash made to match": (
        of_set("index_hash", to="0" * 64),
        "captured scenes",
        f"{SET}/record.json",
    ),
    "label of a captured scene": (
        lambda results: rewrite(results / f"{SET}/labels.parquet", with_column("class", lambda v: ["LOS", *v[1:]])),
        "captured scenes",
        f"{SET}/record.json",
    ),
    "captured predictions": (
        lambda results: rewrite(results / CAPTURED, with_column("scores", lambda v: [[9.0], *v[1:]])),
        "captured scenes",
        CAPTURED,
    ),
    "captured predictions, hash made to match": (captured_moved, "captured scenes", f"{SET}/many/metrics.json"),
    "captured predictions, all that follows made to match": (captured_and_scored_again, "captured scenes", CAPTURED),
    "captured predictions of another release": (
        with_metadata(CAPTURED, data_release_hash="0" * 64),
        "captured scenes",
        CAPTURED,
    ),
    "captured score": (
        of_json(f"{SET}/few/metrics.json", "captured", "score", to=0.99),
        "captured scenes",
        f"{SET}/few/metrics.json",
    ),
    "seed of a captured score": (
        of_json(f"{SET}/few/metrics.json", "seed", to=9),
        "captured scenes",
        f"{SET}/few/metrics.json",
    ),
    "pretraining behind a captured score denied": (
        of_json(f"{SET}/few/metrics.json", "model_provenance", "pretraining", "environments", to=[]),
        "captured scenes",
        f"{SET}/few/metrics.json",
    ),
    "embeddings of captured scenes of another model": (
        lambda results: shutil.copy(
            results / f"{SET}/few/embeddings.parquet", results / f"{SET}/many/embeddings.parquet"
        ),
        "captured scenes",
        f"{SET}/many/embeddings.parquet",
    ),
    "captured score of another model": (
        lambda results: shutil.copy(results / f"{SET}/few/metrics.json", results / f"{SET}/many/metrics.json"),
        "captured scenes",
        f"{SET}/many/metrics.json",
    ),
    "embeddings of captured scenes changed": (
        lambda results: rewrite(
            results / f"{SET}/many/embeddings.parquet",
            with_column("embedding", lambda values: [[x + 3 for x in row] for row in values]),
        ),
        "captured scenes",
        CAPTURED,
    ),
    "surrogate called real": (called_real, "captured scenes", "reports/sim_to_real_captures.json"),
    "surrogate called real in the report alone": (of_json(GAP, "kind", to="real"), "sim-to-real report", GAP),
    "caveat of a captured set dropped": (
        of_json(GAP, "sets", "mini_los", "declared", "caveats", to=["None."]),
        "captured scenes",
        GAP,
    ),
    "gap in the report": (
        of_json(GAP, "models", "many", "gap_percentage_points", to=0.1),
        "sim-to-real report",
        GAP,
    ),
    "gap on the board": (
        of_json(BOARD, "models", 0, "sim_to_real", "gap_percentage_points", to=0.1),
        "sim-to-real report",
        BOARD,
    ),
    "gap in the report's table": (
        lambda results: (results / "reports/sim_to_real.md").write_text("No gap.\n"),
        "sim-to-real report",
        "reports/sim_to_real.md",
    ),
    "sim-to-real report removed": (lambda results: (results / GAP).unlink(), "sim-to-real report", GAP),
    "captured scores removed": (
        lambda results: (results / f"{SET}/few/metrics.json").unlink(),
        "files",
        f"{SET}/few/metrics.json",
    ),
    "script on the page": (script_on_the_page, "page", "leaderboard.html"),
    "run record removed": (hidden_model, "files", RUN),
    "run record behind a link": (linked_elsewhere, "files", RUN),
    "metrics file emptied": (lambda results: (results / METRICS).write_text(""), "files", METRICS),
    "temporary left over": (
        lambda results: (results / "runs/.tmp-x.json").write_text("{}"),
        "files",
        "runs/.tmp-x.json",
    ),
    "foreign bundle": (
        lambda results: shutil.copytree(results / f"{FP}/U01", results / f"{FP}/U09"),
        "files",
        f"{FP}/U09/predictions.parquet",
    ),
}


def test_the_untouched_results_verify(project):
    miniature.publish_page(project / "results")
    outcomes = verify(Results(project / "results", project))
    assert [str(outcome) for outcome in outcomes if not outcome.passed] == []
    assert all(outcome.checked for outcome in outcomes) and len(outcomes) == len(CHECKS)


def test_every_check_has_a_tampering_that_it_alone_must_name():
    assert {check for _, check, _ in TAMPERINGS.values()} == {check.name for check in CHECKS}


@pytest.mark.parametrize("kind", TAMPERINGS)
def test_tampering_is_named(project, kind, record_property):
    change, check, path = TAMPERINGS[kind]
    results = project / "results"
    change(results)
    outcomes = {outcome.name: outcome for outcome in verify(Results(results, project))}
    caught = [fault for fault in outcomes[check].faults if fault.startswith(str(results / path))]
    assert caught, "\n".join(str(outcome) for outcome in outcomes.values())
    assert all("\n" not in fault and "Traceback" not in fault for fault in caught)
    record_property(
        "caught", f"| {kind} | {check}: {caught[0].replace(f'{results}/', '').replace(f'{project}/', '')} |"
    )
