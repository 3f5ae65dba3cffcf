"""Put the WordNet files that METEOR reads in their place, without a network, and say where that is."""

import argparse
import sys
from pathlib import Path

from emma.metrics.text import ensure_wordnet


def main() -> int:
    """Run the program; 0 when the files are there, 2 with one line of reason when they cannot be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, help="folder to fill instead of the default one")
    try:
        print(f"  WordNet, for METEOR, is in {ensure_wordnet(parser.parse_args().root)}")
    except (ImportError, ValueError, OSError) as error:
        print(f"install_text_data: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
