# Rays and scenes by the generator, and the manifest that freezes them.


rule channels:
    output:
        f"{RESULTS}/channels/{{split}}.parquet",
    log:
        f"{RESULTS}/logs/channels/{{split}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/make_channels.py"),
        recipe=PLAN.recipe_text(),
        release=RELEASE,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py make_channels --release-config {params.release} --split {wildcards.split} --out {output} 2> {log}"


rule scenes:
    input:
        f"{RESULTS}/channels/{{split}}.parquet",
    output:
        scenes=f"{RESULTS}/scenes/{{task}}/{{split}}.parquet",
        index=f"{RESULTS}/scenes/{{task}}/{{split}}.index.parquet",
    log:
        f"{RESULTS}/logs/scenes/{{task}}/{{split}}.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/make_scenes.py"),
        recipe=PLAN.recipe_text(),
        release=RELEASE,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py make_scenes --release-config {params.release} --task {wildcards.task} --split {wildcards.split}"
        " --channels {input} --out {output.scenes} --index {output.index} 2> {log}"


rule release_manifest:
    input:
        expand(
            f"{RESULTS}/scenes/{{task}}/{{split}}.index.parquet",
            task=PLAN.tasks,
            split=["TRAIN", "DEV"],
        ),
    output:
        f"{RESULTS}/release/manifest.json",
    log:
        f"{RESULTS}/logs/release_manifest.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/freeze_release.py", "rfgen.scenes", "rfgen.channels"),
        scoring=PLAN.scoring_text(),
        release=RELEASE,
    shell:
        "python -IS $EMMA_HOME/scripts/run.py freeze_release --release-config {params.release} --indexes {input} --out {output} 2> {log}"
