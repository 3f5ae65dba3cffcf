"""The `emma` command: one module a sub-command, with its options and what it does."""
