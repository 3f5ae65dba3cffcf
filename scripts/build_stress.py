"""Build the stress report: every scored task under leave-one-SNR-regime-out, beside its own protocol."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import write_json
from emma.data.release import load_manifest
from emma.data.tables import without_pandas
from emma.results.runs import stress_report


def main() -> None:
    """Read the stress folds' metrics of every model and write one JSON report."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    files = "files MODEL/TASK/PROTOCOL/VALUE/metrics.json of the stress folds"
    parser.add_argument("--metrics", type=Path, nargs="*", required=True, help=files)
    parser.add_argument("--out", type=Path, required=True, help="reports/stress.json")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    write_json(arguments.out, stress_report(manifest, arguments.metrics).model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
