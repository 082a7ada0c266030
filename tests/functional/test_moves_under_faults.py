# SPDX-License-Identifier: Apache-2.0
"""A backend is emptied while clients create and delete volumes, processes and the database die, and copies fail."""

import collections
import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import pytest
import requests

from tests.functional.deployment import Addresses, Deployment, run_concurrently
from tests.servers import ledger_schema
from tests.servers.base import wait_for
from tests.servers.database import DatabaseServer
from tests.servers.rabbitmq import RabbitMQ

MIB = 1 << 20
THREADS = 8

#: The size of a pool.
_POOL_GB = 50

#: Volumes whose first copies fail.
_FAILING = 2

#: The end of a plan of this test, in seconds; it takes a tenth of that on an idle machine.
LONGEST = 900


def deployment(volumes: int, addresses: Addresses) -> Deployment:
    """Return three backends, each of which takes all volumes of the test and those of the clients."""
    ratio = 2 + 4 * volumes / _POOL_GB
    limits = {"filesystem_size_limit_gb": _POOL_GB, "max_over_subscription_ratio": ratio}
    backends: dict[str, dict[str, Any]] = {
        name: {**limits, "filesystem_provisioning": "thin"} for name in ("old", "new", "spare")
    }
    return Deployment(
        addresses,
        backends,
        rpc_response_timeout=5,
        service_down_time=15,
        over_provisioning_calculation="standard",
        quota_volumes=-1,
        quota_gigabytes=-1,
    )


class Content(NamedTuple):
    """The data that was written to a volume, and its place there."""

    offset: int
    data: bytes


def set_states(tonnage: Deployment, **states: str) -> None:
    """Enable or disable backends."""
    for name, state in states.items():
        body = {"binary": "cinder-volume", "host": f"{tonnage.host}@{name}"}
        answer = tonnage.rest.request("PUT", f"os-services/{state}", body)
        assert answer.status_code == 200, answer.text


def fill(tonnage: Deployment, count: int) -> dict[str, Content]:
    """Create volumes on the backend ``old`` and write to each; return the written content."""
    set_states(tonnage, new="disable", spare="disable")
    ids = [tonnage.rest.create(1) for _ in range(count)]
    draw = random.Random(1)
    content = {}
    for volume_id in ids:
        assert tonnage.rest.wait_until_available(volume_id)["os-vol-host-attr:host"] == tonnage.pool("old")
        written = content[volume_id] = Content(draw.randrange(1000) * MIB, draw.randbytes(MIB))
        with (tonnage.path("old") / volume_id).open("r+b") as file:
            file.seek(written.offset)
            file.write(written.data)
    tonnage.check_at_rest()
    set_states(tonnage, new="enable", spare="enable", old="disable")
    return content


class Clients:
    """Threads that create volumes and delete every second one. A context manager; its exit stops them.

    ``accepted`` are the volumes that were accepted and not deleted.
    """

    def __init__(self, tonnage: Deployment) -> None:
        self.accepted: set[str] = set()
        self._tonnage, self._stopping = tonnage, False
        self._thread = threading.Thread(target=run_concurrently, args=(THREADS, self._work))

    def __enter__(self) -> "Clients":
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopping = True
        self._thread.join()

    def _work(self, number: int) -> None:
        while not self._stopping:
            time.sleep(1)
            try:
                answer = self._tonnage.rest.request_volume(1)
                if answer.status_code != 202:
                    continue
                volume_id = answer.json()["volume"]["id"]
                self.accepted.add(volume_id)
                time.sleep(1)
                if number % 2:
                    # A request that a killed process has not answered may have been carried out.
                    self.accepted.discard(volume_id)
                    self._tonnage.rest.request("DELETE", f"volumes/{volume_id}")
            except requests.RequestException:
                continue


def show(tonnage: Deployment, plan_id: str) -> Any:
    """Return a plan, None while the API does not answer.

    Processes that have ended by themselves are started again, as systemd does: one that has just begun ends if the
    database restarts.
    """
    for name, process in tonnage.processes.items():
        if not process.running:
            tonnage.launch(name)
    try:
        answer = tonnage.rest.request("GET", f"move-plans/{plan_id}")
    except requests.RequestException:
        return None
    return answer.json()["move_plan"] if answer.status_code == 200 else None


