# SPDX-License-Identifier: Apache-2.0
"""kill -9 in the middle of many creates: nothing that was accepted is lost, none is there twice."""

import random
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
import requests

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, at_once, until

BACKENDS = {
    name: {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 40, "filesystem_provisioning": "thin"}
    for name in ("one", "two", "three")
}
THREADS = 16
ALLOCATED = "SELECT SUM(allocated_capacity_gb) FROM pools"
IN_FLIGHT = "SELECT SUM(in_flight_gb) FROM pools"


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    # Who waits for an answer of somebody who was killed waits for rpc_response_timeout. The quotas are never used up,
    # and are counted all the same.
    with deploy(BACKENDS, rpc_response_timeout=5, quota_volumes=5000, quota_gigabytes=5000) as deployment:
        yield deployment.start()


class Creates:
    """So many volumes are asked for by threads, each once; ``accepted`` has those that were answered with 202."""

    def __init__(self, tonnage: Deployment, count: int) -> None:
        self.accepted: list[str] = []
        self._tonnage = tonnage
        self._left = list(range(count))
        self._thread = threading.Thread(target=at_once, args=(THREADS, self._ask))
        self._thread.start()

    def reach(self, count: int) -> None:
        """Wait until so many have been accepted."""
        until(lambda: len(self.accepted) >= count, f"{count} volumes are accepted")

    def finish(self) -> list[str]:
        """Wait until the rest has been answered or has met nobody, and return what was accepted."""
        self._thread.join()
        return self.accepted

    def _ask(self, number: int) -> None:
        while True:
            try:
                self._left.pop()
                answer = self._tonnage.rest.ask(1)
            except IndexError:
                return
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                continue
            if answer.status_code == 202:
                self.accepted.append(answer.json()["volume"]["id"])
            else:
                # Whoever does not answer is gone for now; nothing else refuses, as there is room for all.
                assert answer.status_code == 503, answer.text


def check_all_there(tonnage: Deployment, accepted: list[str]) -> None:
    """Every accepted volume becomes available and is one file; ledger, files and get_pools agree to the GiB."""
    tonnage.check_at_rest()
    volumes = {volume["id"]: volume for volume in tonnage.rest.volumes()}
    assert len(accepted) == len(set(accepted))
    assert volumes.keys() >= set(accepted)
    assert Counter(volume["status"] for volume in volumes.values()) == {"available": len(volumes)}
    everywhere = [name for backend in BACKENDS for name in tonnage.files(backend)]
    assert sorted(everywhere) == sorted(volumes)
    assert tonnage.number(ALLOCATED) == len(volumes)


def ids(tonnage: Deployment) -> set[str]:
    """Return the volumes that the ledger has."""
    return {row[0] for row in tonnage.sql("SELECT id FROM volumes")}


def shown(tonnage: Deployment, key: str) -> float:
    """Return what get_pools says in all."""
    return sum(pool[key] for pool in tonnage.rest.pools().values())


@on_one_database
def test_everything_is_killed(tonnage: Deployment) -> None:
    creates = Creates(tonnage, 1000)  # more than are made before it is killed, however fast it is
    creates.reach(80)
    tonnage.kill()
    accepted = creates.finish()
    assert 80 <= len(accepted) < 1000
    # Nobody is there to mend anything: what the ledger says now is what was committed.
    tonnage.check_counters()
    booked = ids(tonnage)
    assert booked >= set(accepted)
    assert tonnage.number(ALLOCATED) == len(booked)
    assert {name for backend in BACKENDS for name in tonnage.files(backend)} <= booked
    if tonnage.distributed:
        # A scheduler without any agent is right before the first report. (It finds requests that wait on the bus.)
        tonnage.start("scheduler", "api")
        until(lambda: shown(tonnage, "allocated_capacity_gb") == tonnage.number(ALLOCATED), "allocated is right")
        until(lambda: shown(tonnage, "in_flight_capacity_gb") == tonnage.number(IN_FLIGHT), "in-flight is right")
        tonnage.check_counters()
        tonnage.start("agent")
    else:
        tonnage.start()
    check_all_there(tonnage, accepted)
    assert ids(tonnage) >= booked
    # And it goes on.
    check_all_there(tonnage, [*accepted, *Creates(tonnage, 20).finish()])


@on_one_database
def test_each_process_is_killed_in_turn(tonnage: Deployment) -> None:
    for name in tonnage.processes:
        creates = Creates(tonnage, 80)
        creates.reach(20)
        tonnage.kill(name)
        tonnage.start(name)
        check_all_there(tonnage, creates.finish())


