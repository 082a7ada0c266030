# SPDX-License-Identifier: Apache-2.0
"""Import of agents' pools into the storage of drivers."""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
import sqlalchemy as sa

from tests.servers import ledger_schema
from tests.unit.scheduler.world import BACKEND, StoragePool, World
from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.driver_storage import Driver, Pool
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.extensions.kubernetes.publication import agent_import
from tonnage.ledger import models
from tonnage.ledger.db import database

NAME = "disk.example.com"
GI = 2**30
Report: TypeAlias = Callable[..., None]


@pytest.fixture(params=["sqlite"])
def ledger(request: pytest.FixtureRequest) -> Iterator[database.Database]:
    kind = request.param
    engine = database.create_engine("sqlite://" if kind == "sqlite" else request.getfixturevalue(f"{kind}_url"))
    ledger_schema.create(engine)
    ledger = database.Database(engine)
    change = type_conversion.convert({"spec": {"capacityTracking": True}}, DriverPatch)
    ledger.run(driver_rows.patch, NAME, change)
    yield ledger
    with ledger.engine.begin() as connection:
        for table in (
            tables.CsiClaim,
            tables.CsiPool,
            tables.CsiStorage,
            tables.CsiDriver,
            models.Pool,
            models.Backend,
        ):
            connection.execute(sa.delete(table))
    ledger.close()


@pytest.fixture
def report(ledger: database.Database) -> Report:
    """Return a function that stores the report of a pool: its age in seconds, and how long the driver took for it."""

    def reported(
        short: str, free: float | None, ago: float = 0, driver: str = "csi", took: float = 0.0, **stats: Any
    ) -> None:
        def write(session: Any) -> None:
            reported_at = capacity_claims.now(session) - datetime.timedelta(seconds=ago)
            backend = session.scalar(sa.select(models.Backend).where(models.Backend.name == f"h@{driver}"))
            if backend is None:
                backend = models.Backend(name=f"h@{driver}", driver=driver)
                session.add(backend)
                session.flush()
            backend.last_report_at, backend.report_age = reported_at, took
            name = f"h@{driver}#{short}"
            pool = session.scalar(sa.select(models.Pool).where(models.Pool.name == name))
            if pool is None:
                pool = models.Pool(name=name, backend_id=backend.id)
                session.add(pool)
            pool.present = free is not None
            if free is not None:
                pool.physical_limit_gb = free
                plugin = {"csi_plugin": NAME, "storage_class": short.partition("/")[0]} if driver == "csi" else {}
                pool.stats = {**plugin, **stats}

        ledger.run(write)

    return reported


def found(ledger: database.Database) -> dict[tuple[str, str], Pool]:
    with ledger.reading() as session:
        driver: Driver = driver_rows.find(session, NAME)
    return {(each.storage_class, pool.name): pool for each in driver.storage for pool in each.pools}


