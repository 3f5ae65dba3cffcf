"""Score one model on every capture set: what its readouts predict of captured scenes, and the gap to synthetic ones."""

from pathlib import Path

import pyarrow as pa

from common.errors import OneLineParser, one_of, run_script
from common.files import parse, read_json, read_yaml, write_json
from common.threads import one_thread
from emma.captures.records import CaptureScores, ConversionRecord
from emma.captures.scoring import board_record, capture_record, capture_spec, read_sides, score_capture, unscored
from emma.captures.settings import CaptureSet
from emma.data.embeddings import Embeddings
from emma.data.release import DataReleaseManifest, load_manifest
from emma.data.tables import without_pandas, write_table
from emma.results.layout import Layout
from emma.results.records import RunRecord
from emma.tasks import Split


def main() -> None:
    """Write metrics.json and every prediction that it rests on, for every set."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--model", required=True, help="the model's name")
    parser.add_argument("--captures", type=Path, nargs="+", required=True, help="files config/captures/SET.yaml")
    parser.add_argument("--results", type=Path, required=True, help="the release's results, with its captures/")
    parser.add_argument("--eval-split", type=one_of(Split), required=True, help="DEV or HOLDOUT")
    parser.add_argument("--seed", type=int, required=True, help="the run's seed, which draws resamples")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    for path in arguments.captures:
        declared = parse(CaptureSet, read_yaml(path), path)
        with one_thread():
            score(manifest, declared, Layout(arguments.results), arguments.model, arguments.eval_split, arguments.seed)


def score(
    manifest: DataReleaseManifest, declared: CaptureSet, layout: Layout, model: str, eval_split: Split, seed: int
) -> None:
    """One model on one set."""
    path = layout.conversion(declared.name)
    conversion = parse(ConversionRecord, read_json(path), path)
    place = (model, declared, conversion, manifest, eval_split, seed)
    embeddings = Embeddings.read(layout.capture_embeddings(declared.name, model))
    board = board_record(declared, lambda: parse(RunRecord, read_json(layout.run(model)), layout.run(model)))
    tables: dict[str, pa.Table] = {}
    if reason := unscored(embeddings, board):
        scores = CaptureScores(undefined_reason=reason)
    else:
        sides = read_sides(manifest, declared, layout, model, embeddings)
        spec = capture_spec(manifest.spec(declared.task), declared)
        scores, tables = score_capture(spec, declared, manifest, sides, board, seed)
    metrics = layout.capture_metrics(declared.name, model)
    written = {layout.capture_predictions(declared.name, model, name): table for name, table in tables.items()}
    for path in metrics.parent.glob("*.parquet"):
        if path not in written and path != layout.capture_embeddings(declared.name, model):
            path.unlink()
    for path, table in written.items():
        write_table(path, table, {"data_release_hash": manifest.data_release_hash})
    record = capture_record(*place, scores, embeddings.provenance)
    write_json(metrics, record.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
