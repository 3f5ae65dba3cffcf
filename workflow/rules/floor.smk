# EasyCom floor events: configured runs and sessions -> converted arrays -> results/floor_events/summary.json and
# its tables. Off unless config `floor_events: enabled: true`; no EasyCom data ships. Uses RESULTS, code() and refuse().
import shlex

from floor_events.config import plan as floor_plan
from common.errors import InputError

try:
    FLOOR = floor_plan(config.get("floor_events"), RESULTS)
except InputError as error:
    refuse(error)

FLOOR_TARGETS = FLOOR.outputs if FLOOR else []

for conversion in FLOOR.conversions if FLOOR else []:

    rule:
        name:
            conversion.rule
        input:
            conversion.inputs,
        output:
            conversion.outputs,
        log:
            f"{RESULTS}/logs/floor_events/{conversion.rule}.log",
        conda:
            "../../envs/emma.yaml"
        params:
            options=shlex.join(conversion.options),
            code=code("scripts/prepare_egospeak_floor_eval.py"),
        shell:
            "python -IS $EMMA_HOME/scripts/run.py prepare_egospeak_floor_eval {params.options} > {log} 2>&1"


if FLOOR:

    rule floor_evaluate:
        input:
            FLOOR.inputs,
        output:
            FLOOR.outputs,
            text=f"{RESULTS}/floor_events/summary.txt",
        log:
            f"{RESULTS}/logs/floor_events/floor_evaluate.log",
        conda:
            "../../envs/emma.yaml"
        params:
            options=shlex.join(FLOOR.options),
            code=code("scripts/evaluate_floor_state_changes.py"),
        shell:
            "python -IS $EMMA_HOME/scripts/run.py evaluate_floor_state_changes {params.options} > {output.text} 2> {log}"

    rule floor_events:
        input:
            FLOOR_TARGETS,
        localrule: True
