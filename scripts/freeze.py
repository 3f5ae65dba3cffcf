"""Make the scenes of releases and record their hashes in config/releases/published.json.

Run it whenever content changes on purpose: the hash of a release that nobody meant to change is compared in the tests.
"""

import sys
import tempfile
from pathlib import Path

from generator import made_release

from common.errors import InputError, OneLineParser, run_script, unknown
from emma.data.published import PUBLISHED, load_published, write_published
from emma.data.release import load_release_config, release_names
from emma.data.tables import without_pandas


def main() -> None:
    """Make each release in a temporary folder, record it, and say whether its hash changed."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="releases, such as tiny v0.1")
    parser.add_argument("--releases", type=Path, default=Path("config/releases"), help="folder of NAME.yaml")
    arguments = parser.parse_args()
    known = release_names(arguments.releases)
    if others := [name for name in arguments.names if name not in known]:
        raise InputError(f"NAME: {unknown(others[0], known)}")
    paths = [arguments.releases / f"{name}.yaml" for name in arguments.names]
    configs = [load_release_config(path) for path in paths]
    for config, path in zip(configs, paths, strict=True):
        with tempfile.TemporaryDirectory() as folder:
            made = made_release(config, path, Path(folder))
        # Read now, not before: a release takes a minute, in which another may have been recorded.
        file = arguments.releases / PUBLISHED
        recorded = load_published(file)
        before = recorded.get(config.release)
        write_published(file, recorded | {config.release: made})
        state = "new" if before is None else "unchanged" if before == made else "changed"
        sys.stdout.write(f"{config.release}: {made.data_release_hash} {state}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    run_script(main)
