"""The version of the harness, which every result records."""

#: Version of the harness; a change that moves any number raises it.
HARNESS_VERSION = "0.3.0"
