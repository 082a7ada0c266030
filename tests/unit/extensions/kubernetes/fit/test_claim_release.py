# SPDX-License-Identifier: Apache-2.0
"""Release of the claims for pods."""

import datetime
import time
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import orm

from tests.servers.kube_api import VOLUMES, KubeApi
from tests.unit.extensions.kubernetes.fit.figures import (
    DRIVER,
    GI,
    LEASE,
    claim_for_pod,
    claims_of,
    published_claims,
    write,
)
from tonnage.capacity import errors, type_conversion
from tonnage.extensions.kubernetes.capacity import driver_rows
from tonnage.extensions.kubernetes.capacity.driver_storage import Pool
from tonnage.extensions.kubernetes.capacity.patches import DriverPatch
from tonnage.extensions.kubernetes.cluster import quantities
from tonnage.extensions.kubernetes.cluster.cluster_reader import ClusterReader
from tonnage.extensions.kubernetes.cluster.nodes import Node, Nodes
from tonnage.extensions.kubernetes.cluster.pod_volumes import ClusterUnavailable
from tonnage.extensions.kubernetes.cluster.volumes import Volume
from tonnage.extensions.kubernetes.fit import capacity_claims, claim_release
from tonnage.extensions.kubernetes.fit.claim_release import ClaimReleaser
from tonnage.extensions.kubernetes.fit.node_queries import NodeQueries
from tonnage.extensions.kubernetes.ledger import tables
from tonnage.ledger.db import database

INLINE = "cache (inline)"
pytestmark = pytest.mark.usefixtures("written")


@pytest.fixture
def releaser(ledger: database.Database, cluster: ClusterReader) -> ClaimReleaser:
    return ClaimReleaser(ledger, cluster, LEASE)


class Clock:
    """The clock of the database, as the release of claims reads it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._now, self.seconds = capacity_claims.now, 0
        monkeypatch.setattr(capacity_claims, "now", self.now)

    def now(self, session: orm.Session) -> datetime.datetime:
        return self._now(session) + datetime.timedelta(seconds=self.seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_a_waiting_pod_keeps_its_claims_and_a_deleted_pod_does_not(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    assert [releaser.run_once() for _ in range(3)] == [0, 0, 0]
    # Nothing changed, so the pod was read once.
    assert kube.asked.count("/api/v1/namespaces/default/pods/redis") == 1
    kube.remove_pod("redis")
    releaser.notify("default/other")
    assert releaser.run_once() == 0
    releaser.notify("default/redis")
    assert releaser.run_once() == 1
    assert claims_of(ledger) == []


def holders(ledger: database.Database) -> list[str]:
    with ledger.reading() as session:
        return list(session.scalars(sa.select(tables.CsiClaim.holder).order_by(tables.CsiClaim.holder)))


@pytest.mark.parametrize("pods", [1, 20, 45])
def test_the_claims_of_many_pods_are_released_in_one_round(
    ledger: database.Database, releaser: ClaimReleaser, pods: int
) -> None:
    queries, nodes = NodeQueries(ledger), Nodes([Node("n1", {})])
    for number in range(pods):
        volume = Volume("data", DRIVER, "fast", GI // 16)
        assert queries.claim([volume], nodes, f"u{number:02}", LEASE, pod=f"default/pod{number}")[1] is not None
    assert len(holders(ledger)) == pods
    assert releaser.run_once() == pods
    assert holders(ledger) == []


def test_other_claims_are_checked_though_one_cannot_be_released(
    ledger: database.Database, releaser: ClaimReleaser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim_release, "_BATCH", 1)
    queries, nodes = NodeQueries(ledger), Nodes([Node("n1", {})])
    for holder in ("u1", "u2"):
        volume = Volume("data", DRIVER, "fast", GI)
        assert queries.claim([volume], nodes, holder, LEASE, pod=f"default/{holder}")[1] is not None
    real = capacity_claims.release_unchanged

    def release(session: orm.Session, expiry_by_holder: dict[str, datetime.datetime]) -> set[str]:
        if "u1" in expiry_by_holder:
            raise errors.Unavailable("the disk of the database is full")
        return real(session, expiry_by_holder)

    with monkeypatch.context() as patched:
        patched.setattr(capacity_claims, "release_unchanged", release)
        with pytest.raises(errors.Unavailable, match="is full"):
            releaser.run_once()
    assert holders(ledger) == ["u1"]
    assert releaser.run_once() == 1
    assert holders(ledger) == []


def test_a_pod_that_has_a_claim_and_does_not_go_on_is_seen(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler has not got the answer, or another of its plug-ins has refused the node."""
    now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
    monkeypatch.setattr(capacity_claims, "now", lambda session: now)
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")

    def idle_at(*seconds: int) -> list[int]:
        nonlocal now
        began, idle = now, []
        for second in seconds:
            now = began + datetime.timedelta(seconds=second)
            releaser.run_once()
            if releaser.has_idle_claims:
                idle.append(second)
        return idle

    # Less and less often: the pod may have to wait for something else.
    assert idle_at(*range(50)) == [5, 10, 20, 40]
    # Each turn of kube-scheduler renews the claim.
    claim_for_pod(ledger, "data")
    assert idle_at(0, 4, 6) == []
    kube.add_claim("data", "6Gi", "fast", node="n1")
    assert idle_at(*range(20)) == []


