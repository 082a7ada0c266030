# SPDX-License-Identifier: Apache-2.0
"""A ledger that answers and cannot be written: a full disk, a lost file, a missing table or right."""

import contextlib
import pathlib
import resource
from collections.abc import Iterator

import psutil
import pytest
import requests

from tests.functional.conftest import Deploy
from tests.functional.deployment import Deployment
from tests.functional.deployment.standalone import standalone
from tests.servers.base import wait_for

#: Most bytes that a log may grow by during such an outage, whatever the number of requests.
_GROWTH = 6000

#: Requests during an outage.
_REQUESTS = 60


def reasons(tonnage: Deployment) -> list[str]:
    return list(requests.get(f"{tonnage.rest.url}/healthcheck", timeout=30).json()["reasons"])


def sizes(tonnage: Deployment) -> dict[str, int]:
    return {name: process.log.stat().st_size for name, process in tonnage.processes.items()}


def lines(tonnage: Deployment, text: str) -> list[str]:
    return [
        line for process in tonnage.processes.values() for line in process.log.read_text().splitlines() if text in line
    ]


def check_outage(tonnage: Deployment, cause: str) -> None:
    """Check the health and the answers, and that few lines tell of them."""
    wait_for(lambda: reasons(tonnage) == ["the ledger cannot be written"], "the health check tells it", seconds=30)
    before = sizes(tonnage)
    for _ in range(_REQUESTS):
        answer = tonnage.rest.request_volume(1)
        assert answer.status_code == 503, answer.text
        assert cause in answer.json()["serviceUnavailable"]["message"]
    assert reasons(tonnage) == ["the ledger cannot be written"]
    for name, size in sizes(tonnage).items():
        assert size - before[name] < _GROWTH, tonnage.logs()


def check_end(tonnage: Deployment) -> None:
    """Check that requests succeed, and that each process has told the outage once."""
    wait_for(lambda: tonnage.rest.request_volume(1).status_code == 202, "requests are accepted", seconds=30)
    wait_for(tonnage.rest.is_healthy, "the health check succeeds", seconds=60)
    assert not lines(tonnage, "Traceback")
    assert len(lines(tonnage, "The ledger in ")) == len(lines(tonnage, "The ledger can be written again"))
    wait_for(
        lambda: {volume["status"] for volume in tonnage.rest.volumes()} == {"available"}, "all volumes are available"
    )
    tonnage.check_at_rest()


@contextlib.contextmanager
def no_larger_files(process: psutil.Process, size: int) -> Iterator[None]:
    """Let a process write no byte of a file beyond this size."""
    _, most = process.rlimit(resource.RLIMIT_FSIZE)
    process.rlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        process.rlimit(resource.RLIMIT_FSIZE, (most, most))


@pytest.mark.heavy
def test_a_disk_without_room_for_the_ledger() -> None:
    with standalone() as tonnage:
        tonnage.rest.wait_until_available(tonnage.rest.create(1))
        log = pathlib.Path(f"{tonnage.folder}/tonnage.sqlite-wal")
        [process] = tonnage.processes["standalone"].tree()
        with no_larger_files(process, max(log.stat().st_size, sizes(tonnage)["standalone"] + 50_000)):
            for number in range(1000):
                if (
                    tonnage.rest.request("POST", "group_types", {"group_type": {"name": str(number)}}).status_code
                    == 503
                ):
                    break
            check_outage(tonnage, "the ledger cannot be written: (sqlite3.OperationalError) ")
        check_end(tonnage)
        assert len(lines(tonnage, "The ledger in ")) == 1


@pytest.mark.heavy
def test_a_file_that_is_moved_away_and_back() -> None:
    with standalone() as tonnage:
        tonnage.rest.wait_until_available(tonnage.rest.create(1))
        file = pathlib.Path(f"{tonnage.folder}/tonnage.sqlite")
        file.rename(tonnage.folder / "elsewhere")
        check_outage(tonnage, f"{file} was removed while it was open")
        assert not file.exists()
        (tonnage.folder / "elsewhere").rename(file)
        check_end(tonnage)


@pytest.mark.heavy
@pytest.mark.parametrize("deploy", ["postgresql", "mariadb"], indirect=True, scope="module")
def test_a_table_that_is_gone_for_the_schedulers(deploy: Deploy) -> None:
    """The API, which writes other tables, tells it too."""
    with deploy({"one": {"filesystem_size_limit_gb": 30, "max_over_subscription_ratio": 2}}) as tonnage:
        tonnage.start()
        tonnage.rest.wait_until_available(tonnage.rest.create(1))
        tonnage.write("ALTER TABLE pools RENAME TO elsewhere")
        try:
            check_outage(tonnage, "the ledger cannot be written: ")
        finally:
            tonnage.write("ALTER TABLE elsewhere RENAME TO pools")
        check_end(tonnage)
