# SPDX-License-Identifier: Apache-2.0
"""A CSI plug-in behind a proxy that loses calls and answers, with kills: no volume leaks, is doubled or is stuck."""

import dataclasses
import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest

from tests.functional.conftest import Deploy
from tests.functional.deployment import GIB, Deployment
from tests.servers.base import wait_for
from tests.servers.csi_plugin import CsiPlugin, Settings
from tests.servers.csi_proxy import CsiProxy, Moment

LOG = logging.getLogger(__name__)

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(3600),
    pytest.mark.parametrize("deploy", ["standalone"], indirect=True, scope="module"),
]

_CODE = grpc.StatusCode
#: None stands for an answer that comes too late.
FAILURES = [
    _CODE.INTERNAL,
    _CODE.UNKNOWN,
    _CODE.DEADLINE_EXCEEDED,
    _CODE.UNAVAILABLE,
    _CODE.ABORTED,
    _CODE.CANCELLED,
    None,
]

#: Seconds of a call of the plug-in, and of an answer that comes too late.
_TIMEOUT, _LATE = 5, 6.5

#: The statuses from which a user deletes a volume.
_DELETABLE = ("available", "error", "error_deleting", "error_extending")

#: Seconds after which a volume that is not as it should be counts as stuck.
_PATIENCE = 120.0


@dataclasses.dataclass
class Counts:
    """The volumes that are not as they should be."""

    scenarios: int = 0
    leaked: int = 0
    doubled: int = 0
    stuck: int = 0
    wrong: int = 0

    def __iadd__(self, other: "Counts") -> "Counts":
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    def check(self, name: str, scenarios: int) -> None:
        """Log the numbers, and require that there were so many scenarios without a fault."""
        LOG.info("%s: %s", name, self)
        assert self == Counts(scenarios=scenarios)


class Lab:
    """A deployment with a plug-in behind a proxy. ``expected`` has the size of each volume, None for a deleted one."""

    def __init__(self, tonnage: Deployment, plugin: CsiPlugin, proxy: CsiProxy) -> None:
        self.tonnage, self.plugin, self.proxy = tonnage, plugin, proxy
        self.expected: dict[str, int | None] = {}

    def create(self, kind: str | None, size: int = 2) -> str:
        volume_id = self.tonnage.rest.create(size, kind)
        self.expected[volume_id] = size
        return volume_id

    def delete(self, volume_id: str) -> None:
        """Delete a volume, as a user who asks again while that is not possible."""
        self.expected[volume_id] = None
        self.tonnage.rest.request("DELETE", f"volumes/{volume_id}")

    def status(self, volume_id: str) -> str | None:
        """Return the status of a volume, None if it is gone."""
        answer = self.tonnage.rest.request("GET", f"volumes/{volume_id}")
        return None if answer.status_code == 404 else answer.json()["volume"]["status"]

    def heal(self) -> None:
        """Let the plug-in answer."""
        self.proxy.rule = lambda method, moment: None

    def try_to_create(self, kind: str | None, size: int) -> None:
        """Create a volume if there is a pool for it now."""
        body = {"size": size, **({} if kind is None else {"volume_type": kind})}
        answer = self.tonnage.rest.request("POST", "volumes", {"volume": body})
        if answer.status_code == 202:
            self.expected[answer.json()["volume"]["id"]] = size

    def restart(self, *programs: str, killed: Callable[[], None] = lambda: None) -> None:
        """Kill and start Tonnage, the plug-in or both. ``killed`` is called in between."""
        if "tonnage" in programs:
            self.tonnage.kill()
        if "plugin" in programs:
            self.plugin.stop()
        killed()
        if "plugin" in programs:
            self.plugin.start()
        if "tonnage" in programs:
            self.tonnage.start()

    def counted(self, scenarios: int, *, extends_may_fail: bool = False) -> Counts:
        """Wait until all volumes are as expected, count those that are not, and delete everything.

        With ``extends_may_fail`` a volume whose extend is told to have failed is expected to have its old size.
        """
        self.heal()
        ends = time.monotonic() + _PATIENCE
        while (unsettled := [id for id in self.expected if not self._is_settled(id)]) and time.monotonic() < ends:
            if extends_may_fail:
                self._expect_failed_extends(unsettled)
            for volume_id in unsettled:
                if self.expected[volume_id] is None and self.status(volume_id) in _DELETABLE:
                    self.delete(volume_id)
            time.sleep(0.2)
        counts = Counts(scenarios=scenarios, stuck=len(unsettled))
        kept = {id for id, size in self.expected.items() if size is not None}
        volumes = {volume["id"]: volume for volume in self.tonnage.rest.volumes()}
        made, spare = self.plugin.storage.all(), self.tonnage.files("spare")
        for volume_id in self.expected:
            in_plugin = [volume for volume in made if volume_id in volume.name]
            copies = len(in_plugin) + sum(volume_id in name for name in spare)
            counts.doubled += copies > 1
            counts.leaked += volume_id not in kept and copies > 0
            size = self.expected[volume_id]
            is_right = all(volume.size == (size or 0) * GIB for volume in in_plugin)
            counts.wrong += volume_id in kept and not (copies == 1 and volumes[volume_id]["size"] == size and is_right)
        counts.leaked += sum(all(volume_id not in volume.name for volume_id in self.expected) for volume in made)
        if counts != Counts(scenarios=scenarios):
            reasons = {id: volumes[id].get("status_reason") for id in unsettled if id in volumes}
            LOG.error("%s: %s", counts, [(self.expected[id], self.status(id), reasons.get(id)) for id in unsettled])
        self.tonnage.check_counters()
        self.tonnage.rest.delete(*volumes)
        self.expected.clear()
        return counts

    def _is_settled(self, volume_id: str) -> bool:
        size = self.expected[volume_id]
        if size is None:
            return self.status(volume_id) is None
        volume = self.tonnage.rest.volume(volume_id)
        return (volume["status"], volume["size"]) == ("available", size)

    def _expect_failed_extends(self, volume_ids: Sequence[str]) -> None:
        """Expect the present size of volumes with a failed extend, of which nothing is unknown."""
        for volume_id in volume_ids:
            size = self.expected[volume_id]
            if size is None:
                continue
            volume = self.tonnage.rest.volume(volume_id)
            reason = volume["status_reason"]
            is_settled = volume["status"] in ("available", "error_extending") and volume["size"] < size
            if is_settled and reason is not None and "not known" not in reason:
                LOG.info("an extend has failed: %s", reason)
                self.expected[volume_id] = volume["size"]


