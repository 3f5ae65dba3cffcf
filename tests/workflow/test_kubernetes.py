"""The Kubernetes profile: its keys are options of the executor, and its pods make a local run's bytes.

No Kubernetes runs here. ``tests/kubernetes_api.py`` answers the executor's calls and runs each pod as a process in
a folder of its own, to which the sources come, and from which the results go, by a bucket alone.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="make cluster installs the Kubernetes executor")
pytest.importorskip("snakemake_storage_plugin_s3", reason="make cluster installs the S3 storage")
server = pytest.importorskip("moto.server", reason="make cluster installs the local S3 server")

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from kubernetes_api import Kubernetes, image  # noqa: E402

PROFILE = ROOT / "workflow/profiles/kubernetes/config.yaml"
KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}
PLACE = "results/releases/tiny"
TASK = "E-LOC-AOA"


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


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket on a server of the loopback."""
    import boto3

    for key, value in KEYS.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    try:
        found = boto3.resource("s3", endpoint_url=f"http://{host}:{port}").Bucket("emma")
        found.create()
        yield found, f"http://{host}:{port}"
    finally:
        running.stop()


@pytest.fixture
def kubernetes(tmp_path, monkeypatch):
    """The stand-in."""
    (tmp_path / "pods").mkdir()
    running = Kubernetes(tmp_path / "pods", image(tmp_path / "image", sys.executable))
    monkeypatch.setenv("KUBECONFIG", str(running.config))
    yield running
    running.close()


def test_pods_give_the_bytes_of_a_local_run(one_core, tmp_path, bucket, kubernetes):
    """One task of one model: a pod embeds, another fits and scores; each is what the profile asks for."""
    store, url = bucket
    folder = tmp_path / "project"
    shutil.copytree(one_core.folder, folder, symlinks=True, ignore=shutil.ignore_patterns("releases", ".snakemake"))
    shutil.copytree(one_core.folder / "config", folder / "config", dirs_exist_ok=True)
    # What pods get of the sources is what git tracks.
    for command in (["init", "--quiet"], ["add", "."]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    kept = one_core.contents()
    given = [
        name for stage in ("channels/", "scenes/", "release/", "splits/") for name in kept if name.startswith(stage)
    ]
    for name in given:
        store.put_object(Key=f"{PLACE}/{name}", Body=kept[name])
    project = type(one_core)(folder)
    options = ["--profile", "workflow/profiles/kubernetes", "--default-storage-prefix", "s3://emma"]
    options += ["--storage-s3-endpoint-url", url, "--rerun-triggers", "input", "--seconds-between-status-checks", "1"]
    command = project.command(*options, models="models=[dsp]", cores=1)
    result = subprocess.run(
        [*command, "--", f"{PLACE}/folds/dsp/{TASK}/score_replicates.parquet"],
        cwd=folder,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr + kubernetes.logs()
    made = {item.key.removeprefix(f"{PLACE}/"): item.get()["Body"].read() for item in store.objects.all()}
    new = sorted(name for name in made if name in kept and name not in given)
    assert len(new) == 11
    assert [name for name in new if made[name] != kept[name]] == []
    assert not project.results.exists()
    assert len(kubernetes.pods) == 2
    profile = yaml.safe_load(PROFILE.read_text())
    for pod in kubernetes.pods.values():
        assert pod["image"] == profile["container-image"]
        assert pod["resources"]["requests"]["memory"] == f"{profile['default-resources']['mem_mb']}M"
        assert {variable["name"] for variable in pod["env"]} >= set(KEYS)
