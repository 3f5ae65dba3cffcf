# One pinned readout per fold, fit behind the guards, with its predictions and those of its refits.


rule fit_fold:
    input:
        manifest=LAYOUT.manifest,
        train_index=LAYOUT.index("{task}", "TRAIN"),
        eval_index=LAYOUT.index("{task}", EVAL),
        labels=expand(LAYOUT.labels("{{task}}", "{split}"), split=["TRAIN", EVAL]),
        train=LAYOUT.side("{task}", "{protocol}", "{value}", "train"),
        eval=LAYOUT.side("{task}", "{protocol}", "{value}", "eval"),
        embeddings=LAYOUT.embeddings("{model}", "{task}"),
    output:
        readout=LAYOUT.readout("{model}", "{task}", "{protocol}", "{value}"),
        predictions=LAYOUT.predictions("{model}", "{task}", "{protocol}", "{value}"),
        refits=LAYOUT.refits("{model}", "{task}", "{protocol}", "{value}"),
    log:
        LAYOUT.log("fit", "{model}", "{task}", "{protocol}", "{value}"),
    conda:
        ENV
    params:
        code=code("fit_fold"),
        eval_split=EVAL,
    shell:
        program(
            "fit_fold",
            "--manifest {input.manifest} --task {wildcards.task}",
            "--protocol {wildcards.protocol} --value {wildcards.value} --train {input.train} --eval {input.eval}",
            "--train-index {input.train_index} --eval-index {input.eval_index} --eval-split {params.eval_split}",
            "--embeddings {input.embeddings} --readout {output.readout} --predictions {output.predictions}",
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
