"""Finished releases, built once: tiny, which has every task, and one of few tasks, whose copies tests change."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SNAKEMAKE = Path(sys.executable).with_name("snakemake")
#: Two models: one without weights, one whose weights a rule trains.
MODELS = "models=[dsp,ssl_conv]"
#: Where a test must run from nothing again: one model, two tasks, and a fold of every other kind of answer.
ONE_MODEL = "models=[dsp]"
SCORED = ("E-LOC-AOA", "E-ID-FP")
FITTED = {
    "E-SC-ANOM": "leave-one-waveform-out/nr-ofdm",
    "E-SC-SEP": "leave-one-waveform-out/nr-ofdm",
    "E-CH-CSI": "leave-one-environment-out/E_URBAN",
    "E-S2T-CAP": "leave-one-snr-regime-out/low",
    "E-S2T-QA": "leave-one-snr-regime-out/low",
}


@dataclass(frozen=True)
class Project:
    """A copy of the tracked files, in which the workflow runs."""

    folder: Path
    release: str = "tiny"

    #: The interpreter that the tests run with.
    python = sys.executable

    @property
    def results(self) -> Path:
        """Folder of the release's results."""
        return self.folder / "results" / "releases" / self.release

    def command(self, *arguments: str, models: str = MODELS, cores: int = 2, config: tuple = ()) -> list[str]:
        """A command line of the workflow on the release; the last of several settings in ``config`` counts."""
        config = ["--config", f"release={self.release}", "real_captures=none", models, *config]
        return [str(SNAKEMAKE), *arguments, "--cores", str(cores), *config]

    @staticmethod
    def environment() -> dict[str, str]:
        """The environment without what would lead a copy to another source or to other settings."""
        foreign = ("PYTHONPATH", "EMMA_", "SNAKEMAKE")
        return {key: value for key, value in os.environ.items() if not key.startswith(foreign)}

    def script(self, name: str, *arguments: object) -> subprocess.CompletedProcess:
        """Run one program by hand, as a rule would."""
        env = self.environment() | {"PYTHONPATH": str(self.folder / "src")}
        command = [sys.executable, f"scripts/{name}.py", *map(str, arguments)]
        return subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=120, env=env, check=False
        )

    def run(self, *arguments: str, timeout: float = 900, **options) -> subprocess.CompletedProcess:
        """Run the workflow and return what it printed, whatever its status."""
        command = self.command(*arguments, **options)
        return subprocess.run(
            command,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment(),
            check=False,
        )

    def complete(self, *arguments: str, **options) -> None:
        """Run the workflow, which must succeed."""
        result = self.run(*arguments, **options)
        assert result.returncode == 0, result.stdout + result.stderr

    def jobs(self, *arguments: str, **options) -> dict[str, int]:
        """Jobs that a run would do, by rule, without the targets' own."""
        result = self.run("--dry-run", *arguments, **options)
        assert result.returncode == 0, result.stdout + result.stderr
        text = result.stdout + result.stderr
        if "Nothing to be done" in text:
            return {}
        lines = text.partition("Job stats:")[2].partition("total")[0].splitlines()
        rows = [line.split() for line in lines if len(line.split()) == 2 and line.split()[1].isdigit()]
        return {name: int(count) for name, count in rows if name not in ("leaderboard", "folds", "all")}

    @property
    def tasks(self) -> set[str]:
        """Tasks of the release, as its folds have them."""
        return {path.name for path in self.results.glob("folds/dsp/*")}

    def contents(self) -> dict[str, bytes]:
        """Bytes of every result but logs, by relative path."""
        files = (path for path in sorted(self.results.rglob("*")) if path.is_file())
        named = ((path.relative_to(self.results).as_posix(), path) for path in files)
        return {name: path.read_bytes() for name, path in named if not name.startswith("logs/")}


def copy_project(folder: Path) -> Project:
    """Copy the files that git tracks, or would."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_symlink():
            target.symlink_to(source.readlink())
        elif source.is_file():
            shutil.copy2(source, target)
    return Project(folder)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The tiny release with two models, run from nothing on two cores; read only."""
    project = copy_project(tmp_path_factory.mktemp("finished"))
    project.complete()
    return project


@pytest.fixture(scope="session")
def few(few_release: str, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The release of few tasks with two models, run from nothing on two cores; read only."""
    project = Project(copy_project(tmp_path_factory.mktemp("few")).folder, "few")
    (project.folder / "config/releases/few.yaml").write_text(few_release)
    project.complete()
    return project


@pytest.fixture(scope="session")
def one_core(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Folds of one model on a few tasks of tiny, made from nothing on one core, an interpreter per job; read only."""
    project = copy_project(tmp_path_factory.mktemp("one-core"))
    folder = "results/releases/tiny/folds/dsp"
    places = [f"{folder}/{task}/score_replicates.parquet" for task in SCORED]
    places += [f"{folder}/{task}/{fold}/predictions.parquet" for task, fold in FITTED.items()]
    project.complete("--no-hooks", *places, cores=1, models=ONE_MODEL)
    return project


@pytest.fixture
def project(few: Project, tmp_path: Path) -> Iterator[Project]:
    """A copy of the finished release of few tasks that a test may change, with its history and file times."""
    folder = tmp_path / "project"
    shutil.copytree(few.folder, folder, symlinks=True)
    yield Project(folder, few.release)
    shutil.rmtree(folder)


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    """A copy of the project in which nothing has run."""
    return copy_project(tmp_path / "fresh")
