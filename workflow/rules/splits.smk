# The folds of each task: which scenes are fit on, which are scored. A rule a task, since its folds are its own.

for task in PLAN.tasks:

    rule:
        name:
            f"splits_{task.replace('-', '_')}"
        input:
            manifest=f"{RESULTS}/release/manifest.json",
            indexes=expand(
                f"{RESULTS}/scenes/{task}/{{split}}.index.parquet",
                split=["TRAIN", EVAL],
            ),
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
            scenes=f"{RESULTS}/scenes",
            folder=f"{RESULTS}/splits/{task}",
            seed=SEED,
        shell:
            "{PYTHON} scripts/make_splits.py --manifest {input.manifest} --task {params.task} --scenes {params.scenes}"
            " --eval-split {EVAL} --seed {params.seed} --out {params.folder} 2> {log}"
