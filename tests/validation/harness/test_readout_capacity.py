"""The head is pinned per task: over its width or its parameters it is refused before it is fit; no model sets it."""

import numpy as np
import pytest

from common.errors import InputError
from common.files import parse
from emma import Split, TaskID
from emma.backbones.config import load_model_config
from emma.data.release import ReleaseConfig, load_release_config
from emma.readouts import make_readout
from emma.tasks import target_of


class Wide:
    """Noise of a stated width, drawn for each scene by itself."""

    name = "wide"

    def __init__(self, width: int) -> None:
        self.embedding_dim = width

    def embed(self, iq, sample_rate_hz, center_frequency_hz) -> np.ndarray:
        seeds = [int.from_bytes(scene.tobytes()[:8], "little") for scene in iq]
        rows = [np.random.default_rng(seed).standard_normal(self.embedding_dim) for seed in seeds]
        return np.array(rows, np.float32)


@pytest.mark.parametrize("task", [task.value for task in TaskID])
def test_a_wider_embedding_is_refused(small, task: str) -> None:
    with pytest.raises(InputError, match="embedding_dim: 2049 is wider than the pinned 2048"):
        small.evaluator.evaluate(Wide(2049), task)


@pytest.mark.parametrize("task", [task.value for task in TaskID])
def test_a_head_over_its_parameters_is_refused_before_it_is_fit(small, task: str, monkeypatch) -> None:
    """At the widest embedding the pinned head just fits; one parameter less and it is refused."""
    spec = small.manifest.spec(task)
    head = make_readout(spec)
    width = spec.readout.max_embedding_dim
    assert head.parameters(width) <= spec.readout.max_parameters
    tight = spec.readout.model_copy(update={"max_parameters": head.parameters(width) - 1})
    head = make_readout(spec.model_copy(update={"readout": tight}))
    monkeypatch.setattr(type(head), "_fit", lambda *_: pytest.fail("fit in spite of its capacity"))
    with pytest.raises(InputError, match=f"parameters for width {width}, over the pinned {tight.max_parameters}"):
        several = spec.target in {"beam", "channel"}
        # A row of a dense readout holds the embeddings of all windows.
        row = width * getattr(head, "windows", 1)
        head.fit(np.zeros((4, row)), np.zeros((4, head.target.width) if several else 4))
    assert head.tensors == {}


def test_the_count_is_that_of_the_fitted_weights(small) -> None:
    """What ``parameters`` promises is what the fit holds, but for standardisation and enrolled centroids."""
    rng = np.random.default_rng(0)
    for task, spec in small.manifest.tasks.items():
        kind = target_of(spec)
        target = kind.numbers(kind.encode(small.index(task)[0][kind.column]))
        head = make_readout(spec)
        head.fit(rng.standard_normal((len(target), 9 * getattr(head, "windows", 1))), target)
        held = sum(v.size for name, v in head.tensors.items() if name in {"weights", "intercept", "projection"})
        assert held == head.parameters(9), task
        chosen = {"regularisation", "validation_losses"}
        # Of the labels alone, whatever the embedding.
        chosen |= {"level", "basis"} if spec.readout.kind == "reduced_ridge" else set()
        chosen |= {"known", "most_frequent"} if spec.target == "answer" else set()
        # A head that asks neighbours keeps what they are and say, and fits nothing.
        chosen |= {"features", "texts", "lengths", "captions"} if spec.readout.kind == "consensus" else set()
        assert set(head.tensors) <= {"weights", "intercept", "projection", "mean", "scale"} | chosen


def test_every_release_pins_every_head(releases) -> None:
    """Linear heads of at most 2,048 features; nothing larger than a linear map to the task's outputs, or components."""
    for path in releases:
        config = load_release_config(path)
        for task, spec in config.tasks.items():
            assert spec.readout.max_embedding_dim == 2048
            components = spec.readout.components or 0
            outputs = max(len(spec.classes), 2, 2 * components, 2 * (spec.readout.window or 0))
            outputs = components if spec.target == "anomaly" else outputs
            asked = (spec.readout.questions or {}).values()
            outputs = sum(len(kind.heads) * len(kind.answers) for kind in asked) or outputs
            assert spec.readout.max_parameters <= 2049 * outputs, (path.stem, task)


@pytest.mark.parametrize("key", ["readout", "max_parameters", "regularisation"])
def test_a_model_cannot_bring_its_own_head(models, tmp_path, key: str) -> None:
    (tmp_path / "dsp.yaml").write_text((models / "dsp.yaml").read_text() + f"{key}: {{kind: mlp}}\n")
    with pytest.raises(InputError, match=f"{key}: unknown key"):
        load_model_config(tmp_path / "dsp.yaml")


def test_an_unknown_head_is_no_release(small_release) -> None:
    data = small_release()
    data["tasks"]["E-LOC-LOS"]["readout"]["kind"] = "mlp"
    with pytest.raises(InputError, match=r"E-LOC-LOS: readout\.kind: mlp does not fit target binary"):
        parse(ReleaseConfig, data, "small.yaml")


def test_the_capacity_is_pinned_by_the_release_hash(small) -> None:
    spec = small.manifest.spec("E-LOC-LOS")
    head = spec.readout.model_copy(update={"max_parameters": spec.readout.max_parameters + 1})
    tasks = small.manifest.tasks | {TaskID.E_LOC_LOS: spec.model_copy(update={"readout": head})}
    assert small.manifest.model_copy(update={"tasks": tasks}).data_release_hash != small.manifest.data_release_hash
    assert Split.TRAIN in small.manifest.splits[TaskID.E_LOC_LOS]
