"""The Kubernetes profile: its keys are options of Snakemake, or of the executor. No Kubernetes runs here."""

from pathlib import Path

import pytest
import yaml

pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="envs/kubernetes.txt holds the Kubernetes executor")

PROFILE = Path(__file__).resolve().parents[2] / "workflow/profiles/kubernetes/config.yaml"


def test_every_key_is_an_option_of_snakemake_or_of_the_executor():
    """Those of the executor are fields of its settings."""
    from snakemake.cli import get_argument_parser
    from snakemake_executor_plugin_kubernetes import ExecutorSettings

    options = get_argument_parser()._option_string_actions
    keys = yaml.safe_load(PROFILE.read_text())
    assert [key for key in keys if f"--{key}" not in options] == []
    own = {key.removeprefix("kubernetes-").replace("-", "_") for key in keys if key.startswith("kubernetes-")}
    assert own == {"namespace"}
    assert own <= set(ExecutorSettings.__dataclass_fields__)
