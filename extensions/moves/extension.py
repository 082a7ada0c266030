# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``moves``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="plans that move volumes to empty, relieve or balance pools, or to make room, and their execution",
    options="tonnage.extensions.moves.options:list_opts",
    check="tonnage.extensions.moves.scheduler_parts:check",
    tables="tonnage.extensions.moves.records.tables",
    scheduler="tonnage.extensions.moves.scheduler_parts:build",
    api="tonnage.extensions.moves.api_parts:build",
    metrics="tonnage.extensions.moves.plan_metrics:PlanSeries",
    policies="tonnage.extensions.moves.policy_rules:list_rules",
    commands={
        "plan": "tonnage.extensions.moves.plan_commands:Plan",
        "plan apply": "tonnage.extensions.moves.plan_execution_commands:PlanApply",
        "plan list": "tonnage.extensions.moves.plan_execution_commands:PlanList",
        "plan pause": "tonnage.extensions.moves.plan_execution_commands:PlanPause",
        "plan resume": "tonnage.extensions.moves.plan_execution_commands:PlanResume",
        "plan show": "tonnage.extensions.moves.plan_execution_commands:PlanShow",
        "plan stop": "tonnage.extensions.moves.plan_execution_commands:PlanStop",
    },
)
