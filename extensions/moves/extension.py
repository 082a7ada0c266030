# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``moves``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="plans that move volumes to empty, relieve or balance pools, or to make room",
    options="tonnage.extensions.moves.options:list_opts",
    check="tonnage.extensions.moves.scheduler_parts:check",
    tables="tonnage.extensions.moves.records.tables",
    scheduler="tonnage.extensions.moves.scheduler_parts:build",
    api="tonnage.extensions.moves.api_parts:build",
    policies="tonnage.extensions.moves.policy_rules:list_rules",
    commands={"plan": "tonnage.extensions.moves.plan_commands:Plan"},
)
