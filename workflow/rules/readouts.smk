# One pinned readout per fold, fit behind the guards, with its predictions and those of its refits. A fold and its
# reference of equal numbers are one job, which reads their scenes once. A rule per task and protocol.

for task in PLAN.tasks:
    for protocol, reference in PLAN.referenced(task):

        rule:
            name:
                PLAN.fit_rule(task, protocol)
            input:
                manifest=LAYOUT.manifest,
                train_index=LAYOUT.index(task, "TRAIN"),
                eval_index=LAYOUT.index(task, EVAL),
                labels=[LAYOUT.labels(task, split) for split in ("TRAIN", EVAL)],
                train=[
                    LAYOUT.side(task, name, "{value}", "train")
                    for name in (protocol, reference)
                ],
                eval=[
                    LAYOUT.side(task, name, "{value}", "eval")
                    for name in (protocol, reference)
                ],
                embeddings=LAYOUT.embeddings("{model}", task),
            output:
                readouts=[
                    LAYOUT.readout("{model}", task, name, "{value}")
                    for name in (protocol, reference)
                ],
                predictions=[
                    LAYOUT.predictions("{model}", task, name, "{value}")
                    for name in (protocol, reference)
                ],
                refits=[
                    LAYOUT.refits("{model}", task, name, "{value}")
                    for name in (protocol, reference)
                ],
            log:
                LAYOUT.log("fit", "{model}", task, protocol, "{value}"),
            conda:
                ENV
            # Minutes, where a scheduler asks: a group of jobs asks for the sum.
            resources:
                runtime=5,
            params:
                code=code("fit_fold"),
                task=task.value,
                protocols=f"{protocol} {reference}",
                eval_split=EVAL,
            shell:
                program(
                    "fit_fold",
                    "--manifest {input.manifest} --task {params.task}",
                    "--protocol {params.protocols} --value {wildcards.value} --train {input.train} --eval {input.eval}",
                    "--train-index {input.train_index} --eval-index {input.eval_index} --eval-split {params.eval_split}",
                    "--embeddings {input.embeddings} --readout {output.readouts} --predictions {output.predictions}",
                )


rule folds:
    input:
        [
            file(*place)
            for model in PLAN.models
            for place in PLAN.model_folds(model)
            for file in (
                LAYOUT.readout,
                LAYOUT.predictions,
                LAYOUT.refits,
                LAYOUT.metrics,
            )
        ],
    localrule: True