def test_pools_of_plugins_are_imported(ledger: database.Database, report: Report) -> None:
    report(
        "fast/zone=z1", 10.5, topology_labels={"example.com/zone": "z1"}, storage_id="disks", maximum_volume_size_gb=2.5
    )
    report("<ephemeral>/n1", 4, node_name="n1", topology_labels={"example.com/zone": "z1"})
    report("plain", 1)
    report("plain", 1, driver="lvm")
    report("other", 1, csi_plugin="unheard-of.example.com")
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 3
    pools = found(ledger)
    assert list(pools) == [
        ("<ephemeral>", "h@csi#<ephemeral>/n1"),
        ("fast", "h@csi#fast/zone=z1"),
        ("plain", "h@csi#plain"),
    ]
    zone = pools["fast", "h@csi#fast/zone=z1"]
    assert (zone.capacity, zone.maximum_volume_size, zone.backing_id) == (10 * GI + GI // 2, 2 * GI + GI // 2, "disks")
    assert zone.node_topology is not None
    assert zone.node_topology.matches("any", {"example.com/zone": "z1"})
    assert not zone.node_topology.matches("any", {"example.com/zone": "z2"})
    assert pools["<ephemeral>", "h@csi#<ephemeral>/n1"].node_list == ("n1",)
    plain = pools["plain", "h@csi#plain"]
    assert (plain.node_topology, plain.node_list, plain.backing_id) == (None, None, "h@csi#plain")


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_pools_of_other_agents_are_imported_for_their_provisioner(ledger: database.Database, report: Report) -> None:
    """Local disks of two nodes, reported by agents with any driver, for the volumes of a provisioner."""
    section = {"driver": "lvm", "provisioner": NAME}
    report("one", 10, node_name="n1", storage_class=["fast", "safe"], **section)
    report("two", 16, node_name="n2", storage_class="fast", report_lifetime=1200, **section)
    report("tonnages-own", 99, driver="lvm", node_name="n1", storage_class="fast")
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 3
    pools = found(ledger)
    assert list(pools) == [("fast", "h@lvm#one"), ("fast", "h@lvm#two"), ("safe", "h@lvm#one")]
    # The classes of a pool share its capacity.
    assert [pool.backing_id for pool in pools.values()] == ["h@lvm#one", "h@lvm#two", "h@lvm#one"]
    one, two = pools["fast", "h@lvm#one"].expires_at, pools["fast", "h@lvm#two"].expires_at
    assert one is not None
    assert two is not None
    assert one - two > datetime.timedelta(minutes=30)
    nodes = Nodes([Node("n1", {}), Node("n2", {}), Node("n3", {})])

    def fitting(*asked: tuple[str, int]) -> list[str]:
        volumes = [Volume(f"v{at}", NAME, kind, size * GI) for at, (kind, size) in enumerate(asked)]
        return [nodes.names[row] for row in NodeQueries(ledger).decide(volumes, nodes).fitting_nodes()]

    assert fitting(("fast", 8), ("fast", 8)) == ["n2"]
    assert fitting(("fast", 4), ("safe", 6)) == ["n1"]
    assert fitting(("fast", 5), ("safe", 6)) == []


def test_a_pool_expires_in_a_class_that_it_has_lost(ledger: database.Database, report: Report) -> None:
    report("one", 10, driver="lvm", provisioner=NAME, storage_class=["fast", "safe"])
    agent_import.AgentImporter(ledger, 3600).import_reports()
    report("one", 10, driver="lvm", provisioner=NAME, storage_class=["safe"])
    assert [agent_import.AgentImporter(ledger, 3600).import_reports() for _ in range(2)] == [1, 0]
    with ledger.reading() as session:
        now = capacity_claims.now(session)
    live = [key for key, pool in found(ledger).items() if pool.expires_at is not None and pool.expires_at > now]
    assert live == [("safe", "h@lvm#one")]


def fits(ledger: database.Database, kind: str, size: int) -> bool:
    """Return whether a volume of ``size`` GiB of a class fits now."""
    return bool(
        NodeQueries(ledger).decide([Volume("v", NAME, kind, size * GI)], Nodes([Node("n1", {})])).fitting_nodes()
    )


def claim_for_pod(ledger: database.Database, kind: str, size: int, holder: str = "u1") -> None:
    """Claim capacity for a volume of ``size`` GiB of a class, as the extender does for a pod."""
    volume = Volume("data", NAME, kind, size * GI)
    _, node_claim = NodeQueries(ledger).claim([volume], Nodes([Node("n1", {})]), holder, 3600, pod="default/redis")
    assert node_claim is not None


@pytest.mark.parametrize("storage_id", [None, "disks"])
def test_claims_in_a_class_that_a_pool_has_lost_still_count(
    ledger: database.Database, report: Report, storage_id: str | None
) -> None:
    section = {"driver": "lvm", "provisioner": NAME}
    report("one", 100, storage_class=["fast", "safe"], **section)
    agent_import.AgentImporter(ledger, 3600).import_reports()
    claim_for_pod(ledger, "safe", 50)
    report("one", 100, storage_class="fast", **section, storage_id=storage_id)
    agent_import.AgentImporter(ledger, 3600).import_reports()
    assert (fits(ledger, "fast", 50), fits(ledger, "fast", 51)) == (True, False)


def test_a_pool_expires_for_its_former_provisioner(ledger: database.Database, report: Report) -> None:
    other = "other.example.com"
    ledger.run(driver_rows.patch, other, type_conversion.convert({"spec": {"capacityTracking": True}}, DriverPatch))
    report("one", 10, driver="lvm", provisioner=NAME, storage_class="fast")
    report("two", 10, driver="lvm", provisioner=NAME, storage_class="plain")
    agent_import.AgentImporter(ledger, 3600).import_reports()
    assert (fits(ledger, "fast", 10), fits(ledger, "plain", 10)) == (True, True)
    report("one", 10, driver="lvm", provisioner=other, storage_class="fast")
    report("two", 10, driver="lvm", provisioner=NAME, storage_class=[])
    # No report names the old driver any more, and the importer has just started.
    assert [agent_import.AgentImporter(ledger, 3600).import_reports() for _ in range(2)] == [3, 0]
    assert (fits(ledger, "fast", 1), fits(ledger, "plain", 1)) == (False, False)


def test_pools_of_a_backend_that_was_removed_expire_at_once(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    importer = agent_import.AgentImporter(ledger, 3600)
    importer.import_reports()
    ledger.run(lambda session: [session.execute(sa.delete(table)) for table in (models.Pool, models.Backend)])
    assert [importer.import_reports() for _ in range(2)] == [1, 0]
    assert not fits(ledger, "plain", 1)


def test_in_flight_capacity_of_the_ledger_is_subtracted(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    change = sa.update(models.Pool).values(in_flight_physical_gb=3, shared_in_flight_physical_gb=2)
    ledger.run(lambda session: session.execute(change))
    agent_import.AgentImporter(ledger, 3600).import_reports()
    assert found(ledger)["plain", "h@csi#plain"].capacity == 5 * GI
    ledger.run(lambda session: session.execute(change.values(in_flight_physical_gb=30)))
    agent_import.AgentImporter(ledger, 3600).import_reports()
    assert found(ledger)["plain", "h@csi#plain"].capacity == 0


def test_the_collection_time_of_a_report_shortens_its_lifetime(ledger: database.Database, report: Report) -> None:
    report("plain", 10, took=1500)
    agent_import.AgentImporter(ledger, 3600).import_reports()
    with ledger.reading() as session:
        now = capacity_claims.now(session)
    expires = found(ledger)["plain", "h@csi#plain"].expires_at
    assert expires is not None
    assert datetime.timedelta(minutes=20) < expires - now <= datetime.timedelta(minutes=35)


def test_only_changes_are_written_until_the_expiry_is_near(ledger: database.Database, report: Report) -> None:
    report("plain", 10, ago=1200)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 1
    first = found(ledger)["plain", "h@csi#plain"]
    report("plain", 10)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 0
    report("plain", 9)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 1
    second = found(ledger)["plain", "h@csi#plain"]
    assert first.expires_at is not None
    assert second.expires_at is not None
    assert second.expires_at > first.expires_at
    # The agent is silent: less than half of the lifetime is left, and no later expiry is known.
    report("plain", 9, ago=2400)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 0
    assert found(ledger)["plain", "h@csi#plain"].expires_at == second.expires_at


def test_reports_extend_the_expiry(ledger: database.Database, report: Report) -> None:
    report("plain", 10, ago=2400)
    agent_import.AgentImporter(ledger, 3600).import_reports()
    report("plain", 10, ago=1)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 1


def test_each_report_of_a_claimed_pool_is_written(ledger: database.Database, report: Report) -> None:
    report("plain", 10, ago=1200)
    report("other", 10, ago=1200)
    agent_import.AgentImporter(ledger, 3600).import_reports()
    nodes, volume = Nodes([Node("n1", {})]), Volume("data", NAME, "plain", GI)
    NodeQueries(ledger).claim([volume], nodes, "u1", 3600, pod="default/redis")
    for ago in (600, 300):
        report("plain", 10, ago=ago)
        report("other", 10, ago=ago)
        assert [agent_import.AgentImporter(ledger, 3600).import_reports() for _ in range(2)] == [1, 0]


def test_each_report_of_pools_that_share_disks_with_a_claimed_pool_is_written(
    ledger: database.Database, report: Report
) -> None:
    for short in ("plain", "other"):
        report(short, 10, ago=1200, storage_id="disks")
    agent_import.AgentImporter(ledger, 3600).import_reports()
    claim_for_pod(ledger, "plain", 1)
    for short in ("plain", "other"):
        report(short, 10, ago=600, storage_id="disks")
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 2


@pytest.mark.parametrize("ledger", ["sqlite", "postgresql", "mariadb"], indirect=True)
def test_a_refused_report_does_not_extend_the_expiry(ledger: database.Database) -> None:
    """Nor does it count among the reports after which claims are released."""
    world = World({name: StoragePool(20, 1.0, thin=False, thick=True) for name in "ab"}, engine=ledger.engine)
    importer = agent_import.AgentImporter(ledger, 3600)
    keys = [("fast", f"{BACKEND}#{name}") for name in "ab"]

    def report(free_in_a: Any = 20) -> list[datetime.datetime | None]:
        look = world.agent.look()
        pools = [{**each, "provisioner": NAME, "storage_class": "fast"} for each in look.pools]
        pools[0]["free_capacity_gb"] = free_in_a
        world.deliver(replace(look, pools=pools))
        importer.import_reports()
        pools_there = found(ledger)
        return [pools_there[key].expires_at for key in keys]

    world.start_agent()
    report()
    for size in (18, 19):  # one in each pool
        claim_for_pod(ledger, "fast", size, holder=f"u{size}")
    times = [report()]
    times += [report("many") for _ in range(2)]
    world.start_scheduler()
    world.start_agent()
    times += [report("few")]
    a, b = zip(*times, strict=True)
    assert (len(set(a)), len(set(b))) == (1, 4)
    # The same figures, from a later report.
    assert report()[0] not in a


def test_a_pool_that_is_no_longer_reported_expires_at_once(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    agent_import.AgentImporter(ledger, 3600).import_reports()
    report("plain", None)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 1
    with ledger.reading() as session:
        now = capacity_claims.now(session)
    expires = found(ledger)["plain", "h@csi#plain"].expires_at
    assert expires is not None
    assert expires <= now
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 0
    report("plain", 10)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 1


def test_a_removed_driver_is_not_restored(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    ledger.run(driver_rows.delete, NAME)
    assert agent_import.AgentImporter(ledger, 3600).import_reports() == 0
    with ledger.reading() as session, pytest.raises(errors.NotFound):
        driver_rows.find(session, NAME)


def test_invalid_pools_are_skipped_and_logged(
    ledger: database.Database, report: Report, caplog: pytest.LogCaptureFixture
) -> None:
    report("plain", 1)
    report("x" * 250, 1)
    for name, section in {
        "a": {"maximum_volume_size_gb": "big"},
        "b": {"maximum_volume_size_gb": -1},
        "c": {"topology_labels": {"zone": 7}},
        "d": {"topology_labels": {"": "z1"}},
        "e": {"storage_id": "s" * 254},
        "f": {"node_name": ""},
        "g": {"storage_class": []},
    }.items():
        report(name, 1, **section)
    importer = agent_import.AgentImporter(ledger, 3600)
    assert (importer.import_reports(), importer.import_reports()) == (1, 0)
    assert list(found(ledger)) == [("plain", "h@csi#plain")]
    left_out = [f"h@csi#{name}" for name in ("x" * 250, *"abcdefg")]
    assert [caplog.text.count(f"Pool {name} is not imported") for name in left_out] == [1] * 8


class _Delayed:
    """A ledger in which something happens between the reads of an importer and its writes."""

    def __init__(self, ledger: database.Database, meanwhile: Callable[[], object]) -> None:
        self.reading, self._run, self._meanwhile = ledger.reading, ledger.run, meanwhile

    def run(self, *work: Any) -> Any:
        self._meanwhile()
        return self._run(*work)


def test_an_older_report_never_replaces_a_newer_one(ledger: database.Database, report: Report) -> None:
    """Two publishers: the second one imports the next report while the first one still has the one before."""
    report("plain", 9, ago=5)
    faster = agent_import.AgentImporter(ledger, 3600)

    def import_next_report() -> None:
        report("plain", 4)
        faster.import_reports()

    slow: Any = _Delayed(ledger, import_next_report)
    agent_import.AgentImporter(slow, 3600).import_reports()
    assert found(ledger)["plain", "h@csi#plain"].capacity == 4 * GI
    assert faster.import_reports() == 0, "nothing has to be mended"


def test_a_driver_that_is_removed_during_an_import_stays_removed(ledger: database.Database, report: Report) -> None:
    report("plain", 9)
    slow: Any = _Delayed(ledger, lambda: ledger.run(driver_rows.delete, NAME))
    assert agent_import.AgentImporter(slow, 3600).import_reports() == 0
    with ledger.reading() as session:
        assert driver_rows.list_all(session) == []
