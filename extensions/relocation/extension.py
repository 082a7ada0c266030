# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``relocation``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="plans of moves for an OpenStack cloud, which Cinder carries out",
    options="tonnage.extensions.relocation.relocation_options:list_opts",
    commands={
        "cinder plan": "tonnage.extensions.relocation.relocation_commands:CloudPlan",
        "cinder plan apply": "tonnage.extensions.relocation.execution_commands:CloudPlanApply",
        "cinder plan list": "tonnage.extensions.relocation.record_commands:CloudPlanList",
        "cinder plan pause": "tonnage.extensions.relocation.record_commands:CloudPlanPause",
        "cinder plan resume": "tonnage.extensions.relocation.record_commands:CloudPlanResume",
        "cinder plan run": "tonnage.extensions.relocation.execution_commands:CloudPlanRun",
        "cinder plan show": "tonnage.extensions.relocation.record_commands:CloudPlanShow",
        "cinder plan stop": "tonnage.extensions.relocation.record_commands:CloudPlanStop",
    },
)
