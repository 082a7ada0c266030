# SPDX-License-Identifier: Apache-2.0
"""The database: its options, the engine and transactions.

PostgreSQL and MariaDB run at READ COMMITTED, so that a row read again in the same transaction is read as it is now.
SQLite has one writer: writing transactions take the lock when they begin and wait for each other.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
import tenacity
from oslo_config import cfg
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import event, orm

from tonnage.capacity import errors
from tonnage.ledger.db import db_errors, dialects

LOG = logging.getLogger(__name__)

T = TypeVar("T")

OPTIONS = [
    cfg.StrOpt(
        "connection",
        secret=True,
        help="SQLAlchemy URL of the ledger's database: sqlite:////var/lib/tonnage/tonnage.sqlite for one machine, "
        "postgresql+psycopg://... or mysql+pymysql://... for several schedulers. A PostgreSQL server whose host has "
        "lost its power is given up within 20 seconds, unless the URL has keepalives and tcp_user_timeout of its own; "
        "PyMySQL waits for one as long as the operating system does (net.ipv4.tcp_keepalive_time), or for read_timeout "
        "in the URL, which must then be longer than any statement takes, those of 'tonnage-manage db sync' included.",
    ),
    cfg.IntOpt("max_pool_size", default=5, min=1, help="Connections that each process keeps open."),
    cfg.IntOpt(
        "max_overflow", default=50, min=0, help="Connections beyond max_pool_size that may be opened for a while."
    ),
    cfg.IntOpt("pool_timeout", default=30, min=1, help="Seconds to wait for a free connection."),
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
        help="Seconds before the first retry after a lost connection; doubled each time.",
    ),
    cfg.IntOpt(
        "db_max_retry_interval",
        default=1,
        min=0,
        help="Longest pause between two retries after a lost connection, in seconds. All pauses together are how long "
        "a request waits for a database that is away: 5 seconds, unless these options are changed. A server that does "
        "not even refuse is waited for 5 seconds more, or for connect_timeout, a parameter of the URL in connection.",
    ),
    cfg.IntOpt("sqlite_busy_timeout", default=60, min=1, help="Seconds that an SQLite transaction waits for its turn."),
]

_MAY_BE_DONE = "tonnage_may_be_done"

#: Pause, in seconds, of a transaction that collided with another.
_COLLISION = tenacity.wait_random_exponential(multiplier=0.02, max=1.0)

#: Seconds within which a host that is there refuses a connection.
_REFUSAL = 1.0


class NoDatabase(errors.ConfigurationError):
    """There is no database where ``[database] connection`` points to."""


class Overtaken(db_errors.Collision):
    """What a transaction read before it held its locks is another by now. Raised in it, it is run again from the start.

    Locks taken on what was read then would be out of order.
    """


class Database:
    """Access to one database. Threads may share it; a fork may not."""

    def __init__(
        self, engine: sa.Engine, max_retries: int = 20, retry_interval: int = 1, max_retry_interval: int = 10
    ) -> None:
        self.engine = engine
        self._sessions = orm.sessionmaker(engine, expire_on_commit=False)
        self._reach = db_errors.Reach()
        self._max_retries = max_retries
        # As long as the retries of one whose connections are refused at once.
        self._patience = dialects.CONNECT_TIMEOUT + sum(
            min(retry_interval * 2**number, max_retry_interval) for number in range(max_retries)
        )
        pauses = tenacity.wait_exponential(multiplier=retry_interval, max=max_retry_interval)

        def pause(state: tenacity.RetryCallState) -> float:
            error = _error(state)
            # Those who got into each other's way are soon out of it; a server that is away needs its time.
            return _COLLISION(state) if error is not None and db_errors.is_collision(error) else pauses(state)

        self._retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception(db_errors.passes),
            wait=pause,
            before_sleep=self._note_retry,
            reraise=True,
        )
        event.listen(engine, "do_connect", self._reach.connect)

    def run(self, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run ``work(session, ...)`` in a transaction of its own and return what it returns.

        On a deadlock, a serialization failure or a lost connection the whole of it is rolled back and run again, within
        bounds; where it may have taken effect all the same, :func:`may_be_done` tells so. Raises
        :class:`~tonnage.capacity.errors.Unavailable` when the database stays away; while it does, each transaction is
        tried once. It may have taken effect then, too.
        """
        lost = False

        def once() -> T:
            nonlocal lost
            worked = False
            try:
                with self._sessions.begin() as session:
                    session.info[_MAY_BE_DONE] = lost
                    result = work(session, *args, **kwargs)
                    worked = True
            except Exception as error:
                lost = lost or (worked and not db_errors.is_collision(error))
                raise
            self._reach.regained()
            return result

        return self._run(once)

    def _run(self, attempt: Callable[[], T]) -> T:
        """Try it as often as it may be worth it. All others take its word that the database is away."""
        attempts = _Attempts(self._reach, self._max_retries, self._patience)
        with self._told():
            try:
                return self._retry.copy(stop=attempts.suffice)(attempt)
            except Exception as error:
                if db_errors.is_away(error):
                    # A single connection may be one of before a restart.
                    sure = attempts.missed > 1 or not self._max_retries
                    (self._reach.lose if sure else self._reach.miss)(error)
                raise

    def remove(self, work: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        """Run ``work`` as :meth:`run` does; what it removes is not missed where it may have removed it itself.

        Otherwise :class:`~tonnage.capacity.errors.NotFound` is raised as the work raises it.
        """

        def removing(session: orm.Session) -> None:
            try:
                work(session, *args, **kwargs)
            except errors.NotFound:
                if not may_be_done(session):
                    raise

        self.run(removing)

    @contextlib.contextmanager
    def reading(self, *, snapshot: bool = False, patient: bool = True) -> Iterator[orm.Session]:
        """A session that only reads; on SQLite it does not wait for writers.

        In a ``snapshot`` all that is read is of one moment. Who is not ``patient`` is told at once that the database
        is away. Raises :class:`~tonnage.capacity.errors.Unavailable` as :meth:`run` does.
        """
        if patient:
            session = self._run(lambda: self._open_to_read(snapshot))
        else:
            with self._told():
                session = self._open_at_once(snapshot)
        with self._told(), contextlib.closing(session):
            yield session

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Raise :class:`~tonnage.capacity.errors.Unavailable` for what was in vain."""
        try:
            yield
        except errors.Unavailable:
            raise
        except Exception as error:
            unavailable = db_errors.unavailable(error)
            if unavailable is None:
                raise
            raise unavailable from error

    def _note_retry(self, state: tenacity.RetryCallState) -> None:
        error = _error(state)
        if error is not None and db_errors.is_away(error):
            self._reach.miss(error)
        else:
            LOG.debug("A transaction is run again: %s", "" if error is None else db_errors.first_line(error))

    def _open_to_read(self, snapshot: bool) -> orm.Session:
        """Return a session in a transaction, on a connection that works: a restart has closed those in the pool."""
        engine = self.engine.execution_options(**{dialects.READ_ONLY: True})
        if snapshot and engine.dialect.name != "sqlite":  # whose transactions always see one moment
            engine = engine.execution_options(isolation_level="REPEATABLE READ")
        session = orm.Session(engine, expire_on_commit=False)
        try:
            session.execute(sa.select(1))
        except Exception:
            session.close()
            raise
        self._reach.regained()
        return session

    def _open_at_once(self, snapshot: bool) -> orm.Session:
        """Do the same without waiting, other than for a host that does not even refuse."""
        began = time.monotonic()
        try:
            return self._open_to_read(snapshot)
        except Exception as error:
            if self._reach.lost or not db_errors.is_away(error):
                raise
        # That may have been a connection of before a restart; by now all of those are gone from the pool.
        try:
            return self._open_to_read(snapshot)
        except Exception as error:
            # Where it refuses, it may just be restarting, for which the patient wait.
            if db_errors.is_away(error) and time.monotonic() - began > _REFUSAL:
                self._reach.lose(error)
            raise

    @property
    def away(self) -> bool:
        """Whether the last who tried waited for it in vain."""
        return self._reach.lost

    @property
    def returns(self) -> int:
        """How often it has come back after it was away, be it for a moment."""
        return self._reach.returns

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


class _Attempts:
    """The attempts of one call, and how long the database has been away for it."""

    def __init__(self, reach: db_errors.Reach, max_retries: int, patience: float) -> None:
        self._reach, self._max_retries, self._patience = reach, max_retries, patience
        self._away_since: float | None = None
        #: How many of them have found it away.
        self.missed = 0

    def suffice(self, state: tenacity.RetryCallState) -> bool:
        """Tell whether there is no other, after one that has failed."""
        error = _error(state)
        if error is None or not db_errors.is_away(error):
            return state.attempt_number > self._max_retries
        now = state.outcome_timestamp or time.monotonic()
        if self._away_since is None:  # before that it may have worked, or waited for others
            self._away_since = max(state.start_time, now - dialects.CONNECT_TIMEOUT)
        self.missed += 1
        late = self.missed > 1 and now - self._away_since > self._patience
        return late or self._reach.lost or state.attempt_number > self._max_retries


def _error(state: tenacity.RetryCallState) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()


def may_be_done(session: orm.Session) -> bool:
    """Tell whether the same work may have been committed before: the connection was lost while it was."""
    return bool(session.info.get(_MAY_BE_DONE))


def connect(conf: Any, *, create: bool = False) -> Database:
    """Return the database that ``[database] connection`` names; ``create`` an SQLite file that is not there yet.

    Raises :class:`NoDatabase` for a file that is not there and is not to be created, and
    :class:`~tonnage.capacity.errors.ConfigurationError` if no URL is named, or one that cannot be used.
    """
    options = conf.database
    if not options.connection:
        raise errors.ConfigurationError(
            "option [database] connection is not set: it takes the URL of the ledger's database"
        )
    engine = create_engine(
        options.connection,
        pool_size=options.max_pool_size,
        max_overflow=options.max_overflow,
        pool_timeout=options.pool_timeout,
        pool_recycle=options.connection_recycle_time,
        busy_timeout=options.sqlite_busy_timeout,
    )
    if file := _sqlite_file(engine.url):
        if create:
            _make_folder(file)
        else:
            _require(file)
    return Database(engine, options.db_max_retries, options.db_retry_interval, options.db_max_retry_interval)


def create_engine(url: str, busy_timeout: int = 60, **pool: Any) -> sa.Engine:
    """Return an engine with the isolation that the ledger needs.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a URL that cannot be used.
    """
    try:
        parsed = sa.make_url(url)
        if "@" in (parsed.host or ""):
            raise ValueError("a part of the password is taken for the host")
        dialect = parsed.get_backend_name()
        if dialect == "sqlite":
            if pool and parsed.database in (None, "", ":memory:"):  # one connection, so without the options of pools
                raise errors.ConfigurationError(
                    "option [database] connection names a database in memory, which no other process sees and which "
                    "ends with this one: it takes a file, sqlite:////folder/file"
                )
            engine = sa.create_engine(parsed, **_JSON, **pool)
            event.listen(
                engine, "connect", lambda connection, record: dialects.prepare_sqlite(connection, busy_timeout)
            )
            event.listen(engine, "begin", dialects.begin_sqlite)
        elif dialect in ("postgresql", "mysql", "mariadb"):
            together = parsed.get_driver_name() == "pymysql"
            if together:
                parsed = dialects.let_travel_together(parsed)
            pool["connect_args"] = dialects.parameters(parsed)
            engine = sa.create_engine(parsed, isolation_level="READ COMMITTED", **_JSON, **pool)
            if together:
                event.listen(engine, "do_executemany", dialects.execute_together)
        else:
            raise errors.ConfigurationError(
                f"option [database] connection names {dialect!r}: the ledger runs on sqlite, postgresql and mysql"
            )
    except ImportError as error:
        raise errors.ConfigurationError(
            f"option [database] connection names {parsed.drivername}, whose driver is not installed ({error}): "
            "install tonnage[postgresql] or tonnage[mysql]"
        ) from error
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        raise errors.ConfigurationError(
            f"option [database] connection cannot be used: {db_errors.first_line(error)}"
        ) from error
    except ValueError:
        # Its text may be a part of the password.
        raise errors.ConfigurationError(
            "option [database] connection is no URL that can be used: it takes DIALECT://USER:PASSWORD@HOST:PORT/NAME, "
            "with what is special in user and password (such as '/' and '@') written as %2F, %40, and numbers where "
            "numbers are due"
        ) from None
    exc_filters.register_engine(engine)
    return engine


def storable_text(text: str) -> str:
    """Return text as every database takes it: no NUL, nothing that UTF-8 cannot say."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def _to_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, TypeError):  # whole numbers beyond 64 bits, say
        return json.dumps(value)


#: What pools report is JSON, and many pools are read when a scheduler starts.
_JSON: dict[str, Any] = {"json_serializer": _to_json, "json_deserializer": msgspec.json.decode}


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of this module."""
    group = _group()
    conf.register_group(group)
    conf.register_opts(OPTIONS, group)


def options() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options of this module with their group."""
    return [(_group(), OPTIONS)]


def _group() -> cfg.OptGroup:
    """Return a group of its own: configurations that have one together share what is overridden in any of them."""
    return cfg.OptGroup("database", title="The ledger's database")


def _sqlite_file(url: sa.URL) -> str | None:
    """Return the file that a URL names, None for another kind of database, one in memory, or SQLite's own URIs."""
    file = url.database if url.get_backend_name() == "sqlite" else None
    return None if not file or file.startswith((":memory:", "file:")) else file


def _require(file: str) -> None:
    """SQLite makes an empty file of whatever it is told to open, in the wrong folder as well."""
    if os.path.exists(file):
        return
    where = "" if os.path.isabs(file) else f" in {os.getcwd()}, where this was started"
    raise NoDatabase(
        f"there is no database {file}{where} (option [database] connection); if the option is right and this is the "
        "right place, run 'tonnage-manage db sync', which makes it"
    )


def _make_folder(file: str) -> None:
    """Make the folder of an SQLite file, so that a first start finds it."""
    folder = os.path.dirname(file)
    if folder:
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise errors.ConfigurationError(
                f"option [database] connection: folder {folder} cannot be made: {error.strerror}"
            ) from error