@pytest.fixture(scope="module")
def lab(deploy: Deploy, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("csi")
    with CsiPlugin(folder, Settings(sizes={"": 500 * GIB})) as plugin, CsiProxy(plugin.endpoint) as proxy:
        array: dict[str, Any] = {
            "volume_driver": "csi",
            "csi_endpoint": proxy.endpoint,
            "csi_state_file": tmp_path_factory.mktemp("agent") / "state.db",
            "csi_storage_classes": "fast",
            "csi_timeout": _TIMEOUT,
        }
        spare = {"filesystem_size_limit_gb": 40, "max_over_subscription_ratio": 1}
        with deploy({"array": array, "spare": spare}) as deployment:
            deployment.start()
            deployment.rest.create_type("fast", storage_class="fast")
            yield Lab(deployment, plugin, proxy)


def lose(lab: Lab, method: str, failure: grpc.StatusCode | None, moment: Moment = "after", times: int = 10**9) -> None:
    """Lose calls of a method or their answers."""
    left = itertools.count(1)

    def rule(name: str, now: Moment) -> grpc.StatusCode | None:
        if (name, now) != (method, moment) or next(left) > times:
            return None
        if failure is None:
            time.sleep(_LATE)
        return failure

    lab.proxy.rule = rule


def test_creates_without_an_answer(lab: Lab) -> None:
    """With a class and without one: then a second pool has room too. Kept, deleted, and both over a restart."""
    counts = Counts()
    for failure, restarts in itertools.product(FAILURES, (False, True)):
        lose(lab, "CreateVolume", failure)
        volumes = [lab.create(kind) for kind in ("fast", None) for _ in range(2)]
        # Those in the other pool are there; the outcome of the others is not known.
        wait_for(
            lambda volumes=volumes: all(lab.status(id) in ("available", "error") for id in volumes), "all were tried"
        )
        for volume_id in volumes[::2]:
            lab.delete(volume_id)
        if restarts:
            lab.restart("tonnage")
        counts += lab.counted(len(volumes))
    counts.check("creates", 56)


METHODS = ["CreateVolume", "DeleteVolume", "ControllerExpandVolume", "GetCapacity", "ListVolumes"]


def test_kills_around_calls(lab: Lab) -> None:
    """Of Tonnage, of the plug-in and of both, before and after each call; the volume is kept, and another deleted."""
    counts = Counts()
    moments: Sequence[Moment] = ("before", "after")
    for method, moment, killed in itertools.product(
        METHODS, moments, (("tonnage",), ("plugin",), ("tonnage", "plugin"))
    ):
        present = [lab.create("fast") for _ in range(2)]
        for volume_id in present:
            lab.tonnage.rest.wait_until_available(volume_id)
        reached, go = threading.Event(), threading.Event()

        def rule(
            name: str,
            now: Moment,
            awaited: tuple[str, Moment] = (method, moment),
            reached: threading.Event = reached,
            go: threading.Event = go,
        ) -> grpc.StatusCode | None:
            if (name, now) != awaited or go.is_set():
                return None
            reached.set()
            go.wait(30)
            return _CODE.UNAVAILABLE

        lab.proxy.rule = rule
        if method == "DeleteVolume":
            lab.delete(present[0])
        elif method in ("ControllerExpandVolume", "ListVolumes"):  # an extend looks for the present size
            for volume_id in present:
                if lab.tonnage.rest.extend(volume_id, 4).status_code == 202:
                    lab.expected[volume_id] = 4
        else:
            present.append(lab.create("fast"))
        wait_for(reached.is_set, f"{method} is called")
        lab.restart(*killed, killed=go.set)
        lab.delete(present[-1])
        counts += lab.counted(2, extends_may_fail="plugin" in killed)
    counts.check("crash points", 60)


def test_deletes_and_extends_without_an_answer(lab: Lab) -> None:
    counts = Counts()
    moments: Sequence[Moment] = ("before", "after")
    for method, moment, once, failure in itertools.product(
        ("DeleteVolume", "ControllerExpandVolume"), moments, (True, False), FAILURES[:4]
    ):
        volume_id = lab.create("fast")
        lab.tonnage.rest.wait_until_available(volume_id)
        lose(lab, method, failure, moment, 1 if once else 10**9)
        asked = len(lab.plugin.asked(method))
        if method == "DeleteVolume":
            lab.delete(volume_id)
        else:
            assert lab.tonnage.rest.extend(volume_id, 4).status_code == 202
            lab.expected[volume_id] = 4
        if moment == "after":
            wait_for(lambda asked=asked, method=method: len(lab.plugin.asked(method)) > asked, "the plug-in is asked")
        else:
            time.sleep(_TIMEOUT)
        if not once:
            lab.restart("tonnage")
        counts += lab.counted(1)
    counts.check("deletes and extends", 32)


def test_extends_whose_answer_is_lost_before_a_restart(lab: Lab) -> None:
    """The lists of the plug-in fail in part after the restart."""
    counts = Counts()
    for _ in range(20):
        volume_id = lab.create("fast")
        lab.tonnage.rest.wait_until_available(volume_id)
        lose(lab, "ControllerExpandVolume", _CODE.INTERNAL)
        asked = len(lab.plugin.asked("ControllerExpandVolume"))
        assert lab.tonnage.rest.extend(volume_id, 4).status_code == 202
        lab.expected[volume_id] = 4
        wait_for(lambda asked=asked: len(lab.plugin.asked("ControllerExpandVolume")) > asked, "the plug-in extends")
        lab.tonnage.kill()
        lists = itertools.count()
        lab.proxy.rule = lambda name, moment, lists=lists: (
            _CODE.INTERNAL if (name, moment) == ("ListVolumes", "before") and next(lists) % 3 else None
        )
        lab.tonnage.start()
        time.sleep(2)
        counts += lab.counted(1)
    counts.check("extends over a restart", 20)


@pytest.mark.parametrize("seed", range(12))
def test_storms(lab: Lab, seed: int) -> None:
    """Creates, deletes and extends at random, a third of the answers lost, two kills of Tonnage, one of the plug-in.

    An extend fails if the plug-in is away before the call. Its size in the ledger is then that of the plug-in's volume.
    """
    chance = random.Random(seed)
    lost = random.Random(seed + 1000)
    changes = ("CreateVolume", "DeleteVolume", "ControllerExpandVolume")

    def rule(name: str, moment: Moment) -> grpc.StatusCode | None:
        return lost.choice(FAILURES[:6]) if name in changes and moment == "after" and lost.random() < 1 / 3 else None

    lab.proxy.rule = rule
    began, kills = time.monotonic(), [("tonnage",), ("plugin",), ("tonnage",)]
    while (seconds := time.monotonic() - began) < 25:
        if kills and seconds > 25 / 4 * (4 - len(kills)):
            lab.restart(*kills.pop(0))
            continue
        kept = [id for id, size in lab.expected.items() if size is not None and lab.status(id) == "available"]
        action = chance.random()
        if action < 0.5 or not kept:
            if len(lab.expected) < 60:
                lab.try_to_create(chance.choice(("fast", None)), 1)
        elif action < 0.75:
            lab.delete(chance.choice(kept))
        else:
            volume_id = chance.choice(kept)
            size = (lab.expected[volume_id] or 0) + 1
            if lab.tonnage.rest.extend(volume_id, size).status_code == 202:
                lab.expected[volume_id] = size
        time.sleep(chance.random() / 5)
    lab.counted(1, extends_may_fail=True).check(f"storm {seed}", 1)
