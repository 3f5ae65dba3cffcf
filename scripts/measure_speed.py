"""Measure how fast the models embed on this machine, each in a fresh process: scenes per second and peak memory."""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.files import parse, parse_json, write_json
from common.threads import one_thread
from emma.backbones.apart import made_apart
from emma.backbones.config import ModelConfig, load_model_config
from emma.backbones.dense import contracts_of
from emma.backbones.load import load_backbone, weights_file
from emma.backbones.speed import SCENES, Speed, libraries, measure, speed_report
from emma.data.scenes import first_scenes
from emma.data.tables import without_pandas
from emma.results.layout import Layout
from emma.tasks import TaskID


def main() -> None:
    """Measure one model and print its record, or start a process for each of several and write the report."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--model-configs", type=Path, nargs="+", required=True, help="files config/models/NAME.yaml")
    parser.add_argument("--scenes", type=Path, nargs="+", required=True, help="scene files TASK/SPLIT.parquet")
    parser.add_argument("--results", type=Path, required=True, help="folder of the results, whose weights are used")
    windows_help = "windows of tasks where each is embedded by itself: TASK=SAMPLES/HOP"
    parser.add_argument("--windows", nargs="*", default=[], help=windows_help)
    parser.add_argument("--out", type=Path, help="the report (JSON); without it, one model's record is printed")
    arguments = parser.parse_args()
    if arguments.out is None:
        for path in arguments.model_configs:
            sys.stdout.write(_measured(load_model_config(path), arguments).model_dump_json())
        return
    models = {}
    for path in arguments.model_configs:
        options = ["--scenes", *arguments.scenes, "--results", arguments.results, "--model-configs", path]
        options += ["--windows", *arguments.windows] if arguments.windows else []
        command = [sys.executable, __file__, *map(str, options)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise InputError((done.stderr.strip().splitlines() or [f"{path}: ended with status {done.returncode}"])[-1])
        models[path.stem] = parse(Speed, json.loads(done.stdout), path)
    write_json(arguments.out, speed_report(models).model_dump(mode="json"))


def _measured(config: ModelConfig, arguments: argparse.Namespace) -> Speed:
    """One model on the tasks that it takes."""
    trained = Layout(arguments.results).weights(config.name) if config.pretrain else None
    scenes = {TaskID(Layout.split_of(path)[0]): path for path in arguments.scenes}
    given = {task: first_scenes(path, SCENES, verify=False) for task, path in scenes.items() if task in config.tasks}
    contracts, made = contracts_of(config, arguments.windows), trained and trained.absolute()

    def run(root: Path) -> bytes:
        with one_thread():
            start = time.perf_counter()
            backbone, provenance = load_backbone(config, root, made)
            seconds = round(time.perf_counter() - start, 2)
            tasks = {
                task: measure(backbone, iq, index, contracts.get(task, config)) for task, (index, iq) in given.items()
            }
        speed = Speed(device=provenance.device, load_seconds=seconds, libraries=libraries(), tasks=tasks)
        return speed.model_dump_json().encode()

    told = made_apart(config, run, weights=weights_file(config, Path.cwd(), made))
    return parse(Speed, parse_json(told, f"model {config.name}: speed"), f"model {config.name}: speed")


if __name__ == "__main__":
    run_script(main)
