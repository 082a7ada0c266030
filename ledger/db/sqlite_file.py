# SPDX-License-Identifier: Apache-2.0
"""The file of an SQLite database: making it, and noticing that it was removed or replaced while it is open."""

import contextlib
import logging
import os
import sqlite3
import threading
from typing import Any

import sqlalchemy as sa
from oslo_db import exception as oslo_exception
from sqlalchemy import event

from tonnage.capacity import errors

LOG = logging.getLogger(__name__)

#: Bytes of a log that is not worth the work. SQLite copies commits into the file whenever the log has 4 MB, leaves the
#: last ones there, and never makes the log smaller.
_SMALL_LOG = 1_000_000

#: What SQLite appends to the name of the file for its log, which has the commits that are not in the file yet.
_LOG = "-wal"


class NoDatabase(errors.ConfigurationError):
    """There is no database where ``[database] connection`` points to."""


class LeftLog(errors.ConfigurationError):
    """There is no database, but the log of one that was there: SQLite deletes the log when it makes a new database."""


class LostFile(Exception):
    """The file was removed or replaced while it was open: new writes would be lost with this process."""


def path_of(url: sa.URL) -> str | None:
    """Return the file that a URL names; None for another kind of database, one in memory, or SQLite's own URIs."""
    file = url.database if url.get_backend_name() == "sqlite" else None
    return None if not file or file.startswith((":memory:", "file:")) else file


def require(file: str) -> None:
    """Raise :class:`NoDatabase` if the file is missing: SQLite would create an empty file, even in a wrong folder.

    Raises :class:`LeftLog` if its log is there.
    """
    if os.path.exists(file):
        return
    _refuse_left_log(file)
    where = "" if os.path.isabs(file) else f" in {os.getcwd()}, where this was started"
    raise NoDatabase(
        f"there is no database {file}{where} (option [database] connection); if the option is right and this is the "
        "right place, run 'tonnage-manage db sync', which makes it"
    )


def make(file: str) -> None:
    """Make the folder of an SQLite file, and the file, for its owner only. SQLite gives its log the same mode.

    Raises :class:`LeftLog` if the log of another file, which was moved away, is there, and
    :class:`~tonnage.capacity.errors.ConfigurationError` for a folder that cannot be made.
    """
    if not os.path.exists(file):
        _refuse_left_log(file)
    folder = os.path.dirname(file)
    if folder:
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
        except OSError as error:
            raise errors.ConfigurationError(
                f"option [database] connection: folder {folder} cannot be made: {error.strerror}"
            ) from error
    with contextlib.suppress(OSError):  # it exists, or SQLite tells why it cannot be made
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))


def _refuse_left_log(file: str) -> None:
    log = file + _LOG
    size = os.path.getsize(log) if os.path.exists(log) else 0
    if size:
        raise LeftLog(
            f"there is no database {file} (option [database] connection), but {log} with {size} bytes of its last "
            "transactions: bring the database back to its place; if it is lost for ever, move its log away too, "
            "then restore a backup or run 'tonnage-manage db sync'"
        )


def empty_log(engine: sa.Engine) -> None:
    """Copy the commits of the log into the file and make the log empty, unless that is small or in use at this moment.

    Does nothing for other databases. An error is left to the next transaction, which meets it too.
    """
    file = path_of(engine.url)
    with contextlib.suppress(OSError, LostFile, sa.exc.SQLAlchemyError, oslo_exception.DBError):
        if file is None or os.path.getsize(file + _LOG) < _SMALL_LOG:
            return
        connection = engine.raw_connection()
        try:
            cursor = connection.cursor()
            [timeout] = cursor.execute("PRAGMA busy_timeout").fetchone()
            cursor.execute("PRAGMA busy_timeout = 0")
            try:
                [busy, *_] = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                LOG.debug("The log of %s is %s", file, "in use" if busy else "empty")
            finally:
                cursor.execute(f"PRAGMA busy_timeout = {timeout}")
        except sqlite3.Error as error:
            LOG.debug("The log of %s stays as it is: %s", file, error)
        finally:
            connection.close()


class OpenFile:
    """The file that the connections of one engine have open. Threads may share it.

    A file without a name takes writes as long as it is open, and is gone then. So each transaction compares the file at
    the path with the one that was opened first, and likewise SQLite's log, which lasts as long as a connection does.
    """

    def __init__(self, file: str) -> None:
        self._file = os.path.abspath(file)
        self._lock = threading.Lock()
        self._connections = 0
        self._identity: tuple[int, int] | None = None
        self._log_identity: tuple[int, int] | None = None

    def attach(self, engine: sa.Engine) -> None:
        """Check the file before each transaction and each new connection of an engine.

        Call it after the listener that prepares the connections was added: before that there is no log.
        """
        event.listen(engine, "do_connect", lambda *arguments: self._check())
        event.listen(engine, "connect", self._note_connection)
        event.listen(engine, "close", self._note_close)
        event.listen(engine, "begin", lambda connection: self._check())

    def _note_connection(self, connection: Any, record: Any) -> None:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()  # this opens the log
        with self._lock:
            self._connections += 1
            if self._connections == 1:
                self._identity = self._identity or _identity_of(self._file)
                self._log_identity = _identity_of(self._file + _LOG)

    def _note_close(self, connection: Any, record: Any) -> None:
        with self._lock:
            self._connections -= 1
            if not self._connections:  # the last connection deletes the log
                self._log_identity = None

    def _check(self) -> None:
        """Raise :class:`LostFile` if the path leads to another file than before, or to none."""
        for file, identity in ((self._file, self._identity), (self._file + _LOG, self._log_identity)):
            if identity is not None and (present := _identity_of(file)) != identity:
                if present is None:
                    raise LostFile(
                        f"{file} was removed while it was open: bring the original file back; if it is deleted, "
                        f"process {os.getpid()} has the last copy open: do not end it before you have saved that (see "
                        "'A deleted SQLite file' in the documentation)"
                    )
                raise LostFile(
                    f"{file} was replaced while it was open: bring the original file back, or restart all processes "
                    "that use it, to go on with the other file"
                )


def _identity_of(file: str) -> tuple[int, int] | None:
    """Return device and number of a file, None if there is none."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_dev, status.st_ino
