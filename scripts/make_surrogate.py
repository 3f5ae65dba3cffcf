"""Write a surrogate capture set: SigMF recordings of synthetic samples, labelled as such."""

from pathlib import Path

from emma.files import InputError, OneLineParser, parse, read_yaml, run_script
from emma.real.settings import CaptureSet
from emma.release import load_release_config
from rfgen.captures.surrogate import Surrogate, recordings, write
from rfgen.recipe import Recipe


def main() -> None:
    """Generate the recordings one by one."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--captures", type=Path, required=True, help="config/captures/NAME.yaml of kind surrogate")
    parser.add_argument("--release-config", type=Path, required=True, help="config/releases/NAME.yaml, whose signals")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the recordings")
    arguments = parser.parse_args()
    declared = parse(CaptureSet, read_yaml(arguments.captures), arguments.captures)
    content = {**(declared.surrogate or {}), "task": declared.task.value}
    surrogate = parse(Surrogate, content, f"{arguments.captures}: surrogate")
    config = load_release_config(arguments.release_config)
    recipe = parse(Recipe, config.rfgen, f"{arguments.release_config}: rfgen")
    arguments.out.mkdir(parents=True, exist_ok=True)
    try:
        for recording in recordings(surrogate, recipe, declared.name, config.seed):
            write(recording, surrogate, recipe, arguments.out)
    except ValueError as error:
        raise InputError(f"{arguments.captures}: {error}") from None


if __name__ == "__main__":
    run_script(main)
