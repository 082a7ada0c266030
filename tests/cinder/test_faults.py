# SPDX-License-Identifier: Apache-2.0
"""Faults of a Cinder with Tonnage as its scheduler: no pool overflows, and in quiet nothing has drifted.

``TONNAGE_CINDER_FAULTS`` is the number of faults: 1,000 take hours.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable

import psutil

from tests.cinder import sites
from tests.cinder.sites import Site
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

FAULTS = int(os.environ.get("TONNAGE_CINDER_FAULTS", "20"))

TOTAL = 100

PLACES = {"real@b1#a": "b1", "real@b2#a": "b2"}


class Clients:
    """Threads that create, extend and delete volumes, and one that looks at the storage all the time."""

    def __init__(self, site: Site, seed: int) -> None:
        self._site, self._chance = site, random.Random(seed)
        self._ended = threading.Event()
        self.most = dict.fromkeys(PLACES, 0)
        self.requests = 0
        self._threads = [threading.Thread(target=self._ask) for _ in range(3)] + [threading.Thread(target=self._look)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        while not self._ended.wait(self._chance.random()):
            # Requests fail while services are away.
            with contextlib.suppress(ValueError, OSError):
                self._request()
                self.requests += 1

    def _request(self) -> None:
        cinder = self._site.cinder
        volumes = list(cinder.volumes().values())
        done = [each["id"] for each in volumes if each["status"] in ("available", "error")]
        what = self._chance.random()
        if what < 0.5 or not done:
            cinder.create(self._chance.choice((5, 10, 20)))
        elif what < 0.7:
            volume = self._chance.choice([each for each in volumes if each["id"] in done])
            body = {"os-extend": {"new_size": volume["size"] + 10}}
            cinder.request("POST", f"/volumes/{volume['id']}/action", body)
        else:
            cinder.request("DELETE", f"/volumes/{self._chance.choice(done)}")

    def _look(self) -> None:
        while not self._ended.wait(0.1):
            with contextlib.suppress(FileNotFoundError):
                for pool, backend in PLACES.items():
                    self.most[pool] = max(self.most[pool], self._site.stored(backend, "a"))


def kill(site: Site, name: str) -> None:
    """Kill all processes of a service at once, and start it again."""
    os.killpg(site.cinder.services[name].pid, signal.SIGKILL)
    site.cinder.services[name].wait()
    if name == "volume":
        site.cinder.start_service("volume", "cinder-volume", patched=False)
    else:
        site.cinder.start_scheduler(int(name.removeprefix("scheduler")))


def suspend(site: Site, name: str, seconds: float) -> None:
    """Stop all processes of a service for a while."""
    process = psutil.Process(site.cinder.services[name].pid)
    everyone = [process, *process.children(recursive=True)]
    for each in everyone:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.suspend()
    time.sleep(seconds)
    for each in everyone:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.resume()


def restart(server: MariaDB | RabbitMQ) -> None:
    """Kill a server, and start it with its data."""
    server.kill()
    server.start()


def remove_all(site: Site) -> None:
    """Delete all volumes, also those in error and in hand, until none is left."""

    def gone() -> bool:
        for volume_id, volume in site.cinder.volumes().items():
            path = f"/volumes/{volume_id}/action"
            with contextlib.suppress(ValueError):
                if volume["status"] == "deleting":
                    site.cinder.request("POST", path, {"os-reset_status": {"status": "error"}})
                site.cinder.request("POST", path, {"os-force_delete": {}})
        time.sleep(2)
        return not site.cinder.volumes()

    wait_for(gone, "all volumes are gone")


def test_faults(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    shape = Shape(backends=["b1", "b2"], pools=["a"], total_gb=TOTAL, interval=5, schedulers=2)
    chance = random.Random(int(os.environ.get("TONNAGE_CINDER_SEED", "1")))
    with sites.with_ledger(mariadb_server, rabbitmq_server, shape, claim_lease="10") as site:
        faults: list[Callable[[], object]] = [
            lambda: kill(site, chance.choice(("scheduler0", "scheduler1"))),
            lambda: kill(site, "volume"),
            lambda: suspend(site, chance.choice(("scheduler0", "scheduler1")), chance.uniform(1, 15)),
            lambda: suspend(site, "volume", chance.uniform(1, 8)),
            lambda: [
                site.cinder.control(name, look_seconds=chance.choice((0, 3)), create_seconds=chance.choice((0, 1, 4)))
                for name in ("b1", "b2")
            ],
            lambda: site.cinder.control(chance.choice(("b1", "b2")), fail=chance.random() < 0.3),
            lambda: restart(chance.choice((mariadb_server, rabbitmq_server))),
        ]
        with Clients(site, chance.randrange(1000)) as clients:
            for _ in range(FAULTS):
                chance.choice(faults)()
                time.sleep(chance.uniform(1, 6))
        print(f"{FAULTS} faults, {clients.requests} requests, most in a pool {clients.most}")
        assert max(clients.most.values()) <= TOTAL
        for name in ("b1", "b2"):
            site.cinder.control(name)
        remove_all(site)
        for pool in PLACES:
            site.settled(pool, 0)
        # What a killed cinder-volume left on the storage is in the figures.
        for pool, backend in PLACES.items():
            provisioned = f"SELECT provisioned_capacity_gb FROM pools WHERE name = '{pool}'"
            wait_for(lambda p=provisioned, b=backend: site.rows(p) == [(site.stored(b, "a"),)], "figures are exact", 60)
