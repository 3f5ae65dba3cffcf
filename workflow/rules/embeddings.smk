# Weights that a rule trains or permutes, and the embeddings of every scene, once per model and task; an oracle's by the generator.


rule pretrain:
    input:
        expand(LAYOUT.scenes("{task}", "PRETRAIN"), task=PLAN.pretrain_pools()),
    output:
        LAYOUT.weights("{model}"),
    log:
        LAYOUT.log("pretrain", "{model}"),
    wildcard_constraints:
        model=PLAN.any_of(PLAN.pretrained()),
    priority: 1
    conda:
        ENV
    params:
        code=lambda wildcards: PLAN.pretrain_code(wildcards.model),
        model=lambda wildcards: PLAN.model_hash(wildcards.model),
        seed=SEED,
    shell:
        program(
            "pretrain",
            "--model-config config/models/{wildcards.model}.yaml --pools {input}",
            "--seed {params.seed} --out {output}",
        )


# The same network untrained: its weights permuted, running statistics of its layers estimated again on the pools.
rule control:
    input:
        pools=expand(LAYOUT.scenes("{task}", "PRETRAIN"), task=PLAN.pretrain_pools()),
        weights=branch(
            lambda wildcards: wildcards.original in PLAN.pretrained(),
            then=LAYOUT.weights("{original}"),
        ),
    output:
        LAYOUT.weights("{original}.control"),
    log:
        LAYOUT.log("pretrain", "{original}.control"),
    wildcard_constraints:
        original=PLAN.any_of([config.control_of for config in PLAN.controls().values()]),
    conda:
        ENV
    params:
        code=lambda wildcards: PLAN.control_code(wildcards.original),
        model=lambda wildcards: PLAN.model_hash(wildcards.original),
        seed=SEED,
        weights=lambda wildcards, input: (
            f"--weights {input.weights}" if input.weights else ""
        ),
    shell:
        program(
            "make_control",
            "--model-config config/models/{wildcards.original}.control.yaml {params.weights}",
            "--pools {input.pools} --seed {params.seed} --out {output}",
        )


rule embed:
    input:
        scenes=expand(LAYOUT.scenes("{{task}}", "{split}"), split=["TRAIN", EVAL]),
        weights=branch(
            lambda wildcards: wildcards.model in PLAN.weighted(),
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
        model=lambda wildcards: PLAN.model_hash(wildcards.model),
        weights=lambda wildcards, input: (
            f"--weights {input.weights}" if input.weights else ""
        ),
        windows=lambda wildcards: PLAN.windows(wildcards.task),
    shell:
        program(
            "embed",
            "--model-config config/models/{wildcards.model}.yaml --scenes {input.scenes}",
            "{params.weights} {params.windows} --out {output}",
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
        model=lambda wildcards: PLAN.model_hash(wildcards.model),
        recipe=PLAN.recipe_hash(),
        release=RELEASE,
        splits=f"TRAIN {EVAL}",
    shell:
        program(
            "make_truth",
            "--release-config {params.release} --model-config config/models/{wildcards.model}.yaml",
            "--task {wildcards.task} --splits {params.splits} --channels {input.channels}",
            "--indexes {input.indexes} --out {output}",
        )


# Counted, not measured, so that it is the same everywhere and may stand on the board.
rule cost:
    input:
        scenes=lambda wildcards: [
            LAYOUT.scenes(task, "TRAIN") for task in PLAN.tasks_of(wildcards.model)
        ],
        indexes=lambda wildcards: [
            LAYOUT.index(task, "TRAIN") for task in PLAN.tasks_of(wildcards.model)
        ],
        embeddings=lambda wildcards: [
            LAYOUT.embeddings(wildcards.model, task)
            for task in PLAN.tasks_of(wildcards.model)
        ],
        weights=branch(
            lambda wildcards: wildcards.model in PLAN.weighted(),
            then=LAYOUT.weights("{model}"),
        ),
    output:
        LAYOUT.cost("{model}"),
    log:
        LAYOUT.log("costs", "{model}"),
    wildcard_constraints:
        model=PLAN.any_of(PLAN.embedding()),
    conda:
        ENV
    params:
        code=lambda wildcards: PLAN.cost_code(wildcards.model),
        model=lambda wildcards: PLAN.described_hash(wildcards.model),
        weights=lambda wildcards, input: (
            f"--weights {input.weights}" if input.weights else ""
        ),
        windows=lambda wildcards: PLAN.windows(*PLAN.tasks_of(wildcards.model)),
    shell:
        program(
            "measure_cost",
            "--model-config config/models/{wildcards.model}.yaml --scenes {input.scenes} --indexes {input.indexes}",
            "--embeddings {input.embeddings} {params.weights} {params.windows} --out {output}",
        )
