# SPDX-License-Identifier: Apache-2.0
"""Settings of database servers that can lose decisions after they were answered."""

import logging
from collections.abc import Iterator

import sqlalchemy as sa

from tonnage.ledger.db.database import Database

LOG = logging.getLogger(__name__)

#: Physical standbys without a confirmation of commits. Accounts without pg_monitor see no states.
_ASYNCHRONOUS_STANDBYS = sa.text(
    "SELECT COUNT(*) FROM pg_stat_replication r WHERE current_setting('synchronous_standby_names') = ''"
    " AND COALESCE(r.state, 'streaming') = 'streaming' AND COALESCE(r.application_name, '') <> 'pg_receivewal'"
    " AND NOT EXISTS (SELECT 1 FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical')"
)

_LOST = "decisions that were answered are lost"


def find_weaknesses(connection: sa.Connection) -> list[str]:
    """Return a sentence for each setting of the server that can lose decisions after they were answered."""
    checks = {"postgresql": _postgresql, "mysql": _mysql, "mariadb": _mysql}
    find = checks.get(connection.dialect.name)
    return list(find(connection)) if find else []


def warn(ledger: Database) -> None:
    """Log a warning for each of these settings.

    Raises :class:`~tonnage.capacity.errors.Unavailable` if the database cannot be reached.
    """
    with ledger.reading() as session:
        for weakness in find_weaknesses(session.connection()):
            LOG.warning("The database is not durable: %s", weakness)


def _postgresql(connection: sa.Connection) -> Iterator[str]:
    if connection.scalar(sa.text("SHOW fsync")) == "off":
        yield (
            f"fsync is off: {_LOST} when the host of the database loses its power, and the database may become "
            "unreadable; set it to on in postgresql.conf"
        )
    if number := connection.scalar(_ASYNCHRONOUS_STANDBYS):
        yield (
            f"synchronous_standby_names is empty and {number} standby(s) are asynchronous: {_LOST} when one of them "
            "becomes the primary; name them there, or with Patroni set synchronous_mode to true"
        )


def _mysql(connection: sa.Connection) -> Iterator[str]:
    variables, status = (
        {name.lower(): value for name, value in connection.execute(sa.text(statement))}
        for statement in (
            "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog')",
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Slaves_connected', 'Rpl_semi_sync_master_status')",
        )
    )
    flush = variables["innodb_flush_log_at_trx_commit"]
    if flush != "1":
        yield (
            f"innodb_flush_log_at_trx_commit is {flush}: {_LOST} when the host of the database loses its power; set it "
            "to 1"
        )
    if variables["log_bin"] == "ON" and variables["sync_binlog"] != "1":
        yield (
            f"sync_binlog is {variables['sync_binlog']} and log_bin is ON: {_LOST} when the host of the database loses "
            "its power; set it to 1"
        )
    replicas = int(status.get("slaves_connected", 0))
    if replicas and status.get("rpl_semi_sync_master_status") != "ON":
        yield (
            f"rpl_semi_sync_master_status is OFF and {replicas} replica(s) are asynchronous: {_LOST} when one of them "
            "takes over; set rpl_semi_sync_master_enabled and, at the replicas, rpl_semi_sync_slave_enabled to ON"
        )
