# Weights that a rule trains, and the embeddings of every scene, once per model and task.


rule pretrain:
    input:
        expand(
            f"{RESULTS}/scenes/{{task}}/PRETRAIN.parquet", task=PLAN.pretrain_pools()
        ),
    output:
        f"{RESULTS}/weights/{{model}}.safetensors",
    log:
        f"{RESULTS}/logs/pretrain/{{model}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=lambda wildcards: PLAN.pretrain_code(wildcards.model),
        model=lambda wildcards: PLAN.model_text(wildcards.model),
        seed=SEED,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py pretrain --model-config config/models/{wildcards.model}.yaml --pools {input}"
        " --seed {params.seed} --out {output} 2> {log}"


rule embed:
    input:
        scenes=expand(
            f"{RESULTS}/scenes/{{{{task}}}}/{{split}}.parquet", split=["TRAIN", EVAL]
        ),
        weights=branch(
            lambda wildcards: wildcards.model in PLAN.pretrained(),
            then=f"{RESULTS}/weights/{{model}}.safetensors",
        ),
    output:
        f"{RESULTS}/embeddings/{{model}}/{{task}}.parquet",
    log:
        f"{RESULTS}/logs/embed/{{model}}/{{task}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=lambda wildcards: PLAN.embed_code(wildcards.model),
        model=lambda wildcards: PLAN.model_text(wildcards.model),
        weights=lambda wildcards, input: (
            f"--weights {input.weights}" if input.weights else ""
        ),
    shell:
        "python -IS $EMMA_HOME/scripts/run.py embed --model-config config/models/{wildcards.model}.yaml --scenes {input.scenes}"
        " {params.weights} --out {output} 2> {log}"
