"""Write the JSON Schemas of the configuration files from the records that validate them."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from common.files import write_json
from emma.audit.submissions import SubmissionManifest
from emma.backbones.load import ModelConfig
from emma.captures.settings import CaptureSet
from emma.data.release import ReleaseConfig
from workflow_support.config import ProjectConfig

SCHEMAS = {
    "captures": CaptureSet,
    "config": ProjectConfig,
    "model": ModelConfig,
    "release": ReleaseConfig,
    "submission": SubmissionManifest,
}


def main() -> None:
    """Write one file per kind."""
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("config/schemas"), help="folder (default config/schemas)")
    arguments = parser.parse_args()
    for name, record in SCHEMAS.items():
        write_json(arguments.out / f"{name}.json", record.model_json_schema())


if __name__ == "__main__":
    run_script(main)
