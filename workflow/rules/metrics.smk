# Metrics of every fold: one job a model and task, which loads the metric library once. A rule a task and kind of fold.

for task in PLAN.tasks:
    for kind, stress in (("score", False), ("stress", True)):
        if not PLAN.folds(task, stress=stress):
            continue

        rule:
            name:
                f"{kind}_{task.replace('-', '_')}"
            input:
                manifest=f"{RESULTS}/release/manifest.json",
                predictions=[
                    f"{RESULTS}/folds/{{model}}/{task}/{protocol}/{value}/predictions.parquet"
                    for protocol, value in PLAN.folds(task, stress=stress)
                    + [PLAN.reference] * stress
                ],
                readouts=[
                    f"{RESULTS}/folds/{{model}}/{task}/{protocol}/{value}/readout.safetensors"
                    for protocol, value in PLAN.folds(task, stress=stress)
                    + [PLAN.reference] * stress
                ],
                folds=[
                    f"{RESULTS}/splits/{task}/{protocol}/{value}/eval.parquet"
                    for protocol, value in PLAN.folds(task, stress=stress)
                    + [PLAN.reference] * stress
                ],
            output:
                metrics=[
                    f"{RESULTS}/folds/{{model}}/{task}/{protocol}/{value}/metrics.json"
                    for protocol, value in PLAN.folds(task, stress=stress)
                ],
                replicates=f"{RESULTS}/folds/{{model}}/{task}/{kind}_replicates.parquet",
            log:
                f"{RESULTS}/logs/{kind}/{{model}}/{task}.log",
            conda:
                "../../envs/emma.yaml"
            params:
                code=code("scripts/score_task.py"),
                task=task.value,
                seed=SEED,
            shell:
                "python -IS $EMMA_HOME/scripts/run.py score_task --manifest {input.manifest} --model {wildcards.model}"
                " --task {params.task} --predictions {input.predictions} --folds {input.folds} --metrics {output.metrics}"
                " --seed {params.seed} --replicates {output.replicates} 2> {log}"