@on_one_database
def test_worker_processes_that_are_killed_come_back(tonnage: Deployment) -> None:
    creates = Creates(tonnage, 80)
    creates.reach(20)
    for process in tonnage.processes.values():
        for worker in process.family()[1:]:  # in one process there are none
            worker.kill()
    check_all_there(tonnage, creates.finish())


class Churn:
    """Threads that make and delete volumes of a project that has a limit, until told to stop. A context manager."""

    def __init__(self, tonnage: Deployment, project: str) -> None:
        self._tonnage, self._volumes = tonnage, f"{tonnage.rest.root}/v3/{project}/volumes"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=at_once, args=(THREADS, self._go_on))

    def __enter__(self) -> "Churn":
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _go_on(self, number: int) -> None:
        while not self._stopped.is_set():
            try:
                answer = requests.post(self._volumes, json={"volume": {"size": 1 + number % 3}}, timeout=20)
                assert answer.status_code in (202, 413, 503), answer.text
                if answer.status_code == 413:
                    for volume in requests.get(self._volumes, timeout=20).json().get("volumes", [])[number::THREADS]:
                        requests.delete(f"{self._volumes}/{volume['id']}", timeout=20)
            except requests.RequestException:
                continue  # whoever would answer has just been killed


@on_one_database
def test_after_all_that_a_project_gets_its_quota_and_not_a_gib_more(tonnage: Deployment) -> None:
    checked = tonnage.attempt("manage", None, "quota", "check")
    assert checked.code == 0, checked.output
    assert "1 project(s) with counters checked" in checked.output
    there = int(tonnage.number("SELECT SUM(size_gb) FROM volumes"))
    limit = {"quota_set": {"gigabytes": there + 5}}
    assert tonnage.rest.call("PUT", "os-quota-sets/demo", limit).status_code == 200

    def ask(number: int) -> int:
        # One that is answered too late may be booked all the same.
        [code] = until(lambda: [code for code in [tonnage.rest.ask(1).status_code] if code != 503], "an answer")
        return int(code)

    answers = Counter(at_once(THREADS, ask))
    assert answers.keys() <= {202, 413}
    assert answers[202] <= 5
    assert int(tonnage.number("SELECT SUM(size_gb) FROM volumes")) == there + 5
    shown = tonnage.rest.get("os-quota-sets/demo", usage=True)["quota_set"]["gigabytes"]
    assert shown["in_use"] + shown["reserved"] == shown["limit"] == limit["quota_set"]["gigabytes"]


@pytest.mark.parametrize(
    ("deploy", "times"),
    [
        ("postgresql", 6),
        pytest.param("postgresql", 200, marks=pytest.mark.heavy),
        pytest.param("standalone", 50, marks=pytest.mark.heavy),
    ],
    indirect=["deploy"],
    scope="module",
)
def test_usage_is_the_ledgers_wherever_between_reservation_and_confirmation_it_is_killed(
    tonnage: Deployment, times: int
) -> None:
    chance, project = random.Random(times), f"killed-{times}"
    limit = {"quota_set": {"volumes": 40, "gigabytes": 60}}
    assert tonnage.rest.call("PUT", f"os-quota-sets/{project}", limit).status_code == 200
    under_way = f"""
        SELECT COUNT(*) FROM claims JOIN volumes ON volumes.id = claims.volume_id
        WHERE claims.state = 'pending' AND volumes.project_id = '{project}'
    """
    hit = 0
    with Churn(tonnage, project):
        for _ in range(times):
            wanted = chance.randint(1, 4)
            until(lambda: tonnage.number(under_way) >= wanted, "something is reserved and not confirmed")  # noqa: B023
            victim = chance.choice([name for name in tonnage.processes if name != "api"])
            tonnage.kill(victim)
            hit += tonnage.number(under_way) > 0
            tonnage.start(victim)
    assert hit > times / 2
    tonnage.check_at_rest()
    assert tonnage.number(under_way) == 0
    checked = tonnage.attempt("manage", None, "quota", "check")
    assert checked.code == 0, checked.output
    [(count, size)] = tonnage.sql(f"SELECT COUNT(*), SUM(size_gb) FROM volumes WHERE project_id = '{project}'")
    usage = tonnage.rest.get(f"os-quota-sets/{project}", usage=True)["quota_set"]
    assert (usage["volumes"]["in_use"], usage["gigabytes"]["in_use"]) == (count, int(size or 0))
    assert usage["volumes"]["reserved"] == usage["gigabytes"]["reserved"] == 0
    assert count <= 40
    assert int(size or 0) <= 60
