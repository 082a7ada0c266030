# SPDX-License-Identifier: Apache-2.0
"""The ledger as commands open it that read or change what is in it: it has to be there, and up to date."""

from oslo_config import cfg

from tonnage.ledger.db import database, schema


def connect(conf: cfg.ConfigOpts) -> database.Database:
    """Return the ledger. Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it cannot be used as it is."""
    ledger = database.connect(conf)
    schema.require_current(ledger.engine)
    return ledger
