# SPDX-License-Identifier: Apache-2.0
"""Pools of agents as pools of a cluster's drivers."""

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers import ledger_schema
from tonnage.extensions.kubernetes.capacity import agent_pools
from tonnage.extensions.kubernetes.capacity.agent_pools import AgentPools
from tonnage.extensions.kubernetes.cluster.quantities import MAX_BYTES
from tonnage.ledger import models
from tonnage.ledger.db import database

GI = 2**30
STATS = {"csi_plugin": "disk.example.com", "storage_class": "fast"}


@pytest.fixture
def session() -> Iterator[orm.Session]:
    engine = database.create_engine("sqlite://")
    ledger_schema.create(engine)
    with orm.Session(engine) as session:
        yield session
    engine.dispose()


def add(session: orm.Session, name: str, stats: dict[str, Any], *, driver: str = "csi", **columns: Any) -> None:
    backend = models.Backend(name=name.partition("#")[0], driver=driver, last_report_at=models.utcnow(), report_age=0)
    session.add(backend)
    session.flush()
    figures: dict[str, Any] = {"present": True, "physical_limit_gb": 10.0, **columns}
    session.add(models.Pool(backend_id=backend.id, name=name, stats=stats, **figures))
    session.flush()


def read(session: orm.Session) -> AgentPools:
    return agent_pools.read(session, 100.0)


def test_a_pool_of_a_plug_in_is_a_pool_of_its_driver(session: orm.Session) -> None:
    add(session, "h@b#p", STATS, in_flight_physical_gb=2, shared_in_flight_physical_gb=1)
    [row] = read(session).by_driver["disk.example.com"]
    assert (row.storage_class, row.present, row.pool.name) == ("fast", True, "h@b#p")
    # What the ledger has claimed is not available to the cluster.
    assert (row.pool.capacity, row.pool.backing_id, row.pool.node_list) == (7 * GI, "h@b#p", None)


def test_claims_of_more_than_the_limit_leave_nothing(session: orm.Session) -> None:
    add(session, "h@b#p", STATS, in_flight_physical_gb=99)
    assert read(session).by_driver["disk.example.com"][0].pool.capacity == 0


@pytest.mark.parametrize(("limit", "capacity"), [(None, None), (1e30, MAX_BYTES)])
def test_an_unknown_limit_stays_unknown_and_a_huge_one_is_cut(
    session: orm.Session, limit: float | None, capacity: int | None
) -> None:
    add(session, "h@b#p", STATS, physical_limit_gb=limit)
    assert read(session).by_driver["disk.example.com"][0].pool.capacity == capacity


def test_a_pool_of_several_classes_is_in_each_once_and_shares_its_disks(session: orm.Session) -> None:
    add(session, "h@b#p", STATS | {"storage_class": ["fast", "slow", "fast"], "storage_id": "disks"})
    rows = read(session).by_driver["disk.example.com"]
    assert [(row.storage_class, row.pool.backing_id) for row in rows] == [("fast", "disks"), ("slow", "disks")]


def test_other_agents_name_the_driver_as_provisioner(session: orm.Session) -> None:
    stats = {"storage_class": "fast"}
    add(session, "h@b#p", stats, driver="lvm")
    add(session, "h@c#p", stats | {"provisioner": "lvm.example.com"}, driver="lvm")
    pools = read(session)
    assert list(pools.by_driver) == ["lvm.example.com"]
    assert pools.names == {"h@b#p", "h@c#p"}


@pytest.mark.parametrize(
    ("stats", "nodes", "labelled"),
    [
        ({"node_name": "n1"}, ("n1",), False),
        ({"node_list": ["n1", "n2"]}, ("n1", "n2"), False),
        ({"topology_labels": {"zone": "a"}}, None, True),
        # Nodes with the labels that join later reach the pool too, unless it is in one node.
        ({"topology_labels": {"zone": "a"}, "node_list": ["n1"]}, None, True),
        ({"topology_labels": {"zone": "a"}, "node_name": "n1"}, ("n1",), False),
    ],
)
def test_nodes_are_named_or_have_labels(
    session: orm.Session, stats: dict[str, Any], nodes: tuple[str, ...] | None, labelled: bool
) -> None:
    add(session, "h@b#p", STATS | stats)
    [row] = read(session).by_driver["disk.example.com"]
    assert row.pool.node_list == nodes
    assert (row.pool.node_topology is not None) is labelled
    if row.pool.node_topology is not None:
        assert row.pool.node_topology.matches("n9", {"zone": "a"})
        assert not row.pool.node_topology.matches("n9", {"zone": "b"})


@pytest.mark.parametrize(("lifetime", "seconds"), [(None, 100.0), (30.0, 30.0), (500.0, 100.0)])
def test_figures_expire_after_the_shorter_lifetime(
    session: orm.Session, lifetime: float | None, seconds: float
) -> None:
    add(session, "h@b#p", STATS if lifetime is None else STATS | {"report_lifetime": lifetime})
    now = session.execute(sa.select(models.utcnow())).scalar_one()
    expires_at = read(session).by_driver["disk.example.com"][0].pool.expires_at
    assert expires_at is not None
    assert expires_at - now == pytest.approx(datetime.timedelta(seconds=seconds), abs=datetime.timedelta(seconds=5))


def test_an_invalid_pool_is_named_with_its_problem_and_others_count(session: orm.Session) -> None:
    add(session, "h@b#p", STATS | {"storage_class": 7})
    add(session, "h@c#p", STATS)
    pools = read(session)
    assert list(pools.failures) == ["h@b#p"]
    assert "storage_class" in pools.failures["h@b#p"]
    assert [row.pool.name for row in pools.by_driver["disk.example.com"]] == ["h@c#p"]


def test_a_backend_that_has_never_reported_has_no_pools(session: orm.Session) -> None:
    add(session, "h@b#p", STATS)
    session.execute(sa.update(models.Backend).values(last_report_at=None))
    assert read(session).by_driver == {}
