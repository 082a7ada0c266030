# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``placement``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="volumes as allocations in OpenStack Placement, and quotas that count usage from there",
    check="tonnage.extensions.placement.factory:validate",
    scheduler="tonnage.extensions.placement.scheduler_parts:build",
    usage_sources={"placement": "tonnage.extensions.placement.factory:add_usage"},
    tables="tonnage.extensions.placement.tables",
    manage_commands={
        "db online_data_migrations": "tonnage.extensions.placement.allocation_migration:OnlineDataMigrations"
    },
)
