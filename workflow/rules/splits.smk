# The folds of each task: which scenes are fit on, which are scored. A rule a task, since its folds are its own.

for task in PLAN.tasks:

    rule:
        name:
            f"splits_{task.replace('-', '_')}"
        input:
            manifest=f"{RESULTS}/release/manifest.json",
            train=f"{RESULTS}/scenes/{task}/TRAIN.index.parquet",
            eval=f"{RESULTS}/scenes/{task}/{EVAL}.index.parquet",
        output:
            [
                f"{RESULTS}/splits/{task}/{protocol}/{value}/{side}.parquet"
                for protocol, value in PLAN.folds(task) + PLAN.folds(task, stress=True)
                for side in ("train", "eval")
            ],
        log:
            f"{RESULTS}/logs/splits/{task}.log",
        conda:
            "../../envs/emma.yaml"
        params:
            code=code("scripts/make_splits.py"),
            task=task.value,
            eval_split=EVAL,
            seed=SEED,
        shell:
            "python -IS $EMMA_HOME/scripts/run.py make_splits --manifest {input.manifest} --task {params.task} --train-index {input.train}"
            " --eval-index {input.eval} --eval-split {params.eval_split} --seed {params.seed} --out {output} 2> {log}"
