# SPDX-License-Identifier: Apache-2.0
"""Kills of Cinder's services below load: no limit is exceeded, and at rest the quotas are what the rows have.

``TONNAGE_CINDER_FAULTS`` is the number of kills, ``TONNAGE_CINDER_SEED`` chooses them. With it the same kills happen
to Cinder with its own driver too, to compare the drift.
"""

import contextlib
import functools
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.cinder import quota_site
from tests.cinder.operations import action
from tests.cinder.quota_site import QuotaSite
from tests.servers import MariaDB, RabbitMQ
from tests.servers.base import wait_for

FAULTS = int(os.environ.get("TONNAGE_CINDER_FAULTS", "8"))

SEED = int(os.environ.get("TONNAGE_CINDER_SEED", "1"))

VOLUMES, GIGABYTES = 8, 24

#: Statuses that an operation of a dead service leaves, until an administrator resets them.
_STUCK = ("creating", "extending", "deleting", "retyping", "downloading")


class QuotaFaults:
    """Clients of one project at its limits, and kills of the services."""

    def __init__(self, site: QuotaSite, seed: int) -> None:
        self._site, self._chance = site, random.Random(seed)
        self.requests: Counter[str] = Counter()
        self.kills: Counter[str] = Counter()
        self.most = {"volumes": 0, "gigabytes": 0}

    def play(self, faults: int) -> None:
        """Kill services below load, and wait until no operation is under way."""
        seeds = [self._chance.randrange(2**32) for _ in range(4)]
        tasks = [self._watch, *(functools.partial(self._ask, random.Random(seed)) for seed in seeds)]
        with self._running(tasks):
            for _ in range(faults):
                time.sleep(self._chance.uniform(1, 4))
                self._kill(self._chance.choice(["api", "volume", "volume", "scheduler0"]))
        self._rest()

    @contextlib.contextmanager
    def _running(self, tasks: Sequence[Callable[[threading.Event], None]]) -> Iterator[None]:
        ended = threading.Event()
        threads = [threading.Thread(target=task, args=(ended,)) for task in tasks]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            for thread in threads:
                thread.join()

    def _kill(self, name: str) -> None:
        """Kill all processes of a service at once, start it again, and wait until it serves."""
        cinder = self._site.cinder
        self.kills[name] += 1
        os.killpg(cinder.services[name].pid, signal.SIGKILL)
        cinder.services[name].wait()
        if name == "scheduler0":
            cinder.start_scheduler()
        else:
            cinder.start_service(name, f"cinder-{name}", patched=name == "api")
        wait_for(cinder._ready, f"{name} serves again", 120)

    def _ask(self, chance: random.Random, ended: threading.Event) -> None:
        """Create, extend, and delete volumes and snapshots."""
        while not ended.is_set():
            kind = chance.choice(["create", "create", "extend", "snapshot", "delete", "delete_snapshot"])
            try:
                self._request(kind, chance)
                self.requests[kind] += 1
            except (OSError, ValueError, IndexError):
                self.requests["refused"] += 1
                ended.wait(0.1)

    def _request(self, kind: str, chance: random.Random) -> None:
        cinder = self._site.cinder
        if kind == "create":
            cinder.create(chance.choice([1, 2]))
            return
        if kind == "delete_snapshot":
            snapshots = cinder.request("GET", "/snapshots")["snapshots"]
            cinder.request("DELETE", f"/snapshots/{chance.choice(snapshots)['id']}")
            return
        volumes = [volume for volume in cinder.volumes().values() if volume["status"] in ("available", "error")]
        volume = chance.choice(volumes)
        if kind == "extend":
            action(cinder, volume["id"], "os-extend", {"new_size": volume["size"] + chance.choice([1, 2])})
        elif kind == "snapshot":
            cinder.request("POST", "/snapshots", {"snapshot": {"volume_id": volume["id"]}})
        else:
            cinder.request("DELETE", f"/volumes/{volume['id']}?cascade=True")

    def _watch(self, ended: threading.Event) -> None:
        while not ended.is_set():
            for name, used in self._site.rows().items():
                if name in self.most:
                    self.most[name] = max(self.most[name], used)
            ended.wait(0.02)

    def _rest(self) -> None:
        """Wait until operations have ended, and reset those whose service died."""
        cinder = self._site.cinder

        def stuck() -> list[str]:
            return [volume["id"] for volume in cinder.volumes().values() if volume["status"] in _STUCK]

        # Of a living service each operation takes a moment.
        with contextlib.suppress(TimeoutError):
            wait_for(lambda: not stuck(), "no operation is under way", 30)
        for volume_id in stuck():
            action(cinder, volume_id, "os-reset_status", {"status": "error"})
        wait_for(lambda: not stuck(), "no operation is left")


def test_kills(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    with quota_site.site(mariadb_server, rabbitmq_server) as site:
        site.limit(volumes=VOLUMES, gigabytes=GIGABYTES)
        run = QuotaFaults(site, SEED)
        run.play(FAULTS)
        print(f"kills {dict(run.kills)}, requests {dict(run.requests)}, most {run.most}")
        assert run.most["volumes"] == VOLUMES
        assert run.most["gigabytes"] <= GIGABYTES
        site.agree()


@pytest.mark.heavy
@pytest.mark.skipif("TONNAGE_CINDER_FAULTS" not in os.environ, reason="TONNAGE_CINDER_FAULTS is not set")
def test_kills_with_cinders_own_driver(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    """Let the same happen to Cinder's own driver, and print its drift: what it tells less what the rows have."""
    with quota_site.site(mariadb_server, rabbitmq_server, driver=None) as site:
        site.limit(volumes=VOLUMES, gigabytes=GIGABYTES)
        run = QuotaFaults(site, SEED)
        run.play(FAULTS)
        print(f"kills {dict(run.kills)}, requests {dict(run.requests)}, most {run.most}")
        print(f"drift {site.drift()}, {site.reservations()} reservations left")
        assert sum(run.kills.values()) == FAULTS
