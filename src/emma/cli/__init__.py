"""The `emma` command: one module per sub-command, with its options and what it does."""
