"""A complete run in seconds: a release of random samples, scored by the library as the workflow's programs do it."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml

from common.files import parse, read_json, write_json, write_text
from common.hashing import content_hash
from emma.backbones.base import Prior
from emma.backbones.config import load_model_config
from emma.backbones.embed import write_embeddings
from emma.backbones.inputs import Contract
from emma.backbones.load import load_backbone
from emma.captures.adapters import REAL_SPLIT
from emma.captures.records import CaptureRecord, Conversion, ConversionRecord
from emma.captures.report import read_gaps, report_text, sim_to_real_report
from emma.captures.scoring import board_record, capture_record, capture_spec, read_sides, score_capture
from emma.captures.settings import CaptureSet, Labels
from emma.data.embeddings import Embeddings
from emma.data.folds import read_fold, write_side
from emma.data.freezing import freeze
from emma.data.labels import label_field, labels_beside, read_labels
from emma.data.protocols import board_protocols, task_protocols
from emma.data.provenance import Provenance
from emma.data.release import (
    load_manifest,
    load_release_config,
    manifest_record,
    read_assigned,
    split_record,
)
from emma.data.scenes import SceneChunk, read_index, write_scenes
from emma.data.tables import write_table
from emma.evaluation.fitting import check_complete, fit_fold, read_fitted, write_fitted
from emma.evaluation.replicates import ReplicateSource, primary_replicates, write_replicates
from emma.evaluation.scoring import fold_record, score_task
from emma.report.captures import read_report
from emma.report.drawing import build_figures, images
from emma.report.latex import texts
from emma.report.page import build_page
from emma.results.frames import board_csv
from emma.results.layout import Layout
from emma.results.leaderboard import build_board
from emma.results.records import Board, RunRecord
from emma.results.runs import collect_run, stress_report
from emma.tasks import Split
from emma.version import HARNESS_VERSION

RELEASE = {
    "release": "mini",
    "seed": 1,
    "caveats": ["Random samples: the scores mean nothing."],
    "bootstrap": {"resamples": 100, "level": 0.95},
    "stress_regimes": {"E-LOC-LOS": ["low", "high"]},
    "rfgen": {},
    "tasks": {
        "E-LOC-AOA": {
            "target": "angle",
            "readout": {"kind": "ridge", "regularisation": [0.0001, 0.001, 0.01], "max_parameters": 100},
            "metric": "MeanAngularError",
            "unit": "degrees",
            "ood_axis": "environment",
            "held_out": ["E_URBAN", "E_RURAL"],
            "in_ood_avg": True,
            "anchors": {"minimum": 0.0, "maximum": 90.0},
        },
        "E-LOC-LOS": {
            "target": "binary",
            "classes": ["NLOS", "LOS"],
            "readout": {
                "kind": "logistic",
                "regularisation": [0.001, 0.01, 0.1],
                "class_balanced": True,
                "max_parameters": 100,
            },
            "metric": "BalancedAccuracy",
            "unit": "1",
            "ood_axis": "environment",
            "held_out": ["E_URBAN", "E_RURAL"],
            "secondary": [{"ood_axis": "frequency_band", "held_out": ["2.4GHz", "5.8GHz"], "layered": True}],
            "in_ood_avg": True,
            "anchors": {"minimum": 0.5, "maximum": 1.0},
        },
        "E-SC-ANOM": {
            "target": "anomaly",
            "classes": ["normal", "anomalous"],
            "readout": {"kind": "mahalanobis", "components": 4, "regularisation": [], "max_parameters": 100},
            "metric": "AUROC",
            "unit": "1",
            "ood_axis": "environment",
            "held_out": ["E_URBAN", "E_RURAL"],
            "in_ood_avg": False,
            "anchors": {"minimum": 0.5, "maximum": 1.0},
        },
        "E-ID-FP": {
            "target": "enrolled_class",
            "classes": ["U01", "U02", "U03"],
            "readout": {"kind": "discriminant", "regularisation": [0.1, 0.3], "max_parameters": 100},
            "metric": "Top1Accuracy",
            "unit": "1",
            "secondary_metrics": ["EER"],
            "ood_axis": "device",
            "held_out": ["U01", "U02", "U03"],
            "in_ood_avg": True,
            "anchors": {"minimum": 0.3333333333333333, "maximum": 1.0},
        },
        "E-CH-CSI": {
            "target": "channel",
            "shape": [2, 3],
            "readout": {
                "kind": "reduced_ridge",
                "regularisation": [0.001, 0.01, 0.1],
                "components": 2,
                "max_parameters": 100,
            },
            "metric": "NMSE",
            "unit": "dB",
            "ood_axis": "environment",
            "held_out": ["E_URBAN", "E_RURAL"],
            "in_ood_avg": False,
            "anchors": {"minimum": -20.0, "maximum": 0.0},
        },
        "E-S2T-QA": {
            "target": "answer",
            "shape": [2],
            "readout": {
                "kind": "answers",
                "regularisation": [0.001, 0.01, 0.1],
                "max_parameters": 100,
                "questions": {
                    "presence": {"texts": ["Is it there?", "Is anything there?"], "answers": ["yes", "no"]},
                    "count": {"texts": ["How many?"], "answers": ["none", "one of them"]},
                },
            },
            "metric": "ExactMatch",
            "unit": "1",
            "secondary_metrics": ["F1"],
            "ood_axis": "snr_regime",
            "held_out": ["low", "high"],
            "in_ood_avg": False,
            "anchors": {"minimum": 0.5, "maximum": 1.0},
        },
    },
}
#: A surrogate of captured scenes: other noise, in whole sessions.
CAPTURES = {
    "name": "mini_los",
    "kind": "surrogate",
    "task": "E-LOC-LOS",
    "source": "random samples",
    "licence": "as the project's",
    "session": "recording",
    "caveats": ["A surrogate: it says nothing of the air."],
    "twin": "release",
    "surrogate": {"sessions": 4},
}
MODELS = {
    "prior": {"name": "prior", "factory": "emma.backbones.base:prior", "pretraining": {}},
    "few": {
        "name": "few",
        "factory": "elsewhere:few",
        "normalise": "none",
        "pretraining": {"environments": ["E_URBAN"]},
    },
    "many": {"name": "many", "factory": "elsewhere:many", "normalise": "none", "pretraining": "unknown"},
}
#: The module of the project's own models, as a file of it.
ELSEWHERE = """
import numpy as np


