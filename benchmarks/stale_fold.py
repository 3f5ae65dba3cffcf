"""One stale fold on a finished tree: its fit, its task's scoring, the run record and the board again."""

import json

from measuring import deliver, figure, parser, processes_in_turn, results_of, snakemake


def main() -> None:
    """Force one fold's fit and what follows from it."""
    options = parser(__doc__, 3, tree=True).parse_args()
    results = results_of(options.tree, options.release)
    fold = results / "folds/dsp/E-LOC-AOA/leave-one-environment-out/E_URBAN/readout.safetensors"
    target = (results / "leaderboard.json").relative_to(options.tree)
    before = (results / "leaderboard.json").read_bytes()
    made = []

    def stale():
        fold.unlink(missing_ok=True)
        name = fold.relative_to(options.tree)
        run = snakemake(options.tree, target, "--config", f"release={options.release}", "--forcerun", name)
        made.append(fold.exists())
        return run

    (ours,) = processes_in_turn([stale], options.runs, warm=False)
    same = json.loads(before) == json.loads((results / "leaderboard.json").read_bytes())
    checks = {"board_equal": same, "fold_made": all(made)}
    what = f"one stale fold, release {options.release}"
    deliver([figure("stale_fold", what, "15 s", ours=ours, target=15.0, sense="at most", checks=checks)], options)


if __name__ == "__main__":
    main()
