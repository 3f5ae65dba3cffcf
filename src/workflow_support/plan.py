"""The plan of a run: its models, tasks and folds, and the strings in which a change of code or config shows.

The workflow's rules ask this module for names and digests; nothing here knows Snakemake.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

from common.doors import files_below, require_regular
from common.errors import InputError
from common.files import parse
from common.hashing import canonical_json, content_hash, file_sha256
from emma.audit.submissions import MANIFEST_NAME, Bundle
from emma.backbones.config import ControlConfig, ModelConfig, load_model_config
from emma.backbones.dense import window_options
from emma.backbones.references import check_reference
from emma.backbones.sight import check_view, unseen
from emma.captures.settings import ADAPTER_CLASSES, DEFAULT_CAPTURES, CaptureEntry, CaptureSet, load_capture_set
from emma.data.holdout import holdout_seed, load_commitment
from emma.data.protocols import board_protocols, primary_protocol, reference_name, task_protocols
from emma.data.provenance import DESCRIPTIVE
from emma.data.release import load_release_config
from emma.evaluation.task_metrics import check_metrics
from emma.results.layout import FoldPlace, Layout, results_folder
from emma.tasks import Split, TaskID, TaskSpec
from rfgen.recipe import Recipe
from workflow_support.config import check_config
from workflow_support.identity import code_digest, outside_digest
from workflow_support.pretraining import Known


def job_environment(root: str | Path) -> dict[str, str]:
    """What every job's environment holds: this project's folder and source, this interpreter, one thread per library.

    One thread per job gives the same bytes on any number of cores. The folder is relative to the working directory. The
    C library keeps what arrays gave back, where it would ask the system for it again, page by page, at every batch.

    Raises:
        InputError: the folder's relative path has white space, which would break the rules' commands.
    """
    home = os.path.relpath(root)
    if any(map(str.isspace, home)):
        raise InputError(f"{root}: expected a path without white space from the working directory to EMMA's folder")
    settings = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    settings |= {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**28)}
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {"EMMA_HOME": home, "PYTHONPATH": str(Path(root) / "src"), "PATH": search, **settings}


class Plan:
    """Everything that the rules need to know before a job runs.

    Args:
        config: the workflow's effective configuration.
        root: the folder of the run: its ``config``, models' weights and results.
        home: the folder of the programs and the source; by default ``root``. A workflow that uses this one as a
            ``module`` has its own root.
        elsewhere: whether jobs run in another environment than the plan's, as with conda.

    Raises:
        InputError: any configuration file is wrong, a model names a function that is not there or a view that the
            release's scenes do not have, or HOLDOUT is asked for without its seed.
    """

    def __init__(
        self, config: dict[str, Any], root: str | Path, home: str | Path | None = None, *, elsewhere: bool = False
    ) -> None:
        self.root, self._elsewhere = Path(root), elsewhere
        self.home = Path(root if home is None else home)
        self.config = check_config(config, self.root)
        self.release_path = f"config/releases/{self.config.release}.yaml"
        self.release = load_release_config(self.root / self.release_path)
        self.recipe = parse(Recipe, self.release.rfgen, f"{self.release_path}: rfgen")
        check_metrics(self.release.tasks, self.release_path)
        self.models: dict[str, ModelConfig] = {}
        for name in self.config.models:
            model = self._model(name)
            # A textbook of tasks that the release lacks has no row in it: one list of models serves every release.
            if model.kind == "reference" and not set(model.tasks) & set(self.release.tasks):
                continue
            self.models[name] = model
            if model.has_control:
                control = ControlConfig.of(model)
                self.models[control.name] = control
        if not self.models:
            raise InputError(f"config/config.yaml: models: expected one that takes a task of {self.config.release}")
        known = Known(self.recipe, self.root / "config" / "releases")
        for name, model in self.models.items():
            known.check(model.pretraining, f"config/models/{name}.yaml")
        self.eval_split = Split(self.config.eval_split)
        self.results = results_folder(self.release.release, self.eval_split)
        self.layout = Layout(self.results)
        self._commitment = None
        if self.eval_split is Split.HOLDOUT:
            self._commitment = load_commitment(self.root / self.release_path)
            holdout_seed(self.release.release, self._commitment)
        self.tasks = list(self.release.tasks)
        for name, model in self.models.items():
            check_view(model, model.tasks, self.release, f"config/models/{name}.yaml")
        for spec in self.release.tasks.values():
            board_protocols(spec)
        self.submissions = self._submissions()
        for bundle in self.submissions.values():
            known.check(bundle.manifest.pretraining, bundle.root / MANIFEST_NAME)
        self.captures = self._captures()

    def _submissions(self) -> dict[str, Bundle]:
        """Submitted bundles by the name of their model."""
        found: dict[str, Bundle] = {}
        for folder in self.config.submissions:
            bundle = Bundle(self.root / folder)
            # Files of rows that are equal but for case are one file on some systems.
            if bundle.manifest.model.lower() in map(str.lower, (*found, *self.models)):
                raise InputError(f"{folder}: model: {bundle.manifest.model} is another row's name")
            found[bundle.manifest.model] = bundle
        return found

    def _captures(self) -> dict[str, tuple[CaptureEntry, CaptureSet]]:
        """Entry and declaration of every capture set of a task of the release, by name."""
        entries = self.config.real_captures
        if entries == "none":
            return {}
        entries = DEFAULT_CAPTURES if entries == "surrogate" else entries
        for folder in (self.root / entry.path for entry in entries if entry.path is not None):
            # A folder that is not there is said with its key.
            if folder.is_dir():
                files_below(folder)
        return {
            entry.name: (entry, load_capture_set(self.root, entry, self.release.tasks))
            for entry in entries
            if entry.task in self.tasks
        }

    def gap_report(self, kind: str = "json") -> Path:
        """The sim-to-real report of a run: of real captures where a set is of that kind."""
        kinds = {declared.kind for _, declared in self.captures.values()}
        return self.layout.gap_report("real" if "real" in kinds else "surrogate", kind)

    def captures_of(self, model: str) -> list[str]:
        """Capture sets of the tasks that a model takes."""
        if self.models[model].truth or isinstance(self.models[model], ControlConfig):
            # Nobody knows the true parameters of a capture, and what an untrained network loses on it says nothing.
            return []
        return [name for name, (entry, _) in self.captures.items() if entry.task.value in self.tasks_of(model)]

    def surrogates(self) -> list[str]:
        """Capture sets that the workflow writes itself."""
        return [name for name, (_, declared) in self.captures.items() if declared.surrogate is not None]

    def capture_root(self, name: str) -> str:
        """The folder of a set's recordings."""
        return self.captures[name][0].path or str(self.layout.recordings(name))

    def capture_entry(self, name: str) -> str:
        """A set's entry of ``real_captures`` as JSON."""
        # The report of Snakemake puts it into a script element.
        return canonical_json(self.captures[name][0].model_dump(mode="json")).decode().replace("<", "\\u003c")

    def _has_twin(self, name: str) -> bool:
        """Whether a set's readout is fit on scenes of its own, not on the release's."""
        return self.captures[name][1].matched

    def embedded_for_captures(self, model: str) -> list[Path]:
        """Scene files of the sets of a model's tasks, and of those sets' own twins."""
        files = []
        for name in self.captures_of(model):
            files.append(self.layout.capture_scenes(name))
            files += [self.layout.twin_scenes(name, split) for split in Layout.twin_splits if self._has_twin(name)]
        return files

    def scored_for_captures(self, model: str) -> list[Path]:
        """What a model's scores on capture sets are made from, apart from its embeddings of the sets."""
        own, files = [], []
        for name in self.captures_of(model):
            task = self.captures[name][0].task
            places = (self.layout.capture_index, self.layout.capture_labels, self.layout.conversion)
            files += [place(name) for place in places]
            if self._has_twin(name):
                twin = (self.layout.twin_index, self.layout.twin_labels)
                files += [place(name, split) for place in twin for split in Layout.twin_splits]
            elif self.captures[name][1].twin == "release":
                own += [self.layout.embeddings(model, task), self.layout.run(model)]
                protocol = primary_protocol(self.spec(task))
                own += [self.layout.readout(model, task, protocol.name, v) for v in protocol.eval_values()]
                files += [place(task, Split.TRAIN) for place in (self.layout.index, self.layout.labels)]
        return [*own, *files]

    def capture_files(self, name: str) -> list[str]:
        """The files that a set is converted from: its folder's, or the recordings that the workflow writes."""
        entry, declared = self.captures[name]
        if declared.surrogate is not None:
            return self.recordings(name)
        folder = self.root / str(entry.path)
        return sorted(os.path.relpath(path, self.root) for path in files_below(folder))

    def recordings(self, name: str) -> list[str]:
        """The files of a surrogate set."""
        sessions = range((self.captures[name][1].surrogate or {}).get("sessions", 0))
        return [str(self.layout.recording(name, session, part)) for session in sessions for part in ("data", "meta")]

    def capture_hash(self, name: str) -> str:
        """The hash of a set's entry and declaration."""
        return content_hash([part.model_dump(mode="json") for part in self.captures[name]])

    @property
    def entrants(self) -> list[str]:
        """Everyone on the board: the models, then the submissions."""
        return [*self.models, *self.submissions]

    def bundle_files(self, name: str) -> list[str]:
        """The files of a submission that are there, relative to the project."""
        bundle = self.submissions[name]
        paths = [bundle.root / MANIFEST_NAME]
        paths += [bundle.path(TaskID(task), *fold) for task in self.tasks_of(name) for fold in self.folds(task)]
        return [path.relative_to(self.root).as_posix() for path in paths if path.is_file()]

    def _model(self, name: str) -> ModelConfig:
        path = f"config/models/{name}.yaml"
        config = load_model_config(self.root / path)
        functions = {"factory": config.factory}
        functions |= {"pretrain.function": config.pretrain.function} if config.pretrain else {}
        for field, reference in functions.items():
            if reference is not None:
                check_reference(reference, f"{path}: {field}", self.root, elsewhere=self._elsewhere)
        self._check_weights(config, path)
        return config

    def _check_weights(self, config: ModelConfig, path: str) -> None:
        """Refuse a file of weights that is not there, or not the pinned one, before a job meets it."""
        if config.pinned is None:
            return
        try:
            require_regular(self.root / config.pinned)
            found = file_sha256(self.root / config.pinned)
        except (InputError, OSError) as error:
            field = "weights" if config.onnx is None else "onnx"
            reason = str(error).removeprefix(f"{self.root}/")
            raise InputError(f"{path}: {field}: {reason}") from None
        if found != config.weights_sha256:
            raise InputError(f"{path}: weights_sha256: {config.pinned} has {found}, expected {config.weights_sha256}")

    def notices(self) -> list[str]:
        """What is to be said of a model before the run, a line each: that it cannot see what a task asks for."""
        lines = []
        for name in (name for name in self.config.models if name in self.models):
            taken = {task: spec for task, spec in self.release.tasks.items() if task in self.models[name].tasks}
            if text := unseen(self.models[name], taken):
                lines.append(f"config/models/{name}.yaml: {text}")
        return lines

    def spec(self, task: str) -> TaskSpec:
        """A task's pinned declaration."""
        return self.release.tasks[TaskID(task)]

    def windows(self, *tasks: str) -> str:
        """The option that tells a program of the windows of tasks, empty where they have none."""
        options = window_options({TaskID(task): self.spec(task) for task in tasks})
        return f"--windows {' '.join(options)}" if options else ""

    def folds(self, task: str, *, stress: bool = False) -> list[tuple[str, str]]:
        """(protocol, value) of every fold of a task: the board's, or the stress report's."""
        regimes = self.release.stress_regimes.get(TaskID(task), ())
        protocols = task_protocols(self.spec(task), regimes)
        board = board_protocols(self.spec(task))
        return [
            (name, value)
            for name, protocol in protocols.items()
            if (name not in board) == stress
            for value in protocol.eval_values()
        ]

    def referenced(self, task: str) -> list[tuple[str, str]]:
        """Every protocol of a task, primary first, with its reference of equal numbers."""
        names = task_protocols(self.spec(task), self.release.stress_regimes.get(TaskID(task), ()))
        pairs = {name: reference_name(self.spec(task), name) for name in names}
        return [(name, reference) for name, reference in pairs.items() if name != reference]

    def fit_rule(self, task: str, protocol: str) -> str:
        """The name of the rule that fits a protocol's folds: of the primary one, that of the task."""
        other = "" if protocol == primary_protocol(self.spec(task)).name else f"_{protocol}"
        return f"fit_{task}{other}".replace("-", "_")

    def model_folds(self, model: str, *, stress: bool = False) -> list[FoldPlace]:
        """Every fold of a model's tasks: the board's, or the stress report's."""
        places = [(task, fold) for task in self.tasks_of(model) for fold in self.folds(task, stress=stress)]
        return [FoldPlace(model, task, *fold) for task, fold in places]

    def tasks_of(self, model: str) -> list[str]:
        """The release's tasks that a model takes, or a submission predicts."""
        if model in self.submissions:
            return [task.value for task in self.tasks if task in self.submissions[model].manifest.readouts]
        return [task.value for task in self.tasks if task in self.models[model].tasks]

    def recipe_hash(self) -> str:
        """The hash of the recipe with its seeds, of a secret one by its own hash: a change of it makes scenes stale."""
        recipe = {"rfgen": self.release.rfgen, "seed": self.release.seed}
        if self._commitment is not None:
            recipe["holdout"] = self._commitment.seed_sha256
        return content_hash(recipe)

    def commitment_hash(self) -> str:
        """The hash of what binds the split of an official run; of nothing in a public run."""
        return content_hash(self._commitment and self._commitment.model_dump(mode="json"))

    def frozen_splits(self) -> list[str]:
        """The splits that the manifest freezes: the public ones, and in an official run the one that is opened."""
        return ["TRAIN", "DEV", *(["HOLDOUT"] if self.eval_split is Split.HOLDOUT else [])]

    def scoring_hash(self) -> str:
        """The hash of the release's configuration but the recipe."""
        return content_hash(self.release.model_dump(mode="json", exclude={"rfgen"}))

    def model_hash(self, model: str) -> str:
        """The hash of a model's config, without keys that have their default or that only describe it."""
        content = self.models[model].model_dump(mode="json", exclude_defaults=True, exclude=set(DESCRIPTIVE))
        return content_hash(content)

    def described_hash(self, model: str) -> str:
        """The hash of a model's whole config, without keys that have their default."""
        return content_hash(self.models[model].model_dump(mode="json", exclude_defaults=True))

    def pretrained(self) -> list[str]:
        """Models whose weights a rule trains."""
        own = {name: config for name, config in self.models.items() if not isinstance(config, ControlConfig)}
        return [name for name, config in own.items() if config.pretrain is not None]

    def controls(self) -> dict[str, ControlConfig]:
        """The configs of controls, whose weights a rule makes."""
        return {name: config for name, config in self.models.items() if isinstance(config, ControlConfig)}

    def oracles(self) -> list[str]:
        """Models whose embeddings the generator writes."""
        return [name for name, config in self.models.items() if config.truth]

    def weighted(self) -> list[str]:
        """Models whose weights a rule makes."""
        return [*self.pretrained(), *self.controls()]

    def embedding(self) -> list[str]:
        """Models that embed scenes themselves."""
        return [name for name, config in self.models.items() if not config.truth]

    def embedded(self) -> list[Path]:
        """Every table of embeddings of a task."""
        return [self.layout.embeddings(model, task) for model in self.models for task in self.tasks_of(model)]

    def measured(self) -> list[str]:
        """Models whose speed is measured: a control's is that of its model."""
        return [name for name in self.embedding() if not isinstance(self.models[name], ControlConfig)]

    @staticmethod
    def any_of(names: list[str]) -> str:
        """A pattern that matches these names alone, and nothing where there are none."""
        return "|".join(map(re.escape, names)) or "(?!)"

    def pretrain_pools(self) -> list[str]:
        """Tasks for which the recipe makes a PRETRAIN pool."""
        tasks = self.release.rfgen.get("tasks", {})
        return [
            name for name, task in tasks.items() if (task.get("scenes") or task.get("captures") or {}).get("PRETRAIN")
        ]

    def code(self, program: str, *factories: str) -> str:
        """Digest of a program of ``scripts``, of what it reaches or loads by name, and of the libraries that count."""
        modules = [factory.partition(":")[0] for factory in factories if factory]
        path = self.home / "scripts" / f"{program}.py"
        digest = code_digest(path, modules)
        outside = [found for module in modules if (found := outside_digest(self.root, module))]
        return "-".join([digest, *outside])

    def embed_code(self, model: str) -> str:
        """Digest of the embedding program with the model's own module."""
        return self.code("embed", self.models[model].factory or "")

    def cost_code(self, model: str) -> str:
        """Digest of the program that counts costs, with the model's own module."""
        return self.code("measure_cost", self.models[model].factory or "")

    def speed_code(self) -> str:
        """Digest of the program that measures speed, with the models' own modules."""
        return self.code("measure_speed", *(self.models[model].factory or "" for model in self.measured()))

    def convert_code(self, name: str) -> str:
        """Digest of the program that converts a capture set, with the set's adapter."""
        return self.code("convert_captures", ADAPTER_CLASSES[self.captures[name][0].adapter])

    def embed_captures_code(self, model: str) -> str:
        """Digest of the program that embeds captured scenes, with the model's own module."""
        return self.code("embed_captures", self.models[model].factory or "")

    def control_code(self, model: str) -> str:
        """Digest of the program that makes a control's weights, with the model's own module."""
        return self.code("make_control", self.models[model].factory or "")

    def pretrain_code(self, model: str) -> str:
        """Digest of the training program with the function that the model's config names."""
        rule = self.models[model].pretrain
        return self.code("pretrain", rule.function if rule else "")
