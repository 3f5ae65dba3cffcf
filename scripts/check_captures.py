"""Say what a folder of captures holds, what is missing before a run, and which keys to write."""

import sys
from pathlib import Path

from common.confine import limit_memory
from common.errors import OneLineParser, run_script
from common.files import parse, read_yaml
from emma.captures.checking import check_captures
from emma.captures.settings import ADAPTER_CLASSES, CaptureSet
from emma.data.tables import without_pandas
from emma.tasks import TaskID


def main() -> None:
    """Print all that was found; status 2 where something has to be mended."""
    without_pandas()
    limit_memory()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the set's folder")
    parser.add_argument("--adapter", choices=[*ADAPTER_CLASSES], help="without it, the one whose files are there")
    parser.add_argument("--column", help="the label's column in labels.csv; without it, label")
    parser.add_argument("--captures", type=Path, help="config/captures/NAME.yaml, whose scene is cut from every label")
    arguments = parser.parse_args()
    declared = parse(CaptureSet, read_yaml(arguments.captures), arguments.captures) if arguments.captures else None
    shape = declared.scene if declared else None
    task = declared.task if declared else TaskID.E_ID_AMC
    findings = check_captures(arguments.folder, arguments.adapter, column=arguments.column, shape=shape, task=task)
    sys.stdout.write(findings.text)
    if findings.faults:
        raise SystemExit(2)


if __name__ == "__main__":
    run_script(main)
