# SPDX-License-Identifier: Apache-2.0
"""Construction of the objects for processes that count usage from OpenStack Placement."""

from dataclasses import replace

from oslo_config import cfg

from tonnage.extensions.placement import options
from tonnage.extensions.placement.allocation_writer import AllocationWriter
from tonnage.extensions.placement.project_usage import PlacementUsage
from tonnage.extensions.placement.sync_thread import SyncThread, Turns
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


def quota_settings(conf: cfg.ConfigOpts, database: Database) -> Settings:
    """Return the settings of quotas with the reader of usage. Raises the same errors as :func:`validate`."""
    settings = quota_options.from_conf(conf)
    return (
        replace(settings, external_usage=PlacementUsage(database, options.required(conf), settings))
        if is_enabled(conf)
        else settings
    )


def create_sync_thread(conf: cfg.ConfigOpts, database: Database, turns: Turns) -> SyncThread | None:
    """Return the thread that updates Placement, None if usage is not counted from it.

    Raises the same errors as :func:`validate`.
    """
    return SyncThread(AllocationWriter(database, options.required(conf)), turns) if is_enabled(conf) else None
