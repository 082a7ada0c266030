# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``low_water``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="the lowest free capacity that each pool has reported",
    options="tonnage_low_water.options:list_opts",
    tables="tonnage_low_water.tables",
    scheduler="tonnage_low_water.scheduler_parts:build",
    api="tonnage_low_water.api_parts:build",
    policies="tonnage_low_water.api_parts:list_rules",
    commands={"low-water": "tonnage_low_water.commands:LowWater"},
    has_transaction_hooks=True,
)
