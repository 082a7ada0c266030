# SPDX-License-Identifier: Apache-2.0
"""Kills of Cinder's services below load: no limit is exceeded, and at rest the quotas are what the rows have.

Clients of two projects create, extend, retype, transfer, back up and delete volumes, snapshots and groups.
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
from collections.abc import Mapping, Sequence

import pytest

from tests.cinder import quota_site
from tests.cinder.quota_load import LIMITS, TYPES, QuotaLoad
from tests.cinder.quota_site import QuotaSite
from tests.servers import Cinder, MariaDB, RabbitMQ
from tests.servers.base import wait_for

FAULTS = int(os.environ.get("TONNAGE_CINDER_FAULTS", "8"))

SEED = int(os.environ.get("TONNAGE_CINDER_SEED", "1"))

#: The services that are killed one after the other, by thread, each as often as it stands here.
_SERVICES = (["api", "api1"], ["volume", "volume", "volume", "scheduler0", "scheduler0", "backup"])

#: The requests that succeed between two kills of a thread: at least, and at most.
_REQUESTS = (3, 12)

_OPTIONS = {
    "backup_driver": "empty_backup_driver.EmptyBackupDriver",
    "report_interval": "1",  # a service reports when it serves
}


class Killers:
    """Threads that kill services below a load and start them again."""

    def __init__(self, site: QuotaSite, apis: Mapping[str, Cinder], load: QuotaLoad, is_exact: bool) -> None:
        """With ``is_exact`` the kills end when a limit is exceeded."""
        self._site, self._apis, self._load, self._left, self._is_exact = site, apis, load, FAULTS, is_exact
        self._lock = threading.Lock()
        self.kills: Counter[str] = Counter()
        self.seconds: Counter[str] = Counter()
        self.errors: list[BaseException] = []

    def run(self) -> None:
        """Kill until no kill is left."""
        threads = [
            threading.Thread(target=self._play, args=(names, random.Random(f"{SEED} {names}"))) for names in _SERVICES
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def _play(self, names: Sequence[str], chance: random.Random) -> None:
        try:
            while self._take():
                number = self._load.requests.total() + chance.randint(*_REQUESTS)
                wait_for(functools.partial(self._has_requests, number), "requests succeed", 300)
                self._kill(chance.choice(names))
        except BaseException as error:
            self.errors.append(error)

    def _has_requests(self, number: int) -> bool:
        return self._load.requests.total() >= number

    def _take(self) -> bool:
        with self._lock:
            self._left -= 1
            is_over = self._is_exact and bool(self._load.exceeded())
            return self._left >= 0 and not self.errors and not is_over

    def _kill(self, name: str) -> None:
        """Kill all processes of a service at once, start it again, and wait until it serves."""
        cinder = self._site.cinder
        began = time.monotonic()
        os.killpg(cinder.services[name].pid, signal.SIGKILL)
        cinder.services[name].wait()
        before = self._report(name)
        if name == "scheduler0":
            cinder.start_scheduler()
        else:
            more = "api1.conf" if name == "api1" else None
            binary = f"cinder-{name.removesuffix('1')}"
            cinder.start_service(name, binary, patched=binary == "cinder-api", more=more)
        wait_for(lambda: self._serves(name, before), f"{name} serves again", 300)
        self.kills[name] += 1
        self.seconds[name] += round(time.monotonic() - began)

    def _report(self, name: str) -> object:
        """Return the time of the last report of a service."""
        binary = "cinder-scheduler" if name == "scheduler0" else f"cinder-{name}"
        statement = "SELECT MAX(updated_at) FROM services WHERE deleted = :d AND " + '"binary" = :b'
        if self._site.engine.dialect.name != "postgresql":
            statement = statement.replace('"', "`")
        [row] = self._site.all(statement, b=binary)
        return row[0]

    def _serves(self, name: str, before: object) -> bool:
        if name not in self._apis:
            return self._report(name) != before
        with contextlib.suppress(OSError, ValueError):
            return bool(self._apis[name].request("GET", "/limits"))
        return False


def play(site: QuotaSite, is_exact: bool) -> QuotaLoad:
    """Kill services below load, wait until no operation is under way, and print the figures of the run."""
    site.cinder.start_backup_service()
    apis = {"api": site.cinder, "api1": site.cinder.start_second_api()}
    load = QuotaLoad(site, list(apis.values()), LIMITS)
    killers = Killers(site, apis, load, is_exact)
    load.prepare()
    with load.running() as end_of_requests:
        began = time.monotonic()
        killers.run()
        print(f"{killers.kills.total()} kills in {time.monotonic() - began:.0f} s: {dict(killers.kills)}", flush=True)
        wait_for(load.has_all, "each operation succeeds, and a limit refuses one", 600)
        end_of_requests.set()
        load.rest()
    print(f"seconds until they served again: {dict(killers.seconds)}")
    print(f"requests {load.requests.total()}: {dict(load.requests)}; refused {dict(load.refusals)}")
    print(f"statuses reset: {dict(load.resets)}")
    print(f"largest use: { {project: dict(most) for project, most in load.most.items()} }")
    assert load.exceeded() == {} or not is_exact
    assert killers.kills.total() == FAULTS
    return load


def test_kills(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    with quota_site.site(mariadb_server, rabbitmq_server, **_OPTIONS) as site:
        play(site, is_exact=True)
        site.agree(list(LIMITS), TYPES)


@pytest.mark.heavy
@pytest.mark.skipif("TONNAGE_CINDER_FAULTS" not in os.environ, reason="TONNAGE_CINDER_FAULTS is not set")
def test_kills_with_cinders_own_driver(mariadb_server: MariaDB, rabbitmq_server: RabbitMQ) -> None:
    """Let the same happen to Cinder's own driver, and print its drift: what it tells less what the rows have."""
    with quota_site.site(mariadb_server, rabbitmq_server, driver=None, **_OPTIONS) as site:
        load = play(site, is_exact=False)
        print(f"exceeded {load.exceeded()}")
        print(f"drift { {project: site.drift(project, TYPES) for project in LIMITS} }")
        print(f"{site.reservations()} reservations left")