def test_a_claim_is_not_published_while_its_pod_is_tried_again(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, clock: Clock
) -> None:
    """kube-scheduler compares the pod with published capacity before it asks the extender."""

    def published_at(*seconds: int) -> list[int]:
        published = []
        for clock.seconds in seconds:
            releaser.run_once()
            published.append(published_claims(ledger))
        return published

    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    assert published_at(0, 4, 5, 6, 20) == [6, 6, 0, 0, 0]
    # It has got its node.
    claim_for_pod(ledger, "data")
    assert published_at(21, 22) == [6, 6]
    # Others are evicted for it, and then its volume is made.
    kube.add_pod("redis", "u1", nominated="n1")
    assert published_at(27, 28) == [0, 0]
    kube.add_claim("data", "6Gi", "fast", node="n1")
    assert published_at(33, 34) == [6, 6]


@pytest.mark.parametrize(
    ("pod", "volume", "released"),
    [
        ({"uid": "u1"}, "data", False),
        ({"uid": "u1"}, INLINE, False),
        ({"uid": "another"}, "data", True),
        ({"uid": "u1", "phase": "Failed"}, "data", True),
        ({"uid": "u1", "phase": "Succeeded", "node": "n1"}, INLINE, True),
        ({"uid": "u1", "node": "n1"}, INLINE, False),
        ({"uid": "u1", "node": "n2"}, INLINE, True),
    ],
)
def test_the_state_of_the_pod_decides_about_release(
    ledger: database.Database,
    kube: KubeApi,
    releaser: ClaimReleaser,
    pod: dict[str, str],
    volume: str,
    released: bool,
) -> None:
    kube.add_claim("data", "6Gi", "fast")
    kube.add_pod("redis", **pod)
    claim_for_pod(ledger, volume, None if volume == INLINE else "fast")
    assert bool(releaser.run_once()) == released
    assert bool(claims_of(ledger)) == (not released)


@pytest.mark.parametrize(
    ("claim", "kind", "gone", "released"),
    [
        ({}, "fast", True, True),
        # The volume is being provisioned nevertheless.
        ({"node": "n1"}, "fast", True, False),
        ({"node": "n1", "bound": True}, "fast", True, False),
        # For a node without access to the pool, and for one with access.
        ({"node": "n2", "bound": True}, "fast", False, True),
        ({"node": "n2"}, "shared", False, False),
        ({"node": "n9"}, "shared", False, True),
        # No node is selected.
        ({"bound": True}, "fast", False, False),
        (None, "fast", False, False),
        (None, "fast", True, True),
    ],
)
def test_the_state_of_the_persistent_volume_claim_decides_about_release(
    ledger: database.Database,
    kube: KubeApi,
    releaser: ClaimReleaser,
    claim: dict[str, Any] | None,
    kind: str,
    gone: bool,
    released: bool,
) -> None:
    if not gone:
        kube.add_pod("redis", "u1")
    if claim is not None:
        kube.add_claim("data", "6Gi", kind, **claim)
    claim_for_pod(ledger, "data", kind)
    assert bool(releaser.run_once()) == released