def begin(tonnage: Deployment, body: dict[str, Any]) -> tuple[str, int]:
    """Start a plan, and return its id and the number of its moves.

    Without an answer within the time in which the API waits for the schedulers, the request may have expired, or its
    plan is still being made. So it is made again: of two plans for the same pools one is refused.
    """
    plans: list[Any] = []

    def has_begun() -> bool:
        nonlocal plans
        answer = tonnage.rest.request("POST", "move-plans", {"move_plan": body})
        assert answer.status_code in (202, 503) or "is used by plan" in answer.text, answer.text
        plans = tonnage.rest.request("GET", "move-plans").json()["move_plans"]
        return bool(plans)

    wait_for(has_begun, "the plan is made", LONGEST)
    return plans[0]["id"], plans[0]["moves"]


@contextlib.contextmanager
def obstructed(tonnage: Deployment, volume_ids: Iterable[str]) -> Iterator[None]:
    """Let no copy of these volumes succeed: a folder has the name of its file."""
    folders = [tonnage.path(backend) / volume_id for backend in ("new", "spare") for volume_id in volume_ids]
    made = []
    for folder in folders:
        # The volume may be there by now.
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            made.append(folder)
    try:
        yield
    finally:
        for folder in made:
            folder.rmdir()


def steps_in(tonnage: Deployment, plan_id: str, *states: str) -> list[Any]:
    """Return the steps of a plan in some states, once the API answers."""
    plan: Any = None

    def is_read() -> bool:
        nonlocal plan
        plan = show(tonnage, plan_id)
        return plan is not None

    wait_for(is_read, "the API answers", LONGEST)
    return [step for step in plan["steps"] if step["state"] in states]


def failures(tonnage: Deployment, plan_id: str) -> list[str]:
    """Return the volumes whose copies have failed because something has the names of their files."""
    failed = steps_in(tonnage, plan_id, "failed")
    return [step["volume_id"] for step in failed if "not a regular file" in (step["message"] or "")]


class Faults:
    """Faults of the processes of a deployment, of its database and of copies, drawn by a seed; of each at least one."""

    def __init__(self, tonnage: Deployment, server: DatabaseServer | None, seed: int) -> None:
        self.done: collections.Counter[str] = collections.Counter()
        self._tonnage, self._server, self._draw = tonnage, server, random.Random(seed)
        self._faults: list[Callable[[str], str | None]] = [self.kill, self.kill, self.stall, self.fail_copies]
        if server is not None:
            self._faults.append(self.restart_database)
        self._first = list(dict.fromkeys(self._faults))
        self._draw.shuffle(self._first)

    def next(self, plan_id: str) -> None:
        """Let the next fault happen while a plan is carried out, and repair it."""
        fault = self._first.pop() if self._first else self._draw.choice(self._faults)
        self.done[fault(plan_id) or fault.__name__] += 1

    def fail_copies(self, plan_id: str) -> str | None:
        """Let the next copies of a plan fail, and wait until one has; return another name if no copy was left."""
        before = len(failures(self._tonnage, plan_id))
        next_volumes = {step["volume_id"] for step in steps_in(self._tonnage, plan_id, "waiting")[:4]}

        def has_failed() -> bool:
            return len(failures(self._tonnage, plan_id)) > before

        def are_moved() -> bool:
            remaining = steps_in(self._tonnage, plan_id, "waiting", "moving")
            return next_volumes.isdisjoint(step["volume_id"] for step in remaining)

        with obstructed(self._tonnage, next_volumes):
            wait_for(lambda: has_failed() or are_moved(), f"a copy of {next_volumes} has failed", LONGEST)
        return None if has_failed() else "no_copy_left"

    def kill(self, plan_id: str) -> None:
        """Kill a process and start it again."""
        name = self._draw.choice([name for name in self._tonnage.processes if name != "api"])
        self._tonnage.kill(name)
        time.sleep(self._draw.choice([0.0, 2.0]))
        self._tonnage.launch(name)

    def stall(self, plan_id: str) -> None:
        """Suspend the processes of one program for some seconds."""
        name = self._draw.choice([name for name in self._tonnage.processes if name != "api"])
        tree = self._tonnage.processes[name].tree()
        for process in tree:
            process.send_signal(signal.SIGSTOP)
        time.sleep(self._draw.choice([1.0, 6.0]))
        for process in tree:
            process.send_signal(signal.SIGCONT)

    def restart_database(self, plan_id: str) -> None:
        """Restart the database."""
        assert self._server is not None
        self._server.restart()
        self._tonnage.close_connections()


