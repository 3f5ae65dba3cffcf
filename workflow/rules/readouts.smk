# One pinned readout a fold, fit behind the guards, with its predictions.


rule fit_fold:
    input:
        manifest=f"{RESULTS}/release/manifest.json",
        train_index=f"{RESULTS}/scenes/{{task}}/TRAIN.index.parquet",
        eval_index=f"{RESULTS}/scenes/{{task}}/{EVAL}.index.parquet",
        train=f"{RESULTS}/splits/{{task}}/{{protocol}}/{{value}}/train.parquet",
        eval=f"{RESULTS}/splits/{{task}}/{{protocol}}/{{value}}/eval.parquet",
        embeddings=f"{RESULTS}/embeddings/{{model}}/{{task}}.parquet",
    output:
        readout=f"{RESULTS}/folds/{{model}}/{{task}}/{{protocol}}/{{value}}/readout.safetensors",
        predictions=f"{RESULTS}/folds/{{model}}/{{task}}/{{protocol}}/{{value}}/predictions.parquet",
    log:
        f"{RESULTS}/logs/fit/{{model}}/{{task}}/{{protocol}}/{{value}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/fit_fold.py"),
        eval_split=EVAL,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py fit_fold --manifest {input.manifest} --task {wildcards.task}"
        " --protocol {wildcards.protocol} --value {wildcards.value} --train {input.train} --eval {input.eval}"
        " --train-index {input.train_index} --eval-index {input.eval_index} --eval-split {params.eval_split}"
        " --embeddings {input.embeddings} --readout {output.readout} --predictions {output.predictions} 2> {log}"


rule folds:
    input:
        [
            f"{RESULTS}/folds/{model}/{task}/{protocol}/{value}/{file}"
            for model in PLAN.models
            for task in PLAN.tasks_of(model)
            for protocol, value in PLAN.folds(task)
            for file in ("readout.safetensors", "predictions.parquet", "metrics.json")
        ],
    localrule: True
