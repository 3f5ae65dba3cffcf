"""Time the metrics: a million scores against one numpy sort of them, and bootstrap intervals of every metric."""

import argparse
import time
from collections.abc import Callable

import numpy as np

from emma.evaluation.statistics import bootstrap_interval
from emma.metrics import METRICS

WORDS = ["a", "at", "in", "the", "weak", "wide", "near", "far", "tone", "signal", "drone", "phone", "tower", "mast"]
WORDS += ["band", "noise", "qpsk", "bpsk", "strong", "narrow"]


def best_of(repeats: int, run: Callable[[], object]) -> float:
    """Return the least wall time of some runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return min(times)


def samples(name: str, n: int, classes: int, rng: np.random.Generator) -> tuple[object, object]:
    """Return n random predictions and targets that suit the metric."""
    if name == "MeanAngularError":
        return rng.uniform(0, 360, n), rng.uniform(0, 360, n)
    if name in {"AUC", "AUROC", "EER"}:
        return rng.standard_normal(n), rng.integers(0, 2, n)
    if name in {"BalancedAccuracy", "PlainAccuracy", "Top1Accuracy", "TopKAccuracy"}:
        return rng.standard_normal((n, classes)), rng.integers(0, classes, n)
    if name == "PowerLoss":
        return rng.standard_normal((n, classes)), rng.random((n, classes))
    if name in {"NMSE", "SISDR", "SISDRImprovement"}:
        target = rng.standard_normal((n, 2, 256)) + 1j * rng.standard_normal((n, 2, 256))
        preds = target[:, 1] + rng.standard_normal((n, 256))
        return preds, target if name == "SISDRImprovement" else target[:, 1]
    captions = [" ".join(rng.choice(WORDS, rng.integers(6, 14))) for _ in range(3 * n)]
    return captions[:n], [captions[i : i + 2] for i in range(n, 3 * n, 2)]


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scores", type=int, default=1_000_000, help="number of scores to rank")
    parser.add_argument("--scenes", type=int, default=2_000, help="number of scenes to resample")
    parser.add_argument("--resamples", type=int, default=1_000, help="number of resamples")
    parser.add_argument("--classes", type=int, default=20, help="number of classes")
    parser.add_argument("--repeats", type=int, default=5, help="runs of each, the best of which counts")
    options = parser.parse_args()
    rng = np.random.default_rng(0)

    scores, target = samples("AUC", options.scores, 2, rng)
    sort = best_of(options.repeats, lambda: np.sort(scores))
    print(f"numpy sort of {options.scores} scores: {1e3 * sort:.1f} ms")
    for name, preds in {
        "AUC": scores,
        "EER": scores,
        "BalancedAccuracy (labels)": (scores > 0).astype(int),
        "BalancedAccuracy (scores)": np.stack([-scores, scores], axis=1),
    }.items():
        metric = METRICS[name.split()[0]]
        metric(preds[:5], target[:5])  # imports the library
        for what, call in (("library", metric), ("kernel", metric.kernel)):
            taken = best_of(options.repeats, lambda call=call, preds=preds: call(preds, target))
            print(f"{name}, {what}: {1e3 * taken:.1f} ms, {taken / sort:.1f} sorts")

    print(f"bootstrap interval, {options.resamples} resamples of {options.scenes} scenes (import, first call, then):")
    cases = {name: samples(name, options.scenes, options.classes, rng) for name in METRICS}
    cases["AUC (classes)"] = samples("Top1Accuracy", options.scenes, options.classes, rng)
    for name, (preds, target) in cases.items():
        metric = METRICS[name.split()[0]]
        first = best_of(1, lambda metric=metric, preds=preds, target=target: metric(preds[:5], target[:5]))
        taken = best_of(
            1,
            lambda metric=metric, preds=preds, target=target: bootstrap_interval(
                metric, preds, target, seed=0, n_resamples=options.resamples
            ),
        )
        print(f"{name}: {first:.2f} s, {taken:.3f} s")


if __name__ == "__main__":
    main()
