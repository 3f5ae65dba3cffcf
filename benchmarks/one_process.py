"""Run the programs of a workflow one after another in this one process: its arithmetic without Snakemake.

Reads a JSON list of command lines (lists of words, ``python`` first), as ``cold_run.py`` takes them from a dry run.
"""

import json
import runpy
import sys
from pathlib import Path


def main() -> None:
    """Run each program as its own main module, in order; modules that one has imported stay for the next."""
    for words in json.loads(Path(sys.argv[1]).read_text()):
        sys.argv = words[1:]
        runpy.run_path(words[1], run_name="__main__")


if __name__ == "__main__":
    main()
