# EasyCom floor events: configured runs and sessions -> converted arrays -> results/floor_events/summary.json and
# its tables. Off unless config `floor_events: enabled: true`; no EasyCom data ships.
import shlex

from floor_events.config import plan as floor_plan
from common.errors import InputError

try:
    FLOOR = floor_plan(config.get("floor_events"), PLAN.results)
    if FLOOR and workflow.is_main_process:
        check_outputs(PLAN, FLOOR.outputs)
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
            LAYOUT.log("floor_events", conversion.rule),
        conda:
            ENV
        params:
            options=shlex.join(conversion.options),
            code=code("prepare_egospeak_floor_eval"),
        shell:
            program(
                "prepare_egospeak_floor_eval",
                "{params.options}",
                stdout="&2",
            )


if FLOOR:

    rule floor_evaluate:
        input:
            FLOOR.inputs,
        output:
            FLOOR.outputs,
            text=LAYOUT.floor_events("summary.txt"),
        log:
            LAYOUT.log("floor_events", "floor_evaluate"),
        conda:
            ENV
        params:
            options=shlex.join(FLOOR.options),
            code=code("evaluate_floor_state_changes"),
        shell:
            program(
                "evaluate_floor_state_changes",
                "{params.options}",
                stdout="{output.text}",
            )

    rule floor_events:
        input:
            FLOOR_TARGETS,
        localrule: True
