# SPDX-License-Identifier: Apache-2.0
"""Requests while the database of the ledger cannot be reached."""

import pytest

from tests.cinder import sites
from tests.servers import MariaDB, RabbitMQ, Shape
from tests.servers.base import wait_for

POOL = "real@b1#a"

#: Threads of a scheduler that use the ledger again and again.
WORKERS = 4

#: Seconds after which Cinder shows a service without heartbeats as down, and those between two of them.
HEARTBEATS = {"service_down_time": "20", "report_interval": "2"}


def scheduler_is(site: sites.Site, state: str) -> bool:
    """Return whether Cinder shows its scheduler in this state."""
    [service] = site.cinder.request("GET", "/os-services?binary=cinder-scheduler")["services"]
    return bool(service["state"] == state)


@pytest.mark.parametrize(("option", "status"), [("refuse", "error"), ("stock", "available")])
def test_requests_while_the_ledger_is_away(
    mariadb_server: MariaDB, rabbitmq_server: RabbitMQ, option: str, status: str
) -> None:
    shape = Shape(backends=["b1"], pools=["a"], total_gb=100, more=HEARTBEATS)
    with (
        MariaDB() as own,
        sites.with_ledger(mariadb_server, rabbitmq_server, shape, own, without_ledger=option) as site,
    ):
        first = site.cinder.create(10)
        assert site.cinder.settled([first])[first]["status"] == "available"
        own.stop()
        second = site.cinder.create(10)
        assert site.cinder.settled([second])[second]["status"] == status
        if option == "refuse":
            wait_for(lambda: scheduler_is(site, "down"), "a scheduler that refuses all requests is down", 60)
        site.cinder.end_service("scheduler0")
        site.cinder.start_scheduler()
        log = site.cinder.folder / "scheduler0.log"
        wait_for(
            lambda: "The scheduler has no ledger, and tries again" in log.read_text(), "a scheduler that starts waits"
        )
        assert "the database that [tonnage] connection names cannot be used" in log.read_text()
        if option == "stock":
            wait_for(lambda: scheduler_is(site, "down"), "a scheduler that waits is down", 60)
        own.start()
        size = 10 if status == "error" else 20
        wait_for(lambda: site.figures(POOL) == (size, 0), "the ledger has the volumes", 60)
        wait_for(lambda: scheduler_is(site, "up"), "the scheduler is up", 60)
        third = site.cinder.create(10)
        assert site.cinder.settled([third])[third]["status"] == "available"
        assert "Traceback" not in log.read_text()
        # One line of each worker at the begin, and one at the end.
        failures, ends = (log.read_text().count(words) for words in ("failed and goes on", "works again"))
        assert 0 < failures <= 2 * WORKERS
        assert ends <= WORKERS
