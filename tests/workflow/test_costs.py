"""Costs are counted, the same on every run; speed is measured, and stays outside what is reproduced."""

import json

from emma.results.layout import Layout


def test_costs_are_counted_once_and_for_all(finished):
    layout = Layout(finished.results)
    task, model = "E-ID-AMC", "ssl_conv"
    options = [
        *("--model-config", f"config/models/{model}.yaml", "--scenes", layout.scenes(task, "TRAIN")),
        *("--indexes", layout.index(task, "TRAIN"), "--embeddings", layout.embeddings(model, task)),
        *("--weights", layout.weights(model)),
    ]
    made = [finished.folder / f"cost-{number}.json" for number in range(2)]
    for path in made:
        result = finished.script("measure_cost", *options, "--out", path)
        assert result.returncode == 0, result.stderr
    assert made[0].read_bytes() == made[1].read_bytes()
    cost = json.loads(made[0].read_text())
    # Three convolutions: 1,024 samples with stride 2, then 4 and 4, nine taps each.
    macs = 512 * 256 * 2 * 9 + 128 * 64 * 32 * 9 + 32 * 128 * 64 * 9
    assert cost["tasks"] == {task: {"macs": macs, "uncounted": None, "width": 512, "dead_features": 0}}
    assert cost["weights_bytes"] == layout.weights(model).stat().st_size
    assert cost["description"].startswith("convolutional encoder")


def test_speed_is_of_a_process_of_its_own_for_each_model(finished):
    layout = Layout(finished.results)
    report = finished.folder / "speed.json"
    configs = [f"config/models/{name}.yaml" for name in ("dsp", "ssl_conv")]
    options = ["--scenes", layout.scenes("E-ID-AMC", "DEV"), "--results", layout.root]
    result = finished.script("measure_speed", "--model-configs", *configs, *options, "--out", report)
    assert result.returncode == 0, result.stderr
    models = json.loads(report.read_text())["models"]
    assert "torch" in models["ssl_conv"]["libraries"]
    assert "torch" not in models["dsp"]["libraries"]
    for model in models.values():
        speed = model["tasks"]["E-ID-AMC"]
        assert speed["scenes"] == 132
        assert speed["scenes_per_second"] > 0
        assert 20 < speed["peak_memory_mib"] < 4000


def test_a_model_that_cannot_be_measured_is_one_line(finished):
    layout = Layout(finished.results)
    options = ["--model-configs", "config/models/none.yaml", "--scenes", layout.scenes("E-ID-AMC", "DEV")]
    result = finished.script("measure_speed", *options, "--results", layout.root, "--out", finished.folder / "no.json")
    assert result.returncode == 2
    assert result.stderr.splitlines() == ["config/models/none.yaml: no such file"]
