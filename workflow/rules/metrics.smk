# Metrics of every fold: one job per model and task, which loads the metric library once. A rule per task and kind of fold.

for task in PLAN.tasks:
    for kind, stress in (("score", False), ("stress", True)):
        scored = PLAN.folds(task, stress=stress)
        if not scored:
            continue

        rule:
            name:
                f"{kind}_{task.replace('-', '_')}"
            input:
                manifest=LAYOUT.manifest,
                predictions=[
                    LAYOUT.predictions("{model}", task, *fold) for fold in scored
                ],
                readouts=[LAYOUT.readout("{model}", task, *fold) for fold in scored],
                refits=[LAYOUT.refits("{model}", task, *fold) for fold in scored],
                folds=[LAYOUT.side(task, *fold, "eval") for fold in scored],
            output:
                metrics=[LAYOUT.metrics("{model}", task, *fold) for fold in scored],
                replicates=LAYOUT.replicates("{model}", task, kind),
            log:
                LAYOUT.log(kind, "{model}", task),
            conda:
                ENV
            params:
                code=code("score_task"),
                task=task.value,
                seed=SEED,
            shell:
                program(
                    "score_task",
                    "--manifest {input.manifest} --model {wildcards.model}",
                    "--task {params.task} --predictions {input.predictions} --folds {input.folds} --metrics {output.metrics}",
                    "--seed {params.seed} --replicates {output.replicates}",
                )
