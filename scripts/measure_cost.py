"""Count what a frozen backbone costs: parameters, multiply-accumulates per scene, width, bytes, dead features."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import parse, parse_json, write_json
from common.rows import RowFile
from common.threads import one_thread
from emma.backbones.apart import made_apart
from emma.backbones.config import load_model_config
from emma.backbones.cost import cost_of, first_batches
from emma.backbones.dense import contracts_of
from emma.backbones.load import load_backbone, weights_file
from emma.data.costs import Cost
from emma.data.embeddings import Embeddings
from emma.data.scenes import read_index
from emma.data.tables import without_pandas
from emma.results.layout import Layout
from emma.tasks import TaskID


def main() -> None:
    """Run one batch of each task under counters, look at the embeddings of its TRAIN scenes, write one record."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml")
    parser.add_argument("--scenes", type=Path, nargs="+", required=True, help="scene files TASK/TRAIN.parquet")
    parser.add_argument("--indexes", type=Path, nargs="+", required=True, help="their indexes, in the same order")
    parser.add_argument("--embeddings", type=Path, nargs="+", required=True, help="their embeddings, in the same order")
    windows_help = "windows of tasks where each is embedded by itself: TASK=SAMPLES/HOP"
    parser.add_argument("--windows", nargs="*", default=[], help=windows_help)
    parser.add_argument("--weights", type=Path, help="weights that a rule of the workflow made")
    parser.add_argument("--out", type=Path, required=True, help="the record (JSON)")
    arguments = parser.parse_args()
    config = load_model_config(arguments.model_config)
    paths, trained = {}, {}
    for path, index, embeddings in zip(arguments.scenes, arguments.indexes, arguments.embeddings, strict=True):
        task = TaskID(Layout.split_of(path)[0])
        paths[task] = path
        trained[task] = Embeddings.read(embeddings, only=read_index(index)["scene_id"], bounded=True).values
    scenes = first_batches(paths, config.batch_size)
    contracts, made = contracts_of(config, arguments.windows), arguments.weights and arguments.weights.absolute()

    def count(root: Path) -> bytes:
        with one_thread():
            backbone, provenance = load_backbone(config, root, made)
            weights = weights_file(config, root, made)
            return cost_of(config, backbone, provenance, scenes, trained, weights, contracts).model_dump_json().encode()

    kept = [values.fileno() for values in trained.values() if isinstance(values, RowFile)]
    told = made_apart(config, count, weights=weights_file(config, Path.cwd(), made), kept=kept)
    cost = parse(Cost, parse_json(told, f"model {config.name}: cost"), f"model {config.name}: cost")
    write_json(arguments.out, cost.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
