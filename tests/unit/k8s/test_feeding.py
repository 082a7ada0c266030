# SPDX-License-Identifier: Apache-2.0
"""What agents' plugins have is taken over into the storage of their drivers."""

import datetime
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any
from typing import TypeAlias

import pytest
import sqlalchemy as sa

from tonnage.capacity import errors
from tonnage.capacity import typed
from tonnage.k8s import claims
from tonnage.k8s import feeding
from tonnage.k8s import store
from tonnage.k8s.asking import Capacity
from tonnage.k8s.decisions import Volume
from tonnage.k8s.drivers import Driver
from tonnage.k8s.drivers import Pool
from tonnage.k8s.nodes import Node
from tonnage.k8s.nodes import Nodes
from tonnage.k8s.patches import DriverPatch
from tonnage.ledger import database
from tonnage.ledger import models

NAME = "disk.example.com"
GI = 2**30
Report: TypeAlias = Callable[..., None]


@pytest.fixture
def ledger() -> Iterator[database.Database]:
    engine = database.create_engine("sqlite://")
    models.Base.metadata.create_all(engine)
    ledger = database.Database(engine)
    change = typed.convert({"spec": {"capacityTracking": True}}, DriverPatch)
    ledger.run(store.patch, NAME, change)
    yield ledger
    ledger.close()


@pytest.fixture
def report(ledger: database.Database) -> Report:
    """A function that has a backend report a pool, so many seconds ago."""

    def reported(short: str, free: float | None, ago: float = 0, driver: str = "csi", **stats: Any) -> None:
        def write(session: Any) -> None:
            heard = claims.now(session) - datetime.timedelta(seconds=ago)
            backend = session.scalar(sa.select(models.Backend).where(models.Backend.name == f"h@{driver}"))
            if backend is None:
                backend = models.Backend(name=f"h@{driver}", driver=driver)
                session.add(backend)
                session.flush()
            backend.last_report_at = heard
            name = f"h@{driver}#{short}"
            pool = session.scalar(sa.select(models.Pool).where(models.Pool.name == name))
            if pool is None:
                pool = models.Pool(name=name, backend_id=backend.id)
                session.add(pool)
            pool.present = free is not None
            if free is not None:
                pool.physical_limit_gb = free
                pool.stats = {"csi_plugin": NAME, "storage_class": short.partition("/")[0], **stats}

        ledger.run(write)

    return reported


def found(ledger: database.Database) -> dict[tuple[str, str], Pool]:
    with ledger.reading() as session:
        driver: Driver = store.find(session, NAME)
    return {(each.storage_class, pool.name): pool for each in driver.storage for pool in each.pools}


def test_pools_of_plugins_are_taken_over(ledger: database.Database, report: Report) -> None:
    report(
        "fast/zone=z1", 10.5, topology_labels={"example.com/zone": "z1"}, storage_id="disks", maximum_volume_size_gb=2.5
    )
    report("<ephemeral>/n1", 4, node_name="n1", topology_labels={"example.com/zone": "z1"})
    report("plain", 1)
    report("plain", 1, driver="lvm")
    report("other", 1, csi_plugin="unheard-of.example.com")
    assert feeding.Feeder(ledger, 60).feed() == 3
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
    assert (plain.node_topology, plain.node_list) == (None, None)


def test_what_the_ledger_has_promised_is_not_there(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    change = sa.update(models.Pool).values(in_flight_physical_gb=3, shared_in_flight_physical_gb=2)
    ledger.run(lambda session: session.execute(change))
    feeding.Feeder(ledger, 60).feed()
    assert found(ledger)["plain", "h@csi#plain"].capacity == 5 * GI
    ledger.run(lambda session: session.execute(change.values(in_flight_physical_gb=30)))
    feeding.Feeder(ledger, 60).feed()
    assert found(ledger)["plain", "h@csi#plain"].capacity == 0


def test_only_what_is_new_is_written_until_it_would_expire(ledger: database.Database, report: Report) -> None:
    report("plain", 10, ago=20)
    assert feeding.Feeder(ledger, 60).feed() == 1
    first = found(ledger)["plain", "h@csi#plain"]
    report("plain", 10)
    assert feeding.Feeder(ledger, 60).feed() == 0
    report("plain", 9)
    assert feeding.Feeder(ledger, 60).feed() == 1
    second = found(ledger)["plain", "h@csi#plain"]
    assert first.expires_at is not None
    assert second.expires_at is not None
    assert second.expires_at > first.expires_at
    # The agent is silent: less than half of its time is left, and nothing to put it off to.
    report("plain", 9, ago=40)
    assert feeding.Feeder(ledger, 60).feed() == 0
    assert found(ledger)["plain", "h@csi#plain"].expires_at == second.expires_at


def test_the_time_is_put_off_while_the_agent_reports(ledger: database.Database, report: Report) -> None:
    report("plain", 10, ago=40)
    feeding.Feeder(ledger, 60).feed()
    report("plain", 10, ago=1)
    assert feeding.Feeder(ledger, 60).feed() == 1


def test_each_report_of_a_pool_that_pods_wait_for_is_written(ledger: database.Database, report: Report) -> None:
    report("plain", 10, ago=20)
    report("other", 10, ago=20)
    feeding.Feeder(ledger, 60).feed()
    nodes, volume = Nodes([Node("n1", {})]), Volume("data", NAME, "plain", GI)
    Capacity(ledger).claim([volume], nodes, "u1", 60, pod="default/redis")
    for ago in (10, 5):
        report("plain", 10, ago=ago)
        report("other", 10, ago=ago)
        assert [feeding.Feeder(ledger, 60).feed() for _ in range(2)] == [1, 0]


def test_a_pool_that_is_not_reported_any_more_expires_at_once(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    feeding.Feeder(ledger, 60).feed()
    report("plain", None)
    assert feeding.Feeder(ledger, 60).feed() == 1
    with ledger.reading() as session:
        now = claims.now(session)
    expires = found(ledger)["plain", "h@csi#plain"].expires_at
    assert expires is not None
    assert expires <= now
    assert feeding.Feeder(ledger, 60).feed() == 0
    report("plain", 10)
    assert feeding.Feeder(ledger, 60).feed() == 1


def test_a_driver_that_was_removed_stays_so(ledger: database.Database, report: Report) -> None:
    report("plain", 10)
    ledger.run(store.delete, NAME)
    assert feeding.Feeder(ledger, 60).feed() == 0
    with ledger.reading() as session, pytest.raises(errors.NotFound):
        store.find(session, NAME)


def test_what_cannot_be_meant_is_left_out_and_said(
    ledger: database.Database, report: Report, caplog: pytest.LogCaptureFixture
) -> None:
    report("plain", 1)
    report("x" * 250, 1)
    for name, told in {
        "a": {"maximum_volume_size_gb": "big"},
        "b": {"maximum_volume_size_gb": -1},
        "c": {"topology_labels": {"zone": 7}},
        "d": {"topology_labels": {"": "z1"}},
        "e": {"storage_id": "s" * 254},
        "f": {"node_name": ""},
    }.items():
        report(name, 1, **told)
    feeder = feeding.Feeder(ledger, 60)
    assert (feeder.feed(), feeder.feed()) == (1, 0)
    assert list(found(ledger)) == [("plain", "h@csi#plain")]
    left_out = [f"h@csi#{name}" for name in ("x" * 250, *"abcdef")]
    assert [caplog.text.count(f"Pool {name} is not taken over") for name in left_out] == [1] * 7
