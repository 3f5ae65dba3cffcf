"""The bootstrap interval of AUC against scipy.stats.bootstrap: 1,000 resamples of 10,000 scenes, percentiles.

scipy's statistic is the fastest of those tried: the area from scipy's own ranks. That with scikit-learn's
``roc_auc_score``, which most would write, stands among the checks.
"""

import numpy as np
from measuring import deliver, figure, in_turn, parser
from scipy.stats import bootstrap, rankdata
from sklearn.metrics import roc_auc_score

from emma.evaluation.statistics import bootstrap_interval
from emma.metrics import METRICS


def area(scores: np.ndarray, target: np.ndarray) -> float:
    """AUC from ranks (Mann and Whitney)."""
    ranks, positive = rankdata(scores), target == 1
    count = positive.sum()
    return (ranks[positive].sum() - count * (count + 1) / 2) / (count * (len(target) - count))


def main() -> None:
    """Time both, and compare the intervals."""
    options = parser(__doc__, 5).parse_args()
    n, resamples = (200, 100) if options.tiny else (10_000, 1_000)
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, n)
    scores = rng.standard_normal(n) + 0.5 * target
    intervals = {}

    def ours() -> None:
        intervals["ours"] = bootstrap_interval(METRICS["AUC"], scores, target, seed=0, n_resamples=resamples)

    def other(statistic=area) -> None:
        made = bootstrap(
            (scores, target),
            statistic,
            paired=True,
            vectorized=False,
            n_resamples=resamples,
            method="percentile",
            rng=np.random.default_rng(0),
        )
        intervals["other"] = tuple(made.confidence_interval)

    runs = in_turn(ours, other, options.runs)
    low, high = intervals["other"]
    gap = max(abs(intervals["ours"][0] - low), abs(intervals["ours"][1] - high)) / (high - low)
    usual = in_turn(lambda: other(lambda s, t: roc_auc_score(t, s)), None, 1, warm=False)[0]
    checks = {
        "intervals_differ_by_share_of_width": float(gap),
        "intervals_agree": bool(gap < 0.25),
        "scipy_with_roc_auc_score_s": usual.wall[0],
    }
    what = f"AUC, {resamples} resamples of {n} scenes"
    against = "scipy.stats.bootstrap"
    deliver(
        [figure("bootstrap", what, against, ours=runs[0], other=runs[1], target=20.0, sense="at least", checks=checks)],
        options,
    )


if __name__ == "__main__":
    main()
