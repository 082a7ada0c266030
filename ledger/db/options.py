# SPDX-License-Identifier: Apache-2.0
"""The options of the ledger's database."""

from oslo_config import cfg

from tonnage.capacity import number_bounds

OPTIONS = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="SQLAlchemy URL of the ledger's database: sqlite:////var/lib/tonnage/tonnage.sqlite for one machine, "
        "postgresql+psycopg://... or mysql+pymysql://... for several schedulers. A server whose host has lost its "
        "power is given up within 20 seconds, unless a URL of PostgreSQL has keepalives and tcp_user_timeout. A server "
        "or proxy that has frozen is given up as soon as a new connection gets no answer either; transactions that "
        "last for more than 5 seconds try that. Of several hosts in the URL, the one that takes writes is used, unless "
        "it has target_session_attrs of its own.",
    ),
    cfg.IntOpt("max_pool_size", default=5, min=1, help="Connections that each process keeps open."),
    cfg.IntOpt(
        "max_overflow", default=50, min=0, help="Connections beyond max_pool_size that may be opened for a while."
    ),
    cfg.IntOpt(
        "pool_timeout", default=30, min=1, max=number_bounds.LONGEST_WAIT, help="Seconds to wait for a free connection."
    ),
    cfg.IntOpt(
        "connection_recycle_time", default=3600, help="Seconds after which a connection is replaced when next used."
    ),
    cfg.IntOpt(
        "db_max_retries",
        default=5,
        min=0,
        help="How often a transaction is run again after a deadlock or a lost connection. When that was in vain the "
        "database counts as away: until it answers, each transaction is tried once, and requests are answered with 503 "
        "at once.",
    ),
    cfg.IntOpt(
        "db_retry_interval",
        default=1,
        min=0,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds before the first retry after a lost connection; doubled each time.",
    ),
    cfg.IntOpt(
        "db_max_retry_interval",
        default=1,
        min=0,
        max=number_bounds.LONGEST_WAIT,
        help="Longest pause between two retries after a lost connection, in seconds. All pauses together are how long "
        "a request waits for a database that is away: 5 seconds, unless these options are changed. A server that does "
        "not even refuse is waited for 5 seconds more, or for connect_timeout, a parameter of the URL in connection.",
    ),
    cfg.IntOpt(
        "sqlite_busy_timeout",
        default=60,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds that an SQLite transaction waits for its turn.",
    ),
    cfg.IntOpt(
        "lock_timeout",
        default=5,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds that a statement waits for the locks of another transaction. After that its own transaction is "
        "rolled back and run again. For PostgreSQL and MariaDB.",
    ),
    cfg.IntOpt(
        "idle_transaction_timeout",
        default=10,
        min=1,
        max=number_bounds.LONGEST_WAIT,
        help="Seconds after which the server ends a transaction whose process sends nothing: a process that has "
        "frozen, or whose host has lost its power, would hold its locks for hours. For PostgreSQL and MariaDB; MySQL "
        "has no such limit.",
    ),
]


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of the database."""
    group = _group()
    conf.register_group(group)
    conf.register_opts(OPTIONS, group)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of the database with their group."""
    return [(_group(), OPTIONS)]


def _group() -> cfg.OptGroup:
    """Return a new group: configurations that share a group object share the values overridden in any of them."""
    return cfg.OptGroup("database", title="The ledger's database")
