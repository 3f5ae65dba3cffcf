"""The version of the harness, which every result records; CONTRIBUTING.md says when it rises."""

#: Semantic: major where a published number moves, minor where something is new, patch for the rest.
HARNESS_VERSION = "1.0.0"