class Moments:
    def __init__(self, name, width):
        self.name, self.embedding_dim = name, width

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        return np.ascontiguousarray(iq[:, 0, : self.embedding_dim].real).astype(np.float32)


def few(weights):
    return Moments("few", 2)


def many(weights):
    return Moments("many", 6)
"""


class Moments:
    """The first samples of a scene as features: enough for scores that differ."""

    def __init__(self, name, width):
        self.name, self.embedding_dim = name, width

    def embed(self, iq, sample_rate_hz, center_frequency_hz):
        del sample_rate_hz, center_frequency_hz
        return np.ascontiguousarray(iq[:, 0, : self.embedding_dim].real).astype(np.float32)


def _columns(task, split, rng):
    """Metadata and label columns of a task's scenes in a split, and numbers that bear the label."""
    rows = []
    if task == "E-ID-FP":
        for unit, device in enumerate(["U01", "U02", "U03"]):
            for session in range(3):
                place = {"device": device, "session": f"{split}-{device}-{session}", "receiver": f"R{session}{unit}"}
                rows += [place | {"class": device, "signal": float(unit), "frequency_band": "2.4GHz"}] * 2
    else:
        for environment in ("E_URBAN", "E_RURAL"):
            for band in ("2.4GHz", "5.8GHz"):
                for number in range(8):
                    place = {"environment": environment, "frequency_band": band}
                    if task == "E-LOC-AOA":
                        azimuth = float(rng.uniform(0, 360))
                        rows.append(place | {"azimuth_deg": azimuth, "signal": np.cos(np.deg2rad(azimuth))})
                    elif task == "E-CH-CSI":
                        signal = rng.normal()
                        channel = rng.normal(size=12) + signal * np.arange(12.0)
                        rows.append(place | {"channel": channel.tolist(), "signal": signal})
                    elif task == "E-SC-ANOM":
                        wrong = number // 2 % 2 if split == "DEV" else 0
                        rows.append(place | {"class": ["normal", "anomalous"][wrong], "signal": wrong})
                    elif task == "E-S2T-QA":
                        there = number // 2 % 2
                        asked = ["Is it there?", "Is anything there?"][number // 4]
                        qa = [asked, ["no", "yes"][there], "How many?", ["none", "one of them"][there]]
                        rows.append(place | {"qa": qa, "signal": there})
                    else:
                        rows.append(place | {"class": ["NLOS", "LOS"][number // 2 % 2], "signal": number // 2 % 2})
    names = ("environment", "device", "session", "receiver", "waveform", "frequency_band")
    columns = {name: [row.get(name) for row in rows] for name in names}
    n = len(rows)
    columns |= {"task": [task] * n, "split": [split] * n}
    columns |= {"snr_regime": [("low", "high")[i % 2] for i in range(n)], "snr_db": [10.0] * n}
    columns |= {"sample_rate_hz": [1e6] * n, "center_frequency_hz": [2.4e9] * n}
    columns |= {"link_id": [f"{split}-{task}-{i}" for i in range(n)]}
    known = ("azimuth_deg", "class", "channel", "qa")
    labels = {name: [row[name] for row in rows] for name in known if name in rows[0]}
    return columns, labels, np.array([row["signal"] for row in rows], float)


def build(project: Path, seed: int = 0, splits=("TRAIN", "DEV")) -> Path:
    """Write ``project/config`` and ``project/results``; returns the results."""
    results = project / "results"
    folders = {"releases": {"mini": RELEASE}, "models": MODELS, "captures": {"mini_los": CAPTURES}}
    for folder, entries in folders.items():
        for name, value in entries.items():
            write_text(project / "config" / folder / f"{name}.yaml", yaml.safe_dump(value))
    write_text(project / "elsewhere.py", ELSEWHERE)
    config = load_release_config(project / "config/releases/mini.yaml")
    indexes, links = {}, {split: [] for split in splits}
    for task in config.tasks:
        for split in splits:
            rng = np.random.default_rng([len(task), splits.index(split)])
            columns, labels, signal = _columns(task.value, split, rng)
            links[split] += columns["link_id"]
            iq = rng.normal(size=(len(signal), 1, 8)) + 1j * rng.normal(size=(len(signal), 1, 8))
            iq[:, 0, :] += signal[:, None]
            path = results / "scenes" / task.value / f"{split}.parquet"
            indexes.setdefault(task, {})[Split(split)] = path.with_suffix(".index.parquet")
            chunk = SceneChunk(iq.astype(np.complex64), columns, labels)
            write_scenes(path, indexes[task][Split(split)], [chunk], label_field(config.tasks[task]))
    for split, ids in links.items():
        write_table(results / "channels" / f"{split}.parquet", pa.table({"link_id": ids}))
    write_json(results / "release/manifest.json", manifest_record(freeze(config, indexes, "0", "0" * 64)))
    manifest = load_manifest(results / "release/manifest.json")
    backbones = {"prior": Prior(), "few": Moments("few", 2), "many": Moments("many", 6)}
    for task, spec in manifest.tasks.items():
        assigned = tuple(
            read_assigned(manifest, task, split, indexes[task][split]) for split in (Split.TRAIN, Split.DEV)
        )
        protocols = task_protocols(spec, manifest.stress_regimes.get(task, ()))
        for name, protocol in protocols.items():
            for value in protocol.eval_values():
                fold = protocol.fold(value, *assigned, seed)
                for side in ("train", "eval"):
                    write_side(
                        results / "splits" / task.value / name / value / f"{side}.parquet",
                        fold,
                        side,
                        manifest.data_release_hash,
                    )
        for model, backbone in backbones.items():
            _score(project, manifest, task, (model, backbone), protocols, assigned, seed)
    _runs(project, manifest, seed)
    _captures(project, manifest, backbones, seed)
    publish_board(results)
    return results


def _score(project, manifest, task, entry, protocols, assigned, seed):
    results, (model, backbone) = project / "results", entry
    spec = manifest.tasks[task]
    config = load_model_config(project / f"config/models/{model}.yaml")
    stand_in = config.model_copy(update={"factory": "emma.backbones.base:prior"})
    provenance = load_backbone(stand_in)[1].model_copy(update=dict(Provenance.of(model, config, config.pretraining)))
    table = results / "embeddings" / model / f"{task.value}.parquet"
    scenes = [results / "scenes" / task.value / f"{split}.parquet" for split in ("TRAIN", "DEV")]
    write_embeddings(table, backbone, scenes, contract=Contract(normalise="none"), provenance=provenance)
    embeddings, folds, read = Embeddings.read(table), {}, {}
    for name, protocol in protocols.items():
        for value in protocol.eval_values():
            split = results / "splits" / task.value / name / value
            fold = read_fold(split / "train.parquet", split / "eval.parquet", name, value, manifest.data_release_hash)
            place = results / "folds" / model / task.value / name / value
            files = place / "readout.safetensors", place / "predictions.parquet"
            fitted = fit_fold(spec, protocol, fold, assigned, embeddings)
            write_fitted(*files, fitted, manifest.data_release_hash, provenance)
            read[name, value] = found = read_fitted(files[1], manifest.data_release_hash, seed)
            check_complete(files[1], found.predictions, split / "eval.parquet", name, value)
            folds.setdefault(name, {})[value] = found.predicted
    scored, replicates = score_task(spec, task.value, folds, manifest.bootstrap, seed)
    board = board_protocols(spec)
    for place, fold in read.items():
        record = fold_record(model, task, place, scored, fold, manifest.data_release_hash, seed)
        path = results.joinpath("folds", model, task.value, *place, "metrics.json")
        write_json(path, record.model_dump(mode="json"))
    made = (model, task.value, manifest.data_release_hash, seed, "dev")
    for kind in ("score", "stress"):
        own = {key: draws for key, draws in replicates.items() if (key[0] in board) == (kind == "score")}
        if own:
            path = results / "folds" / model / task.value / f"{kind}_replicates.parquet"
            write_replicates(path, own, ReplicateSource(*made))


def _runs(project, manifest, seed):
    results = project / "results"
    metrics = sorted((results / "folds").glob("*/*/*/*/metrics.json"))
    for model in MODELS:
        config = load_model_config(project / f"config/models/{model}.yaml")
        own = [path for path in metrics if path.parts[-5] == model]
        run = collect_run(manifest, config, own, seed=seed, eval_split=Split.DEV)
        write_json(results / "runs" / f"{model}.json", run.model_dump(mode="json"))
    stressed = [path for path in metrics if path.parts[-4] in RELEASE["stress_regimes"]]
    stress = [path for path in stressed if path.parts[-3] == "leave-one-snr-regime-out"]
    write_json(results / "reports/stress.json", stress_report(manifest, stress).model_dump(mode="json"))


def _captures(project, manifest, backbones, seed):
    """Captured scenes, every model's scores on them, and the sim-to-real report."""
    results = project / "results"
    declared = parse(CaptureSet, CAPTURES, "captures")
    folder = results / "captures" / declared.name
    rng = np.random.default_rng(5)
    columns, labels, signal = _columns(declared.task.value, REAL_SPLIT, rng)
    columns |= {"session": [f"recording-{i // 8}" for i in range(len(signal))]}
    iq = rng.normal(size=(len(signal), 1, 8)) + 1j * rng.normal(size=(len(signal), 1, 8)) + 0.5 * signal[:, None, None]
    path, label = folder / "index.parquet", label_field(manifest.spec(declared.task))
    write_scenes(folder / "scenes.parquet", path, [SceneChunk(iq.astype(np.complex64), columns, labels)], label)
    frozen = split_record(read_index(path), read_labels(labels_beside(path), label))
    facts = {"adapter": "sigmf", "set": declared.name, "task": declared.task, "split": REAL_SPLIT, "scene": None}
    facts |= {"mapping": Labels(), "converts": {}, "cannot_give": (), "geometry_wavelengths": None, "files_sha256": {}}
    facts |= {"sessions": 4, "disjoint": frozen.scenes, "caveats": (), **frozen.model_dump()}
    content = Conversion(**facts)
    record = ConversionRecord(**facts, record_sha256=content_hash(content.model_dump(mode="json")))
    write_json(folder / "record.json", record.model_dump(mode="json"))
    spec = capture_spec(manifest.spec(declared.task), declared)
    for model, backbone in backbones.items():
        run = parse(RunRecord, read_json(results / "runs" / f"{model}.json"), model)
        table, scenes = folder / model / "embeddings.parquet", [folder / "scenes.parquet"]
        provenance = run.run_manifest.model_provenance
        write_embeddings(table, backbone, scenes, contract=Contract(normalise="none"), provenance=provenance)
        sides = read_sides(manifest, declared, Layout(results), model, Embeddings.read(table))
        board = board_record(declared, lambda run=run: run)
        scores, tables = score_capture(spec, declared, manifest, sides, board, seed)
        for side, predictions in tables.items():
            path = folder / model / f"{side}.parquet"
            write_table(path, predictions, {"data_release_hash": manifest.data_release_hash})
        made = capture_record(model, declared, record, manifest, Split.DEV, seed, scores, provenance)
        write_json(folder / model / "metrics.json", made.model_dump(mode="json"))
    publish_gap(results)


def publish_gap(results: Path) -> None:
    """Build the sim-to-real report from the scores on captured scenes."""
    manifest = load_manifest(results / "release/manifest.json")
    declared = parse(CaptureSet, CAPTURES, "captures")
    folder = results / "captures" / declared.name
    runs = [parse(RunRecord, read_json(path), path) for path in sorted((results / "runs").glob("*.json"))]
    scores = {run.model: {task: block.score for task, block in run.tasks.items()} for run in runs}
    sets = {declared.name: (declared, parse(ConversionRecord, read_json(folder / "record.json"), folder))}
    records = [parse(CaptureRecord, read_json(folder / run.model / "metrics.json"), folder / run.model) for run in runs]
    report = sim_to_real_report(manifest, sets, records, scores, Split.DEV, runs[0].run_manifest.seed)
    write_json(results / "reports/sim_to_real.json", report.model_dump(mode="json"))
    write_text(results / "reports/sim_to_real.md", report_text(report))


def publish_board(results: Path) -> None:
    """Build the board and its files from the run records, as the workflow's program does."""
    manifest = load_manifest(results / "release/manifest.json")
    runs = {str(path): parse(RunRecord, read_json(path), path) for path in sorted((results / "runs").glob("*.json"))}
    paths = sorted((results / "folds").glob("*/*/score_replicates.parquet"))
    files = [(*Layout.model_task_of(path), path) for path in paths]
    first = next(iter(runs.values()))
    replicates = primary_replicates(manifest, files, first.run_manifest.seed, first.eval_split)
    gaps = read_gaps(results / "reports/sim_to_real.json", manifest, runs)
    board, aggregation = build_board(manifest, runs, replicates, gaps)
    write_json(results / "leaderboard.json", board.model_dump(mode="json"))
    write_json(results / "leaderboard.schema.json", Board.model_json_schema())
    write_json(results / "reports/aggregation.json", aggregation.model_dump(mode="json"))
    write_text(results / "leaderboard.csv", board_csv(board))


def publish_page(results: Path) -> None:
    """Draw what people read of the board, as the workflow's program does."""
    board = parse(Board, read_json(results / "leaderboard.json"), results)
    report = read_report(results / "reports/sim_to_real.json", board)
    drawn = build_figures(board, load_manifest(results / "release/manifest.json"), report)
    for name, content in images(drawn, [row.model for row in board.models]).items():
        path = results / "figures" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    for kind, text in {"html": build_page(board, drawn, report), **texts(board)}.items():
        write_text(results / f"leaderboard.{kind}", text)


def make_bundle(results, folder, model="guest"):
    """A bundle with the predictions of the miniature's model `many`, its rows shuffled, its targets wrong."""
    manifest = load_manifest(results / "release/manifest.json")
    rng = np.random.default_rng(0)
    for path in sorted((results / "folds/many").glob("*/*/*/predictions.parquet")):
        task, protocol, value = path.parts[-4:-1]
        if protocol.endswith("leave-one-snr-regime-out") and task in manifest.stress_regimes:
            continue
        names = ["scene_id", "target", "scores"] + ["turn"] * (task == "E-ID-FP")
        table = pq.read_table(path).select(names).replace_schema_metadata()
        # The first scene's label on every row: of any type, and wrong.
        wrong = table["target"].take(np.zeros(table.num_rows, int))
        table = table.set_column(1, table.schema.field("target"), wrong).take(rng.permutation(table.num_rows))
        out = folder / "predictions" / task / protocol / f"{value}.parquet"
        out.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, out)
    parameters = {"E-LOC-AOA": 14, "E-LOC-LOS": 7, "E-ID-FP": 12, "E-SC-ANOM": 24, "E-CH-CSI": 28, "E-S2T-QA": 28}
    content = {
        "model": model,
        "pretraining": "unknown",
        "data_release_hash": manifest.data_release_hash,
        "harness_version": HARNESS_VERSION,
        "seed": 0,
        "readouts": {
            task.value: {"kind": spec.readout.kind, "embedding_dim": 6, "parameters": parameters[task.value]}
            for task, spec in manifest.tasks.items()
        },
    }
    (folder / "submission.yaml").write_text(yaml.safe_dump(content))
    return folder
