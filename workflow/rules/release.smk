# The release archive: everything that a result rests on but the scenes' samples, in one zip.


rule archive:
    input:
        f"{RESULTS}/leaderboard.json",
        f"{RESULTS}/reports/stress.json",
        rules.folds.input,
    output:
        f"{RESULTS}/release/emma-{PLAN.release.release}.zip",
    log:
        f"{RESULTS}/logs/archive.log",
    conda:
        "../../envs/emma.yaml"
    params:
        code=code("scripts/build_archive.py"),
        results=RESULTS,
    shell:
        "python scripts/build_archive.py --results {params.results} --out {output} 2> {log}"
