# SPDX-License-Identifier: Apache-2.0
"""Deployments of each kind: one process with SQLite, and separate ones over RabbitMQ with either database."""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import pytest

from tests.functional.deployment import Addresses, Deployment

pytest.register_assert_rewrite("tests.functional.commands")

#: Makes a deployment, not yet started, for as long as its context lasts: see :class:`Deployment` for the arguments.
Deploy: TypeAlias = Callable[..., contextlib.AbstractContextManager[Deployment]]


#: For tests of what the database has no part in: MariaDB is left to `make test-heavy`.
on_one_database = pytest.mark.parametrize(
    "deploy",
    ["standalone", "postgresql", pytest.param("mariadb", marks=pytest.mark.heavy)],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module", params=["standalone", "postgresql", "mariadb"])
def deploy(request: pytest.FixtureRequest) -> Iterator[Deploy]:
    """Make deployments of each kind, each with a database and a message bus that are empty."""
    if request.param == "standalone":
        yield lambda *args, **kwargs: Deployment(Addresses(), *args, **kwargs)
        return
    databases, broker = request.getfixturevalue(f"{request.param}_server"), request.getfixturevalue("rabbitmq_server")

    @contextlib.contextmanager
    def deployed(*args: Any, **kwargs: Any) -> Iterator[Deployment]:
        with (
            databases.database() as url,
            broker.virtual_host() as bus,
            Deployment(Addresses(url, bus), *args, **kwargs) as deployment,
        ):
            yield deployment

    yield deployed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the processes of a failed test wrote."""
    report = yield
    if report.failed:
        arguments: dict[str, Any] = getattr(item, "funcargs", {})
        for value in arguments.values():
            if isinstance(value, Deployment):
                report.sections.append((f"{value.host}", value.logs()))
    return report
