# SPDX-License-Identifier: Apache-2.0
"""The declaration of the extension ``history``."""

from tonnage.extension import Extension

EXTENSION = Extension(
    summary="the history of pools and volume types, forecasts, and refusals to come",
    scheduler="tonnage.extensions.history.scheduler_parts:build",
    tables="tonnage.extensions.history.tables",
    api="tonnage.extensions.history.api.api_parts:build",
    metrics="tonnage.extensions.history.api.history_metrics:HistorySeries",
    policies="tonnage.extensions.history.api.policy_rules:list_rules",
    commands={"forecast": "tonnage.extensions.history.forecast_commands:Forecast"},
)