def empty_under_faults(tonnage: Deployment, faults: Faults, volumes: int, count: int) -> None:
    """Empty a backend of ``volumes`` volumes under clients and ``count`` faults, and check all that is left."""
    content = fill(tonnage, volumes)
    target = f"{tonnage.host}@old"
    with Clients(tonnage) as clients:
        body = {
            "goal": "empty",
            "arguments": {"target": target},
            "apply": True,
            "limits": {"failures": 10_000, "moves_per_backend": 2},
        }
        with obstructed(tonnage, list(content)[:_FAILING]):
            plan_id, moves = begin(tonnage, body)
            wait_for(lambda: len(failures(tonnage, plan_id)) >= _FAILING, "copies have failed", LONGEST)
        # A plan counts a copy as written in full. If a pool has no room for so many, it is made anew now and then.
        assert 1 <= moves <= volumes
        for _ in range(count):
            time.sleep(1.5)
            faults.next(plan_id)
        wait_for(
            lambda: (shown := show(tonnage, plan_id)) is not None and shown["state"] != "running",
            "the plan has ended",
            LONGEST,
        )
    shown = show(tonnage, plan_id)
    assert (shown["state"], shown["message"]) == ("finished", f"{target} has no volume"), shown
    moved = [step["volume_id"] for step in shown["steps"] if step["state"] == "moved"]
    assert sorted(moved) == sorted(content), "each volume was moved once"
    assert {step["state"] for step in shown["steps"]} <= {"moved", "failed", "skipped"}
    assert len(failures(tonnage, plan_id)) >= _FAILING
    tonnage.check_at_rest()
    assert tonnage.files("old") == {}
    places = {name: backend for backend in ("new", "spare") for name in tonnage.files(backend)}
    assert places.keys() >= content.keys() | clients.accepted, "no volume is lost"
    assert sum(len(tonnage.files(backend)) for backend in ("new", "spare")) == len(places), "none is there twice"
    assert places.keys() == {row[0] for row in tonnage.sql("SELECT id FROM volumes")}
    for volume_id, written in content.items():
        with (tonnage.path(places[volume_id]) / volume_id).open("rb") as file:
            file.seek(written.offset)
            assert file.read(len(written.data)) == written.data, volume_id
    assert tonnage.sql("SELECT * FROM move_plan_pools") == []
    assert sum(faults.done.values()) == count


@pytest.fixture
def cluster(
    request: pytest.FixtureRequest, postgresql_server: DatabaseServer, rabbitmq_server: RabbitMQ
) -> Iterator[Deployment]:
    """Two schedulers, agents and an API with PostgreSQL and RabbitMQ."""
    with (
        postgresql_server.database(ledger_schema.options_with_tables(postgresql_server)) as url,
        rabbitmq_server.virtual_host() as bus,
        deployment(request.param, Addresses(url, bus)) as tonnage,
    ):
        tonnage.start()
        tonnage.launch_another_scheduler()
        yield tonnage


@pytest.mark.heavy
@pytest.mark.timeout(2 * LONGEST)
@pytest.mark.parametrize(("volumes", "faults"), [(4, 3), (200, 50)], ids=["short", "long"])
def test_the_standalone_is_emptied_while_copies_fail_and_it_is_killed(volumes: int, faults: int) -> None:
    with deployment(volumes, Addresses()) as tonnage:
        tonnage.start()
        empty_under_faults(tonnage, Faults(tonnage, None, 3), volumes, faults)


@pytest.mark.heavy
@pytest.mark.timeout(2 * LONGEST)
@pytest.mark.parametrize(
    ("cluster", "volumes", "faults"), [(40, 40, 12), (200, 200, 50)], indirect=["cluster"], ids=["short", "long"]
)
def test_two_schedulers_empty_a_backend_under_faults(
    cluster: Deployment, postgresql_server: DatabaseServer, volumes: int, faults: int
) -> None:
    empty_under_faults(cluster, Faults(cluster, postgresql_server, 7), volumes, faults)
