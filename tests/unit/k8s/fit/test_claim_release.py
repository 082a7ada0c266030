# SPDX-License-Identifier: Apache-2.0
"""When what was claimed for pods is given back."""

import datetime
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.servers.kube_api import KubeApi
from tonnage.capacity import type_conversion
from tonnage.k8s.capacity import driver_rows
from tonnage.k8s.capacity.patches import DriverPatch
from tonnage.k8s.cluster.cluster_reader import Cluster
from tonnage.k8s.cluster.nodes import Node, Nodes
from tonnage.k8s.cluster.pod_volumes import Unreadable
from tonnage.k8s.cluster.pod_watch import PodWatch
from tonnage.k8s.fit import capacity_claims
from tonnage.k8s.fit.claim_release import Releaser
from tonnage.k8s.fit.node_decision import Volume
from tonnage.k8s.fit.node_queries import Capacity
from tonnage.k8s.fit.pod_claim_tasks import PodClaims
from tonnage.ledger import models
from tonnage.ledger.db import database

GI = 2**30
DRIVER = "disk.example.com"
INLINE = "cache (inline)"
LEASE = 3600.0


def write(ledger: database.Database, capacity: str = "10Gi") -> None:
    """Tell figures of n1's pools, for claims and for inline volumes, and of one that n1 and n2 reach."""
    here = {"name": "p", "capacity": capacity, "nodeList": ["n1"]}
    status = {
        "storage": [
            {"storageClassName": "fast", "pools": [here]},
            {"storageClassName": "<ephemeral>", "pools": [here]},
            {"storageClassName": "shared", "pools": [{"name": "s", "capacity": capacity, "nodeList": ["n1", "n2"]}]},
        ]
    }
    change = {"spec": {"capacityTracking": True}, "status": status}
    ledger.run(
        driver_rows.patch, DRIVER, type_conversion.convert(change, DriverPatch, lambda kind, value: kind.parse(value))
    )


@pytest.fixture
def ledger(tmp_path: pathlib.Path) -> Iterator[database.Database]:
    engine = database.create_engine(f"sqlite:///{tmp_path}/ledger.sqlite")
    models.Base.metadata.create_all(engine)
    made = database.Database(engine)
    write(made)
    yield made
    made.close()


@pytest.fixture
def kube() -> Iterator[KubeApi]:
    with KubeApi() as api:
        for name in ("n1", "n2"):
            api.add_node(name)
        yield api


@pytest.fixture
def cluster(kube: KubeApi, tmp_path: pathlib.Path) -> Iterator[Cluster]:
    made = Cluster(kube.kubeconfig(tmp_path))
    yield made
    made.api.close()


@pytest.fixture
def releaser(ledger: database.Database, cluster: Cluster) -> Releaser:
    return Releaser(ledger, cluster, LEASE)


def hold(
    ledger: database.Database, name: str, kind: str | None = "fast", holder: str = "u1", lease: float = LEASE
) -> None:
    """Claim a volume on n1 as the extender does for a pod."""
    volume = Volume(name, DRIVER, kind, 6 * GI)
    _, promise = Capacity(ledger).claim([volume], Nodes([Node("n1", {})]), holder, lease, pod="default/redis")
    assert promise is not None


def held(ledger: database.Database, holder: str = "u1") -> list[capacity_claims.Claim]:
    with ledger.reading() as session:
        return capacity_claims.of_holder(session, holder)