@pytest.mark.parametrize("volume", ["data", INLINE])
def test_a_provisioned_volume_keeps_its_claim_until_the_figures_include_it(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, volume: str
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, volume, None if volume == INLINE else "fast")
    write(ledger, "9Gi")
    assert releaser.run_once() == 0
    kube.add_claim("data", "6Gi", "fast", bound=True, node="n1")
    kube.add_pod("redis", "u1", "Running", "n1")
    releaser.notify("default/redis")
    # These figures were written before the releaser saw the volume.
    for capacity in ("8Gi", "7Gi", "6Gi"):
        assert releaser.run_once() == 0
        assert releaser.run_once() == 0
        write(ledger, capacity)
        # The same figures again are no new write.
        write(ledger, capacity)
    assert releaser.run_once() == 1
    assert claims_of(ledger) == []


@pytest.fixture
def releaser_after_provisioning(ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser) -> ClaimReleaser:
    """A releaser that has seen the volume provisioned, with 6 GiB claimed for it."""
    kube.add_pod("redis", "u1", "Running", "n1")
    kube.add_claim("data", "6Gi", "fast", bound=True, node="n1")
    claim_for_pod(ledger, "data")
    assert releaser.run_once() == 0
    return releaser


def write_pools(ledger: database.Database, pools: Any, kind: str = "fast") -> None:
    change = {"status": {"storage": [{"storageClassName": kind, "pools": pools}]}}
    ledger.run(
        driver_rows.patch,
        DRIVER,
        type_conversion.convert(change, DriverPatch, lambda wanted, value: wanted.parse(value)),
    )


def test_writes_are_counted_anew_after_figures_were_missing(
    ledger: database.Database, releaser_after_provisioning: ClaimReleaser
) -> None:
    for capacity in (10, 9):
        write_pools(ledger, [{"name": "p", "capacity": f"{capacity}Gi"}])
        assert releaser_after_provisioning.run_once() == 0
    write_pools(ledger, None)
    assert releaser_after_provisioning.run_once() == 0
    # The first figures may be the former ones, so three writes are needed again.
    for capacity in ("10Gi", "9Gi", "8Gi"):
        write_pools(ledger, [{"name": "p", "capacity": capacity, "nodeList": ["n1"]}])
        assert releaser_after_provisioning.run_once() == 0
    write_pools(ledger, [{"name": "p", "capacity": "4Gi"}])
    assert releaser_after_provisioning.run_once() == 1


def test_a_claim_on_a_removed_pool_is_kept_while_its_volume_is_provisioned_elsewhere(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "shared", node="n2")
    claim_for_pod(ledger, "data", "shared")
    write_pools(ledger, None, "shared")
    assert releaser.run_once() == 0


def test_all_pools_on_the_same_disks_have_to_be_written(
    ledger: database.Database, releaser_after_provisioning: ClaimReleaser
) -> None:
    """A slow or dead writer may report the capacity without the volume, which is larger."""

    def write_both(p: int, q: int, **more: Any) -> None:
        write_pools(ledger, [{"name": "p", "capacity": f"{p}Gi", "backingId": "disks"}])
        write_pools(ledger, [{"name": "q", "capacity": f"{q}Gi", "backingId": "disks", **more}], "slow")

    write_both(10, 10)
    for p in range(9, 4, -1):
        assert releaser_after_provisioning.run_once() == 0
        write_both(p, 10)
    for q in (9, 8):
        write_both(4, q)
        assert releaser_after_provisioning.run_once() == 0
    # Expired figures do not count.
    write_both(4, 8, expiryTime="2020-01-01T00:00:00Z")
    assert releaser_after_provisioning.run_once() == 1


def test_figures_with_the_same_expiry_count_as_one_report(
    ledger: database.Database, releaser_after_provisioning: ClaimReleaser
) -> None:
    """In-flight capacity changes the figures between reports."""

    def write_at(second: int, capacity: int) -> None:
        then = f"2100-01-01T00:00:{second:02}Z"
        write_pools(ledger, [{"name": "p", "capacity": f"{capacity}Gi", "expiryTime": then}])

    for second in range(3):
        for capacity in (10, 9, 8, 7):
            write_at(second, capacity)
            assert releaser_after_provisioning.run_once() == 0
    write_at(3, 4)
    assert releaser_after_provisioning.run_once() == 1


def test_the_claims_of_a_pod_are_released_together(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "2Gi", "fast", node="n2", bound=True)
    kube.add_claim("log", "2Gi", "fast")
    both = [Volume(name, DRIVER, "fast", 2 * GI) for name in ("data", "log")]
    NodeQueries(ledger).claim(both, Nodes([Node("n1", {})]), "u1", LEASE, pod="default/redis")
    assert releaser.run_once() == 0
    assert len(claims_of(ledger)) == 2
    kube.remove_claim("log")
    kube.remove_pod("redis")
    releaser.notify(None)
    assert releaser.run_once() == 1


