# SPDX-License-Identifier: Apache-2.0
"""Pools of volume types as pools of storage classes: those of agents, and of a Cinder that is watched."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest
from kubernetes import client
from sqlalchemy import orm

from tests.servers.kube_api import KubeApi
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.publication.agent_import import AgentImporter
from tonnage.extensions.kubernetes.publication.capacity_publisher import Publisher
from tonnage.extensions.kubernetes.publication.type_pools import TypePools
from tonnage.ledger import models
from tonnage.ledger.db import database

DRIVER, ZONE = "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"
GI = 2**30
THIN = {"thin_provisioning_support": True, "max_over_subscription_ratio": "2.0", "provisioned_capacity_gb": 150}


@pytest.fixture
def report(ledger: database.Database) -> Callable[..., None]:
    """Return a function that stores a backend with one pool, as its last report has it."""

    def reported(name: str, zone: str = "nova", in_flight: int = 0, **values: Any) -> None:
        backend = {key: values.pop(key) for key in ("observed", "enabled", "draining") if key in values}
        stats = {"pool_name": "pool", "total_capacity_gb": 100, "free_capacity_gb": 60, **values}

        def write(session: orm.Session) -> None:
            now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
            row = models.Backend(name=name, availability_zone=zone, last_report_at=now, report_seq=1, **backend)
            session.add(row)
            session.flush()
            pool = models.Pool(
                name=f"{name}#pool",
                backend_id=row.id,
                stats=stats,
                in_flight_gb=in_flight,
                in_flight_physical_gb=in_flight,
                allocated_capacity_gb=in_flight,
                ratio=float(values.get("max_over_subscription_ratio", 1)),
            )
            session.add(pool)

        ledger.run(write)

    return reported


def add_type(ledger: database.Database, name: str, **specs: str) -> None:
    rows = [models.ExtraSpec(key=key.replace("__", ":"), value=value) for key, value in specs.items()]
    ledger.run(lambda session: session.add(models.VolumeType(id=f"id-of-{name}", name=name, specs=rows)))


def pools(ledger: database.Database, zone_label: str | None = ZONE, **classes: str) -> dict[tuple[str, str], Pool]:
    """Import the pools of some classes, and return those that are usable."""
    AgentImporter(ledger, 3600.0, TypePools(classes, zone_label, 3600.0), DRIVER).import_reports()
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    with ledger.reading() as session:
        driver = driver_rows.find(session, DRIVER)
    return {
        (part.storage_class, pool.name): pool
        for part in driver.storage
        for pool in part.pools
        if pool.expires_at is not None and pool.expires_at > now
    }


def test_a_class_has_the_pools_of_its_type_with_the_headroom_of_the_scheduler(
    ledger: database.Database, report: Callable[..., None]
) -> None:
    add_type(ledger, "fast", disk="nvme")
    add_type(ledger, "any")
    report("h@thick", disk="nvme", in_flight=10)
    report("h@thin", zone="z2", disk="nvme", **THIN)
    report("h@slow", disk="sata", storage_id="array")
    made = pools(ledger, fast="fast", other="any")
    assert {key: (pool.capacity or 0) // GI for key, pool in made.items()} == {
        ("fast", "h@thick#pool"): 50,
        ("fast", "h@thin#pool"): 50,
        ("other", "h@thick#pool"): 50,
        ("other", "h@thin#pool"): 50,
        ("other", "h@slow#pool"): 60,
    }
    topology = made["fast", "h@thin#pool"].node_topology
    assert topology is not None
    assert [topology.matches("n1", {ZONE: zone}) for zone in ("z2", "nova")] == [True, False]
    assert {made[key, "h@thick#pool"].backing_id for key in ("fast", "other")} == {"h@thick#pool"}
    assert made["other", "h@slow#pool"].backing_id == "array"


def test_types_of_a_cinder_are_named_by_their_specs(ledger: database.Database, report: Callable[..., None]) -> None:
    report("h@ceph", observed=True, volume_backend_name="ceph", multiattach=True)
    report("h@lvm", observed=True, volume_backend_name="lvm")
    made = pools(ledger, zone_label=None, csi="volume_backend_name=ceph; multiattach=<is> True")
    assert [(key, pool.node_topology) for key, pool in made.items()] == [(("csi", "h@ceph#pool"), None)]


def test_limits_of_a_type_and_states_of_backends_count(ledger: database.Database, report: Callable[..., None]) -> None:
    add_type(ledger, "small", provisioning__max_vol_size="20", RESKEY__availability_zones="z1, z2")
    report("h@a", zone="z1")
    report("h@b", zone="z3")
    report("h@c", zone="z2", enabled=False)
    report("h@d", zone="z2", draining=True)
    [pool] = pools(ledger, csi="small").values()
    assert (pool.name, pool.maximum_volume_size) == ("h@a#pool", 20 * GI)


def test_a_pool_without_room_for_a_type_has_none_and_one_that_leaves_expires(
    ledger: database.Database, report: Callable[..., None]
) -> None:
    add_type(ledger, "any")
    report("h@a", in_flight=60)
    report("h@b")
    assert pools(ledger, csi="any")["csi", "h@a#pool"].capacity == 0
    ledger.run(lambda session: session.query(models.Backend).filter_by(name="h@b").update({"enabled": False}))
    assert list(pools(ledger, csi="any")) == [("csi", "h@a#pool")]


def test_a_class_without_its_volume_type_costs_no_other_class(
    ledger: database.Database, report: Callable[..., None]
) -> None:
    add_type(ledger, "any")
    report("h@a")
    with ledger.reading() as session:
        read_pools, failures = TypePools({"gone": "nothing", "csi": "any"}, ZONE, 3600.0).read(session)
    assert [pool.storage_class for pool in read_pools] == ["csi"]
    assert failures.keys() == {"gone"}
    assert "names the volume type nothing, and the ledger has none" in failures["gone"]


@pytest.mark.parametrize("spec", ["provisioning:max_vol_size=much", "provisioning:type=thinner"])
def test_a_malformed_spec_is_an_error_of_the_configuration(ledger: database.Database, spec: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=f"volume_type_classes = csi:{spec}: extra spec provisioning:"):
        TypePools({"csi": spec}, ZONE, 3600.0)


def test_they_are_published_for_kube_scheduler(ledger: database.Database, report: Callable[..., None]) -> None:
    add_type(ledger, "any")
    report("h@a", zone="z1")
    report("h@b", zone="z2", free_capacity_gb=5)
    pools(ledger, **{"csi-cinder": "any"})
    with KubeApi() as kube:
        kube.add_class("csi-cinder", DRIVER)
        with client.ApiClient(client.Configuration(host=kube.url)) as api:
            assert str(Publisher(ledger, api, "tonnage").publish()) == "2 made, 0 changed, 0 deleted, 0 failed"
        published = sorted(
            (body["capacity"], body["nodeTopology"]["matchExpressions"][0]["values"])
            for body in kube.capacities.values()
        )
    assert published == [("5Gi", ["z2"]), ("60Gi", ["z1"])]
