"""Build the sim-to-real report from the records of every model and capture set."""

from pathlib import Path

from common.errors import OneLineParser, one_of, run_script
from common.files import parse, read_json, read_yaml, write_json, write_text
from emma.captures.records import CaptureRecord, ConversionRecord
from emma.captures.report import report_text, sim_to_real_report
from emma.captures.settings import CaptureSet
from emma.data.release import load_manifest
from emma.data.tables import without_pandas
from emma.results.records import RunRecord
from emma.tasks import Split


def main() -> None:
    """Write the report as JSON and as a table."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--captures", type=Path, nargs="+", required=True, help="files config/captures/SET.yaml")
    parser.add_argument(
        "--records", type=Path, nargs="+", required=True, help="conversion records, one per set, in order"
    )
    parser.add_argument("--metrics", type=Path, nargs="+", required=True, help="files captures/SET/MODEL/metrics.json")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="run records, for the release's own scores")
    parser.add_argument("--eval-split", type=one_of(Split), required=True, help="DEV or HOLDOUT")
    parser.add_argument("--seed", type=int, required=True, help="the run's seed")
    parser.add_argument("--out", type=Path, required=True, help="reports/sim_to_real.json")
    parser.add_argument("--table", type=Path, required=True, help="reports/sim_to_real.md")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    sets = {}
    for path, record in zip(arguments.captures, arguments.records, strict=True):
        declared = parse(CaptureSet, read_yaml(path), path)
        sets[declared.name] = (declared, parse(ConversionRecord, read_json(record), record))
    runs = [parse(RunRecord, read_json(path), path) for path in arguments.runs]
    scores = {run.model: {task: block.score for task, block in run.tasks.items()} for run in runs}
    metrics = [parse(CaptureRecord, read_json(path), path) for path in arguments.metrics]
    report = sim_to_real_report(manifest, sets, metrics, scores, arguments.eval_split, arguments.seed)
    write_text(arguments.table, report_text(report))
    write_json(arguments.out, report.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
