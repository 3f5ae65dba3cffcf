"""Build the leaderboard from the run records: JSON, its schema, CSV, and the aggregation report."""

from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.files import parse, read_json, write_json, write_text
from emma.captures.report import read_gaps
from emma.data.costs import read_cost
from emma.data.release import load_manifest
from emma.data.tables import without_pandas
from emma.evaluation.replicates import primary_replicates
from emma.results.frames import board_csv
from emma.results.layout import Layout
from emma.results.leaderboard import build_board, check_provenance
from emma.results.records import Board, RunRecord


def main() -> None:
    """Rank the runs and write everything that shows the ranking."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="run records, one per model")
    files = "files MODEL/TASK/score_replicates.parquet"
    parser.add_argument("--replicates", type=Path, nargs="+", required=True, help=files)
    parser.add_argument("--sim-to-real", type=Path, help="reports/sim_to_real.json, where captures are configured")
    parser.add_argument("--costs", type=Path, nargs="*", default=[], help="costs/MODEL.json")
    parser.add_argument("--board", type=Path, required=True, help="leaderboard.json")
    parser.add_argument("--schema", type=Path, required=True, help="its JSON Schema")
    parser.add_argument("--csv", type=Path, required=True, help="leaderboard.csv")
    parser.add_argument("--aggregation", type=Path, required=True, help="reports/aggregation.json")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    if len(set(arguments.runs)) != len(arguments.runs):
        raise InputError("--runs: a run record is given twice, expected each once")
    runs = {str(path): parse(RunRecord, read_json(path), path) for path in arguments.runs}
    check_provenance(manifest, runs)
    first = next(iter(runs.values()))
    files = [(*Layout.model_task_of(path), path) for path in arguments.replicates]
    replicates = primary_replicates(manifest, files, first.run_manifest.seed, first.eval_split)
    gaps = read_gaps(arguments.sim_to_real, manifest, runs) if arguments.sim_to_real else None
    costs = {cost.model: cost for cost in map(read_cost, arguments.costs)}
    board, aggregation = build_board(manifest, runs, replicates, gaps, costs)
    write_json(arguments.aggregation, aggregation.model_dump(mode="json"))
    write_text(arguments.csv, board_csv(board))
    write_json(arguments.schema, Board.model_json_schema())
    write_json(arguments.board, board.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
