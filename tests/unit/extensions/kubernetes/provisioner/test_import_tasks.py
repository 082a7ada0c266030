# SPDX-License-Identifier: Apache-2.0
"""From the objects of three drivers to pools, decisions, claims and their end, without any other writer of figures."""

import datetime
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.servers.base import wait_for
from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.provisioner.published_objects import DRIVERS, HOSTPATH, TOPOLVM, PublishedDriver
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.provisioner.import_tasks import ImportTasks
from tonnage.ledger.db import database

GIB = 2**30


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as kube:
        yield kube


@pytest.fixture
def api(kube: KubeApi) -> Iterator[client.ApiClient]:
    settings = client.Configuration(host=kube.url)
    settings.retries = False
    with client.ApiClient(settings) as api:
        yield api


@pytest.fixture
def tasks(kube: KubeApi, api: client.ApiClient, ledger: database.Database) -> Iterator[ImportTasks]:
    tasks = ImportTasks(ledger, api, 3600.0)
    yield tasks
    kube.end_watches()
    tasks.stop()


def capacities(ledger: database.Database, driver: PublishedDriver) -> dict[str, int | None]:
    """Return the capacities of a driver's usable pools by name, in GiB."""
    with ledger.reading() as session:
        if driver.driver not in {stored.name for stored in driver_rows.list_all(session)}:
            return {}
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        return {
            pool.name.partition(" = ")[2]: None if pool.capacity is None else pool.capacity // GIB
            for part in driver_rows.find(session, driver.driver).storage
            for pool in part.pools
            if pool.expires_at is not None and pool.expires_at > now
        }


def volumes(driver: PublishedDriver, *sizes: int) -> list[Volume]:
    return [
        Volume(f"v{number}", driver.driver, driver.storage_class, size * GIB) for number, size in enumerate(sizes, 1)
    ]


def nodes(driver: PublishedDriver, *names: str) -> Nodes:
    return Nodes([Node(name, {driver.node_label: name}) for name in names])


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.driver)
def test_objects_become_pools_fits_and_claims(
    kube: KubeApi, ledger: database.Database, tasks: ImportTasks, driver: PublishedDriver
) -> None:
    driver.install(kube)
    if driver.has_lease:
        driver.renew_lease(kube, datetime.datetime.now(datetime.UTC).isoformat())
    for node, size in (("n1", "10Gi"), ("n2", "20Gi")):
        kube.add_capacity(driver.body(node, size, "12Gi"))
    tasks.start()
    wait_for(lambda: capacities(ledger, driver) == {"n1": 10, "n2": 20}, "the pools")
    queries = NodeQueries(ledger)
    where = nodes(driver, "n1", "n2", "n3")

    def fitting(*sizes: int) -> list[str]:
        decision = queries.decide(volumes(driver, *sizes), where)
        return [where.names[row] for row in decision.fitting_nodes()]

    assert fitting(6) == ["n1", "n2"]
    assert fitting(6, 6) == ["n2"]
    assert fitting(13) == []
    _, node_claim = queries.claim(volumes(driver, 6, 6), where, "u1", 600.0, pod="default/a")
    assert node_claim is not None
    assert node_claim.node == "n2"
    assert fitting(9) == ["n1"]
    # The provisioner writes the figure with both volumes; they are counted twice until that is certain.
    kube.add_capacity(driver.body("n2", "8Gi", "12Gi"))
    wait_for(lambda: capacities(ledger, driver)["n2"] == 8, "the new figure")
    assert fitting(1) == ["n1"]
    kube.remove_capacity(driver.body("n1", "10Gi")["metadata"]["name"])
    wait_for(lambda: capacities(ledger, driver) == {"n2": 8}, "the deletion")
    assert fitting(1) == []


def test_figures_expire_at_once_when_the_owner_is_gone(
    kube: KubeApi, ledger: database.Database, api: client.ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.extensions.kubernetes.provisioner.provisioner_state._OWNER_SECONDS", 0.0)
    HOSTPATH.install(kube)
    kube.add_capacity(HOSTPATH.body("n1", "10Gi"))
    tasks = ImportTasks(ledger, api, 3600.0)
    tasks.start()
    try:
        wait_for(lambda: capacities(ledger, HOSTPATH) == {"n1": 10}, "the pool")
        kube.remove_object(HOSTPATH.owner_path)
        tasks.run_once()
        assert capacities(ledger, HOSTPATH) == {}
        HOSTPATH.set_ready(kube, 1)
        tasks.run_once()
        assert capacities(ledger, HOSTPATH) == {"n1": 10}
    finally:
        kube.end_watches()
        tasks.stop()


def test_only_the_named_drivers_are_taken_over(kube: KubeApi, ledger: database.Database, api: client.ApiClient) -> None:
    for driver in (HOSTPATH, TOPOLVM):
        driver.install(kube)
        driver.renew_lease(kube, datetime.datetime.now(datetime.UTC).isoformat())
        kube.add_capacity(driver.body("n1", "10Gi"))
    tasks = ImportTasks(ledger, api, 3600.0, [TOPOLVM.driver])
    tasks.start()
    try:
        wait_for(lambda: capacities(ledger, TOPOLVM) == {"n1": 10}, "the pool")
        assert capacities(ledger, HOSTPATH) == {}
    finally:
        kube.end_watches()
        tasks.stop()


def test_failures_are_logged_once(
    kube: KubeApi, ledger: database.Database, tasks: ImportTasks, caplog: pytest.LogCaptureFixture
) -> None:
    HOSTPATH.install(kube)
    tasks.start()
    kube.add_capacity(HOSTPATH.body("n1", "10Gi"))
    wait_for(lambda: capacities(ledger, HOSTPATH) == {"n1": 10}, "the pool")
    kube.failing["GET"] = 403
    for size in ("9Gi", "8Gi"):
        kube.add_capacity(HOSTPATH.body("n1", size))
    wait_for(lambda: "Figures of provisioners cannot be taken over now" in caplog.text, "the message")
    del kube.failing["GET"]
    wait_for(lambda: capacities(ledger, HOSTPATH) == {"n1": 8}, "the next round")
    assert caplog.text.count("Figures of provisioners cannot be taken over now") == 1
