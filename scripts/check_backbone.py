"""Look at a backbone before a run: shape, finiteness, determinism, speed and more, in seconds, on 16 scenes per task.

One line per check. Status 1 where a check failed, 2 on bad input.
"""

import sys
from dataclasses import asdict
from multiprocessing.connection import Connection
from pathlib import Path

from generator import example_scenes

from common.errors import InputError, OneLineParser, run_script, unknown
from common.files import parse
from common.threads import one_thread
from emma.audit.checkup import Finding, Sample, Subject, examine, spread_sample
from emma.backbones.apart import Apart, tell
from emma.backbones.config import ModelConfig, load_model_config
from emma.backbones.load import load_backbone, weights_file
from emma.backbones.rights import Isolation, Rights
from emma.backbones.sight import check_view
from emma.data.release import (
    DataReleaseManifest,
    ReleaseConfig,
    load_manifest,
    load_release_config,
    release_names,
)
from emma.data.tables import without_pandas
from emma.results.layout import DEFAULT_RELEASE, Layout, results_folder
from emma.tasks import TaskID
from rfgen.recipe import Recipe
from workflow_support.pretraining import Known

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Load the scenes and the backbone, print one line per check and a verdict."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("model", help="NAME of config/models/NAME.yaml, or the path of a config")
    parser.add_argument("--results", type=Path, help="results whose scenes are used (default: results, if there)")
    release_help = (
        f"release whose tasks are looked at, by its name (default: that of the results, or {DEFAULT_RELEASE})"
    )
    parser.add_argument("--release", help=release_help)
    root_help = "folder that the config's paths start from (default: the project)"
    parser.add_argument("--root", type=Path, default=ROOT, help=root_help)
    arguments = parser.parse_args()
    is_path = arguments.model.endswith(".yaml")
    path = Path(arguments.model) if is_path else arguments.root / f"config/models/{arguments.model}.yaml"
    if not is_path and not path.is_file():
        raise InputError(f"model: {unknown(arguments.model, sorted(file.stem for file in path.parent.glob('*.yaml')))}")
    known = release_names(ROOT / "config/releases")
    if arguments.release is not None and arguments.release not in known:
        raise InputError(f"--release: {unknown(arguments.release, known)}")
    config = load_model_config(path)
    if arguments.results is not None and arguments.release is not None:
        raise InputError("--release: expected without --results, which are of a release of their own")
    layout = Layout(arguments.results or ROOT / results_folder(arguments.release or DEFAULT_RELEASE))
    release, source = _release(layout, arguments.release, asked=arguments.results is not None)
    recipe = parse(Recipe, release.rfgen, f"{source}: rfgen")
    Known(recipe, ROOT / "config" / "releases").check(config.pretraining, path)
    trained = layout.weights(config.name)
    if config.pretrain is not None and not trained.is_file():
        target = Layout(results_folder(release.release)).weights(config.name)
        again = f"emma run --release {release.release} --models {config.name} {target}"
        raise InputError(f"{trained}: no such file; in the project's folder, make it by: {again}")
    tasks = [task for task in release.tasks if task in config.tasks]
    if not tasks:
        raise InputError(f"{path}: tasks: none of release {release.release}'s, expected at least one (see --release)")
    try:
        check_view(config, tasks, release, path)
    except InputError as error:
        raise InputError(f"{error} (see --release)") from None
    # The model runs in a process of its own, in a folder of its own: paths there are absolute.
    root, made = arguments.root.resolve(), trained.absolute() if config.pretrain else None
    weights = weights_file(config, root, made)
    subject = Subject(
        config,
        release.tasks,
        _samples(release, source, layout, tasks),
        lambda: load_backbone(config, root, made),
        weights=weights,
        private=layout.root.absolute(),
        recipe=release.rfgen,
    )
    _tell_scenes(config, subject.samples)
    findings = _examined(subject, Rights.of(config, root, weights, (layout.root,)))
    faults = sum(finding.state == "FAULT" for finding in findings)
    sys.stdout.write(f"{config.name}: {f'{faults} of {len(findings)} checks failed' if faults else 'ready'}\n")
    raise SystemExit(1 if faults else 0)


def _examined(subject: Subject, rights: Rights) -> list[Finding]:
    """Run the checks where the model has no more rights than in a job that embeds, and say each as it comes."""

    def examine_there(pipe: Connection, isolation: Isolation) -> None:
        subject.isolation = isolation
        with one_thread():
            examine(subject, lambda finding: tell(pipe, **asdict(finding)))
        tell(pipe, done=True)

    findings: list[Finding] = []
    with Apart(f"model {subject.config.name}", rights, examine_there) as process:
        try:
            while "done" not in (word := process.ask()):
                findings.append(Finding(*(str(word.get(key)) for key in ("name", "state", "text"))))
                _tell(findings[-1])
        except InputError as error:
            findings.append(Finding("process", "FAULT", str(error)))
            _tell(findings[-1])
    return findings


def _release(layout: Layout, name: str | None, *, asked: bool) -> tuple[ReleaseConfig | DataReleaseManifest, Path]:
    """The release of finished results; without any, and unless they were asked for, the config of the one named."""
    manifest = layout.manifest
    if asked or manifest.is_file():
        return load_manifest(manifest), manifest
    path = ROOT / f"config/releases/{name or DEFAULT_RELEASE}.yaml"
    return load_release_config(path), path


def _samples(
    release: ReleaseConfig | DataReleaseManifest, source: Path, layout: Layout, tasks: list[TaskID]
) -> dict[TaskID, Sample]:
    """Scenes of each task: frozen ones where they are, else made here."""
    paths = {task: layout.scenes(task, "DEV") for task in tasks}
    return {
        task: spread_sample(path) if path.is_file() else Sample(*example_scenes(release, source, task))
        for task, path in paths.items()
    }


def _tell_scenes(config: ModelConfig, samples: dict[TaskID, Sample]) -> None:
    """One line for tasks whose scenes are alike, of files that have the task's name."""
    alike: dict[str, list[str]] = {}
    for task, sample in samples.items():
        shape = "x".join(map(str, sample.iq.shape[1:]))
        alike.setdefault(f"{sample.source.replace(task, 'TASK')}, {shape}", []).append(task)
    for told, tasks in alike.items():
        sys.stdout.write(f"      {config.name} on {', '.join(tasks)}: {told}\n")


def _tell(finding: Finding) -> None:
    sys.stdout.write(f"{finding}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    run_script(main)
