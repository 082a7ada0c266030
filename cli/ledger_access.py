# SPDX-License-Identifier: Apache-2.0
"""Access to the ledger for commands that read or change its data. It has to exist, with the current schema."""

from typing import TYPE_CHECKING

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.capacity import errors
from tonnage.ledger.db import database, dialects, schema

if TYPE_CHECKING:
    from tonnage.ledger.repair.consistency_check import Checked


def connect(conf: cfg.ConfigOpts) -> database.Database:
    """Return the ledger. Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it is missing or outdated."""
    ledger = database.connect(conf)
    schema.require_current(ledger.engine, enabled_extensions.enabled(conf))
    return ledger


def check(conf: cfg.ConfigOpts, pool: str | None, backend: str | None) -> "Checked":
    """Check the ledger, or one pool or one backend of it, and return the result.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an empty ledger, which may be another one than that
    of the schedulers, or a new one in the place of a lost one, and the errors of :func:`connect`.
    """
    from tonnage.ledger.repair import consistency_check

    ledger = connect(conf)
    result = consistency_check.check(ledger, pool=pool, backend=backend)
    if not result.backends and not result.findings:
        raise errors.ConfigurationError(
            "there is nothing to check: no agent has introduced a backend to the ledger in "
            f"{dialects.public_address(ledger.engine.url)}; if there were backends, this is not their ledger: see that "
            "option [database] connection is that of the schedulers, or bring the lost database back"
        )
    return result
