"""Build the release archive: code at its commit, configuration and results in one zip, described as an RO-Crate."""

from pathlib import Path

from common.errors import OneLineParser, run_script
from emma.audit.archive import build
from emma.audit.verify import Results
from emma.data.tables import without_pandas

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Gather, refuse what is dirty or missing, write one file."""
    without_pandas()
    parser = OneLineParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="finished results")
    parser.add_argument("--out", type=Path, required=True, help="the archive, zip")
    parser.add_argument("--with-embeddings", action="store_true", help="carry them, for readers who score them again")
    arguments = parser.parse_args()
    build(ROOT, Results(arguments.results, ROOT), arguments.out, arguments.with_embeddings)


if __name__ == "__main__":
    run_script(main)