def test_a_pod_that_waits_keeps_what_it_claims_and_one_that_is_gone_does_not(
    ledger: database.Database, kube: KubeApi, releaser: Releaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data")
    assert [releaser.work() for _ in range(3)] == [0, 0, 0]
    # Nothing was new, so it was looked at once.
    assert kube.asked.count("/api/v1/namespaces/default/pods/redis") == 1
    kube.remove_pod("redis")
    releaser.stir("default/other")
    assert releaser.work() == 0
    releaser.stir("default/redis")
    assert releaser.work() == 1
    assert held(ledger) == []


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
def test_what_becomes_of_a_pod(
    ledger: database.Database,
    kube: KubeApi,
    releaser: Releaser,
    pod: dict[str, str],
    volume: str,
    released: bool,
) -> None:
    kube.add_claim("data", "6Gi", "fast")
    kube.add_pod("redis", **pod)
    hold(ledger, volume, None if volume == INLINE else "fast")
    assert bool(releaser.work()) == released
    assert bool(held(ledger)) == (not released)


@pytest.mark.parametrize(
    ("claim", "kind", "gone", "released"),
    [
        ({}, "fast", True, True),
        # It is being made all the same.
        ({"node": "n1"}, "fast", True, False),
        ({"node": "n1", "bound": True}, "fast", True, False),
        # For a node that does not reach the pool, and for one that does.
        ({"node": "n2", "bound": True}, "fast", False, True),
        ({"node": "n2"}, "shared", False, False),
        ({"node": "n9"}, "shared", False, True),
        # Nobody says for which node.
        ({"bound": True}, "fast", False, False),
        (None, "fast", False, False),
        (None, "fast", True, True),
    ],
)
def test_what_becomes_of_a_claim_of_the_cluster(
    ledger: database.Database,
    kube: KubeApi,
    releaser: Releaser,
    claim: dict[str, Any] | None,
    kind: str,
    gone: bool,
    released: bool,
) -> None:
    if not gone:
        kube.add_pod("redis", "u1")
    if claim is not None:
        kube.add_claim("data", "6Gi", kind, **claim)
    hold(ledger, "data", kind)
    assert bool(releaser.work()) == released


@pytest.mark.parametrize("volume", ["data", INLINE])
def test_what_was_made_is_held_until_the_figures_contain_it(
    ledger: database.Database, kube: KubeApi, releaser: Releaser, volume: str
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, volume, None if volume == INLINE else "fast")
    write(ledger, "9Gi")
    assert releaser.work() == 0
    kube.add_claim("data", "6Gi", "fast", bound=True, node="n1")
    kube.add_pod("redis", "u1", "Running", "n1")
    releaser.stir("default/redis")
    # Written before that was known here: what it was then is read with the next figures.
    for capacity in ("8Gi", "7Gi", "6Gi"):
        assert releaser.work() == 0
        assert releaser.work() == 0
        write(ledger, capacity)
        # Told again, and nothing of it new.
        write(ledger, capacity)
    assert releaser.work() == 1
    assert held(ledger) == []


@pytest.fixture
def made(ledger: database.Database, kube: KubeApi, releaser: Releaser) -> Releaser:
    """One who has seen that the volume has been made of which 6 GiB are held."""
    kube.add_pod("redis", "u1", "Running", "n1")
    kube.add_claim("data", "6Gi", "fast", bound=True, node="n1")
    hold(ledger, "data")
    assert releaser.work() == 0
    return releaser


def tell(ledger: database.Database, pools: Any, kind: str = "fast") -> None:
    change = {"status": {"storage": [{"storageClassName": kind, "pools": pools}]}}
    ledger.run(
        driver_rows.patch,
        DRIVER,
        type_conversion.convert(change, DriverPatch, lambda wanted, value: wanted.parse(value)),
    )


def test_figures_that_are_gone_say_nothing_also_when_they_return(ledger: database.Database, made: Releaser) -> None:
    for capacity in (10, 9):
        tell(ledger, [{"name": "p", "capacity": f"{capacity}Gi"}])
        assert made.work() == 0
    tell(ledger, None)
    assert made.work() == 0
    # What it says again may be what it said before, and is written as often as that of any other.
    for capacity in ("10Gi", "9Gi", "8Gi"):
        tell(ledger, [{"name": "p", "capacity": capacity, "nodeList": ["n1"]}])
        assert made.work() == 0
    tell(ledger, [{"name": "p", "capacity": "4Gi"}])
    assert made.work() == 1


def test_what_is_made_elsewhere_of_a_pool_that_is_gone_may_be_of_it(
    ledger: database.Database, kube: KubeApi, releaser: Releaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "shared", node="n2")
    hold(ledger, "data", "shared")
    tell(ledger, None, "shared")
    assert releaser.work() == 0


def test_all_figures_of_the_same_disks_have_to_be_written(ledger: database.Database, made: Releaser) -> None:
    """One writer is slow or dead, and what it says without the volume is the larger."""

    def write_both(p: int, q: int, **more: Any) -> None:
        tell(ledger, [{"name": "p", "capacity": f"{p}Gi", "backingId": "disks"}])
        tell(ledger, [{"name": "q", "capacity": f"{q}Gi", "backingId": "disks", **more}], "slow")

    write_both(10, 10)
    for p in range(9, 4, -1):
        assert made.work() == 0
        write_both(p, 10)
    for q in (9, 8):
        write_both(4, q)
        assert made.work() == 0
    # Its figures are not used any more, so nobody is promised anything by them.
    write_both(4, 8, expiryTime="2020-01-01T00:00:00Z")
    assert made.work() == 1


def test_figures_of_the_same_time_are_of_the_same_look(ledger: database.Database, made: Releaser) -> None:
    """What is in flight is taken off them meanwhile."""

    def write_at(second: int, capacity: int) -> None:
        then = f"2100-01-01T00:00:{second:02}Z"
        tell(ledger, [{"name": "p", "capacity": f"{capacity}Gi", "expiryTime": then}])

    for second in range(3):
        for capacity in (10, 9, 8, 7):
            write_at(second, capacity)
            assert made.work() == 0
    write_at(3, 4)
    assert made.work() == 1


def test_all_of_a_claim_is_given_back_together(ledger: database.Database, kube: KubeApi, releaser: Releaser) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "2Gi", "fast", node="n2", bound=True)
    kube.add_claim("log", "2Gi", "fast")
    both = [Volume(name, DRIVER, "fast", 2 * GI) for name in ("data", "log")]
    Capacity(ledger).claim(both, Nodes([Node("n1", {})]), "u1", LEASE, pod="default/redis")
    assert releaser.work() == 0
    assert len(held(ledger)) == 2
    kube.remove_claim("log")
    kube.remove_pod("redis")
    releaser.stir(None)
    assert releaser.work() == 1


