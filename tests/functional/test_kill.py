# SPDX-License-Identifier: Apache-2.0
"""SIGKILL during many creations: no accepted volume is lost or created twice."""

import random
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
import requests

from tests.functional.conftest import Deploy, on_one_database
from tests.functional.deployment import Deployment, run_concurrently
from tests.servers.base import wait_for

BACKENDS = {
    name: {"filesystem_size_limit_gb": 10, "max_over_subscription_ratio": 40, "filesystem_provisioning": "thin"}
    for name in ("one", "two", "three")
}
THREADS = 16
ALLOCATED = "SELECT SUM(allocated_capacity_gb) FROM pools"
IN_FLIGHT = "SELECT SUM(in_flight_gb) FROM pools"


@pytest.fixture(scope="module")
def tonnage(deploy: Deploy) -> Iterator[Deployment]:
    # A call to a killed process fails after rpc_response_timeout. The quotas are never reached, but are counted.
    with deploy(BACKENDS, rpc_response_timeout=5, quota_volumes=5000, quota_gigabytes=5000) as deployment:
        yield deployment.start()


class Creates:
    """Threads that request this many volumes. ``accepted`` has the ids of the volumes that were accepted."""

    def __init__(self, tonnage: Deployment, count: int) -> None:
        self.accepted: list[str] = []
        self._tonnage = tonnage
        self._left = list(range(count))
        self._thread = threading.Thread(target=run_concurrently, args=(THREADS, self._ask))
        self._thread.start()

    def reach(self, count: int) -> None:
        """Wait until this many volumes are accepted."""
        wait_for(lambda: len(self.accepted) >= count, f"{count} volumes are accepted")

    def finish(self) -> list[str]:
        """Wait for the end of all requests, and return the ids of the accepted volumes."""
        self._thread.join()
        return self.accepted

    def _ask(self, number: int) -> None:
        while True:
            try:
                self._left.pop()
                answer = self._tonnage.rest.request_volume(1)
            except IndexError:
                return
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                continue
            if answer.status_code == 202:
                self.accepted.append(answer.json()["volume"]["id"])
            else:
                # A killed process does not answer. There is no other refusal, because all volumes fit.
                assert answer.status_code == 503, answer.text


def check_all_there(tonnage: Deployment, accepted: list[str]) -> None:
    """Assert that each accepted volume is available and has one file, and that ledger, files and get_pools agree."""
    tonnage.check_at_rest()
    volumes = {volume["id"]: volume for volume in tonnage.rest.volumes()}
    assert len(accepted) == len(set(accepted))
    assert volumes.keys() >= set(accepted)
    assert Counter(volume["status"] for volume in volumes.values()) == {"available": len(volumes)}
    everywhere = [name for backend in BACKENDS for name in tonnage.files(backend)]
    assert sorted(everywhere) == sorted(volumes)
    assert tonnage.sql_value(ALLOCATED) == len(volumes)


def ids(tonnage: Deployment) -> set[str]:
    """Return the ids of the volumes in the ledger."""
    return {row[0] for row in tonnage.sql("SELECT id FROM volumes")}


def shown(tonnage: Deployment, key: str) -> float:
    """Return the sum of a capability over all pools in get_pools."""
    return sum(pool[key] for pool in tonnage.rest.pools().values())


@on_one_database
def test_accepted_volumes_survive_a_kill_of_all_processes(tonnage: Deployment) -> None:
    creates = Creates(tonnage, 1000)  # more than any machine creates before the kill
    creates.reach(80)
    tonnage.kill()
    accepted = creates.finish()
    assert 80 <= len(accepted) < 1000
    # No process runs, so the ledger has exactly the committed state.
    tonnage.check_counters()
    booked = ids(tonnage)
    assert booked >= set(accepted)
    assert tonnage.sql_value(ALLOCATED) == len(booked)
    assert {name for backend in BACKENDS for name in tonnage.files(backend)} <= booked
    if tonnage.distributed:
        # A scheduler without an agent has the right figures before the first report. It finds requests on the bus.
        tonnage.start("scheduler", "api")
        wait_for(lambda: shown(tonnage, "allocated_capacity_gb") == tonnage.sql_value(ALLOCATED), "allocated is right")
        wait_for(lambda: shown(tonnage, "in_flight_capacity_gb") == tonnage.sql_value(IN_FLIGHT), "in-flight is right")
        tonnage.check_counters()
        tonnage.start("agent")
    else:
        tonnage.start()
    check_all_there(tonnage, accepted)
    assert ids(tonnage) >= booked
    # Tonnage works as before.
    check_all_there(tonnage, [*accepted, *Creates(tonnage, 20).finish()])


