# SPDX-License-Identifier: Apache-2.0
"""Fixtures for private servers.

The first test of a session (with pytest-xdist: of a worker) that needs a server starts it, and the end of the session
ends it. A test that kills a server must start it again.
"""

import pathlib
from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests import suites
from tests.servers import base, keystone, ledger_schema, lvm_guest, mariadb, placement, postgresql, rabbitmq

AnyServer = TypeVar("AnyServer", bound=base.Server)


def run(kind: type[AnyServer]) -> Iterator[AnyServer]:
    if not kind.installed():
        suites.cannot_run(kind.name, f"no {kind.name} on this machine; install the package {kind.packages}")
    with kind() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.PostgreSQL]:
    """A PostgreSQL that can be stopped, killed and started; ``database()`` creates an empty database."""
    yield from run(postgresql.PostgreSQL)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[mariadb.MariaDB]:
    """A MariaDB that can be stopped, killed and started; ``database()`` creates an empty database."""
    yield from run(mariadb.MariaDB)


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[rabbitmq.RabbitMQ]:
    """A RabbitMQ that can be stopped, killed and started; ``virtual_host()`` creates an empty virtual host."""
    yield from run(rabbitmq.RabbitMQ)


@pytest.fixture(scope="session")
def lvm() -> Iterator[lvm_guest.LvmGuest]:
    """A virtual machine with LVM and empty disks, which the tests share by agreement."""
    yield from run(lvm_guest.LvmGuest)


@pytest.fixture(scope="session")
def placement_server() -> Iterator[placement.Placement]:
    """OpenStack Placement, which can be killed and started. It has the content of other tests."""
    yield from run(placement.Placement)


@pytest.fixture(scope="session")
def keystone_server() -> Iterator[keystone.Keystone]:
    """OpenStack Identity, which can be killed and started. It has the accounts of other tests."""
    yield from run(keystone.Keystone)


@pytest.fixture(scope="session")
def postgresql_url(postgresql_server: postgresql.PostgreSQL) -> Iterator[str]:
    """A PostgreSQL database that the tests of a session share."""
    with postgresql_server.database() as url:
        yield url


@pytest.fixture(scope="session")
def mariadb_url(mariadb_server: mariadb.MariaDB) -> Iterator[str]:
    """A MariaDB database that the tests of a session share."""
    with mariadb_server.database() as url:
        yield url


@pytest.fixture(scope="session")
def rabbitmq_url(rabbitmq_server: rabbitmq.RabbitMQ) -> str:
    """The message bus that the tests of a session share, with the queues of other tests."""
    return rabbitmq_server.url


@pytest.fixture
def fresh_rabbitmq_url(rabbitmq_server: rabbitmq.RabbitMQ) -> Iterator[str]:
    """A message bus without any queue."""
    with rabbitmq_server.virtual_host() as url:
        yield url


DATABASES = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(params=[pytest.param(name, id=name) for name in DATABASES])
def database_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[str]:
    """The URL of an empty database on each supported database. Its clients are disconnected at the end."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'tonnage.sqlite'}"
    else:
        with request.getfixturevalue(f"{request.param}_server").database() as url:
            yield url


@pytest.fixture(params=[pytest.param(name, id=name) for name in DATABASES])
def ledger_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[str]:
    """The URL of a database on each supported database, which :func:`ledger_schema.create` fills in the least time."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'tonnage.sqlite'}"
    else:
        server = request.getfixturevalue(f"{request.param}_server")
        with server.database(ledger_schema.options_with_tables(server)) as url:
            yield url