def age(ledger: database.Database, left: float) -> datetime.datetime:
    """Have what is claimed end in so many seconds."""

    def work(session: Any) -> datetime.datetime:
        until: datetime.datetime = capacity_claims.now(session) + datetime.timedelta(seconds=left)
        session.execute(sa.update(models.CsiClaim).values(expires_at=until))
        return until

    return ledger.run(work)


def test_a_lease_is_renewed_while_volumes_are_made_and_not_for_those_who_do_not_come(
    ledger: database.Database, kube: KubeApi, cluster: Cluster, releaser: Releaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data")
    releaser.work()
    waiting = age(ledger, LEASE / 4)
    releaser.work()
    assert held(ledger)[0].expires_at == waiting
    kube.add_claim("data", "6Gi", "fast", node="n1")
    releaser.stir("default/redis")
    releaser.work()
    releaser.work()
    making = held(ledger)[0].expires_at
    assert making > waiting
    # There is no hurry yet.
    releaser.work()
    assert held(ledger)[0].expires_at == making
    age(ledger, LEASE / 4)
    kube.add_claim("data", "6Gi", "fast", node="n1", bound=True)
    releaser.work()
    made = held(ledger)[0].expires_at
    assert made > making
    # That is the last time, however many look.
    other = Releaser(ledger, cluster, LEASE)
    for _ in range(3):
        releaser.work()
        other.work()
    last = age(ledger, LEASE / 4)
    for _ in range(3):
        releaser.work()
        other.work()
    assert held(ledger)[0].expires_at == last


def test_what_a_pod_claims_anew_is_not_given_back_for_what_it_was(
    ledger: database.Database, kube: KubeApi, cluster: Cluster
) -> None:
    """The look was at the pod before; by now there is another one, which has no uid either."""
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data", holder="default:redis")

    class Slow(Cluster):
        def __init__(self) -> None:
            """Look as the other one does, and have the pod come meanwhile."""
            vars(self).update(vars(cluster))

        def pod(self, namespace: str, name: str) -> Any:
            found = super().pod(namespace, name)
            hold(ledger, "data", holder="default:redis", lease=LEASE + 1)
            return found

    Releaser(ledger, Slow(), LEASE).work()
    assert len(held(ledger, "default:redis")) == 1


def test_a_pod_without_a_uid_gives_back_too(ledger: database.Database, kube: KubeApi, releaser: Releaser) -> None:
    kube.add_pod("redis", "given-by-the-server")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data", holder="default:redis")
    assert releaser.work() == 0
    kube.remove_pod("redis")
    releaser.stir("default/redis")
    assert releaser.work() == 1


def test_what_others_claim_is_their_business(ledger: database.Database, releaser: Releaser) -> None:
    Capacity(ledger).claim([Volume("v", DRIVER, "fast", GI)], Nodes([Node("n1", {})]), "u1", LEASE)
    assert releaser.work() == 0
    assert len(held(ledger)) == 1


def test_what_could_not_be_looked_up_is_looked_up_later(
    ledger: database.Database, kube: KubeApi, releaser: Releaser
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data")
    releaser.work()
    kube.remove_pod("redis")
    releaser.stir("default/redis")
    kube.failing["GET"] = 503
    with pytest.raises(Unreadable):
        releaser.work()
    del kube.failing["GET"]
    assert releaser.work() == 1


def test_a_pod_that_cannot_be_looked_at_keeps_no_others_from_it(
    ledger: database.Database, kube: KubeApi, cluster: Cluster
) -> None:
    class Partly(Cluster):
        def __init__(self) -> None:
            """Look as the other one does, but not at these."""
            vars(self).update(vars(cluster))

        def pod(self, namespace: str, name: str) -> Any:
            if name.startswith("strange"):
                raise Unreadable("not this one")
            return super().pod(namespace, name)

    for holder in ("strange1", "strange2", "strange3", "strange4", "usual"):
        kube.add_claim(holder, "1Gi", "fast")
        Capacity(ledger).claim(
            [Volume(holder, DRIVER, "fast", GI)], Nodes([Node("n1", {})]), holder, LEASE, pod=f"default/{holder}"
        )
    releaser = Releaser(ledger, Partly(), LEASE)
    for _ in range(2):
        with pytest.raises(Unreadable, match="not this one"):
            releaser.work()
    assert (len(held(ledger, "strange4")), held(ledger, "usual")) == (1, [])


def test_whoever_stops_waits_for_no_more_than_the_pod_that_is_looked_at(
    ledger: database.Database, kube: KubeApi, cluster: Cluster
) -> None:
    """A round has thousands, and each look may take seconds."""

    class Stopping(Cluster):
        def __init__(self) -> None:
            """Look as the other one does, and have the process stop meanwhile."""
            vars(self).update(vars(cluster))

        def pod(self, namespace: str, name: str) -> Any:
            releaser.stop()
            return super().pod(namespace, name)

    for holder in ("one", "two", "three"):
        Capacity(ledger).claim(
            [Volume(holder, DRIVER, "fast", GI)], Nodes([Node("n1", {})]), holder, LEASE, pod=f"default/{holder}"
        )
    releaser = Releaser(ledger, Stopping(), LEASE)
    assert releaser.work() == 1
    assert len([path for path in kube.asked if "/pods/" in path]) == 1
    assert sum(len(held(ledger, holder)) for holder in ("one", "two", "three")) == 2


def test_a_pod_of_which_nothing_is_heard_is_looked_at_from_time_to_time(
    ledger: database.Database, kube: KubeApi, cluster: Cluster
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data")
    releaser = Releaser(ledger, cluster, 0.04)

    def looks() -> int:
        releaser.work()
        return kube.asked.count("/api/v1/namespaces/default/pods/redis")

    assert looks() == 1
    until(lambda: looks() > 1)


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass in time"
        time.sleep(0.01)


class Heard:
    """What a watch has told of so far."""

    def __init__(self) -> None:
        self.pods: list[str | None] = []
        self._news = threading.Condition()

    def stir(self, pod: str | None) -> None:
        with self._news:
            self.pods.append(pod)
            self._news.notify_all()

    def expect(self, *pods: str | None) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self.pods) >= len(pods), 60), self.pods
        assert self.pods == list(pods)


def test_a_watch_goes_on_where_it_ended_and_lists_again_when_that_is_forgotten(kube: KubeApi, cluster: Cluster) -> None:
    heard = Heard()
    watch = PodWatch(cluster.api, heard.stir)
    watch.start()
    try:
        heard.expect(None)
        kube.add_pod("redis", "u1")
        kube.add_pod("redis", "u1", "Running", "n1")
        # Not among those that are watched any more.
        kube.add_pod("redis", "u1", "Succeeded", "n1")
        heard.expect(None, *["default/redis"] * 2)
        kube.end_watches()
        until(lambda: len(kube.watched) == 2)
        # From the last that was told, so nothing of it is told again.
        assert kube.watched[1] > kube.watched[0]
        kube.add_pod("other", "u2")
        heard.expect(None, *["default/redis"] * 2, "default/other")
        kube.end_watches(forget=True)
        heard.expect(None, *["default/redis"] * 2, "default/other", None)
        until(lambda: len(kube.watched) == 4)
    finally:
        watch.stop()


def test_a_watch_is_tried_again_and_says_so_once(
    kube: KubeApi, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    heard = Heard()
    kube.failing["GET"] = 403
    watch = PodWatch(cluster.api, heard.stir)
    watch.start()
    try:
        until(lambda: kube.asked.count("/api/v1/pods") > 1)
        del kube.failing["GET"]
        heard.expect(None)
    finally:
        watch.stop()
    assert caplog.text.count("Pods cannot be watched") == 1


def test_with_the_watch_a_claim_ends_when_its_pod_does(
    ledger: database.Database, kube: KubeApi, cluster: Cluster
) -> None:
    kube.add_pod("redis", "u1")
    kube.add_claim("data", "6Gi", "fast")
    hold(ledger, "data")
    looking = PodClaims(ledger, cluster, LEASE)
    looking.start()
    try:
        until(lambda: "/api/v1/namespaces/default/pods/redis" in kube.asked and bool(kube.watched))
        assert len(held(ledger)) == 1
        kube.remove_pod("redis")
        until(lambda: not held(ledger))
    finally:
        looking.stop()
        # Twice does no harm.
        looking.stop()