@on_one_database
def test_accepted_volumes_survive_a_kill_of_each_process_in_turn(tonnage: Deployment) -> None:
    for name in tonnage.processes:
        creates = Creates(tonnage, 80)
        creates.reach(20)
        tonnage.kill(name)
        tonnage.start(name)
        check_all_there(tonnage, creates.finish())


@on_one_database
def test_killed_worker_processes_are_restarted(tonnage: Deployment) -> None:
    creates = Creates(tonnage, 80)
    creates.reach(20)
    for process in tonnage.processes.values():
        for worker in process.tree()[1:]:  # tonnage-standalone has none
            worker.kill()
    check_all_there(tonnage, creates.finish())


class Churn:
    """Threads that create and delete volumes of a project with a quota. A context manager; its exit stops them."""

    def __init__(self, tonnage: Deployment, project: str) -> None:
        self._tonnage, self._volumes = tonnage, f"{tonnage.rest.url}/v3/{project}/volumes"
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=run_concurrently, args=(THREADS, self._go_on))

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
                continue  # the process has just been killed


@on_one_database
def test_a_project_gets_exactly_its_quota_after_the_kills(tonnage: Deployment) -> None:
    checked = tonnage.run_command("manage", None, "quota", "check")
    assert checked.code == 0, checked.output
    assert "1 project(s) with counters checked" in checked.output
    there = int(tonnage.sql_value("SELECT SUM(size_gb) FROM volumes"))
    limit = {"quota_set": {"gigabytes": there + 5}}
    assert tonnage.rest.request("PUT", "os-quota-sets/demo", limit).status_code == 200

    def ask(number: int) -> int:
        def answer() -> int | None:
            code = tonnage.rest.request_volume(1).status_code
            return None if code == 503 else code

        # A request may be booked although its answer comes too late.
        return int(wait_for(answer, "a request is answered"))

    answers = Counter(run_concurrently(THREADS, ask))
    assert answers.keys() <= {202, 413}
    assert answers[202] <= 5
    assert int(tonnage.sql_value("SELECT SUM(size_gb) FROM volumes")) == there + 5
    shown = tonnage.rest.get("os-quota-sets/demo", usage=True)["quota_set"]["gigabytes"]
    assert shown["in_use"] + shown["reserved"] == shown["limit"] == limit["quota_set"]["gigabytes"]


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("deploy", "times"), [("postgresql", 200), ("standalone", 50)], indirect=["deploy"], scope="module"
)
def test_quota_usage_survives_kills_between_reservation_and_confirmation(tonnage: Deployment, times: int) -> None:
    chance, project = random.Random(times), f"killed-{times}"
    limit = {"quota_set": {"volumes": 40, "gigabytes": 60}}
    assert tonnage.rest.request("PUT", f"os-quota-sets/{project}", limit).status_code == 200
    pending = f"""
        SELECT COUNT(*) FROM claims JOIN volumes ON volumes.id = claims.volume_id
        WHERE claims.state = 'pending' AND volumes.project_id = '{project}'
    """
    hit = 0
    with Churn(tonnage, project):
        for _ in range(times):
            wanted = chance.randint(1, 4)
            wait_for(lambda: tonnage.sql_value(pending) >= wanted, "some claims are pending")  # noqa: B023
            victim = chance.choice([name for name in tonnage.processes if name != "api"])
            tonnage.kill(victim)
            hit += tonnage.sql_value(pending) > 0
            tonnage.start(victim)
    assert hit > times / 2
    tonnage.check_at_rest()
    assert tonnage.sql_value(pending) == 0
    checked = tonnage.run_command("manage", None, "quota", "check")
    assert checked.code == 0, checked.output
    [(count, size)] = tonnage.sql(f"SELECT COUNT(*), SUM(size_gb) FROM volumes WHERE project_id = '{project}'")
    usage = tonnage.rest.get(f"os-quota-sets/{project}", usage=True)["quota_set"]
    assert (usage["volumes"]["in_use"], usage["gigabytes"]["in_use"]) == (count, int(size or 0))
    assert usage["volumes"]["reserved"] == usage["gigabytes"]["reserved"] == 0
    assert count <= 40
    assert int(size or 0) <= 60
