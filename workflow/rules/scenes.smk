# Rays and scenes by the generator, and the manifest that freezes them.
# With training they are the longest chain of a cold run: what has priority starts before all else.


rule channels:
    output:
        LAYOUT.channels("{split}"),
    log:
        LAYOUT.log("channels", "{split}"),
    priority: 1
    conda:
        ENV
    params:
        code=code("make_channels"),
        recipe=PLAN.recipe_hash(),
        release=RELEASE,
    shell:
        program(
            "make_channels",
            "--release-config {params.release} --split {wildcards.split} --out {output}",
        )


rule scenes:
    input:
        LAYOUT.channels("{split}"),
    output:
        scenes=LAYOUT.scenes("{task}", "{split}"),
        index=LAYOUT.index("{task}", "{split}"),
        labels=LAYOUT.labels("{task}", "{split}"),
    log:
        LAYOUT.log("scenes", "{task}", "{split}"),
    priority: 1
    conda:
        ENV
    params:
        code=code("make_scenes"),
        recipe=PLAN.recipe_hash(),
        release=RELEASE,
    shell:
        program(
            "make_scenes",
            "--release-config {params.release} --task {wildcards.task} --split {wildcards.split}",
            "--channels {input} --out {output.scenes} --index {output.index}",
        )


rule release_manifest:
    input:
        indexes=expand(
            LAYOUT.index("{task}", "{split}"),
            task=PLAN.tasks,
            split=PLAN.frozen_splits(),
        ),
        labels=expand(
            LAYOUT.labels("{task}", "{split}"),
            task=PLAN.tasks,
            split=PLAN.frozen_splits(),
        ),
    output:
        LAYOUT.manifest,
    log:
        LAYOUT.log("release_manifest"),
    conda:
        ENV
    params:
        code=code("freeze_release", "rfgen.scenes", "rfgen.channels"),
        scoring=PLAN.scoring_hash(),
        commitment=PLAN.commitment_hash(),
        release=RELEASE,
    shell:
        program(
            "freeze_release",
            "--release-config {params.release} --indexes {input.indexes} --out {output}",
        )
