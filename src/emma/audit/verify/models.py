"""Checks of what the models are: weights, configs, and controls that are what they say."""

from __future__ import annotations

from pathlib import Path

from common.errors import InputError
from common.hashing import file_sha256
from emma.audit.verify.base import Check
from emma.audit.verify.levels import Level
from emma.audit.verify.results import Results
from emma.backbones.config import ControlConfig, ModelConfig, config_file, load_model_config
from emma.backbones.controls import original_weights, running_statistics, unlike_permuted
from emma.backbones.load import load_weights
from emma.data.provenance import Provenance

_ABSENT = "files of weights not at hand"


class Weights(Check):
    """Weights that a rule trained, and the configs of the models, are those that the runs name."""

    name = "models"

    def run(self, results: Results) -> None:
        """Hash weights and configs again, compare them with each run's ``model_provenance``, permute controls again."""
        for model, path in results.run_files().items():
            with self.item(path):
                provenance = results.run(model).run_manifest.model_provenance
                weights = results.layout.weights(model)
                if weights.is_file() and provenance.weights_sha256 != file_sha256(weights):
                    self.fault(weights, "weights_sha256: is not the one of the run record")
                if results.is_submitted(model):
                    continue
                config_path = results.project and results.project / "config" / "models" / f"{model}.yaml"
                if config_path is None or not config_file(config_path).is_file():
                    self.miss("model configs not at hand", Level.CONSISTENT)
                    continue
                config = load_model_config(config_path)
                made = config.pretrain is not None or isinstance(config, ControlConfig)
                self._pinned(config, results.project, weights if made else None)
                digest = provenance.weights_sha256 if made else config.weights_sha256
                expected = Provenance.of(model, config, config.pretraining, digest)
                # Where it ran, no config says; --deep embeds again.
                expected = expected.model_copy(update={"device": provenance.device})
                self.compare(path, {"model_provenance": provenance}, {"model_provenance": expected})
                if isinstance(config, ControlConfig) and weights.is_file():
                    self._permuted(results, config, weights)
                if results.run(model).kind != config.kind:
                    self.fault(path, f"kind: expected {config.kind}, as {config_path} says")
                control_of = config.control_of if isinstance(config, ControlConfig) else None
                self.compare(path, {"control_of": results.run(model).control_of}, {"control_of": control_of})

    def _pinned(self, config: ModelConfig, project: Path | None, made: Path | None) -> None:
        """Compare weights at hand with their pin; those that a rule made were compared with the run record."""
        if made is not None or config.pinned is None or project is None:
            if made is not None and not made.is_file():
                self.miss(_ABSENT)
            return
        path = project / config.pinned
        if not path.is_file():
            self.miss(_ABSENT)
        elif file_sha256(path) != config.weights_sha256:
            self.fault(path, f"weights_sha256: is not the one that {config.name}'s config pins")

    def _permuted(self, results: Results, config: ControlConfig, weights: Path) -> None:
        """Permute the model's weights again and compare; without them at hand, the hash is all that is checked."""
        trained, root = results.layout.weights(config.control_of), results.project or results.root
        try:
            original = original_weights(config, root, trained if config.pretrain is not None else None)
        except InputError:
            self.miss("controls whose model's weights are not at hand")
            return
        made, _ = load_weights(weights)
        if name := unlike_permuted(original, made, results.seed(), running_statistics(config, original, root)):
            self.fault(weights, f"{name}: is not that of {config.control_of}, permuted with seed {results.seed()}")
