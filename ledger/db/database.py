# SPDX-License-Identifier: Apache-2.0
"""The database: the engine and transactions.

PostgreSQL and MariaDB run at READ COMMITTED, so that a row read again in the same transaction shows its current state.
SQLite has one writer: a writing transaction takes the lock when it begins and waits for other writers.
"""

import contextlib
import datetime
import json
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec
import sqlalchemy as sa
import tenacity
from oslo_db import exception
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import event, orm

from tonnage import installation
from tonnage.capacity import errors
from tonnage.ledger.db import connection_probes, db_errors, dialects, galera, sqlite_file, write_probe
from tonnage.ledger.models import free_text
from tonnage.metrics import instruments

LOG = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

_CONNECTION = "option [database] connection"

#: The extra of Tonnage with the library for each kind of server, and the library's name in URLs.
_LIBRARIES = {
    "postgresql": ("postgresql", "psycopg"),
    "mysql": ("mysql", "pymysql"),
    "mariadb": ("mysql", "pymysql"),
}

_MAY_BE_COMMITTED = "tonnage_may_be_committed"

#: The key of ``Connection.info`` with the time at which a single read looked whether the server takes writes.
_LOOKED_AT = "tonnage_looked_at"

#: Pause, in seconds, before a transaction that collided with another runs again.
_COLLISION_PAUSE = tenacity.wait_random_exponential(multiplier=0.02, max=1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The seconds that a :class:`Database` gives a server and its host."""

    #: For a connection to be opened, or not.
    connect: float = dialects.CONNECT_TIMEOUT
    #: For a running host to refuse a connection.
    refusal: float = 1.0
    #: Until single reads on a connection look again whether the server takes writes.
    demotion: float = 1.0
    #: Until a time by the database's clock is read again.
    recent_time: float = 60.0
    #: Until a transaction causes a probe of the server, and between two probes.
    suspicion: float = connection_probes.SUSPICION
    #: Between two looks for such transactions.
    look_interval: float = connection_probes.LOOK_INTERVAL
    #: Between two writes that only show whether the ledger can be written.
    write_interval: float = write_probe.INTERVAL
    #: Without a refused transaction until a ledger counts as one that can be written again.
    quiet: float = db_errors.QUIET


PATIENCE = Patience()


class StaleRead(db_errors.Collision):
    """Raised in a transaction whose earlier reads became stale before it held its locks; the transaction runs again.

    Locks that were chosen from stale rows would break the lock order.
    """


class Database:
    """Access to one database. Threads may share it; a fork may not.

    ``connectivity`` is whether the last attempt reached the database.
    """

    def __init__(
        self,
        engine: sa.Engine,
        max_retries: int = 20,
        retry_interval: int = 1,
        max_retry_interval: int = 10,
        patience: Patience = PATIENCE,
    ) -> None:
        self.engine = engine
        self._patience = patience
        self._sessions = orm.sessionmaker(engine, expire_on_commit=False)
        self._readers = dialects.for_single_reads(engine)
        self.connectivity = db_errors.Connectivity(dialects.public_address(engine.url), patience.quiet)
        self._writer = galera.Writer() if engine.dialect.name in dialects.GALERA else None
        #: The last time that was read, by the clocks of the database and of this process.
        self._last_time: tuple[datetime.datetime, float] | None = None
        self._max_retries = max_retries
        # The total time that retries take when each connection attempt is refused at once.
        self._max_outage = patience.connect + sum(
            min(retry_interval * 2**number, max_retry_interval) for number in range(max_retries)
        )
        pauses = tenacity.wait_exponential(multiplier=retry_interval, max=max_retry_interval)

        def pause(state: tenacity.RetryCallState) -> float:
            error = _error_of(state)
            # A collision is over soon; a database server that is away needs more time.
            return _COLLISION_PAUSE(state) if error is not None and db_errors.is_collision(error) else pauses(state)

        self._retry = tenacity.Retrying(
            retry=tenacity.retry_if_exception(db_errors.is_transient),
            wait=pause,
            before_sleep=self._note_retry,
            reraise=True,
        )
        self._write_probe = write_probe.WriteProbe(self._run_once, self.connectivity, patience.write_interval)
        event.listen(engine, "do_connect", self.connectivity.connect)
        self._probes = None
        if engine.dialect.name != "sqlite":
            probe = create_engine(engine.url, poolclass=sa.NullPool)
            self._probes = connection_probes.ConnectionProbes(engine, probe, patience.suspicion, patience.look_interval)

    def run(self, work: Callable[Concatenate[orm.Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work(session, ...)`` in a transaction of its own and return its result.

        After a deadlock, a serialization failure or a lost connection, the whole transaction is rolled back and runs
        again, within the configured bounds. Where the lost attempt may have been committed all the same,
        :func:`may_be_committed` returns True in the next attempt.

        Raises :class:`~tonnage.capacity.errors.Unavailable` when the database stays away; until the database answers
        again, each transaction is tried only once. The same error is raised at once if the database refuses what is
        right in itself, as it does when its disk is full. A transaction that ends with this error may have been
        committed, too, unless it is :class:`~tonnage.capacity.errors.LedgerRefusal`.

        Raises :class:`~tonnage.ledger.db.db_errors.RefusedText` for a name that a table does not take, which only a
        table with a wrong character set does. A text for people is stored there with escapes.
        """
        attempt = self._transaction(self._sessions, lambda session: work(session, *args, **kwargs))
        try:
            return self._run(attempt, writes=True)
        except db_errors.RefusedText:
            with free_text.only_ascii():
                return self._run(attempt, writes=True)

    def _run_once(self, work: Callable[[orm.Session], T]) -> T:
        """Run ``work`` as :meth:`run` does, without retries and without a long wait for the lock of SQLite."""
        sessions = orm.sessionmaker(self.engine.execution_options(**{dialects.IMPATIENT: True}))
        with self._translated():
            try:
                return self._without_retries(self._transaction(sessions, work))
            except Exception as error:
                self._note_refused_write(error)
                raise

    def require_writable(self) -> None:
        """Raise :class:`~tonnage.capacity.errors.DatabaseUnreachable` if the ledger cannot be written.

        A write is tried every few seconds, for all callers of this process together.
        """
        self._write_probe.require_writable()

    def _transaction(
        self, sessions: "orm.sessionmaker[orm.Session]", work: Callable[[orm.Session], T]
    ) -> Callable[[], T]:
        """Return a function that runs ``work`` in a transaction. Call it again for each attempt."""
        commit_lost, writer = False, self._writer

        def attempt_once() -> T:
            nonlocal commit_lost
            work_done, term = False, None
            try:
                with sessions.begin() as session:
                    session.info[_MAY_BE_COMMITTED] = commit_lost
                    if writer is not None:
                        term = self._enter(writer, session)
                    result = work(session)
                    if writer is not None and term is not None:
                        writer.confirm(session, term)
                    work_done = True
            except Exception as error:
                # A node of Galera that leaves its cluster reports a deadlock although the others may have the commit.
                refused = db_errors.is_collision(error) and term is None
                if db_errors.is_refusal(error) and not commit_lost and not (work_done and db_errors.is_unclear(error)):
                    raise db_errors.RolledBack(str(error)) from error
                commit_lost = commit_lost or (work_done and not refused)
                raise
            if self.connectivity.failing:
                self.connectivity.record_answer()
            self.connectivity.record_write()
            return result

        return attempt_once

    def _run(self, attempt: Callable[[], T], *, writes: bool = False) -> T:
        """Retry ``attempt`` within the bounds; record in the shared state whether the database is away.

        A server that refuses an attempt that writes, and says that it takes writes, is not away: it refuses.
        """
        began = time.monotonic()
        attempts = _Attempts(self.connectivity, self._max_retries, self._max_outage, self._patience.connect, began)
        failures: list[Exception] = []

        def attempt_again() -> T:
            if failures:
                raise failures.pop()
            return attempt()

        with self._translated():
            try:
                try:
                    return attempt()  # nearly always at once: then nothing of the retries is needed
                except Exception as error:
                    if not db_errors.is_transient(error):
                        raise
                    failures.append(error)
                return self._retry.copy(stop=attempts.is_last)(attempt_again)
            except Exception as error:
                if db_errors.is_away(error):
                    self._drop_read_only(error)
                    if writes and self._note_refused_write(error):
                        raise
                    # A single failure may come from a pooled connection that a restart of the server has closed.
                    sure = attempts.failures > 1 or not self._max_retries
                    (self.connectivity.record_loss if sure else self.connectivity.record_failure)(error)
                raise

    def _note_refused_write(self, error: Exception) -> bool:
        """Record a refusal if a server has taken no write and says that it takes writes; return whether that is so."""
        if not db_errors.is_read_only(error):
            return False
        try:
            self._open_session(False).close()
        except Exception as read_error:
            LOG.debug("The database takes no writes: %s", db_errors.first_line(read_error))
            return False
        self.connectivity.record_refusal(error)
        return True

    def run_past_duplicates(
        self, work: Callable[Concatenate[orm.Session, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run ``work`` as :meth:`run` does, and once more if another process has just inserted the same row."""
        try:
            return self.run(work, *args, **kwargs)
        except exception.DBDuplicateEntry:
            return self.run(work, *args, **kwargs)

    def remove(self, work: Callable[Concatenate[orm.Session, P], object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Run ``work`` as :meth:`run` does, and ignore NotFound where an earlier attempt may have removed the rows.

        In all other cases :class:`~tonnage.capacity.errors.NotFound` is raised as ``work`` raises it.
        """

        def removing(session: orm.Session) -> None:
            try:
                work(session, *args, **kwargs)
            except errors.NotFound:
                if not may_be_committed(session):
                    raise

        self.run(removing)

    def read(self, work: Callable[Concatenate[orm.Session, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run ``work(session, ...)``, which executes one statement that reads, and return its result.

        The statement is a transaction of its own, without a BEGIN. After a lost connection ``work`` runs again, as with
        :meth:`run`. Each connection looks at most every ``Patience.demotion`` seconds whether its server still takes
        writes, so its rows are no older than that.

        Raises :class:`~tonnage.capacity.errors.Unavailable` as :meth:`run` does.
        """

        def attempt() -> T:
            with orm.Session(self._readers, expire_on_commit=False) as session:
                looks = session.connection().info
                if time.monotonic() - looks.get(_LOOKED_AT, -math.inf) > self._patience.demotion:
                    self._last_time = dialects.require_writable(session.connection()), time.monotonic()
                    looks[_LOOKED_AT] = time.monotonic()
                if self._writer is not None:
                    self._enter(self._writer, session)
                result = work(session, *args, **kwargs)
            if self.connectivity.failing:
                self.connectivity.record_answer()
            return result

        return self._run(attempt)

    @contextlib.contextmanager
    def reading(self, *, snapshot: bool = False, patient: bool = True) -> Iterator[orm.Session]:
        """A session that only reads; on SQLite it does not wait for writers.

        With ``snapshot`` all reads see the same moment. Without ``patient`` the caller is not kept waiting while the
        database is away. Raises :class:`~tonnage.capacity.errors.Unavailable` as :meth:`run` does.
        """
        if patient:
            session = self._run(lambda: self._open_session(snapshot))
        else:
            with self._translated():
                session = self._without_retries(lambda: self._open_session(snapshot))
        with self._translated(), contextlib.closing(session):
            yield session

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise :class:`~tonnage.capacity.errors.Unavailable` in place of a database error that retries cannot mend.

        In place of an error about a text, raise :class:`~tonnage.ledger.db.db_errors.RefusedText`.
        """
        try:
            yield
        except (errors.Unavailable, db_errors.RefusedText):
            raise
        except Exception as error:
            if (refused_text := db_errors.refused_text(error)) is not None:
                raise refused_text from error
            unavailable = db_errors.unavailable(error)
            if unavailable is None:
                raise
            if db_errors.is_refusal(error):
                self.connectivity.record_refusal(error)
            raise unavailable from error

    def _enter(self, writer: galera.Writer, session: orm.Session) -> galera.Term | None:
        """Begin a transaction at the node of Galera that writes the ledger. Single servers have no such term."""
        result = writer.enter(session)
        if not isinstance(result, galera.OtherWriter):
            return result
        if not result.unused:
            raise result
        with self._sessions.begin() as its_own:
            writer.take_over(its_own, result)
        LOG.warning("The ledger is written through Galera node %s now; it was %s", result.here, result.writer or "none")
        raise db_errors.Collision("the writer has changed")

    def _drop_read_only(self, error: BaseException) -> None:
        """Close the connections to a server that takes no writes any more: another one may take them now."""
        if db_errors.is_read_only(error):
            self.engine.dispose()

    def _note_retry(self, state: tenacity.RetryCallState) -> None:
        error = _error_of(state)
        if error is not None and db_errors.is_away(error):
            instruments.DATABASE_RETRIES.labels("away").inc()
            self._drop_read_only(error)
            self.connectivity.record_failure(error)
        else:
            instruments.DATABASE_RETRIES.labels("collision").inc()
            LOG.debug("Retrying a transaction: %s", "" if error is None else db_errors.first_line(error))

    def _open_session(self, snapshot: bool) -> orm.Session:
        """Return a session in a transaction, on a tested connection: a restart has closed the pooled connections."""
        options: dict[str, Any] = {dialects.READ_ONLY: True}
        if snapshot and self.engine.dialect.name != "sqlite":  # a transaction of SQLite always sees one moment
            options["isolation_level"] = "REPEATABLE READ"
        # In one call: SQLAlchemy 2.0.32 sets no isolation level of an engine that has options of its own.
        session = orm.Session(self.engine.execution_options(**options), expire_on_commit=False)
        try:
            self._last_time = dialects.require_writable(session.connection()), time.monotonic()
            if self._writer is not None:
                self._enter(self._writer, session)
        except Exception:
            session.close()
            raise
        if self.connectivity.failing:
            self.connectivity.record_answer()
        return session

    def _without_retries(self, attempt: Callable[[], T]) -> T:
        """Return the result of an attempt that only a host that does not refuse delays."""
        began = time.monotonic()
        try:
            return attempt()
        except Exception as error:
            self._drop_read_only(error)
            if self.connectivity.lost or not db_errors.is_away(error):
                raise
        # The failure may come from a connection that a restart has closed; by now the pool has dropped those.
        try:
            return attempt()
        except Exception as error:
            # A server that refuses at once may be restarting: patient callers wait for that.
            if db_errors.is_away(error) and time.monotonic() - began > self._patience.refusal:
                self.connectivity.record_loss(error)
            raise

    def empty_log(self) -> None:
        """Make the log of SQLite empty if it is large and not in use; see :func:`sqlite_file.empty_log`."""
        sqlite_file.empty_log(self.engine)

    def recent_time(self) -> datetime.datetime:
        """Return a time by the database's clock that has passed, mostly less than a minute ago.

        It is older only if this process was suspended since. Raises :class:`~tonnage.capacity.errors.Unavailable` if
        the database has to be read and does not answer.
        """
        if self._last_time is None or time.monotonic() - self._last_time[1] > self._patience.recent_time:
            with self.reading(patient=False):
                pass
        assert self._last_time is not None  # noqa: S101  -- it has just been read
        return self._last_time[0]

    @property
    def away(self) -> bool:
        """Whether the last transaction ended its retries without reaching the database."""
        return self.connectivity.lost

    @property
    def refusal(self) -> str | None:
        """Why the database refuses transactions although it answers, such as a full disk; None if it does not."""
        return self.connectivity.refusal

    @property
    def returns(self) -> int:
        """The number of times that the database answered or was written again after it was away, even for a moment."""
        return self.connectivity.returns

    def close(self) -> None:
        """Close all connections."""
        if self._probes:
            self._probes.close()
        self.engine.dispose()


@dataclass(slots=True)
class _Attempts:
    """The attempts of one call, and how long the database has been away during it.

    ``failures`` is the number of attempts that found it away.
    """

    connectivity: db_errors.Connectivity
    max_retries: int
    max_outage: float
    connect_timeout: float
    began: float
    away_since: float | None = None
    failures: int = 0

    def is_last(self, state: tenacity.RetryCallState) -> bool:
        """Return whether no attempt follows the one that has failed."""
        error = _error_of(state)
        if error is None or not db_errors.is_away(error):
            return state.attempt_number > self.max_retries
        now = state.outcome_timestamp or time.monotonic()
        if self.away_since is None:  # earlier, the attempt did its work or waited for locks
            self.away_since = max(self.began, now - self.connect_timeout)
        self.failures += 1
        late = self.failures > 1 and now - self.away_since > self.max_outage
        useless = self.connectivity.lost or self.connectivity.refusal is not None
        return late or useless or state.attempt_number > self.max_retries


def _error_of(state: tenacity.RetryCallState) -> BaseException | None:
    return None if state.outcome is None else state.outcome.exception()


def may_be_committed(session: orm.Session) -> bool:
    """Return whether an earlier attempt lost its connection during the commit: its changes may be committed."""
    return bool(session.info.get(_MAY_BE_COMMITTED))


def connect(conf: Any, *, create: bool = False, url: str | None = None) -> Database:
    """Return the database that ``[database] connection`` names, or the argument ``--to`` of a command with ``url``.

    With ``create``, a missing SQLite file is made, and its folder. Raises
    :class:`~tonnage.ledger.db.sqlite_file.NoDatabase` for a missing file without ``create``, and
    :class:`~tonnage.capacity.errors.ConfigurationError` if no URL is set or the URL cannot be used.
    """
    options = conf.database
    if not (url or options.connection):
        raise errors.ConfigurationError(
            "option [database] connection is not set: it takes the URL of the ledger's database"
        )
    engine = create_engine(
        url or options.connection,
        pool_size=options.max_pool_size,
        max_overflow=options.max_overflow,
        pool_timeout=options.pool_timeout,
        pool_recycle=options.connection_recycle_time,
        timeouts=dialects.Timeouts(options.lock_timeout, options.idle_transaction_timeout, options.sqlite_busy_timeout),
        name=_CONNECTION if url is None else "--to",
    )
    if file := sqlite_file.path_of(engine.url):
        (sqlite_file.make if create else sqlite_file.require)(file)
    return Database(engine, options.db_max_retries, options.db_retry_interval, options.db_max_retry_interval)


def create_engine(
    url: str | sa.URL, timeouts: dialects.Timeouts = dialects.DEFAULT_TIMEOUTS, name: str = _CONNECTION, **pool: Any
) -> sa.Engine:
    """Return an engine with the isolation that the ledger needs. ``name`` is the name of the URL in errors.

    Raises :class:`~tonnage.capacity.errors.ConfigurationError` for a URL that cannot be used.
    """
    try:
        parsed = sa.make_url(url)
        if "@" in (parsed.host or ""):
            raise ValueError("a part of the password is taken for the host")
        dialect = parsed.get_backend_name()
        if dialect == "sqlite":
            if pool and parsed.database in (None, "", ":memory:"):  # its only connection takes no pool options
                raise errors.ConfigurationError(
                    f"{name} names a database in memory, which no other process sees and which "
                    "ends with this one: it takes a file, sqlite:////folder/file"
                )
            engine = sa.create_engine(parsed, **_JSON, **pool)
            prepare: Callable[..., object] = dialects.prepare_sqlite
            event.listen(engine, "begin", dialects.begin_sqlite)
        elif dialect in ("postgresql", "mysql", "mariadb"):
            is_pymysql = parsed.get_driver_name() == "pymysql"
            if dialect != "postgresql":
                parsed = dialects.with_any_text(parsed)
            if is_pymysql:
                parsed = dialects.with_multi_statements(parsed)
            pool["connect_args"] = dialects.parameters(parsed)
            engine = sa.create_engine(parsed, isolation_level="READ COMMITTED", **_JSON, **pool)
            prepare = dialects.prepare_postgresql if dialect == "postgresql" else dialects.prepare_mysql
            if is_pymysql:
                event.listen(engine, "do_executemany", dialects.execute_batched)
        else:
            raise errors.ConfigurationError(
                f"{name} names {dialect!r}: the ledger runs on sqlite, postgresql and mysql"
            )
    except ImportError as error:
        raise errors.ConfigurationError(f"{name} {_missing_library(parsed, error)}") from error
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError) as error:
        raise errors.ConfigurationError(f"{name} cannot be used: {db_errors.first_line(error)}") from error
    except ValueError:
        # The text of this error may contain a part of the password.
        raise errors.ConfigurationError(
            f"{name} is no URL that can be used: it takes DIALECT://USER:PASSWORD@HOST:PORT/NAME, "
            "with special characters of user and password (such as '/' and '@') written as %2F, %40, and numbers where "
            "numbers are due"
        ) from None
    _prepare_connections(engine, prepare, timeouts)
    if file := sqlite_file.path_of(engine.url):
        sqlite_file.OpenFile(file).attach(engine)
    exc_filters.register_engine(engine)
    event.remove(engine, "handle_error", exc_filters.handler)
    event.listen(engine, "handle_error", _translate, retval=True)
    return engine


def _translate(context: sa.engine.ExceptionContext) -> BaseException | None:
    """Return the error of oslo.db for an error of the driver.

    An error of the first statements of a connection stays as it is. SQLAlchemy makes these statements on a connection
    without ``info``, where oslo.db's function fails; and SQLAlchemy takes its NotImplementedError for the answer of a
    database that lacks a feature.
    """
    with contextlib.suppress(NotImplementedError):
        translated: BaseException | None = exc_filters.handler(context)
        return translated
    return None


def _missing_library(url: sa.URL, error: ImportError) -> str:
    """Return the part of a message that describes a URL whose library cannot be imported."""
    needs = f"is a URL with {url.drivername}://, for which a library is missing ({error})"
    extra, library = _LIBRARIES[url.get_backend_name()]
    other = "" if url.get_driver_name() == library else f"write {extra}+{library}:// and "
    return f"{needs}; {other}install it with: {installation.install_command(extra)}"


def _prepare_connections(engine: sa.Engine, prepare: Callable[..., object], timeouts: dialects.Timeouts) -> None:
    """Let the engine run ``prepare`` on each new connection."""
    driver, query = engine.url.get_driver_name(), engine.url.query

    def prepare_connection(connection: Any, record: Any) -> None:
        record.info[connection_probes.SERVER] = prepare(connection, timeouts)
        if engine.dialect.name in dialects.GALERA:
            galera.note_node(connection, record)
        if driver == "pymysql" and "read_timeout" not in query:
            dialects.wait_for_answers(connection)

    event.listen(engine, "connect", prepare_connection)


def _to_json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (OverflowError, TypeError):  # for example integers beyond 64 bits
        return json.dumps(value)


#: The stats of pools are JSON. A scheduler that starts reads many pools, so a fast decoder pays.
_JSON: dict[str, Any] = {"json_serializer": _to_json, "json_deserializer": msgspec.json.decode}
