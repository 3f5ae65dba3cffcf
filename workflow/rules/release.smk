# The release archive: everything that a result rests on but the scenes' samples, in one zip.


rule archive:
    input:
        board=f"{RESULTS}/leaderboard.json",
        stress=f"{RESULTS}/reports/stress.json",
        folds=rules.folds.input,
    output:
        f"{RESULTS}/release/emma-{PLAN.release.release}.zip",
    log:
        f"{RESULTS}/logs/archive.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/build_archive.py"),
    shell:
        "python -IS $EMMA_HOME/scripts/run.py build_archive --results $(dirname {input.board}) --out {output} 2> {log}"
