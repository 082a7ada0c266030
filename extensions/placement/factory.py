# SPDX-License-Identifier: Apache-2.0
"""Construction of the objects for processes that count usage from OpenStack Placement."""

from dataclasses import replace

from oslo_config import cfg

from tonnage.extensions.placement import options
from tonnage.extensions.placement.project_usage import PlacementUsage
from tonnage.ledger.db.database import Database
from tonnage.quotas import options as quota_options
from tonnage.quotas.options import Settings, Source


def is_enabled(conf: cfg.ConfigOpts) -> bool:
    """Return whether usage is counted from Placement."""
    return quota_options.source(conf) is Source.PLACEMENT


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` if usage is counted from Placement without account."""
    if is_enabled(conf):
        options.required(conf)


def add_usage(conf: cfg.ConfigOpts, database: Database, settings: Settings) -> Settings:
    """Return the settings of quotas with the reader of usage. Raises the same errors as :func:`validate`."""
    settings = replace(settings, placed_only=True)
    return replace(settings, external_usage=PlacementUsage(database, options.required(conf), settings))
