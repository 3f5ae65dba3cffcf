"""Write the train and eval scenes of every fold of one task: ids, roles and labels."""

import argparse
from pathlib import Path

from emma.files import run_script
from emma.protocols import task_protocols, write_fold
from emma.release import load_manifest, read_assigned
from emma.tasks import Split, TaskID


def main() -> None:
    """Build each fold from the frozen indexes and write its two tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--manifest", type=Path, required=True, help="the DataReleaseManifest")
    parser.add_argument("--task", required=True, help="a task of the release")
    parser.add_argument("--scenes", type=Path, required=True, help="folder TASK/SPLIT.index.parquet")
    parser.add_argument("--eval-split", type=Split, required=True, help="DEV or HOLDOUT")
    parser.add_argument("--seed", type=int, required=True, help="the run's seed, which draws enrolment sessions")
    parser.add_argument("--out", type=Path, required=True, help="folder for PROTOCOL/VALUE/{train,eval}.parquet")
    arguments = parser.parse_args()
    manifest = load_manifest(arguments.manifest)
    spec, task = manifest.spec(arguments.task), TaskID(arguments.task)
    train, evaluation = (
        read_assigned(manifest, task, split, arguments.scenes / task / f"{split}.index.parquet")
        for split in (Split.TRAIN, arguments.eval_split)
    )
    for name, protocol in task_protocols(spec, manifest.stress_regimes.get(task, ())).items():
        for value in protocol.eval_values():
            fold = protocol.fold(value, train, evaluation, arguments.seed)
            write_fold(arguments.out / name / value, fold)


if __name__ == "__main__":
    run_script(main)
