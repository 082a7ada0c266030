# SPDX-License-Identifier: Apache-2.0
"""Access to the ledger for commands that read or change its data. It has to exist, with the current schema."""

from typing import TYPE_CHECKING

from oslo_config import cfg

from tonnage import enabled_extensions
from tonnage.capacity import errors
from tonnage.cli import output
from tonnage.ledger.db import database, dialects, schema

if TYPE_CHECKING:
    from tonnage.ledger.repair.consistency_check import Checked


def connect(conf: cfg.ConfigOpts) -> database.Database:
    """Return the ledger. Raises :class:`~tonnage.capacity.errors.ConfigurationError` if it is missing or outdated."""
    ledger = database.connect(conf)
    schema.require_current(ledger.engine, enabled_extensions.enabled(conf))
    return ledger


def warn_of_refused_writes(ledger: database.Database, prog: str) -> bool:
    """Try a write; if the ledger cannot be written, print the cause on standard error and return True.

    Reading is no evidence: all of a ledger on a full disk can be read, and its backends only seem to be down.
    """
    try:
        ledger.require_writable()
    except errors.DatabaseUnreachable as error:
        output.print_error(
            f"{prog}: {output.one_line(error)}; until it can, requests fail, and backends without recorded reports "
            "are shown as down"
        )
        return True
    return False


def check(ledger: database.Database, pool: str | None, backend: str | None) -> "Checked":
    """Check the ledger, or one pool or one backend of it, and return the result.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for an empty ledger, which may be another one than that
    of the schedulers, or a new one in the place of a lost one.
    """
    from tonnage.ledger.repair import consistency_check

    result = consistency_check.check(ledger, pool=pool, backend=backend)
    if not result.backends and not result.findings:
        raise errors.ConfigurationError(
            "there is nothing to check: no agent has introduced a backend to the ledger in "
            f"{dialects.public_address(ledger.engine.url)}; if there were backends, this is not their ledger: see that "
            "option [database] connection is that of the schedulers, or bring the lost database back"
        )
    return result
