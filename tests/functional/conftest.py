# SPDX-License-Identifier: Apache-2.0
"""Fixtures for deployments: one process with SQLite, or three processes with RabbitMQ and PostgreSQL or MariaDB."""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeAlias

import pytest

from tests.functional.deployment import Addresses, Deployment
from tests.servers import ledger_schema

pytest.register_assert_rewrite("tests.functional.commands")

#: Returns a context manager for a deployment, which is not started. The arguments are those of :class:`Deployment`.
Deploy: TypeAlias = Callable[..., contextlib.AbstractContextManager[Deployment]]


#: For tests that do not depend on the kind of database: only `make test-heavy` runs them with the others.
on_one_database = pytest.mark.parametrize(
    "deploy",
    ["postgresql", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("standalone", "mariadb"))],
    indirect=True,
    scope="module",
)


@pytest.fixture(scope="module", params=["standalone", "postgresql", "mariadb"])
def deploy(request: pytest.FixtureRequest) -> Iterator[Deploy]:
    """A function that makes deployments with an empty ledger and an empty message bus."""
    if request.param == "standalone":
        yield lambda *args, **kwargs: Deployment(Addresses(), *args, **kwargs)
        return
    databases, broker = request.getfixturevalue(f"{request.param}_server"), request.getfixturevalue("rabbitmq_server")

    @contextlib.contextmanager
    def deployed(*args: Any, **kwargs: Any) -> Iterator[Deployment]:
        with (
            databases.database(ledger_schema.options_with_tables(databases)) as url,
            broker.virtual_host() as bus,
            Deployment(Addresses(url, bus), *args, **kwargs) as deployment,
        ):
            yield deployment

    yield deployed


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the logs of the processes of a failed test."""
    report = yield
    if report.failed:
        arguments: dict[str, Any] = getattr(item, "funcargs", {})
        for value in arguments.values():
            if isinstance(value, Deployment):
                report.sections.append((f"{value.host}", value.logs()))
    return report
