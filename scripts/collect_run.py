"""Collect the metrics of one model's folds into its run record, with the RunManifest."""

from pathlib import Path

from common.errors import OneLineParser, natural, one_of, run_script
from common.files import write_json
from emma.backbones.config import load_model_config
from emma.data.release import load_manifest
from emma.data.tables import without_pandas
from emma.results.runs import collect_run
from emma.tasks import Split


def main() -> None:
    """Read every metrics file of the board's folds and write ``runs/MODEL.json``."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml")
    files = "files MODEL/TASK/PROTOCOL/VALUE/metrics.json"
    parser.add_argument("--metrics", type=Path, nargs="+", required=True, help=files)
    parser.add_argument("--eval-split", type=one_of(Split), required=True, help="DEV or HOLDOUT")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed")
    parser.add_argument("--out", type=Path, required=True, help="the run record, JSON")
    arguments = parser.parse_args()
    config = load_model_config(arguments.model_config)
    manifest = load_manifest(arguments.manifest)
    run = collect_run(manifest, config, arguments.metrics, seed=arguments.seed, eval_split=arguments.eval_split)
    write_json(arguments.out, run.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
