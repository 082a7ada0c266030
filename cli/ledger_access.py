# SPDX-License-Identifier: Apache-2.0
"""Access to the ledger for commands that read or change its data. It has to exist, with the current schema."""

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.ledger.db import database, schema


def connect(conf: cfg.ConfigOpts) -> database.Database:
    """Return the ledger. Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it is missing or outdated."""
    ledger = database.connect(conf)
    schema.require_current(ledger.engine, enabled_extensions.enabled(conf))
    return ledger