def set_expiry(ledger: database.Database, left: float) -> datetime.datetime:
    """Make the claims expire in ``left`` seconds."""

    def work(session: Any) -> datetime.datetime:
        until: datetime.datetime = capacity_claims.now(session) + datetime.timedelta(seconds=left)
        session.execute(sa.update(tables.CsiClaim).values(expires_at=until))
        return until

    return ledger.run(work)


def test_a_lease_is_renewed_during_provisioning_only(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, releaser: ClaimReleaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    releaser.run_once()
    waiting = set_expiry(ledger, LEASE / 4)
    releaser.run_once()
    assert claims_of(ledger)[0].expires_at == waiting
    kube.add_claim("data", "6Gi", "fast", node="n1")
    releaser.notify("default/redis")
    releaser.run_once()
    releaser.run_once()
    provisioning = claims_of(ledger)[0].expires_at
    assert provisioning > waiting
    # The lease is not due yet.
    releaser.run_once()
    assert claims_of(ledger)[0].expires_at == provisioning
    set_expiry(ledger, LEASE / 4)
    kube.add_claim("data", "6Gi", "fast", node="n1", bound=True)
    releaser.run_once()
    provisioned = claims_of(ledger)[0].expires_at
    assert provisioned > provisioning
    # This was the last renewal, however many releasers run.
    other = ClaimReleaser(ledger, cluster, LEASE)
    for _ in range(3):
        releaser.run_once()
        other.run_once()
    last = set_expiry(ledger, LEASE / 4)
    for _ in range(3):
        releaser.run_once()
        other.run_once()
    assert claims_of(ledger)[0].expires_at == last


def test_a_renewed_claim_is_not_released_for_its_former_state(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    """The pod was read before; a new pod of that name, also without uid, has claimed since."""
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data", holder="default:redis")

    class SlowReader(ClusterReader):
        def __init__(self) -> None:
            """Share the connection of the other reader. The pod claims again during each read."""
            vars(self).update(vars(cluster))

        def pod(self, namespace: str, name: str) -> Any:
            found = super().pod(namespace, name)
            claim_for_pod(ledger, "data", holder="default:redis", lease=LEASE + 1)
            return found

    ClaimReleaser(ledger, SlowReader(), LEASE).run_once()
    assert len(claims_of(ledger, "default:redis")) == 1


def test_claims_of_a_pod_without_uid_are_released(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser
) -> None:
    kube.add_pod("redis", "given-by-the-server")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data", holder="default:redis")
    assert releaser.run_once() == 0
    kube.remove_pod("redis")
    releaser.notify("default/redis")
    assert releaser.run_once() == 1


def test_claims_of_other_holders_are_not_released(ledger: database.Database, releaser: ClaimReleaser) -> None:
    NodeQueries(ledger).claim([Volume("v", DRIVER, "fast", GI)], Nodes([Node("n1", {})]), "u1", LEASE)
    assert releaser.run_once() == 0
    assert len(claims_of(ledger)) == 1


def test_a_failed_check_is_repeated(ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    releaser.run_once()
    kube.remove_pod("redis")
    releaser.notify("default/redis")
    kube.failing["GET"] = 503
    with pytest.raises(ClusterUnavailable):
        releaser.run_once()
    del kube.failing["GET"]
    assert releaser.run_once() == 1


def test_pods_that_cannot_be_read_do_not_block_others(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    class PartlyFailing(ClusterReader):
        def __init__(self) -> None:
            """Share the connection of the other reader."""
            vars(self).update(vars(cluster))

        def pod(self, namespace: str, name: str) -> Any:
            if name.startswith("strange"):
                raise ClusterUnavailable("not this one")
            return super().pod(namespace, name)

    for holder in ("strange1", "strange2", "strange3", "strange4", "usual"):
        kube.add_claim(holder, "1Gi", "fast")
        NodeQueries(ledger).claim(
            [Volume(holder, DRIVER, "fast", GI)], Nodes([Node("n1", {})]), holder, LEASE, pod=f"default/{holder}"
        )
    releaser = ClaimReleaser(ledger, PartlyFailing(), LEASE)
    for _ in range(2):
        with pytest.raises(ClusterUnavailable, match="not this one"):
            releaser.run_once()
    assert (len(claims_of(ledger, "strange4")), claims_of(ledger, "usual")) == (1, [])


def test_stopping_waits_for_the_current_pod_only(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    """A round may have thousands of pods, and each read may take seconds."""

    class StoppingReader(ClusterReader):
        def __init__(self) -> None:
            """Share the connection of the other reader. The releaser is stopped during each read."""
            vars(self).update(vars(cluster))

        def pod(self, namespace: str, name: str) -> Any:
            releaser.stop()
            return super().pod(namespace, name)

    for holder in ("one", "two", "three"):
        NodeQueries(ledger).claim(
            [Volume(holder, DRIVER, "fast", GI)], Nodes([Node("n1", {})]), holder, LEASE, pod=f"default/{holder}"
        )
    releaser = ClaimReleaser(ledger, StoppingReader(), LEASE)
    assert releaser.run_once() == 1
    assert len([path for path in kube.asked if "/pods/" in path]) == 1
    assert sum(len(claims_of(ledger, holder)) for holder in ("one", "two", "three")) == 2


def test_a_pod_without_events_is_checked_periodically(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    claim_for_pod(ledger, "data")
    releaser = ClaimReleaser(ledger, cluster, 0.04)

    def checks() -> int:
        releaser.run_once()
        return kube.asked.count("/api/v1/namespaces/default/pods/redis")

    assert checks() == 1
    until(lambda: checks() > 1)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)


def write_object(ledger: database.Database, version: int, lifetime: float = 180.0, capacity: int = 10 * GI) -> None:
    """Write figures of n1 from an object, as the import of the figures of provisioners does."""

    def work(session: Any) -> None:
        expires_at = capacity_claims.now(session) + datetime.timedelta(seconds=lifetime)
        pool = Pool(
            name="p",
            node_list=("n1",),
            capacity=capacity,
            expires_at=expires_at,
            object_name="storage/csisc-1",
            object_version=version,
        )
        driver_rows.write_pools(session, driver_rows.lock_or_create(session, DRIVER), [("fast", pool)])

    ledger.run(work)


def published_version(kube: KubeApi, capacity: int = 10 * GI) -> int:
    """Let the provisioner write its object again, and return the resource version."""
    before = kube.capacities.get("csisc-1", {"metadata": {"name": "csisc-1", "namespace": "storage"}})
    kube.add_capacity({**before, "capacity": str(capacity)})
    return int(kube.capacities["csisc-1"]["metadata"]["resourceVersion"])


@pytest.fixture
def made(ledger: database.Database, kube: KubeApi) -> int:
    """A volume of 6 GiB that has been made and claimed: the version of the object from before."""
    version = published_version(kube)
    write_object(ledger, version)
    kube.add_pod("redis", "u1", "Running", "n1")
    kube.add_claim("data", "6Gi", "fast", bound=True, node="n1")
    claim_for_pod(ledger, "data")
    return version


@pytest.mark.usefixtures("made")
def test_a_claim_on_figures_of_an_object_lasts_until_two_later_versions(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser
) -> None:
    # The ledger lags behind: these versions are older than the volume.
    later = [(published_version(kube, size), size) for size in (9, 8, 7)]
    for version, size in later:
        assert releaser.run_once() == 0
        write_object(ledger, version, capacity=size)
    for size in (6, 5):
        assert releaser.run_once() == 0
        write_object(ledger, published_version(kube, size), capacity=size)
    assert releaser.run_once() == 1


def test_a_claim_on_figures_of_an_object_does_not_end_with_its_lease(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, made: int
) -> None:
    """The provisioner may die before it asks for the capacity, and return with the old figure."""
    releaser.run_once()
    for lifetime in (180.0, -1.0, 180.0):
        write_object(ledger, made, lifetime)
        set_expiry(ledger, LEASE / 4)
        assert releaser.run_once() == 0
        assert claims_of(ledger)[0].expires_at > set_expiry(ledger, LEASE / 2)
    write_pools(ledger, None)
    ending = set_expiry(ledger, LEASE / 4)
    assert releaser.run_once() == 0
    assert claims_of(ledger)[0].expires_at == ending, "a removed pool is of no concern"


@pytest.mark.usefixtures("made")
def test_a_provisioner_is_made_to_ask_for_a_figure_that_stays_as_it_is(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, clock: Clock
) -> None:
    """A thin pool has as much room after a volume was made as before."""
    for clock.seconds in range(0, 600, 5):
        assert releaser.run_once() == 0
    assert [write for write in kube.written if write[1] == "csisc-1"] == [("PATCH", "csisc-1")]
    assert quantities.parse(kube.capacities["csisc-1"]["capacity"]) == 10 * GI - 1
    write_object(ledger, published_version(kube))
    assert releaser.run_once() == 1


@pytest.mark.usefixtures("made")
def test_the_claims_of_many_pods_need_one_question(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, clock: Clock
) -> None:
    kube.add_pod("web", "u2", "Running", "n1")
    kube.add_claim("pages", "1Gi", "fast", bound=True, node="n1")
    node = Nodes([Node("n1", {})])
    volume = Volume("pages", DRIVER, "fast", GI)
    NodeQueries(ledger).claim([volume], node, "u2", LEASE, pod="default/web")
    assert holders(ledger) == ["u1", "u2"]
    for clock.seconds in (0, 1, 11):
        assert releaser.run_once() == 0
    assert kube.written == [("PATCH", "csisc-1")]
    write_object(ledger, published_version(kube, 9))
    assert releaser.run_once() == 2


@pytest.mark.usefixtures("made")
def test_without_the_right_to_ask_a_claim_lasts_and_the_log_has_the_way_out(
    ledger: database.Database, kube: KubeApi, releaser: ClaimReleaser, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    kube.failing["PATCH"] = 403
    for clock.seconds in range(0, 100, 5):
        assert releaser.run_once() == 0
    message = "set [kubernetes] refresh_capacity_objects = false"
    assert len([record for record in caplog.records if message in record.message]) == 1
    for size in (9, 8):
        write_object(ledger, published_version(kube, size), capacity=size)
        released = releaser.run_once()
    assert released == 1


@pytest.mark.usefixtures("made")
def test_nobody_is_asked_if_the_option_is_off(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, clock: Clock
) -> None:
    releaser = ClaimReleaser(ledger, cluster, LEASE, asks=False)
    for clock.seconds in range(0, 200, 5):
        assert releaser.run_once() == 0
    assert kube.written == []


@pytest.mark.usefixtures("made")
@pytest.mark.parametrize("restarted", [False, True])
def test_the_claim_lasts_as_long_as_a_volume_whose_claim_was_deleted(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, releaser: ClaimReleaser, restarted: bool
) -> None:
    """The driver frees the room when it deletes the volume, which is later."""
    kube.add_volume("data")
    assert releaser.run_once() == 0
    kube.remove_pod("redis")
    kube.remove_claim("data")
    if restarted:
        releaser = ClaimReleaser(ledger, cluster, LEASE)
    releaser.notify(None)
    assert releaser.run_once() == 0
    if restarted:
        # The lease ends while no extender runs.
        set_expiry(ledger, -1.0)
        assert claims_of(ledger) == []
        assert ClaimReleaser(ledger, cluster, LEASE).revive() == 1
        releaser = ClaimReleaser(ledger, cluster, LEASE)
        assert releaser.run_once() == 0
        assert len(claims_of(ledger)) == 1
    kube.remove_object(VOLUMES.format("pv-data"))
    releaser.notify(None)
    assert releaser.run_once() == 1


@pytest.mark.usefixtures("made")
def test_after_a_restart_the_claim_of_a_deleted_claim_lasts_until_figures_include_its_volume(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, releaser: ClaimReleaser
) -> None:
    kube.add_volume("data")
    assert releaser.run_once() == 0
    kube.remove_pod("redis")
    kube.remove_claim("data")
    releaser = ClaimReleaser(ledger, cluster, LEASE)
    for size in (9, 8, 7):
        assert releaser.run_once() == 0
        write_object(ledger, published_version(kube, size), capacity=size)
    assert releaser.run_once() == 1


@pytest.mark.parametrize("restarted", [False, True])
def test_a_claim_ends_with_its_lease_if_its_volume_may_have_been_made_for_nobody(
    ledger: database.Database, kube: KubeApi, cluster: ClusterReader, releaser: ClaimReleaser, restarted: bool
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast", node="n1")
    claim_for_pod(ledger, "data")
    assert releaser.run_once() == 0
    kube.remove_pod("redis")
    kube.remove_claim("data")
    ending = set_expiry(ledger, LEASE / 4)
    if restarted:
        releaser = ClaimReleaser(ledger, cluster, LEASE)
    assert releaser.run_once() == 0
    assert claims_of(ledger)[0].expires_at == ending
