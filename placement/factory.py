# SPDX-License-Identifier: Apache-2.0
"""What processes need that count usage from OpenStack Placement, by their configuration."""

from collections.abc import Callable
from dataclasses import replace

from oslo_config import cfg

from tonnage.ledger.db.database import Database
from tonnage.placement import options
from tonnage.placement.allocation_writer import Writer
from tonnage.placement.project_usage import Usage
from tonnage.placement.sync_thread import Keeper
from tonnage.quotas import options as quota_options
from tonnage.quotas.options import Settings, Source


def wanted(conf: cfg.ConfigOpts) -> bool:
    """Tell whether usage is counted from Placement."""
    return quota_options.source(conf) is Source.PLACEMENT


def validate(conf: cfg.ConfigOpts) -> None:
    """Raise :class:`~tonnage.capacity.errors.ConfigurationError` where it is, and nothing says how to reach it."""
    if wanted(conf):
        options.required(conf)


def settings(conf: cfg.ConfigOpts, database: Database) -> Settings:
    """Return the settings of quotas, with what reads usage. Raises as :func:`validate`."""
    found = quota_options.from_conf(conf)
    return replace(found, beside=Usage(database, options.required(conf), found)) if wanted(conf) else found


def keeper(conf: cfg.ConfigOpts, database: Database, has_turn: Callable[[str], bool]) -> Keeper | None:
    """Return what keeps Placement up to date, None where nothing is counted from it. Raises as :func:`validate`."""
    return Keeper(Writer(database, options.required(conf)), has_turn) if wanted(conf) else None
