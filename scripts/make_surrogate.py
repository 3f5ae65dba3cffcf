"""Write a surrogate capture set: SigMF recordings of synthetic samples, labelled as such."""

from pathlib import Path

from common.errors import InputError, OneLineParser, run_script
from common.files import parse, read_yaml
from emma.captures.settings import CaptureSet
from emma.data.release import load_release_config
from rfgen.captures.surrogate import recordings, write
from rfgen.recipe import Recipe
from workflow_support.captures import surrogate_set


def main() -> None:
    """Generate the recordings one by one."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--captures", type=Path, required=True, help="config/captures/NAME.yaml of kind surrogate")
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml, whose signals")
    files = "files session-NN.sigmf-data and .sigmf-meta, in one folder"
    parser.add_argument("--out", type=Path, nargs="+", required=True, help=files)
    arguments = parser.parse_args()
    declared = parse(CaptureSet, read_yaml(arguments.captures), arguments.captures)
    config = load_release_config(arguments.release_config)
    recipe = parse(Recipe, config.rfgen, f"{arguments.release_config}: rfgen")
    surrogate = surrogate_set(declared, recipe, arguments.captures)
    folder = arguments.out[0].parent
    names = {f"session-{i:02d}.sigmf-{part}" for i in range(surrogate.sessions) for part in ("data", "meta")}
    if {path.name for path in arguments.out} != names or {path.parent for path in arguments.out} != {folder}:
        raise InputError(f"--out: expected the {len(names)} files of {surrogate.sessions} sessions in one folder")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        for recording in recordings(surrogate, recipe, declared.name, config.seed):
            write(recording, surrogate, recipe, folder)
    except ValueError as error:
        raise InputError(f"{arguments.captures}: {error}") from None


if __name__ == "__main__":
    run_script(main)
