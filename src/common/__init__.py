"""Ground that all packages share: errors in one line, files whole or not at all, canonical hashes, random streams."""
