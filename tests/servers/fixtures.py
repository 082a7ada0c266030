# SPDX-License-Identifier: Apache-2.0
"""Fixtures that hand private servers to tests.

Each server is started for the first test of a session (with pytest-xdist: of a worker) that asks for it, and ended with
the session. A test that kills a server has to start it again.
"""

import pathlib
from collections.abc import Iterator
from typing import TypeVar

import pytest

from tests import suites
from tests.servers import base, keystone, lvm_guest, mariadb, placement, postgresql, rabbitmq

AnyServer = TypeVar("AnyServer", bound=base.Server)


def _run(kind: type[AnyServer]) -> Iterator[AnyServer]:
    if not kind.installed():
        suites.cannot_run(kind.name, f"no {kind.name} on this machine; install the package {kind.packages}")
    with kind() as server:
        yield server


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[postgresql.PostgreSQL]:
    """A PostgreSQL that can be stopped, killed and started; ``database()`` makes an empty database in it."""
    yield from _run(postgresql.PostgreSQL)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[mariadb.MariaDB]:
    """A MariaDB that can be stopped, killed and started; ``database()`` makes an empty database in it."""
    yield from _run(mariadb.MariaDB)


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[rabbitmq.RabbitMQ]:
    """A RabbitMQ that can be stopped, killed and started; ``virtual_host()`` makes one without queues in it."""
    yield from _run(rabbitmq.RabbitMQ)


@pytest.fixture(scope="session")
def lvm() -> Iterator[lvm_guest.LvmGuest]:
    """A virtual machine with LVM and empty disks; tests agree on whose is which."""
    yield from _run(lvm_guest.LvmGuest)


@pytest.fixture(scope="session")
def placement_server() -> Iterator[placement.Placement]:
    """OpenStack Placement, which can be killed and started; what others have written is there."""
    yield from _run(placement.Placement)


@pytest.fixture(scope="session")
def keystone_server() -> Iterator[keystone.Keystone]:
    """OpenStack Identity, which can be killed and started; accounts of other tests are there."""
    yield from _run(keystone.Keystone)


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
    """The message bus that the tests of a session share, queues that others left behind included."""
    return rabbitmq_server.url


@pytest.fixture
def fresh_rabbitmq_url(rabbitmq_server: rabbitmq.RabbitMQ) -> Iterator[str]:
    """A message bus without any queue."""
    with rabbitmq_server.virtual_host() as url:
        yield url


DATABASES = ("sqlite", "postgresql", "mariadb")


@pytest.fixture(params=[pytest.param(name, id=name) for name in DATABASES])
def database_url(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[str]:
    """An empty database, on each of the databases that Tonnage supports; clients connected at the end are cut off."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'tonnage.sqlite'}"
    else:
        with request.getfixturevalue(f"{request.param}_server").database() as url:
            yield url
