# Weights that a rule trains, and the embeddings of every scene, once per model and task; an oracle's by the generator.


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
    wildcard_constraints:
        model=PLAN.any_of(PLAN.embedding()),
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


rule truth:
    input:
        channels=expand(LAYOUT.channels("{split}"), split=["TRAIN", EVAL]),
        indexes=expand(LAYOUT.index("{{task}}", "{split}"), split=["TRAIN", EVAL]),
    output:
        LAYOUT.embeddings("{model}", "{task}"),
    log:
        LAYOUT.log("truth", "{model}", "{task}"),
    wildcard_constraints:
        model=PLAN.any_of(PLAN.oracles()),
    conda:
        ENV
    params:
        code=code("make_truth"),
        model=lambda wildcards: PLAN.model_text(wildcards.model),
        recipe=PLAN.recipe_text(),
        release=RELEASE,
        splits=f"TRAIN {EVAL}",
    shell:
        program(
            "make_truth",
            "--release-config {params.release} --model-config config/models/{wildcards.model}.yaml",
            "--task {wildcards.task} --splits {params.splits} --channels {input.channels}",
            "--indexes {input.indexes} --out {output}",
        )
