"""`python -m emma.cli`, where the `emma` command is not installed."""

from __future__ import annotations

from emma.cli.main import run

run()
