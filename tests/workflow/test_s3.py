"""Results in S3: a few rules against a local server."""

import shutil
import subprocess

import pytest

pytest.importorskip("snakemake_storage_plugin_s3", reason="make cluster installs the S3 storage")
server = pytest.importorskip("moto.server", reason="make cluster installs the local S3 server")

KEYS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local", "AWS_DEFAULT_REGION": "us-east-1"}
PLACE = "results/releases/tiny"
TASK = "E-LOC-AOA"


def storage(prefix: str, url: str) -> list[str]:
    """Options that put results into a bucket."""
    provider = ["--default-storage-provider", "s3", "--default-storage-prefix", prefix]
    return [*provider, "--storage-s3-endpoint-url", url]


@pytest.fixture
def bucket(monkeypatch):
    """An empty bucket on a server of the loopback."""
    import boto3

    for key, value in KEYS.items():
        monkeypatch.setenv(key, value)
    running = server.ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    try:
        found = boto3.resource("s3", endpoint_url=f"http://{host}:{port}").Bucket("emma")
        found.create()
        yield found, f"http://{host}:{port}"
    finally:
        running.stop()


def test_results_live_in_a_bucket(one_core, tmp_path, bucket):
    """Scenes, splits and the manifest are read from the bucket; fits and scores go there, to a local run's bytes."""
    store, url = bucket
    folder = tmp_path / "s3"
    shutil.copytree(one_core.folder, folder, symlinks=True, ignore=shutil.ignore_patterns("releases", ".snakemake"))
    shutil.copytree(one_core.folder / "config", folder / "config", dirs_exist_ok=True)
    kept = one_core.contents()
    # In the order in which the rules make them: a bucket keeps the time of an upload, to the second.
    stages = ("channels/", "scenes/", "release/", "splits/", "embeddings/")
    given = [name for stage in stages for name in kept if name.startswith(stage)]
    for name in given:
        store.put_object(Key=f"{PLACE}/{name}", Body=kept[name])
    project = type(one_core)(folder)
    command = project.command(*storage("s3://emma", url), "--rerun-triggers", "input", models="models=[dsp]", cores=1)
    target = f"{PLACE}/folds/dsp/{TASK}/score_replicates.parquet"
    for said in ("4 of 4 steps", "Nothing to be done"):
        result = subprocess.run(
            [*command, "--", target],
            cwd=folder,
            env=project.environment(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        assert said in result.stdout + result.stderr
    made = {item.key.removeprefix(f"{PLACE}/"): item.get()["Body"].read() for item in store.objects.all()}
    new = sorted(name for name in made if name not in given and not name.startswith("logs/"))
    assert len(new) == 10
    assert [name for name in new if made[name] != kept[name]] == []
    assert not project.results.exists()


def test_the_docs_show_these_options(one_core):
    """What the test runs is what docs/cluster.md shows."""
    docs = (one_core.folder / "docs" / "cluster.md").read_text(encoding="utf-8")
    assert " ".join([*storage("s3://BUCKET", "URL")]) in docs
