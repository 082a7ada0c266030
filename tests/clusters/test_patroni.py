# SPDX-License-Identifier: Apache-2.0
"""Tonnage on PostgreSQL with a synchronous standby: switch-overs and fail-overs under load."""

import itertools
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from tests import servers
from tests.functional.deployment import Addresses, Deployment
from tests.functional.test_stopped_schedulers import BACKENDS, Creates
from tests.functional.test_torture import torture
from tests.servers import patroni as patroni_servers
from tests.servers.base import wait_for
from tonnage import extension
from tonnage.capacity import errors
from tonnage.ledger.db import database, durability, schema

#: Longest time in seconds without an accepted request on a busy machine, after the time to live of a dead primary.
_RECOVERY = 40


@pytest.fixture(scope="module")
def tonnage(patroni: servers.Patroni, rabbitmq_server: servers.RabbitMQ) -> Iterator[Deployment]:
    """Two schedulers."""
    with (
        patroni.database() as url,
        rabbitmq_server.virtual_host() as bus,
        Deployment(Addresses(url, bus), BACKENDS) as deployment,
    ):
        deployment.start().launch_another_scheduler()
        yield deployment


@pytest.mark.parametrize(
    ("fault", "longest_gap"),
    [
        pytest.param(servers.Patroni.switch_over, _RECOVERY, id="switch-over"),
        pytest.param(servers.Patroni.kill_node, patroni_servers.TTL + _RECOVERY, id="kill"),
        pytest.param(servers.Patroni.freeze_node, patroni_servers.TTL + _RECOVERY, id="freeze"),
        pytest.param(servers.Patroni.cut_node, patroni_servers.TTL + _RECOVERY, id="cut"),
    ],
)
def test_requests_go_on_at_another_primary(
    patroni: servers.Patroni, tonnage: Deployment, fault: patroni_servers.Fault, longest_gap: float
) -> None:
    primary = patroni.require_primary()
    with Creates(tonnage, 8) as creates:
        creates.wait_for_more()
        fault(patroni, primary)
        wait_for(lambda: patroni.primary() not in (primary, None), "another primary")
        accepted = len(creates.volume_ids)
        wait_for(lambda: len(creates.volume_ids) > accepted + 50, "requests are accepted")
        # The old primary is still frozen or cut off.
        time.sleep(5)
        patroni.restore_node(primary)
        creates.wait_for_more()
    assert {status for _, _, status in creates.answers} <= {202, 503}
    accepted_at = sorted(end for end, _, status in creates.answers if status == 202)
    gap = max(later - earlier for earlier, later in itertools.pairwise(accepted_at))
    print(f"longest time without an accepted request: {gap:.1f} s")
    assert gap < longest_gap
    tonnage.close_connections()
    tonnage.check_at_rest()
    assert set(creates.volume_ids) <= {row[0] for row in tonnage.sql("SELECT id FROM volumes")}
    assert len(set(creates.volume_ids)) == len(creates.volume_ids)


def test_a_migration_of_the_schema_ends_with_the_primary(patroni: servers.Patroni) -> None:
    primary = patroni.require_primary()
    with patroni.database() as url:
        ledger = database.Database(database.create_engine(url))
        statements = itertools.count()

        def kill_in_the_middle(*_: object) -> None:
            if next(statements) == 30:
                patroni.kill_node(primary)

        event.listen(ledger.engine, "before_cursor_execute", kill_in_the_middle)
        try:
            with pytest.raises(errors.ConfigurationError, match=r"^the database that \[database\] connection names"):
                schema.sync(ledger.engine, extension.installed())
            wait_for(lambda: patroni.primary() not in (primary, None), "another primary")
            schema.sync(ledger.engine, extension.installed())
            assert schema.current(ledger.engine) == schema.HEAD
        finally:
            ledger.close()
            patroni.restore_node(primary)


@pytest.mark.parametrize("role", ["postgres", "tonnage"])
def test_asynchronous_standbys_are_warned_of(patroni: servers.Patroni, role: str) -> None:
    if role != "postgres":
        patroni.execute(f"CREATE ROLE {role} LOGIN")  # without pg_monitor
    url = sa.make_url(patroni.url).set(username=role)
    assert not [each for each in weaknesses(url) if "standby" in each]
    patroni.configure(synchronous_mode=False)
    try:
        [found] = wait_for(
            lambda: [each for each in weaknesses(url) if "standby" in each], "asynchronous standbys are found", 30
        )
        assert found.startswith("synchronous_standby_names is empty and 2 standby(s) are asynchronous: decisions")
    finally:
        patroni.configure(synchronous_mode=True)
        wait_for(patroni.synchronous_standbys, "a synchronous standby")


def weaknesses(url: sa.URL) -> list[str]:
    engine = database.create_engine(url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return durability.find_weaknesses(connection)


@pytest.mark.timeout(1800)
def test_fail_overs_break_no_invariant() -> None:
    figures = torture("patroni", 1700, schedulers=2, agents=3, pools=9, requests=600, threads=16, faults=17, seed=1)
    assert set(figures["faults"].values()) == {1}
