"""Probe one model: neighbours, regularisation and label efficiency beside the pinned head, on every task it takes."""

from pathlib import Path

from common.errors import InputError, OneLineParser, natural, one_of, run_script
from common.files import write_json
from common.threads import one_thread
from emma.backbones.config import load_model_config
from emma.data.embeddings import Embeddings
from emma.data.release import load_manifest, read_assigned
from emma.data.tables import without_pandas
from emma.evaluation.probes import ModelProbes, TaskFolds, probe_task
from emma.results.layout import Layout
from emma.tasks import Split


def main() -> None:
    """Probe the frozen embeddings task by task and write one JSON record."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--model-config", type=Path, required=True, help="config/models/NAME.yaml")
    parser.add_argument("--results", type=Path, required=True, help="the release's results, with embeddings and scenes")
    parser.add_argument("--eval-split", type=one_of(Split), required=True, help="DEV or HOLDOUT")
    parser.add_argument("--seed", type=natural, required=True, help="the run's seed, which draws fit scenes")
    parser.add_argument("--out", type=Path, required=True, help="probes/MODEL.json")
    arguments = parser.parse_args()
    manifest, model = load_manifest(arguments.manifest), load_model_config(arguments.model_config)
    layout, tasks, provenance = Layout(arguments.results), {}, None
    for task in (task for task in manifest.tasks if task in model.tasks):
        splits = (Split.TRAIN, arguments.eval_split)
        sides = [read_assigned(manifest, task, split, layout.index(task, split)) for split in splits]
        folds = TaskFolds(manifest.spec(task), *sides)
        embeddings = Embeddings.read(layout.embeddings(model.name, task))
        if embeddings.unsuited is not None:
            raise InputError(f"{embeddings.source}: {embeddings.unsuited}")
        provenance = embeddings.provenance
        embedded = tuple(embeddings.of(index["scene_id"]) for index in (folds.train, folds.evaluation))
        with one_thread():
            tasks[task] = probe_task(folds, embedded, arguments.seed)
    if provenance is None:
        raise InputError(
            f"{arguments.model_config}: tasks: none of release {manifest.release}'s, expected at least one"
        )
    record = ModelProbes(
        model=model.name,
        kind=model.kind,
        release=manifest.release,
        data_release_hash=manifest.data_release_hash,
        eval_split=arguments.eval_split.value.lower(),
        seed=arguments.seed,
        model_provenance=provenance,
        tasks=tasks,
    )
    write_json(arguments.out, record.model_dump(mode="json"))


if __name__ == "__main__":
    run_script(main)
