# Weights that a rule trains, and the embeddings of every scene, once per model and task.


rule pretrain:
    input:
        expand(LAYOUT.scenes("{task}", "PRETRAIN"), task=PLAN.pretrain_pools()),
    output:
        LAYOUT.weights("{model}"),
    log:
        LAYOUT.log("pretrain", "{model}"),
    priority: 1
    conda:
        ENV
    params:
        code=lambda wildcards: PLAN.pretrain_code(wildcards.model),
        model=lambda wildcards: PLAN.model_text(wildcards.model),
        seed=SEED,
    shell:
        program(
            "pretrain",
            "--model-config config/models/{wildcards.model}.yaml --pools {input}",
            "--seed {params.seed} --out {output}",
        )


rule embed:
    input:
        scenes=expand(LAYOUT.scenes("{{task}}", "{split}"), split=["TRAIN", EVAL]),
        weights=branch(
            lambda wildcards: wildcards.model in PLAN.pretrained(),
            then=LAYOUT.weights("{model}"),
        ),
    output:
        LAYOUT.embeddings("{model}", "{task}"),
    log:
        LAYOUT.log("embed", "{model}", "{task}"),
    conda:
        ENV
    params:
        code=lambda wildcards: PLAN.embed_code(wildcards.model),
        model=lambda wildcards: PLAN.model_text(wildcards.model),
        weights=lambda wildcards, input: (
            f"--weights {input.weights}" if input.weights else ""
        ),
    shell:
        program(
            "embed",
            "--model-config config/models/{wildcards.model}.yaml --scenes {input.scenes}",
            "{params.weights} --out {output}",
        )
