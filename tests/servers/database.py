# SPDX-License-Identifier: Apache-2.0
"""The base class of database servers."""

import abc
import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import sqlalchemy as sa

from tests.servers import base


class DatabaseServer(base.Server):
    """A database server. :attr:`url` names a database for administration and for tests that share it."""

    create_options: ClassVar[str] = ""
    """The end of the statement ``CREATE DATABASE`` that makes a database in the least time."""

    connect_arguments: ClassVar[Mapping[str, Any]] = {}
    """Parameters of connections for administration."""

    @contextlib.contextmanager
    def database(self, options: str | None = None) -> Iterator[str]:
        """Create an empty database, yield its URL, and drop it afterwards, even with connected clients.

        ``options`` are the end of the statement ``CREATE DATABASE``, in place of :attr:`create_options`.
        """
        name = f"t{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} {self.create_options if options is None else options}")
        try:
            yield sa.make_url(self.url).set(database=name).render_as_string(hide_password=False)
        finally:
            if self.process.poll() is None:  # a test may have left the server dead
                self._drop(name)

    def execute(self, *statements: str) -> list[Any]:
        """Run statements outside a transaction, and return the rows of the last statement."""
        engine = sa.create_engine(
            self.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool, connect_args=self.connect_arguments
        )
        rows: list[Any] = []
        with engine.connect() as connection:
            for statement in statements:
                result = connection.exec_driver_sql(statement)
                rows = list(result) if result.returns_rows else []
        return rows

    @abc.abstractmethod
    def _drop(self, name: str) -> None:
        """Drop a database, even with connected clients."""
