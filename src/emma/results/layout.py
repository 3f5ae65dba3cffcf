"""Where every file of a run is below ``results``, and which place a file has: nobody else puts paths together or apart.

Wildcards of Snakemake (``{model}``) may stand for any name. Nothing heavy is imported: the workflow's plan asks here.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from common.errors import InputError

#: The release whose results stand at the top of ``results``; those of others stand in ``results/releases/NAME``.
DEFAULT_RELEASE = "v0.1"

_INDEX, _LABELS = "index.parquet", "labels.parquet"


def results_folder(release: str, split: str = "DEV") -> str:
    """The folder of a release's results, relative to the project; HOLDOUT runs have their own within it."""
    folder = "results" if release == DEFAULT_RELEASE else f"results/releases/{release}"
    return f"{folder}/holdout" if split == "HOLDOUT" else folder


class FoldPlace(NamedTuple):
    """Which fold of which model a file belongs to."""

    model: str
    task: str
    protocol: str
    held_out_value: str


class Layout:
    """The paths of one run's files.

    Args:
        root: ``results``, or the folder of another release or of a HOLDOUT run.
    """

    #: Folders at the top that hold other runs, or nothing that a number rests on.
    apart = frozenset({"releases", "holdout", "logs", "floor_events"})

    #: The splits of a capture set's own twin.
    twin_splits = ("TRAIN", "DEV")
    #: What an archive holds beside the files that every result rests on.
    archived = ("weights/*.safetensors", "costs/*.json", "probes/*.json", "reports/*", "leaderboard.*", "figures/*")

    #: Of these, what another run would measure otherwise stays out of it.
    measured = frozenset({"reports/speed.json"})

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root)

    @classmethod
    def find(cls, root: str | Path) -> list[Path]:
        """The roots of all runs in a project's folder, each known by its release manifest."""
        found = Path(root).glob("results/**/release/manifest.json")
        return [manifest.parent.parent for manifest in sorted(found)]

    def at(self, *names: str) -> Path:
        """The path of ``names`` below the root.

        Raises:
            InputError: a name is empty, ``.`` or ``..``, or has a slash or a NUL: it would lead elsewhere.
        """
        for name in names:
            if name in {"", ".", ".."} or "/" in name or "\0" in name:
                raise InputError(f"{self.root}: {'/'.join(names)!r} is no path below it")
        return self.root.joinpath(*names)

    def started(self) -> bool:
        """Whether the workflow wrote any result here, finished or not."""
        return any(path.exists() for path in (self.at("release"), self.at("folds"), self.runs, self.board))

    def other_releases(self) -> list[Path]:
        """Folders, within this one, of other releases that have a leaderboard."""
        return sorted(path.parent for path in self.root.glob("releases/*/leaderboard.json"))

    # The release: rays, scenes, manifest.

    @property
    def manifest(self) -> Path:
        """The DataReleaseManifest."""
        return self.at("release", "manifest.json")

    def archive(self, release: str, more: str = "") -> Path:
        """The release archive; ``more`` is ``-with-embeddings`` for the one that carries them."""
        return self.at("release", f"emma-{release}{more}.zip")

    def channels(self, split: str) -> Path:
        """Rays of a split."""
        return self.at("channels", f"{split}.parquet")

    def scenes(self, task: str, split: str) -> Path:
        """Scenes of a task's split, with samples."""
        return self.at("scenes", task, f"{split}.parquet")

    def index(self, task: str, split: str) -> Path:
        """The same scenes without samples."""
        return self.at("scenes", task, f"{split}.{_INDEX}")

    def labels(self, task: str, split: str) -> Path:
        """Their labels."""
        return self.at("scenes", task, f"{split}.{_LABELS}")

    def scene_files(self) -> list[Path]:
        """The files of scenes with samples that are there, of every task and split."""
        return sorted(path for path in self.root.glob("scenes/*/*.parquet") if path.name.count(".") == 1)

    @staticmethod
    def split_of(path: Path) -> tuple[str, str]:
        """Task and split of a task's scenes, index or labels, as ``TASK/SPLIT.*`` says."""
        _deep(path, 2, "TASK/SPLIT.parquet")
        return path.parent.name, path.name.partition(".")[0]

    # Models: weights, embeddings.

    def weights(self, model: str) -> Path:
        """Weights that a model's pretrain rule made."""
        return self.at("weights", f"{model}.safetensors")

    def embeddings(self, model: str, task: str) -> Path:
        """A model's embeddings of a task."""
        return self.at("embeddings", model, f"{task}.parquet")

    def cost(self, model: str) -> Path:
        """What a model costs, counted."""
        return self.at("costs", f"{model}.json")

    # Folds: which scenes, and what a model made of them.

    def side(self, task: str, protocol: str, value: str, side: str) -> Path:
        """The ``train`` or ``eval`` scenes of a fold."""
        return self.at("splits", task, protocol, value, f"{side}.parquet")

    def fold(self, model: str, task: str, protocol: str, value: str, *file: str) -> Path:
        """The folder of a model's fold, or a file in it."""
        return self.at("folds", model, task, protocol, value, *file)

    def refits(self, model: str, task: str, protocol: str, value: str) -> Path:
        """Predictions of the readout refit without each fifth of its fit scenes."""
        return self.fold(model, task, protocol, value, "refits.parquet")

    def readout(self, model: str, task: str, protocol: str, value: str) -> Path:
        """The readout that was fit."""
        return self.fold(model, task, protocol, value, "readout.safetensors")

    def predictions(self, model: str, task: str, protocol: str, value: str) -> Path:
        """Its predictions."""
        return self.fold(model, task, protocol, value, "predictions.parquet")

    def metrics(self, model: str, task: str, protocol: str, value: str) -> Path:
        """Their metrics."""
        return self.fold(model, task, protocol, value, "metrics.json")

    def metrics_of(self, model: str, task: str) -> list[Path]:
        """Metrics of a model's folds of a task that are there, of every protocol."""
        return sorted(self.at("folds", model, task).glob("*/*/metrics.json"))

    def replicates(self, model: str, task: str, kind: str = "score") -> Path:
        """Bootstrap replicates of a model's folds of a task: ``score``, those of the board, or ``stress``."""
        return self.at("folds", model, task, f"{kind}_replicates.parquet")

    @staticmethod
    def protocol_of(path: Path) -> tuple[str, str]:
        """Protocol and held-out value of a fold's file, as its folders ``PROTOCOL/VALUE`` say."""
        _deep(path, 3, "PROTOCOL/VALUE")
        return path.parts[-3], path.parts[-2]

    @staticmethod
    def fold_of(path: Path) -> FoldPlace:
        """The fold of a file of a model's fold, as its folders ``MODEL/TASK/PROTOCOL/VALUE`` say."""
        _deep(path, 5, "MODEL/TASK/PROTOCOL/VALUE")
        return FoldPlace(*path.parts[-5:-1])

    @staticmethod
    def model_task_of(path: Path) -> tuple[str, str]:
        """Model and task of a file of replicates, as its folders ``MODEL/TASK`` say."""
        _deep(path, 3, "MODEL/TASK")
        return path.parts[-3], path.parts[-2]

    # The board, and the reports beside it.

    @property
    def runs(self) -> Path:
        """The folder of run records."""
        return self.at("runs")

    def run(self, model: str) -> Path:
        """A model's run record."""
        return self.at("runs", f"{model}.json")

    @property
    def board(self) -> Path:
        """The leaderboard."""
        return self.at("leaderboard.json")

    def board_as(self, kind: str) -> Path:
        """The leaderboard in another form: ``html``, ``csv``, ``md``, ``tex``, ``appendix.tex``, ``bib``, or its ``schema.json``."""
        return self.at(f"leaderboard.{kind}")

    @property
    def figures(self) -> Path:
        """The folder of figures."""
        return self.at("figures")

    def report(self, name: str, kind: str = "json") -> Path:
        """A report: ``aggregation``, ``stress``, ``probes`` or ``speed``."""
        return self.at("reports", f"{name}.{kind}")

    def gap_report(self, gap_kind: str, kind: str = "json") -> Path:
        """The sim-to-real report: of sets of kind ``real`` beside that of ``surrogate`` ones, not over it."""
        return self.report("sim_to_real" if gap_kind == "surrogate" else "sim_to_real_captures", kind)

    def probes(self, model: str) -> Path:
        """A model's scores under other probes than the pinned head."""
        return self.at("probes", f"{model}.json")

    # Captured scenes.

    def captures(self, captures: str, *names: str) -> Path:
        """The folder of a capture set, or a path in it."""
        return self.at("captures", captures, *names)

    def recordings(self, captures: str) -> Path:
        """The folder of a set's recordings, where the workflow writes them itself."""
        return self.captures(captures, "recordings")

    def recording(self, captures: str, session: int, part: str) -> Path:
        """The ``data`` or ``meta`` file of a session that the workflow recorded itself (SigMF)."""
        return self.captures(captures, "recordings", f"session-{session:02d}.sigmf-{part}")

    def conversion(self, captures: str) -> Path:
        """The record of a set's conversion."""
        return self.captures(captures, "record.json")

    def capture_scenes(self, captures: str) -> Path:
        """A set's scenes, with samples."""
        return self.captures(captures, "scenes.parquet")

    def capture_index(self, captures: str) -> Path:
        """The same scenes without samples."""
        return self.captures(captures, _INDEX)

    def capture_labels(self, captures: str) -> Path:
        """Their labels."""
        return self.captures(captures, _LABELS)

    def twin_scenes(self, captures: str, split: str) -> Path:
        """Scenes of a split of the set's own twin, with samples."""
        return self.captures(captures, "twin", f"{split}.parquet")

    def twin_index(self, captures: str, split: str) -> Path:
        """The same scenes without samples."""
        return self.captures(captures, "twin", f"{split}.{_INDEX}")

    def twin_labels(self, captures: str, split: str) -> Path:
        """Their labels."""
        return self.captures(captures, "twin", f"{split}.{_LABELS}")

    def capture_embeddings(self, captures: str, model: str) -> Path:
        """A model's embeddings of a set and of its twin."""
        return self.captures(captures, model, "embeddings.parquet")

    def capture_predictions(self, captures: str, model: str, side: str) -> Path:
        """A model's predictions behind its scores on a set, by the names of ``hashes`` in its record."""
        return self.captures(captures, model, f"{side}.parquet")

    def capture_metrics(self, captures: str, model: str) -> Path:
        """A model's scores on both sides."""
        return self.captures(captures, model, "metrics.json")

    @staticmethod
    def capture_set_of(path: Path) -> str:
        """The set of its scenes, of its twin's, or of a model's embeddings of them."""
        _deep(path, 3, "captures/SET")
        return path.parts[-2] if path.name == "scenes.parquet" else path.parts[-3]

    # What a run says of itself.

    def log(self, *names: str) -> Path:
        """The log of a job, by the names that tell it from others; the last is the file's."""
        *folders, name = names
        return self.at("logs", *folders, f"{name}.log")

    def floor_events(self, name: str) -> Path:
        """A result of the floor-event evaluation."""
        return self.at("floor_events", name)


def _deep(path: Path, parts: int, expected: str) -> None:
    """InputError for a path of fewer parts than its place takes."""
    if len(path.parts) < parts:
        raise InputError(f"{path}: expected a file in folders {expected}")
