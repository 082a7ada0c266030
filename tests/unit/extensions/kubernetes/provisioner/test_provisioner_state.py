# SPDX-License-Identifier: Apache-2.0
"""The state of provisioners: owners of objects, and leases."""

import datetime
from collections.abc import Iterator

import pytest
from kubernetes import client

from tests.servers.kube_api import KubeApi
from tests.unit.extensions.kubernetes.provisioner.published_objects import (
    DRIVERS,
    HOSTPATH,
    OWNER_UID,
    TOPOLVM,
    PublishedDriver,
)
from tonnage.capacity import errors
from tonnage.extensions.kubernetes.provisioner.provisioner_objects import capacity_object
from tonnage.extensions.kubernetes.provisioner.provisioner_state import ProvisionerState, ProvisionerStates, lease_name

NOON = datetime.datetime.fromisoformat("2026-01-02T12:00:00+00:00")
WORKING, UNKNOWN, GONE = ProvisionerState.WORKING, ProvisionerState.UNKNOWN, ProvisionerState.GONE


class Clock:
    """Seconds since noon."""

    seconds = 0.0

    def now(self) -> datetime.datetime:
        return NOON + datetime.timedelta(seconds=self.seconds)


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as kube:
        yield kube


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def states(kube: KubeApi, clock: Clock) -> Iterator[ProvisionerStates]:
    settings = client.Configuration(host=kube.url)
    settings.retries = False
    with client.ApiClient(settings) as api:
        yield ProvisionerStates(api, lambda: clock.seconds, clock.now)


def state(states: ProvisionerStates, driver: PublishedDriver, **metadata: object) -> ProvisionerState:
    body = driver.body("n1", "1Gi")
    body["metadata"].update(metadata)
    decoded = capacity_object(body)
    return states.read([(decoded, driver.driver)])[decoded.full_name]


@pytest.mark.parametrize("driver", DRIVERS, ids=lambda driver: driver.driver)
def test_a_provisioner_works_while_its_owner_has_ready_pods(
    kube: KubeApi, states: ProvisionerStates, clock: Clock, driver: PublishedDriver
) -> None:
    driver.install(kube)
    assert state(states, driver) is WORKING
    clock.seconds = 4
    assert state(states, driver) is WORKING
    assert kube.asked.count(driver.owner_path) == 1, "answers are used for a while"
    driver.set_ready(kube, 0)
    clock.seconds = 30
    assert state(states, driver) is UNKNOWN
    kube.remove_object(driver.owner_path)
    clock.seconds = 60
    assert state(states, driver) is GONE


def test_another_owner_of_the_same_name_is_not_the_owner(
    kube: KubeApi, states: ProvisionerStates, clock: Clock
) -> None:
    HOSTPATH.install(kube)
    kube.add_object(HOSTPATH.owner_path, metadata={"name": HOSTPATH.owner, "uid": "new"}, status={"numberReady": 1})
    assert state(states, HOSTPATH) is GONE
    deleted = {"name": HOSTPATH.owner, "uid": OWNER_UID, "deletionTimestamp": "2026-01-02T12:00:00Z"}
    kube.add_object(HOSTPATH.owner_path, metadata=deleted, status={"numberReady": 1})
    clock.seconds = 60
    assert state(states, HOSTPATH) is GONE


@pytest.mark.parametrize(("uid", "expected"), [("u1", WORKING), ("u2", GONE)])
def test_the_owner_may_be_the_pod_itself(
    kube: KubeApi, states: ProvisionerStates, uid: str, expected: ProvisionerState
) -> None:
    kube.add_object("/api/v1/namespaces/default/pods", items=[{"metadata": {"name": "p", "uid": "u1"}}])
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid}
    assert state(states, HOSTPATH, ownerReferences=[owner]) is expected


def test_a_new_pod_is_seen_at_once(kube: KubeApi, states: ProvisionerStates, clock: Clock) -> None:
    path = "/api/v1/namespaces/default/pods"
    kube.add_object(path, items=[{"metadata": {"name": "p", "uid": "u1"}}])
    old, new = ({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid} for uid in ("u1", "u2"))
    assert state(states, HOSTPATH, ownerReferences=[old]) is WORKING
    kube.add_object(path, items=[{"metadata": {"name": "p", "uid": "u2"}}])
    clock.seconds = 1
    assert state(states, HOSTPATH, ownerReferences=[new]) is WORKING
    assert state(states, HOSTPATH, ownerReferences=[old]) is GONE
    assert kube.asked.count(path) == 2, "one look for each round"


def test_no_owner_and_owners_of_other_kinds_say_nothing(states: ProvisionerStates) -> None:
    owner = {"apiVersion": "topolvm.io/v1", "kind": "TopolvmCluster", "name": "t", "uid": "u"}
    assert state(states, HOSTPATH, ownerReferences=None) is WORKING
    assert state(states, HOSTPATH, ownerReferences=[owner]) is WORKING


def test_an_object_has_the_state_of_its_best_owner(kube: KubeApi, states: ProvisionerStates) -> None:
    HOSTPATH.install(kube)
    [owner] = HOSTPATH.body("n1", "1Gi")["metadata"]["ownerReferences"]
    assert state(states, HOSTPATH, ownerReferences=[{**owner, "name": "gone", "uid": "gone"}, owner]) is WORKING


def test_a_lease_is_alive_while_its_renewal_changes(kube: KubeApi, states: ProvisionerStates, clock: Clock) -> None:
    TOPOLVM.install(kube)
    seen = []
    for seconds, renewed in ((0, "12:00:00"), (10, "12:00:10"), (39, "12:00:10"), (41, "12:00:10"), (50, "07:00:00")):
        clock.seconds = seconds
        TOPOLVM.renew_lease(kube, f"2026-01-02T{renewed}.000000Z")
        seen.append(state(states, TOPOLVM))
    # The clock of the provisioner may be any; only the first look compares it with this one.
    assert seen == [WORKING, WORKING, WORKING, UNKNOWN, WORKING]
    TOPOLVM.renew_lease(kube, "2026-01-02T12:01:00.000000Z", holder="")
    assert state(states, TOPOLVM) is UNKNOWN


def test_an_old_lease_is_not_alive_before_it_is_renewed(kube: KubeApi, states: ProvisionerStates, clock: Clock) -> None:
    TOPOLVM.install(kube)
    clock.seconds = 3600
    assert state(states, TOPOLVM) is UNKNOWN
    clock.seconds = 3605
    assert state(states, TOPOLVM) is UNKNOWN
    TOPOLVM.renew_lease(kube, "2026-01-02T12:00:05.000000Z")
    assert state(states, TOPOLVM) is WORKING


def test_a_refused_look_is_an_error(kube: KubeApi, states: ProvisionerStates) -> None:
    kube.failing["GET"] = 403
    with pytest.raises(errors.Unavailable, match="refused a look at the owners of capacity: 403"):
        state(states, HOSTPATH)


@pytest.mark.parametrize(
    ("driver", "name"), [("topolvm.io", "topolvm-io"), ("local.csi.openebs.io", "local-csi-openebs-io"), ("a.", "a-X")]
)
def test_the_lease_has_the_name_that_csi_lib_utils_gives_it(driver: str, name: str) -> None:
    assert lease_name(driver) == name
