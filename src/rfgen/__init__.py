"""rfgen: recipes, channels, waveforms and hardware that make labelled radio scenes, and no score."""

import hashlib
from pathlib import Path

__version__ = "0.1.0"

__all__ = ["__version__", "source_digest"]


def source_digest() -> str:
    """SHA-256 (hex) over the Python files that can make a release, by relative name and content, in name order.

    `rfgen.captures` is left out: twins and surrogates are no part of a release.
    """
    root = Path(__file__).parent
    digest = hashlib.sha256()
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    for name in sorted(path.as_posix() for path in paths if path.parts[0] != "captures"):
        content = (root / name).read_bytes()
        # Lengths before the bytes: no two trees can run together to the same stream.
        digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()
