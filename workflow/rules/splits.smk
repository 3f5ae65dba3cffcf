# The folds of each task: which scenes are fit on, which are scored. A rule per task, since its folds are its own.

for task in PLAN.tasks:

    rule:
        name:
            f"splits_{task.replace('-', '_')}"
        input:
            manifest=LAYOUT.manifest,
            train=LAYOUT.index(task, "TRAIN"),
            eval=LAYOUT.index(task, EVAL),
            labels=[LAYOUT.labels(task, split) for split in ("TRAIN", EVAL)],
        output:
            [
                LAYOUT.side(task, protocol, value, side)
                for protocol, value in PLAN.folds(task) + PLAN.folds(task, stress=True)
                for side in ("train", "eval")
            ],
        log:
            LAYOUT.log("splits", task),
        conda:
            ENV
        params:
            code=code("make_splits"),
            task=task.value,
            eval_split=EVAL,
            seed=SEED,
        shell:
            program(
                "make_splits",
                "--manifest {input.manifest} --task {params.task} --train-index {input.train}",
                "--eval-index {input.eval} --eval-split {params.eval_split} --seed {params.seed} --out {output}",
            )
